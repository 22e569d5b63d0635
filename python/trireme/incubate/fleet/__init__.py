"""Fleet: Fluid's calls for a script that trains in a job (docs/fluid.md#scripts-of-fleet)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...native.lazy import load_later

if TYPE_CHECKING:
    from . import base, parameter_server

__getattr__, __dir__ = load_later(__name__, {"": ("base", "parameter_server")})

__all__ = ["base", "parameter_server"]
