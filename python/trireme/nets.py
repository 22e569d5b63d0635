"""Parts of networks: names of ``trireme.layers.nets``."""

from .layers.nets import *  # noqa: F403
from .layers.nets import __all__ as __all__
