"""Drawings of programs: names of ``trireme.program.drawing``."""

from .program.drawing import *  # noqa: F403
from .program.drawing import __all__ as __all__
