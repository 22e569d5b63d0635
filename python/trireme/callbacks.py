"""Callbacks of a training: names of ``trireme.train.callbacks``, loaded when they are first used."""

from typing import TYPE_CHECKING

from .train.callbacks import __all__ as __all__

if TYPE_CHECKING:
    from .train.callbacks import *  # noqa: F403
else:
    from .train.callbacks import __dir__, __getattr__  # noqa: F401
