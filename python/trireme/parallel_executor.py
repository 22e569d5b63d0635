"""Replicas under Fluid's older name: names of ``trireme.run.parallel_executor``."""

from .run.parallel_executor import *  # noqa: F403
from .run.parallel_executor import __all__ as __all__
