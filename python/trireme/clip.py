"""Limits of gradients: names of ``trireme.optimize.clip``."""

from .optimize.clip import *  # noqa: F403
from .optimize.clip import BaseErrorClipAttr as BaseErrorClipAttr
from .optimize.clip import BaseGradientClipAttr as BaseGradientClipAttr
from .optimize.clip import __all__ as __all__
