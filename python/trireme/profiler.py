"""Where the time of runs goes: names of ``trireme.run.profiler``."""

from .run.profiler import *  # noqa: F403
from .run.profiler import __all__ as __all__
