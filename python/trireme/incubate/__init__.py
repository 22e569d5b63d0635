"""Fluid's names of jobs: Fleet, and generators of lines for data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..native.lazy import load_later

if TYPE_CHECKING:
    from . import data_generator, fleet

__getattr__, __dir__ = load_later(__name__, {"": ("data_generator", "fleet")})

__all__ = ["data_generator", "fleet"]
