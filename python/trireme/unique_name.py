"""Names of variables that are given none: names of ``trireme.native.unique_name``."""

from .native.unique_name import *  # noqa: F403
from .native.unique_name import __all__ as __all__
