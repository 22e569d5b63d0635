"""Layers that divide by statistics or by lengths."""

from __future__ import annotations

import math
from typing import Any

from ..parameters.initializer import Constant, Normal
from ..parameters.layer_helper import LayerHelper
from ..parameters.param_attr import ActLike, AttrLike, ParamAttr
from ..program import Variable


def _channels(layer: str, input: Variable) -> int:
    if len(input.shape) < 2 or input.shape[1] is None:
        raise ValueError(f"{layer}: input must be [n, channels, ...] with a known number of channels, got {input!r}")
    return input.shape[1]


def group_norm(input: Variable, groups: int, epsilon: float = 1e-5, param_attr: AttrLike = None, bias_attr: AttrLike = None,
               act: ActLike = None, data_layout: str = "NCHW", name: str | None = None) -> Variable:
    """Return images [n, c, ...] in which each of ``groups`` groups of channels has mean 0 and variance 1, then scaled and shifted.

    ``(x - mean) / sqrt(variance + epsilon) * scale + bias``, with scale and bias [c] unless ``param_attr`` or ``bias_attr`` is
    False. ``groups`` must divide the channels. ``data_layout`` is "NCHW".

    >>> fluid.layers.group_norm(fluid.layers.data("image", [6, 8, 8]), groups=3)
    Variable('group_norm_0.tmp_0', float32[?, 6, 8, 8])
    """
    helper = LayerHelper("group_norm", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    helper.check_variable(input, "input")
    if data_layout != "NCHW":
        raise ValueError(f"group_norm: data_layout must be 'NCHW', got {data_layout!r}; transpose the images")
    channels = _channels("group_norm", input)
    inputs: dict[str, Any] = {"X": [input]}
    if helper.param_attr is not False:
        inputs["Scale"] = [helper.create_parameter(helper.param_attr, [channels], input.dtype, default_initializer=Constant(1.0))]
    if helper.bias_attr is not False:
        inputs["Bias"] = [helper.create_parameter(helper.bias_attr, [channels], input.dtype, is_bias=True)]
    out = helper.append("group_norm", inputs, {"groups": groups, "epsilon": epsilon}, slot="Y", extra=["Mean", "Variance"])
    return helper.append_activation(out)


def instance_norm(input: Variable, epsilon: float = 1e-5, param_attr: AttrLike = None, bias_attr: AttrLike = None,
                  name: str | None = None) -> Variable:
    """Return images [n, c, ...] in which each channel of each image has mean 0 and variance 1, then scaled and shifted.

    This is `group_norm` with a group for each channel.

    >>> fluid.layers.instance_norm(fluid.layers.data("image", [6, 8, 8])).shape
    (None, 6, 8, 8)
    """
    return group_norm(input, _channels("instance_norm", input), epsilon, param_attr, bias_attr,
                      name=LayerHelper("instance_norm", name=name).name)


def data_norm(input: Variable, act: ActLike = None, epsilon: float = 1e-5, param_attr: dict[str, float] | None = None,
              data_layout: str = "NCHW", in_place: bool = False, name: str | None = None, moving_mean_name: str | None = None,
              moving_variance_name: str | None = None,
              do_model_average_for_mean_and_var: bool = False, use_mkldnn: bool = False) -> Variable:
    """Return rows [n, c] normalized by statistics of all rows seen so far: ``(x - sum / size) sqrt(size / squares)``.

    ``size``, ``sum`` and ``squares`` (of distances from the mean) are persistable variables ``<name>.batch_size``, ``.batch_sum`` and
    ``.batch_square_sum``, which begin as 1e4, 0 and 1e4 unless ``param_attr``, a dict, has other numbers under ``batch_size``,
    ``batch_sum`` and ``batch_square``. Each run of a training program adds its batch to them; a program cloned for tests leaves them.
    In a job each trainer has statistics of its own, as with `batch_norm`. In Fluid the servers of a product add them up instead.

    >>> fluid.layers.data_norm(fluid.layers.data("x", [8]), name="norm")
    Variable('norm.tmp_0', float32[?, 8])
    """
    helper = LayerHelper("data_norm", name=name, act=act)
    helper.check_variable(input, "input")
    width = _channels("data_norm", input)
    first = {"batch_size": 1e4, "batch_sum": 0.0, "batch_square": 1e4}
    if param_attr and not isinstance(param_attr, dict):
        raise TypeError(f"data_norm: param_attr must be a dict with some of {sorted(first)}, got {param_attr!r}")
    first |= param_attr or {}

    def statistic(end: str, value: float) -> Variable:
        attr = ParamAttr(name=f"{helper.name}.{end}", initializer=Constant(float(value)), trainable=False)
        made: Variable = helper.create_parameter(attr, [width], input.dtype, stop_gradient=True)
        return made

    size, total = statistic("batch_size", first["batch_size"]), statistic("batch_sum", first["batch_sum"])
    squares = statistic("batch_square_sum", first["batch_square"])
    out = helper.create_variable_for_type_inference(input.dtype)
    saved = [helper.create_variable_for_type_inference(input.dtype, stop_gradient=True) for _ in range(2)]
    helper.append_op(type="data_norm", attrs={"epsilon": epsilon, "data_layout": data_layout},
                     inputs={"X": [input], "BatchSize": [size], "BatchSum": [total], "BatchSquareSum": [squares]},
                     outputs={"Y": [out], "Means": [saved[0]], "Scales": [saved[1]], "BatchSizeOut": [size],
                              "BatchSumOut": [total], "BatchSquareSumOut": [squares]})
    return helper.append_activation(out)


def spectral_norm(weight: Variable, dim: int = 0, power_iters: int = 1, eps: float = 1e-12, name: str | None = None) -> Variable:
    """Return ``weight`` divided by its largest singular value, which ``power_iters`` power iterations estimate.

    ``weight`` of rank 2 to 5 is a matrix whose rows are dimension ``dim``: 0, or 1 for transposed convolutions. The iterations
    begin with normal random vectors that stay as they are.

    ``eps`` is added to the lengths that vectors are divided by.

    >>> w = fluid.layers.create_parameter([8, 3, 3, 3], "float32")
    >>> fluid.layers.spectral_norm(w, power_iters=2).shape
    (8, 3, 3, 3)
    """
    helper = LayerHelper("spectral_norm", name=name)
    helper.check_variable(weight, "weight")
    extents = [extent for extent in weight.shape if extent is not None]
    if len(extents) < len(weight.shape) or dim not in (0, 1):
        raise ValueError(f"spectral_norm: weight must have a known shape, and dim must be 0 or 1; got {weight!r} and {dim!r}")
    rows = extents[dim]
    columns = math.prod(extents) // rows
    u, v = (helper.create_parameter(ParamAttr(trainable=False), [extent], weight.dtype, default_initializer=Normal(0.0, 1.0),
                                    stop_gradient=True) for extent in (rows, columns))
    return helper.append("spectral_norm", {"Weight": [weight], "U": [u], "V": [v]}, {"dim": dim, "power_iters": power_iters, "eps": eps})


def lrn(input: Variable, n: int = 5, k: float = 1.0, alpha: float = 1e-4, beta: float = 0.75, name: str | None = None) -> Variable:
    """Return images divided by ``(k + alpha sum x^2)^beta``, the sum over ``n`` neighbouring channels.

    >>> fluid.layers.lrn(fluid.layers.data("image", [6, 8, 8])).shape
    (None, 6, 8, 8)
    """
    return LayerHelper("lrn", name=name).append("lrn", {"X": [input]}, {"n": n, "k": k, "alpha": alpha, "beta": beta}, extra=["MidOut"])


__all__ = ["group_norm", "instance_norm", "data_norm", "spectral_norm", "lrn"]
