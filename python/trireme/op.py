"""One operator on its own: names of ``trireme.run.operator``."""

from .run.operator import *  # noqa: F403
from .run.operator import __all__ as __all__
