"""Gradients of programs: names of ``trireme.program.backward``."""

from .program.backward import *  # noqa: F403
from .program.backward import __all__ as __all__
