"""Fleet on parameter servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....native.lazy import load_later

if TYPE_CHECKING:
    from . import distribute_transpiler, pslib

__getattr__, __dir__ = load_later(__name__, {"": ("distribute_transpiler", "pslib")})

__all__ = ["distribute_transpiler", "pslib"]
