"""Does it work here?: names of ``trireme.fluid.install_check``."""

from .fluid.install_check import *  # noqa: F403
from .fluid.install_check import __all__ as __all__
