"""How matrix products are computed: names of ``trireme.native.precision``."""

from .native.precision import *  # noqa: F403
from .native.precision import __all__ as __all__
