"""Programs as text and as drawings: names of ``trireme.fluid.debugger``."""

from .fluid.debugger import *  # noqa: F403
from .fluid.debugger import __all__ as __all__
