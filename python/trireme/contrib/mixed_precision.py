"""Training in mixed precision, under Fluid's name: names of ``trireme.optimize.mixed_precision``."""

from ..optimize.mixed_precision import *  # noqa: F403
from ..optimize.mixed_precision import __all__ as __all__
