"""Metrics that are counted in the program: names of ``trireme.metrics.evaluator``."""

from .metrics.evaluator import *  # noqa: F403
from .metrics.evaluator import __all__ as __all__
