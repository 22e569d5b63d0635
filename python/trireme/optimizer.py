"""Optimizers: names of ``trireme.optimize``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .native.lazy import load_later
from .optimize.adaptive import *  # noqa: F403
from .optimize.adaptive import __all__ as _adaptive
from .optimize.optimizer import *  # noqa: F403
from .optimize.optimizer import __all__ as _plain

if TYPE_CHECKING:
    from .optimize.averages import ExponentialMovingAverage, ModelAverage
    from .optimize.dgc import DGCMomentumOptimizer
else:
    __getattr__, __dir__ = load_later(__name__, {"..optimize.averages": ("ExponentialMovingAverage", "ModelAverage"),
                                                 "..optimize.dgc": ("DGCMomentumOptimizer",)})

__all__ = [*_plain, *_adaptive, "ExponentialMovingAverage", "ModelAverage"]
