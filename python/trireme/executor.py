"""Running programs: names of ``trireme.train.executor``, ``trireme.run.scopes``."""

from .run.scopes import *  # noqa: F403
from .run.scopes import __all__ as _scopes
from .train.executor import *  # noqa: F403
from .train.executor import __all__ as _executor

__all__ = [*_executor, *_scopes]
