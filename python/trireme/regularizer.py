"""Decay of parameters: names of ``trireme.parameters.regularizer``."""

from .parameters.regularizer import *  # noqa: F403
from .parameters.regularizer import __all__ as __all__
