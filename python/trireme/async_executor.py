"""Training from files, as Fluid's older scripts ask for it: names of ``trireme.fluid.async_executor``."""

from .fluid.async_executor import *  # noqa: F403
from .fluid.async_executor import __all__ as __all__
