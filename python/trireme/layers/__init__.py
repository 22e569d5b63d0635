"""Layers: compositions of operators, under Fluid's names."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from . import io, loss, math, nn, ops, tensor
from .io import *  # noqa: F403
from .loss import *  # noqa: F403
from .math import *  # noqa: F403
from .nn import *  # noqa: F403
from .ops import *  # noqa: F403
from .tensor import *  # noqa: F403

if TYPE_CHECKING:
    from . import control_flow, device, image, learning_rate_scheduler, metric_op, norm, sequence, tensor_ops
    from .array import *  # noqa: F403
    from .attention import *  # noqa: F403
    from .branch import *  # noqa: F403
    from .control_flow import *  # noqa: F403
    from .functions import *  # noqa: F403
    from .image import *  # noqa: F403
    from .learning_rate_scheduler import *  # noqa: F403
    from .many_classes import *  # noqa: F403
    from .metric_op import *  # noqa: F403
    from .norm import *  # noqa: F403
    from .pairs import *  # noqa: F403
    from .reader import *  # noqa: F403
    from .recurrent import *  # noqa: F403
    from .resize import *  # noqa: F403
    from .rnn import *  # noqa: F403
    from .score_loss import *  # noqa: F403
    from .sequence import *  # noqa: F403
    from .structured import *  # noqa: F403
    from .tensor_ops import *  # noqa: F403

    __all__: list[str]
else:
    # A script that asks for a name which those above lack loads these, one after the other, until one has the name: the common ones first.
    # `__all__` is the names of all.
    _LATER = ("metric_op", "image", "sequence", "tensor_ops", "control_flow", "norm", "learning_rate_scheduler", "recurrent", "array",
              "rnn", "branch", "score_loss", "attention", "reader", "resize", "structured", "many_classes", "pairs", "functions")
    _OTHERS = ("device",)                  # modules whose names are not among the layers

    def _load(module):
        """Load one of the later modules; its layers are known here from then on."""
        module = _import_module(f".{module}", __name__)
        globals().update({layer: vars(module)[layer] for layer in module.__all__})
        return module

    def __getattr__(name):
        here = globals()
        if name == "__all__":
            here[name] = [layer for module in (io, loss, math, nn, ops, tensor, *map(_load, _LATER)) for layer in module.__all__]
        elif name in _LATER or name in _OTHERS:
            return _import_module(f".{name}", __name__)
        elif not name.startswith("_"):
            for module in _LATER:
                if name in _load(module).__all__:
                    break
        if name in here:
            return here[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        __getattr__("__all__")
        return sorted({*globals(), *_OTHERS})
