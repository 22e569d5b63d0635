"""Training by a reader: names of ``trireme.train.trainer``."""

from .train.trainer import *  # noqa: F403
from .train.trainer import __all__ as __all__
