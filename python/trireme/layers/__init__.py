"""Layers: compositions of operators, under Fluid's names."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from . import control_flow, device, image, io, learning_rate_scheduler, loss, math, metric_op, nn, norm, ops, sequence, tensor, tensor_ops
from .control_flow import *  # noqa: F403
from .image import *  # noqa: F403
from .io import *  # noqa: F403
from .learning_rate_scheduler import *  # noqa: F403
from .loss import *  # noqa: F403
from .math import *  # noqa: F403
from .metric_op import *  # noqa: F403
from .nn import *  # noqa: F403
from .norm import *  # noqa: F403
from .ops import *  # noqa: F403
from .sequence import *  # noqa: F403
from .tensor import *  # noqa: F403
from .tensor_ops import *  # noqa: F403

if TYPE_CHECKING:
    from .array import *  # noqa: F403
    from .attention import *  # noqa: F403
    from .branch import *  # noqa: F403
    from .functions import *  # noqa: F403
    from .many_classes import *  # noqa: F403
    from .pairs import *  # noqa: F403
    from .reader import *  # noqa: F403
    from .recurrent import *  # noqa: F403
    from .resize import *  # noqa: F403
    from .rnn import *  # noqa: F403
    from .score_loss import *  # noqa: F403
    from .structured import *  # noqa: F403

    __all__: list[str]
else:
    # Few scripts use these. They are loaded when a name is asked for that none of the others has; `__all__` is such a name.
    _LATER = ("array", "attention", "branch", "functions", "many_classes", "pairs", "reader", "recurrent", "resize", "rnn", "score_loss",
              "structured")
    _NOW = (control_flow, image, io, learning_rate_scheduler, loss, math, metric_op, nn, norm, ops, sequence, tensor, tensor_ops)

    def __getattr__(name):
        here = globals()
        if "__all__" not in here:
            later = [_import_module(f".{module}", __name__) for module in _LATER]
            here.update({layer: vars(module)[layer] for module in later for layer in module.__all__})
            here["__all__"] = [layer for module in (*_NOW, *later) for layer in module.__all__]
        if name in here:
            return here[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        __getattr__("__all__")
        return sorted(globals())


def _answer_for_all(module: _Any) -> None:
    """Let a module here answer for every layer: Fluid's scripts know layers by modules that are cut otherwise, such as
    ``layers.nn.relu``."""
    def __getattr__(name: str) -> object:
        if not name.startswith("_") and name in __all__:
            return globals()[name]
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__getattr__ = __getattr__


for _module in (control_flow, io, learning_rate_scheduler, metric_op, nn, ops, tensor):
    _answer_for_all(_module)
