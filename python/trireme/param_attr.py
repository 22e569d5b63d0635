"""How parameters are named, started and trained: names of ``trireme.parameters.param_attr``."""

from .parameters.param_attr import *  # noqa: F403
from .parameters.param_attr import __all__ as __all__
