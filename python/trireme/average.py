"""Means over batches: names of ``trireme.metrics.average``."""

from .metrics.average import *  # noqa: F403
from .metrics.average import __all__ as __all__
