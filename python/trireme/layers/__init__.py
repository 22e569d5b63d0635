"""Layers: compositions of operators, under Fluid's names."""

from . import control_flow, io, learning_rate_scheduler, loss, math, metric_op, nn, ops, tensor
from .control_flow import *        # noqa: F403
from .io import *                  # noqa: F403
from .learning_rate_scheduler import *     # noqa: F403
from .loss import *                # noqa: F403
from .math import *                # noqa: F403
from .metric_op import *           # noqa: F403
from .nn import *                  # noqa: F403
from .ops import *                 # noqa: F403
from .tensor import *              # noqa: F403

__all__ = [*control_flow.__all__, *io.__all__, *learning_rate_scheduler.__all__, *loss.__all__, *math.__all__,
           *metric_op.__all__, *nn.__all__, *ops.__all__, *tensor.__all__]
