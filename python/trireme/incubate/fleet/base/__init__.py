"""What the kinds of Fleet have in common: roles, and the object ``fleet``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....native.lazy import load_later

if TYPE_CHECKING:
    from . import fleet_base, role_maker

__getattr__, __dir__ = load_later(__name__, {"": ("fleet_base", "role_maker")})

__all__ = ["fleet_base", "role_maker"]
