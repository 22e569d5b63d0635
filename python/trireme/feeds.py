"""Data sets, files that programs are fed from: names of ``trireme.feeding``."""

from .feeding.feeds import *  # noqa: F403
from .feeding.feeds import __all__ as _feeds
from .feeding.slots import *  # noqa: F403
from .feeding.slots import __all__ as _slots

__all__ = [*_feeds, *_slots]
