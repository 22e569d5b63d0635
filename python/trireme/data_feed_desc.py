"""Fluid's descriptions of data files: names of ``trireme.feeding.data_feed_desc``."""

from .feeding.data_feed_desc import *  # noqa: F403
from .feeding.data_feed_desc import __all__ as __all__
