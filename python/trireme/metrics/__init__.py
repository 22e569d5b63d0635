"""Metrics over many batches: counted in Python on fetched values (metrics.py), or by the program itself (evaluator.py); means over batches
(average.py)."""

from .metrics import *  # noqa: F403
from .metrics import __all__ as __all__
