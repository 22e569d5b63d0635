"""Training in mixed precision: activations and their gradients in bfloat16 or float16, parameters in float32.

    optimizer = fluid.contrib.mixed_precision.decorate(fluid.optimizer.Adam(1e-3))
    optimizer.minimize(loss)
"""

from .decorator import OptimizerWithMixedPrecision, decorate
from .lists import AutoMixedPrecisionLists
from .rewrite import rewrite_program

__all__ = ["decorate", "AutoMixedPrecisionLists", "OptimizerWithMixedPrecision", "rewrite_program"]
