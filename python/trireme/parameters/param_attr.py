"""How a layer's parameter is named, started and trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..native.checks import finite, plain
from .initializer import Initializer
from .regularizer import WeightDecayRegularizer

if TYPE_CHECKING:
    from ..optimize.clip import BaseGradientClipAttr
    from ..program.variable import Variable

# What a layer takes for param_attr and bias_attr; a list has one for each of several inputs.
_OneAttr: TypeAlias = "ParamAttr | str | Initializer | bool | None"
AttrLike: TypeAlias = "_OneAttr | WeightDecayRegularizer | Sequence[_OneAttr]"
# What a layer takes for act: a name, a dict of "type" and attributes, or None.
ActLike: TypeAlias = "str | Mapping[str, Any] | None"


class ParamAttr:
    """Name, initializer, learning rate, regularizer, clipping of one parameter.

    Where a layer takes ``param_attr`` or ``bias_attr``, a string is a name, an initializer or a regularizer
    stands for a ParamAttr with only that, None is the default, and False means: no such parameter.

    A parameter that is not ``trainable`` gets no gradient. ``gradient_clip`` is one of ``fluid.clip``'s classes. ``do_model_average`` says
    whether ``ModelAverage`` averages it.

    >>> x = fluid.layers.data("x", [4])
    >>> y = fluid.layers.fc(x, 2, param_attr=fluid.ParamAttr(name="w", learning_rate=0.5), bias_attr=False)
    >>> fluid.default_main_program().global_block().var("w").optimize_attr
    {'learning_rate': 0.5}
    """

    def __init__(self, name: str | None = None, initializer: Initializer | None = None, learning_rate: float | Variable = 1.0,
                 regularizer: WeightDecayRegularizer | None = None, trainable: bool = True,
                 gradient_clip: BaseGradientClipAttr | None = None,
                 do_model_average: bool = False) -> None:
        learning_rate = plain(learning_rate)
        if name is not None and (not isinstance(name, str) or not name):
            raise TypeError(f"ParamAttr: name must be a string with at least one letter, got {name!r}")
        self.name = name
        self.initializer = initializer
        if isinstance(learning_rate, (int, float)):      # or a Variable
            finite("ParamAttr: learning_rate", learning_rate, at_least=0)
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.gradient_clip = gradient_clip
        self.do_model_average = do_model_average

    @staticmethod
    def _to_attr(arg: Any) -> Any:
        """Return a ParamAttr, a list of them, or False."""
        arg = plain(arg)
        if arg is None or arg is True:
            return ParamAttr()
        if isinstance(arg, (list, tuple)):
            return [ParamAttr._to_attr(item) for item in arg]
        if arg is False or isinstance(arg, ParamAttr):
            return arg
        if isinstance(arg, str):
            return ParamAttr(name=arg)
        if isinstance(arg, Initializer):
            return ParamAttr(initializer=arg)
        if isinstance(arg, WeightDecayRegularizer):
            return ParamAttr(regularizer=arg)
        raise TypeError("a parameter's attribute is a ParamAttr, a name, an initializer, a regularizer, None or "
                        f"False; got {arg!r}")

    def _copy(self) -> ParamAttr:
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def _set_default_initializer(self, initializer: Any) -> None:
        if self.initializer is None:
            self.initializer = initializer

    def _to_kwargs(self, with_initializer: bool = False) -> dict[str, Any]:
        kwargs: dict[str, Any] = {"name": self.name, "optimize_attr": {"learning_rate": self.learning_rate},
                  "regularizer": self.regularizer, "trainable": self.trainable,
                  "gradient_clip_attr": self.gradient_clip, "do_model_average": self.do_model_average}
        if with_initializer:
            kwargs["initializer"] = self.initializer
        return kwargs


class WeightNormParamAttr(ParamAttr):
    """A weight trained as a length and a direction: ``w = g v / |v|``. (Salimans and Kingma, Weight normalization, 2016)

    ``dim`` is the dimension whose slices have a length each, as dimension 0 of filters; None: the whole weight has one. The parameters are
    ``<name>_v``, which begins as the weight would, and ``<name>_g``, which begins as its length. Its shape is the weight's, with 1 in the
    place of each other dimension. The other arguments are those of
    `ParamAttr`.

    >>> x = fluid.layers.data("x", [4])
    >>> y = fluid.layers.fc(x, 2, param_attr=fluid.WeightNormParamAttr(dim=1, name="w"), bias_attr=False)
    >>> [param.name for param in fluid.default_main_program().all_parameters()]
    ['w_v', 'w_g']
    """

    def __init__(self, dim: int | None = None, name: str | None = None, initializer: Initializer | None = None,
                 learning_rate: float | Variable = 1.0, regularizer: WeightDecayRegularizer | None = None, trainable: bool = True,
                 gradient_clip: BaseGradientClipAttr | None = None, do_model_average: bool = False) -> None:
        super().__init__(name, initializer, learning_rate, regularizer, trainable, gradient_clip, do_model_average)
        dim = plain(dim)
        if dim is not None and (isinstance(dim, bool) or not isinstance(dim, int)):
            raise TypeError(f"WeightNormParamAttr: dim must be a number of a dimension or None, got {dim!r}")
        self.dim = dim


__all__ = ["ParamAttr", "WeightNormParamAttr"]
