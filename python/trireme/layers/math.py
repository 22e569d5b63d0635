"""Sums, products, reductions, norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..native.dtypes import DTypeLike
from ..parameters.layer_helper import LayerHelper
from ..program import Variable
from .tensor import fill_constant


def mean(x: Variable, name: str | None = None) -> Variable:
    """Return the mean of all elements, [1]. That of no elements is NaN, as in NumPy: a batch without samples has no loss.

    >>> fluid.layers.mean(fluid.layers.data("x", [4]))
    Variable('mean_0.tmp_0', float32[1])
    """
    return LayerHelper("mean", name=name).append("mean", {"X": [x]})


def mul(x: Variable, y: Variable, x_num_col_dims: int = 1, y_num_col_dims: int = 1,
        name: str | None = None) -> Variable:
    """Return the product of two matrices, into which both are flattened after so many dimensions.

    ``x_num_col_dims`` and ``y_num_col_dims`` are those numbers: what stands before is the rows, the rest the columns.

    ``y`` is the second factor.

    >>> x, y = fluid.layers.data("x", [4]), fluid.layers.data("y", [4, 3], append_batch_size=False)
    >>> fluid.layers.mul(x, y)
    Variable('mul_0.tmp_0', float32[?, 3])
    """
    return LayerHelper("mul", name=name).append(
        "mul", {"X": [x], "Y": [y]}, {"x_num_col_dims": x_num_col_dims, "y_num_col_dims": y_num_col_dims})


def matmul(x: Variable, y: Variable, transpose_x: bool = False, transpose_y: bool = False, alpha: float = 1.0,
           name: str | None = None) -> Variable:
    """Return ``alpha x @ y``, the last two dimensions as matrices, those before as a batch of them.

    ``transpose_x`` and ``transpose_y`` swap the last two dimensions of a factor first.

    >>> x, y = fluid.layers.data("x", [5, 4]), fluid.layers.data("y", [5, 3])
    >>> fluid.layers.matmul(x, y, transpose_x=True)
    Variable('matmul_0.tmp_0', float32[?, 4, 3])
    """
    return LayerHelper("matmul", name=name).append(
        "matmul", {"X": [x], "Y": [y]}, {"transpose_X": transpose_x, "transpose_Y": transpose_y, "alpha": float(alpha)})


def scale(x: Variable, scale: float = 1.0, bias: float = 0.0, bias_after_scale: bool = True, act: str | None = None,
          name: str | None = None) -> Variable:
    """Return ``scale x + bias``, or ``scale (x + bias)``.

    ``bias_after_scale`` (True) chooses the first.

    >>> fluid.layers.scale(fluid.layers.data("x", [4]), scale=2.0, bias=1.0)
    Variable('scale_0.tmp_0', float32[?, 4])
    """
    helper = LayerHelper("scale", name=name, act=act)
    out = helper.append("scale", {"X": [x]}, {"scale": float(scale), "bias": float(bias),
                                              "bias_after_scale": bias_after_scale})
    return helper.append_activation(out)


def sums(input: Variable | Sequence[Variable], out: Variable | None = None) -> Variable:
    """Return the sum of tensors of one shape.

    >>> a, b = fluid.layers.data("a", [3]), fluid.layers.data("b", [3])
    >>> fluid.layers.sums([a, b])
    Variable('sum_0.tmp_0', float32[?, 3])
    """
    helper = LayerHelper("sum")
    tensors = list(input) if isinstance(input, (list, tuple)) else [input]
    if out is None:
        return helper.append("sum", {"X": tensors})
    helper.append_op(type="sum", inputs={"X": tensors}, outputs={"Out": [out]})
    return out


def sum(x: Variable | Sequence[Variable]) -> Variable:
    """Return the sum of tensors of one shape.

    >>> a, b = fluid.layers.data("a", [4]), fluid.layers.data("b", [4])
    >>> fluid.layers.sum([a, b])
    Variable('sum_0.tmp_0', float32[?, 4])
    """
    return sums(x)


def clip(x: Variable, min: float, max: float, name: str | None = None) -> Variable:
    """Return each element moved into [min, max].

    >>> fluid.layers.clip(fluid.layers.data("x", [4]), -1.0, 1.0)
    Variable('clip_0.tmp_0', float32[?, 4])
    """
    return LayerHelper("clip", name=name).append("clip", {"X": [x]}, {"min": float(min), "max": float(max)})


def clip_by_norm(x: Variable, max_norm: float, name: str | None = None) -> Variable:
    """Return ``x``, shortened to the length ``max_norm`` when it is longer.

    >>> fluid.layers.clip_by_norm(fluid.layers.data("x", [4]), 1.0)
    Variable('clip_by_norm_0.tmp_0', float32[?, 4])
    """
    return LayerHelper("clip_by_norm", name=name).append("clip_by_norm", {"X": [x]}, {"max_norm": float(max_norm)})


def l2_normalize(x: Variable, axis: int, epsilon: float = 1e-12, name: str | None = None) -> Variable:
    """Return ``x / sqrt(max(sum(x x), epsilon))``, the sum along ``axis``.

    >>> fluid.layers.l2_normalize(fluid.layers.data("x", [4]), axis=1)
    Variable('l2_normalize_0.tmp_4', float32[?, 4])
    """
    helper = LayerHelper("l2_normalize", name=name)
    square = helper.append("square", {"X": [x]})
    total = helper.append("reduce_sum", {"X": [square]}, {"dim": [axis], "keep_dim": True})
    bounded = helper.append("clip", {"X": [total]}, {"min": float(epsilon), "max": 3.4e38})
    root = helper.append("rsqrt", {"X": [bounded]})
    rank = len(x.shape)
    axis = axis + rank if axis < 0 else axis
    if 0 < axis < rank - 1:                            # a 1 in the middle does not broadcast
        length = x.shape[axis]
        if length is None:
            raise ValueError(f"l2_normalize: dimension {axis} of {x!r} must be known")
        times = [1] * rank
        times[axis] = length
        root = helper.append("expand", {"X": [root]}, {"expand_times": times})
    elif axis == 0 and rank > 1:
        root = helper.append("squeeze", {"X": [root]}, {"axes": [0]})
        return helper.append("elementwise_mul", {"X": [x], "Y": [root]}, {"axis": 1})
    return helper.append("elementwise_mul", {"X": [x], "Y": [root]}, {"axis": 0})


class Elementwise(Protocol):
    """The layer of an operator on pairs of elements."""

    def __call__(self, x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable: ...


class Reduction(Protocol):
    """The layer of an operator that makes one element of many."""

    def __call__(self, input: Variable | Sequence[Variable], dim: int | Sequence[int] | None = None, keep_dim: bool = False,
                 name: str | None = None) -> Variable: ...


def _elementwise(type: str, formula: str, dtype: str = "float32") -> Elementwise:
    def layer(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
        helper = LayerHelper(type, name=name, act=act)
        helper.check_variable(x, "x")
        helper.check_variable(y, "y")
        return helper.append_activation(helper.append(type, {"X": [x], "Y": [y]}, {"axis": axis}))

    layer.__name__ = layer.__qualname__ = type
    layer.__module__ = __name__
    given = "[4]" if dtype == "float32" else f'[4], dtype="{dtype}"'
    layer.__doc__ = (f"Return {formula}, element by element.\n\n"
                     "    The shape of ``y`` is part of that of ``x``: it begins at dimension ``axis``, or ends with\n"
                     "    it when ``axis`` is -1. The output has the shape of ``x``.\n\n"
                     f"    >>> x, y = fluid.layers.data(\"x\", {given}), fluid.layers.data(\"y\", {given})\n"
                     f"    >>> fluid.layers.{type}(x, y)\n"
                     f"    Variable('{type}_0.tmp_0', {dtype}[?, 4])\n    ")
    return layer


def _reduce(type: str, what: str) -> Reduction:
    def layer(input: Any, dim: int | Sequence[int] | None = None, keep_dim: bool = False,
              name: str | None = None) -> Variable:
        helper = LayerHelper(type, name=name)
        if isinstance(input, (list, tuple)) and len(input) == 1:
            input = input[0]
        helper.check_variable(input, "input")
        dims = [0] if dim is None else list(dim) if isinstance(dim, (list, tuple)) else [dim]
        return helper.append(type, {"X": [input]}, {"dim": dims, "keep_dim": keep_dim, "reduce_all": dim is None})

    layer.__name__ = layer.__qualname__ = type
    layer.__module__ = __name__
    layer.__doc__ = (f"Return the {what} of the elements along ``dim`` (a number or a list), or of all of them.\n\n"
                     f"    >>> fluid.layers.{type}(fluid.layers.data(\"x\", [4, 3]), dim=1)\n"
                     f"    Variable('{type}_0.tmp_0', float32[?, 3])\n    ")
    return layer


elementwise_add = _elementwise("elementwise_add", "x + y")
elementwise_sub = _elementwise("elementwise_sub", "x - y")
elementwise_mul = _elementwise("elementwise_mul", "x y")
elementwise_div = _elementwise("elementwise_div", "x / y")
elementwise_max = _elementwise("elementwise_max", "max(x, y)")
elementwise_min = _elementwise("elementwise_min", "min(x, y)")
elementwise_pow = _elementwise("elementwise_pow", "x to the power y")
elementwise_mod = _elementwise("elementwise_mod", "the rest of x / y, of integers", "int64")
elementwise_floordiv = _elementwise("elementwise_floordiv", "x / y rounded down, of integers", "int64")
reduce_sum = _reduce("reduce_sum", "sum")
reduce_mean = _reduce("reduce_mean", "mean")
reduce_max = _reduce("reduce_max", "greatest")
reduce_min = _reduce("reduce_min", "least")
reduce_prod = _reduce("reduce_prod", "product")


def cos_sim(X: Variable, Y: Variable) -> Variable:
    """Return the cosine of the angle between rows of ``X`` and of ``Y`` [n, d]: [n, 1].

    ``Y`` may be one row [1, d] for all. The cosine of a row of zeros is NaN.

    >>> x, y = fluid.layers.data("x", [4]), fluid.layers.data("y", [4])
    >>> fluid.layers.cos_sim(x, y).shape
    (None, 1)
    """
    return LayerHelper("cos_sim").append("cos_sim", {"X": [X], "Y": [Y]}, extra=["XNorm", "YNorm"])


def range(start: Any, end: Any, step: Any, dtype: DTypeLike) -> Variable:
    """Return ``start``, ``start + step``, ... below ``end``; each is a number or a variable [1].

    >>> fluid.layers.range(0, 10, 2, "int64").dtype
    VarType.INT64
    """
    bounds = [value if isinstance(value, Variable) else fill_constant([1], dtype, value)
              for value in (start, end, step)]
    return LayerHelper("range").append("range", dict(zip(("Start", "End", "Step"), bounds)), dtype=dtype,
                                       stop_gradient=True)


def _test(type: str, x: Variable) -> Variable:
    return LayerHelper(type).append(type, {"X": [x]}, stop_gradient=True)


def isfinite(x: Variable) -> Variable:
    """Return whether all elements are finite, [1].

    >>> fluid.layers.isfinite(fluid.layers.data("x", [4]))
    Variable('isfinite_0.tmp_0', bool[1])
    """
    return _test("isfinite", x)


def has_inf(x: Variable) -> Variable:
    """Return whether an element is infinite, [1].

    >>> fluid.layers.has_inf(fluid.layers.data("x", [4]))
    Variable('isinf_0.tmp_0', bool[1])
    """
    return _test("isinf", x)


def has_nan(x: Variable) -> Variable:
    """Return whether an element is not a number, [1].

    >>> fluid.layers.has_nan(fluid.layers.data("x", [4]))
    Variable('isnan_0.tmp_0', bool[1])
    """
    return _test("isnan", x)


__all__ = ["mean", "mul", "matmul", "scale", "sums", "sum", "clip", "clip_by_norm", "l2_normalize", "cos_sim", "range",
           "isfinite", "has_inf", "has_nan", "elementwise_add", "elementwise_sub", "elementwise_mul",
           "elementwise_div", "elementwise_max", "elementwise_min", "elementwise_pow", "elementwise_mod",
           "elementwise_floordiv", "reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"]
