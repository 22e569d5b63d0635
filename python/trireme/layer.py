"""Layers for new code: ``layer.fc(input, size, act)``. The same functions as in ``layers``."""

from .layers import *  # noqa: F403
from .layers import __all__ as __all__
