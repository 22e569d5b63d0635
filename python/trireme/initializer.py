"""First values of parameters: names of ``trireme.parameters.initializer``."""

from .parameters.initializer import *  # noqa: F403
from .parameters.initializer import __all__ as __all__
