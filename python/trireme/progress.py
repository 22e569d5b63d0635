"""Lines that say how a training goes: names of ``trireme.train.progress``."""

from .train.progress import *  # noqa: F403
from .train.progress import __all__ as __all__
