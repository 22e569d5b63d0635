"""From samples to feeds: names of ``trireme.feeding.data_feeder``."""

from .feeding.data_feeder import *  # noqa: F403
from .feeding.data_feeder import __all__ as __all__
