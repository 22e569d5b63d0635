"""The exceptions of the package: names of ``trireme.native.errors``."""

from .native.errors import *  # noqa: F403
from .native.errors import __all__ as __all__
