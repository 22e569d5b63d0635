"""The version: names of ``trireme.fluid.version``."""

from .fluid.version import *  # noqa: F403
from .fluid.version import __all__ as __all__
