"""The programs that layers are added to: blocks and programs both look here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .program import Program

main: Program                          # program.py sets both
startup: Program
