"""Making tensors, and giving them another shape, order or type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..native import unique_name
from ..native.checks import plain
from ..native.dtypes import DTypeLike, VarType, constant_for, convert_dtype
from ..native.lazy import answer_for_package
from ..parameters.initializer import Constant, Initializer
from ..parameters.layer_helper import LayerHelper
from ..parameters.param_attr import AttrLike, ParamAttr
from ..program import Parameter, Variable, default_main_program


def create_tensor(dtype: DTypeLike, name: str | None = None, persistable: bool = False) -> Variable:
    """Return a variable that an operator will fill.

    ``persistable`` keeps its value from run to run.

    >>> fluid.layers.create_tensor("float32", name="t")
    Variable('t', float32[])
    """
    helper = LayerHelper("create_tensor", name=name)
    return helper.create_variable(name=helper.name, dtype=dtype, persistable=persistable)


def create_parameter(shape: Sequence[int], dtype: DTypeLike, name: str | None = None, attr: AttrLike = None,
                     is_bias: bool = False, default_initializer: Initializer | None = None) -> Parameter:
    """Return a parameter that belongs to no layer.

    ``attr`` is a ``ParamAttr`` or what stands for one. ``is_bias`` makes 0 the first value where nothing else is said.

    >>> fluid.layers.create_parameter([2, 3], "float32", name="w")
    Parameter('w', float32[2, 3])
    """
    own = ParamAttr._to_attr(attr)
    if own is False:
        raise ValueError("create_parameter: attr=False means no parameter")
    if name is not None and own.name is None:
        own = own._copy()
        own.name = name
    made: Parameter = LayerHelper("create_parameter").create_parameter(own, shape, convert_dtype(dtype), is_bias, default_initializer)
    return made


def create_global_var(shape: Sequence[int], value: float, dtype: DTypeLike, persistable: bool = False,
                      force_cpu: bool = False, name: str | None = None) -> Variable:
    """Return a variable of the global block that starts as ``value`` (in the startup program).

    ``persistable`` keeps its value from run to run.

    >>> fluid.layers.create_global_var([1], 0.5, "float32", persistable=True, name="rate")
    Variable('rate', float32[1])
    """
    helper = LayerHelper("global_var", name=name)
    var = helper.create_global_variable(name=helper.name if name is not None else unique_name.generate("global_var"),
                                        dtype=dtype, shape=shape, persistable=persistable, stop_gradient=True)
    helper.set_variable_initializer(var, Constant(value))
    return var


def fill_constant(shape: Sequence[int], dtype: DTypeLike, value: float, force_cpu: bool = False,
                  out: Variable | None = None) -> Variable:
    """Return a tensor with ``value`` everywhere.

    >>> fluid.layers.fill_constant([2, 3], "int64", 7)
    Variable('fill_constant_0.tmp_0', int64[2, 3])
    """
    helper = LayerHelper("fill_constant")
    attrs = {"shape": list(shape), "dtype": int(convert_dtype(dtype)), "value": constant_for("fill_constant: value", value, dtype)}
    return _into(helper, out, "fill_constant", {}, attrs, dtype=dtype)


def _into(helper: LayerHelper, out: Variable | None, type: str, inputs: dict[str, Any],
          attrs: dict[str, Any] | None = None, dtype: DTypeLike = None) -> Variable:
    if out is None:
        return helper.append(type, inputs, attrs, dtype=dtype, stop_gradient=not inputs)
    helper.append_op(type=type, inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
    return out


def fill_constant_batch_size_like(input: Variable, shape: Sequence[int], dtype: DTypeLike, value: float,
                                  input_dim_idx: int = 0, output_dim_idx: int = 0) -> Variable:
    """Return ``fill_constant`` with one dimension as large as one of ``input``.

    Dimension ``output_dim_idx`` of ``shape`` is replaced by dimension ``input_dim_idx`` of ``input``; ``value`` is the number that fills
    the result.

    >>> x = fluid.layers.data("x", [4])
    >>> fluid.layers.fill_constant_batch_size_like(x, [-1, 8], "float32", 0.0)
    Variable('fill_constant_batch_size_like_0.tmp_0', float32[?, 8])
    """
    attrs = {"shape": [-1 if dim is None else dim for dim in shape], "dtype": int(convert_dtype(dtype)),
             "value": constant_for("fill_constant_batch_size_like: value", value, dtype), "input_dim_idx": input_dim_idx,
             "output_dim_idx": output_dim_idx}
    return LayerHelper("fill_constant_batch_size_like").append(
        "fill_constant_batch_size_like", {"Input": [input]}, attrs, dtype=dtype, stop_gradient=True)


def zeros(shape: Sequence[int], dtype: DTypeLike, force_cpu: bool = False) -> Variable:
    """Return a tensor of zeros.

    >>> fluid.layers.zeros([2, 3], "float32")
    Variable('fill_constant_0.tmp_0', float32[2, 3])
    """
    return fill_constant(shape, dtype, 0.0)


def ones(shape: Sequence[int], dtype: DTypeLike, force_cpu: bool = False) -> Variable:
    """Return a tensor of ones.

    >>> fluid.layers.ones([2, 3], "int64")
    Variable('fill_constant_0.tmp_0', int64[2, 3])
    """
    return fill_constant(shape, dtype, 1.0)


def zeros_like(x: Variable, out: Variable | None = None) -> Variable:
    """Return zeros in the shape of ``x``.

    >>> fluid.layers.zeros_like(fluid.layers.data("x", [4]))
    Variable('zeros_like_0.tmp_0', float32[?, 4])
    """
    return _into(LayerHelper("zeros_like"), out, "fill_zeros_like", {"X": [x]})


def assign(input: Any, output: Variable | None = None) -> Variable:
    """Return a copy of a variable, or a constant tensor of a NumPy array (float32 or int32).

    ``output`` is the Variable that gets it; None: a new one. Variables of another program are made in this one, with the same names: such a
    program moves values between variables of a scope.

    >>> fluid.layers.assign(np.array([[1.0, 2.0]], "float32"))
    Variable('assign_0.tmp_0', float32[1, 2])
    """
    helper = LayerHelper("assign")
    output = helper.known_here(output) if isinstance(output, Variable) else output
    if isinstance(input, Variable):
        input = helper.known_here(input)
        return _into(helper, output, "assign", {"X": [input]})
    if not isinstance(input, np.ndarray):
        raise TypeError(f"assign takes a Variable or a NumPy array, got {input!r}")
    dtype = convert_dtype(input.dtype)
    if dtype not in (VarType.FP32, VarType.INT32):
        raise TypeError(f"assign: the array is {dtype}; float32 and int32 are possible")
    slot = "fp32_values" if dtype == VarType.FP32 else "int32_values"
    attrs = {"shape": list(input.shape), "dtype": int(dtype), slot: input.ravel().tolist()}
    return _into(helper, output, "assign_value", {}, attrs, dtype=dtype)


def cast(x: Variable, dtype: DTypeLike) -> Variable:
    """Return the values of ``x`` as another type.

    >>> fluid.layers.cast(fluid.layers.data("x", [3]), "int64")
    Variable('cast_0.tmp_0', int64[?, 3])
    """
    target = convert_dtype(dtype)
    return LayerHelper("cast").append("cast", {"X": [x]}, {"in_dtype": x.dtype, "out_dtype": target},
                                      dtype=target)


def concat(input: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """Return the tensors one after the other along ``axis``; their other dimensions are equal.

    >>> a, b = fluid.layers.data("a", [2, 3]), fluid.layers.data("b", [2, 5])
    >>> fluid.layers.concat([a, b], axis=2)
    Variable('concat_0.tmp_0', float32[?, 2, 8])
    """
    return LayerHelper("concat", name=name).append("concat", {"X": list(input)}, {"axis": axis})


def split(input: Variable, num_or_sections: int | Sequence[int], dim: int = -1,
          name: str | None = None) -> list[Variable]:
    """Return the parts of ``input`` along ``dim``: that many equal ones, or ones of the given sizes.

    ``num_or_sections`` is that number, or the list of sizes, of which one may be -1: what is left.

    >>> [part.shape for part in fluid.layers.split(fluid.layers.data("x", [6]), [2, 4], dim=1)]
    [(None, 2), (None, 4)]
    """
    helper = LayerHelper("split", name=name)
    axis = dim + len(input.shape) if dim < 0 else dim
    num_or_sections = plain(num_or_sections)
    if isinstance(num_or_sections, int):
        count, attrs = num_or_sections, {"num": num_or_sections, "sections": [], "axis": axis}
    else:
        count, attrs = len(num_or_sections), {"num": 0, "sections": list(num_or_sections), "axis": axis}
    if count < 1:
        raise ValueError(f"split: the number of parts must be at least 1, got {num_or_sections!r}")
    outs = [helper.create_variable_for_type_inference(input.dtype) for _ in range(count)]
    helper.append_op(type="split", inputs={"X": [input]}, outputs={"Out": outs}, attrs=attrs)
    return outs


def reshape(x: Variable, shape: Sequence[int | None], actual_shape: Variable | None = None, act: str | None = None,
            inplace: bool = False, name: str | None = None) -> Variable:
    """Return the same elements in another shape: -1 is what is left over, 0 is the dimension of ``x``.

    >>> fluid.layers.reshape(fluid.layers.data("x", [4, 6]), [0, 8, 3])
    Variable('reshape_0.tmp_0', float32[?, 8, 3])
    """
    helper = LayerHelper("reshape", name=name, act=act)
    inputs = {"X": [x]}
    if actual_shape is not None:
        inputs["Shape"] = [actual_shape]
    out = helper.append("reshape2", inputs, {"shape": [-1 if dim is None else dim for dim in shape]},
                        extra=["XShape"])
    return helper.append_activation(out)


def transpose(x: Variable, perm: Sequence[int], name: str | None = None) -> Variable:
    """Return ``x`` with its dimensions in the order ``perm``.

    >>> fluid.layers.transpose(fluid.layers.data("x", [4, 6]), [0, 2, 1])
    Variable('transpose_0.tmp_0', float32[?, 6, 4])
    """
    if len(perm) != len(x.shape):
        raise ValueError(f"transpose: {x.name} has {len(x.shape)} dimensions, perm is {list(perm)}")
    return LayerHelper("transpose", name=name).append("transpose2", {"X": [x]}, {"axis": list(perm)}, extra=["XShape"])


def squeeze(input: Variable, axes: Sequence[int], name: str | None = None) -> Variable:
    """Return ``input`` without the dimensions ``axes``, which are 1; an empty list means all that are.

    >>> fluid.layers.squeeze(fluid.layers.data("x", [1, 5]), [1])
    Variable('squeeze_0.tmp_0', float32[?, 5])
    """
    return LayerHelper("squeeze", name=name).append("squeeze2", {"X": [input]}, {"axes": list(axes)}, extra=["XShape"])


def unsqueeze(input: Variable, axes: Sequence[int], name: str | None = None) -> Variable:
    """Return ``input`` with dimensions of 1 put in at ``axes``.

    >>> fluid.layers.unsqueeze(fluid.layers.data("x", [5]), [1])
    Variable('unsqueeze_0.tmp_0', float32[?, 1, 5])
    """
    return LayerHelper("unsqueeze", name=name).append("unsqueeze2", {"X": [input]}, {"axes": list(axes)},
                                                      extra=["XShape"])


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """Return the matrix of ``x``: dimensions before ``axis`` make the rows, the others the columns.

    >>> fluid.layers.flatten(fluid.layers.data("x", [4, 6]))
    Variable('flatten_0.tmp_0', float32[?, 24])
    """
    return LayerHelper("flatten", name=name).append("flatten2", {"X": [x]}, {"axis": axis}, extra=["XShape"])


def stack(x: Variable | Sequence[Variable], axis: int = 0) -> Variable:
    """Return tensors of one shape along a new dimension.

    ``axis`` is the place of the new dimension.

    >>> a, b = fluid.layers.data("a", [3]), fluid.layers.data("b", [3])
    >>> fluid.layers.stack([a, b], axis=1)
    Variable('stack_0.tmp_0', float32[?, 2, 3])
    """
    return LayerHelper("stack").append("stack", {"X": list(x) if isinstance(x, (list, tuple)) else [x]},
                                       {"axis": axis}, slot="Y")


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """Return the slices of ``x`` along ``axis``, without that dimension.

    ``num`` is the number of slices, where the dimension is not known.

    >>> [part.shape for part in fluid.layers.unstack(fluid.layers.ones([2, 3], "float32"))]
    [(3,), (3,)]
    """
    helper = LayerHelper("unstack")
    if num is None:
        num = x.shape[axis]
        if num is None:
            raise ValueError(f"unstack: dimension {axis} of {x!r} is not known; give num")
    outs = [helper.create_variable_for_type_inference(x.dtype) for _ in range(num)]
    helper.append_op(type="unstack", inputs={"X": [x]}, outputs={"Y": outs}, attrs={"axis": axis, "num": num})
    return outs


def expand(x: Variable, expand_times: Sequence[int], name: str | None = None) -> Variable:
    """Return ``x`` repeated that often along each dimension.

    ``expand_times`` has a whole number from 1 on for each dimension.

    >>> fluid.layers.expand(fluid.layers.data("x", [1, 3]), [1, 4, 1])
    Variable('expand_0.tmp_0', float32[?, 4, 3])
    """
    return LayerHelper("expand", name=name).append("expand", {"X": [x]}, {"expand_times": list(expand_times)})


def expand_as(x: Variable, target_tensor: Variable, name: str | None = None) -> Variable:
    """Return ``x`` repeated along its dimensions until it is as large as ``target_tensor``, whose extents are multiples of its own.

    >>> x, like = fluid.layers.data("x", [1, 3]), fluid.layers.data("like", [4, 3])
    >>> fluid.layers.expand_as(x, like)
    Variable('expand_as_0.tmp_0', float32[?, 4, 3])
    """
    return LayerHelper("expand_as", name=name).append("expand_as", {"X": [x], "target_tensor": [target_tensor]})


def slice(input: Variable, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> Variable:
    """Return the part [starts, ends) along ``axes``; negative numbers count from the end.

    >>> fluid.layers.slice(fluid.layers.data("x", [6]), [1], [1], [-1])
    Variable('slice_0.tmp_0', float32[?, 4])
    """
    return LayerHelper("slice").append("slice", {"Input": [input]},
                                       {"axes": list(axes), "starts": list(starts), "ends": list(ends)})


def gather(input: Variable, index: Variable) -> Variable:
    """Return the rows of ``input`` that ``index`` (int64 or int32) names.

    >>> x, i = fluid.layers.data("x", [4]), fluid.layers.data("i", [], dtype="int64")
    >>> fluid.layers.gather(x, i)
    Variable('gather_0.tmp_0', float32[?, 4])
    """
    return LayerHelper("gather").append("gather", {"X": [input], "Index": [index]})


def one_hot(input: Variable, depth: int) -> Variable:
    """Return, for a column [..., 1] of whole numbers, rows with a 1 at each number's place.

    ``depth`` is the length of the rows.

    >>> fluid.layers.one_hot(fluid.layers.data("i", [1], dtype="int64"), 10)
    Variable('one_hot_0.tmp_0', float32[?, 10])
    """
    return LayerHelper("one_hot").append("one_hot", {"X": [input]}, {"depth": depth}, dtype=VarType.FP32,
                                         stop_gradient=True)


def shape(input: Variable) -> Variable:
    """Return the dimensions of ``input`` as a tensor of int32.

    >>> x = fluid.layers.ones([2, 3], "float32")
    >>> fluid.Executor().run(fetch_list=[fluid.layers.shape(x)])[0]
    array([2, 3], dtype=int32)
    """
    return LayerHelper("shape").append("shape", {"Input": [input]}, dtype=VarType.INT32, stop_gradient=True)


def argmax(x: Variable, axis: int = 0) -> Variable:
    """Return where along ``axis`` the greatest element is (int64): the first place by ``top_k`` along it.

    >>> fluid.layers.argmax(fluid.layers.data("x", [10]), axis=1)
    Variable('argmax_0.tmp_2', int64[?])
    """
    helper = LayerHelper("argmax")
    rank = len(x.shape)
    if not -rank <= axis < rank:
        raise ValueError(f"argmax: axis must be in [{-rank}, {rank}), got {axis!r} for {x!r}")
    axis %= rank
    if axis != rank - 1:
        x = transpose(x, [i for i in range(rank) if i != axis] + [axis])
    places = helper.create_variable_for_type_inference(VarType.INT64, stop_gradient=True)
    helper.append_op(type="top_k", inputs={"X": [x]}, attrs={"k": 1}, outputs={
        "Out": [helper.create_variable_for_type_inference(x.dtype, stop_gradient=True)], "Indices": [places]})
    if rank == 1:
        return places
    return helper.append("squeeze2", {"X": [places]}, {"axes": [rank - 1]}, stop_gradient=True, extra=["XShape"])


def argmin(x: Variable, axis: int = 0) -> Variable:
    """Return where along ``axis`` the least element is (int64).

    >>> fluid.layers.argmin(fluid.layers.data("x", [10]), axis=1)
    Variable('argmax_0.tmp_2', int64[?])
    """
    return argmax(LayerHelper("argmin").append("scale", {"X": [x]}, {"scale": -1.0}), axis)


def increment(x: Variable, value: float = 1.0, in_place: bool = True) -> Variable:
    """Return ``x + value``, in ``x`` itself unless ``in_place`` is False.

    >>> count = fluid.layers.fill_constant([1], "int64", 6)
    >>> fluid.Executor().run(fetch_list=[fluid.layers.increment(count, 2)])[0]
    array([8])
    """
    helper = LayerHelper("increment")
    return _into(helper, x if in_place else None, "increment", {"X": [x]}, {"step": float(value)})


def autoincreased_step_counter(counter_name: str | None = None, begin: int = 1, step: int = 1) -> Variable:
    """Return a counter (int64 [1]) that grows by ``step`` in every run, from ``begin`` in the first one.

    ``counter_name`` names the variable; calls with the same name share the counter.

    >>> fluid.layers.autoincreased_step_counter()
    Variable('@STEP_COUNTER@', int64[1])
    """
    helper = LayerHelper("global_step_counter")
    counter, is_new = helper.create_or_get_global_variable(
        counter_name or "@STEP_COUNTER@", dtype="int64", shape=[1], persistable=True)
    if is_new:
        helper.set_variable_initializer(counter, Constant(begin - step))
        default_main_program().global_block().prepend_op(
            type="increment", inputs={"X": [counter]}, outputs={"Out": [counter]}, attrs={"step": float(step)})
        counter.stop_gradient = True
    return counter


__all__ = ["create_tensor", "create_parameter", "create_global_var", "fill_constant", "fill_constant_batch_size_like",
           "zeros", "ones", "zeros_like", "assign", "cast", "concat", "split", "reshape", "transpose", "squeeze",
           "unsqueeze", "flatten", "stack", "unstack", "expand", "expand_as", "slice", "gather", "one_hot", "shape",
           "argmax", "argmin", "increment", "autoincreased_step_counter"]

if not TYPE_CHECKING:                # a checker that saw it would take any name
    __getattr__ = answer_for_package(__name__)
