"""Layers: compositions of operators, under Fluid's names."""

from typing import Any as _Any

from . import (
    array, attention, branch, control_flow, device, functions, image, io, learning_rate_scheduler, loss, many_classes, math, metric_op,
    nn, norm, ops, pairs, reader, recurrent, resize, rnn, score_loss, sequence, structured, tensor, tensor_ops)
from .array import *  # noqa: F403
from .attention import *  # noqa: F403
from .branch import *  # noqa: F403
from .control_flow import *  # noqa: F403
from .functions import *  # noqa: F403
from .image import *  # noqa: F403
from .io import *  # noqa: F403
from .learning_rate_scheduler import *  # noqa: F403
from .loss import *  # noqa: F403
from .many_classes import *  # noqa: F403
from .math import *  # noqa: F403
from .metric_op import *  # noqa: F403
from .nn import *  # noqa: F403
from .norm import *  # noqa: F403
from .ops import *  # noqa: F403
from .pairs import *  # noqa: F403
from .reader import *  # noqa: F403
from .recurrent import *  # noqa: F403
from .resize import *  # noqa: F403
from .rnn import *  # noqa: F403
from .score_loss import *  # noqa: F403
from .sequence import *  # noqa: F403
from .structured import *  # noqa: F403
from .tensor import *  # noqa: F403
from .tensor_ops import *  # noqa: F403

__all__ = [*array.__all__, *attention.__all__, *branch.__all__, *control_flow.__all__, *functions.__all__, *image.__all__, *io.__all__,
           *learning_rate_scheduler.__all__, *loss.__all__, *many_classes.__all__, *math.__all__, *metric_op.__all__,
           *nn.__all__, *norm.__all__, *ops.__all__, *pairs.__all__, *reader.__all__, *recurrent.__all__, *resize.__all__, *rnn.__all__, *score_loss.__all__, *sequence.__all__,
           *structured.__all__, *tensor.__all__, *tensor_ops.__all__]


def _answer_for_all(module: _Any) -> None:
    """Let a module here answer for every layer: Fluid's scripts know layers by modules that are cut otherwise, such as ``layers.nn.relu``."""
    def __getattr__(name: str) -> object:
        if name in __all__:
            return globals()[name]
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__getattr__ = __getattr__


for _module in (control_flow, device, io, learning_rate_scheduler, metric_op, nn, ops, tensor):
    _answer_for_all(_module)
