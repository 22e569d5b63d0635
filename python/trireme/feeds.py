"""Data sets: files that programs are fed from: names of ``trireme.feeding.feeds``."""

from .feeding.feeds import *  # noqa: F403
from .feeding.feeds import __all__ as __all__
