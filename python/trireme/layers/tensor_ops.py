"""Tensors padded, cropped, sorted, picked from and put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..native.checks import plain
from ..native.dtypes import DTypeLike, VarType, convert_dtype
from ..parameters.layer_helper import LayerHelper
from ..program import Variable
from .tensor import assign, cast, fill_constant, zeros_like


def pad(x: Variable, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None) -> Variable:
    """Return ``x`` with ``pad_value`` around it; ``paddings`` is [before, behind] of each dimension, one after the other.

    >>> x = fluid.layers.data("x", [2, 3], append_batch_size=False)
    >>> fluid.layers.pad(x, [0, 1, 2, 0])
    Variable('pad_0.tmp_0', float32[3, 5])
    """
    return LayerHelper("pad", name=name).append("pad", {"X": [x]}, {"paddings": list(paddings), "pad_value": float(pad_value)})


def pad_constant_like(x: Variable, y: Variable, pad_value: float = 0.0, name: str | None = None) -> Variable:
    """Return ``y`` with ``pad_value`` after it in each dimension, so that it is as large as ``x``.

    >>> x, y = (fluid.layers.data(name, shape, append_batch_size=False) for name, shape in (("x", [4, 5]), ("y", [2, 3])))
    >>> fluid.layers.pad_constant_like(x, y)
    Variable('pad_constant_like_0.tmp_0', float32[4, 5])
    """
    return LayerHelper("pad_constant_like", name=name).append("pad_constant_like", {"X": [x], "Y": [y]}, {"pad_value": float(pad_value)})


def crop(x: Variable, shape: Any = None, offsets: Any = None, name: str | None = None) -> Variable:
    """Return the box of ``x`` of ``shape`` that begins at ``offsets`` (None: at the front).

    ``shape`` is a list, in which -1 is the rest of a dimension, or a variable of that shape. ``offsets`` is a list, or an int32
    variable [rank].

    >>> x = fluid.layers.data("x", [4, 5], append_batch_size=False)
    >>> fluid.layers.crop(x, shape=[2, 3], offsets=[1, 1])
    Variable('crop_0.tmp_0', float32[2, 3])
    """
    inputs: dict[str, Any] = {"X": [x]}
    attrs: dict[str, Any] = {}
    if shape is None:
        raise ValueError("crop: shape must be a list or a variable, got None")
    if isinstance(shape, Variable):
        inputs["Y"] = [shape]
    else:
        attrs["shape"] = list(shape)
    if isinstance(offsets, Variable):
        inputs["Offsets"] = [offsets]
    elif offsets is not None:
        attrs["offsets"] = list(offsets)
    return LayerHelper("crop", name=name).append("crop", inputs, attrs)


def cumsum(x: Variable, axis: int | None = None, exclusive: bool | None = None, reverse: bool | None = None) -> Variable:
    """Return the running sums along ``axis`` (None: the last).

    With ``exclusive`` a sum leaves its own element out; with ``reverse`` it runs from the end.

    >>> fluid.layers.cumsum(fluid.layers.data("x", [4]), axis=1)
    Variable('cumsum_0.tmp_0', float32[?, 4])
    """
    attrs = {"axis": -1 if axis is None else axis, "exclusive": bool(exclusive), "reverse": bool(reverse)}
    return LayerHelper("cumsum").append("cumsum", {"X": [x]}, attrs)


def reverse(x: Variable, axis: int | Sequence[int]) -> Variable:
    """Return ``x`` with the elements along ``axis``, a number or a list, in the opposite order.

    >>> fluid.layers.reverse(fluid.layers.data("x", [4]), axis=1)
    Variable('reverse_0.tmp_0', float32[?, 4])
    """
    axis = plain(axis)
    axes = [axis] if isinstance(axis, int) else list(axis)
    return LayerHelper("reverse").append("reverse", {"X": [x]}, {"axis": axes})


def argsort(input: Variable, axis: int = -1, name: str | None = None) -> tuple[Variable, Variable]:
    """Return ``input`` sorted along ``axis``, the least first, and where each element stood (int64). No gradient.

    >>> [v.dtype for v in fluid.layers.argsort(fluid.layers.data("x", [4]))]
    [VarType.FP32, VarType.INT64]
    """
    out, places = LayerHelper("argsort", name=name).append_all(
        "argsort", {"X": [input]}, {"Out": input.dtype, "Indices": VarType.INT64}, {"axis": axis}, stops=["Out", "Indices"])
    return out, places


def multiplex(inputs: Sequence[Variable], index: Variable) -> Variable:
    """Return rows from several tensors of one shape [n, ...]: row i is that of ``inputs[index[i]]``; ``index`` is int32 [n, 1].

    >>> a, b = fluid.layers.data("a", [3]), fluid.layers.data("b", [3])
    >>> fluid.layers.multiplex([a, b], fluid.layers.data("i", [1], dtype="int32"))
    Variable('multiplex_0.tmp_0', float32[?, 3])
    """
    if not isinstance(inputs, (list, tuple)) or len(inputs) < 2:
        raise ValueError(f"multiplex: inputs must be a list of two variables or more, got {inputs!r}")
    return LayerHelper("multiplex").append("multiplex", {"X": list(inputs), "Ids": [index]})


def linspace(start: Any, stop: Any, num: Any, dtype: DTypeLike) -> Variable:
    """Return ``num`` numbers at equal distances from ``start`` to ``stop``, both included; each is a number or a variable [1].

    ``dtype`` is "float32" or "float64"; a variable ``num`` is int32.

    >>> fluid.layers.linspace(0, 1, 5, "float32").dtype
    VarType.FP32
    """
    def number(value: Any, type: Any) -> Variable:
        return value if isinstance(value, Variable) else fill_constant([1], type, value)

    return LayerHelper("linspace").append("linspace", {"Start": [number(start, dtype)], "Stop": [number(stop, dtype)],
                                                       "Num": [number(num, "int32")]}, dtype=dtype, stop_gradient=True)


def scatter(input: Variable, index: Variable, updates: Variable, name: str | None = None, overwrite: bool = True) -> Variable:
    """Return ``input`` [n, ...] with the rows ``index`` [m] replaced by ``updates`` [m, ...].

    Where ``index`` names a row more than once, its last update stays; without ``overwrite`` the row is the sum of its updates.

    >>> x, new = fluid.layers.data("x", [3]), fluid.layers.data("new", [3])
    >>> fluid.layers.scatter(x, fluid.layers.data("i", [1], dtype="int64"), new)
    Variable('scatter_0.tmp_0', float32[?, 3])
    """
    return LayerHelper("scatter", name=name).append("scatter", {"X": [input], "Ids": [index], "Updates": [updates]},
                                                    {"overwrite": overwrite})


def gather_nd(input: Variable, index: Variable, name: str | None = None) -> Variable:
    """Return what each line of ``index`` [..., q], int32 or int64, names of ``input``: ``index.shape[:-1] + input.shape[q:]``.

    A line has a number for each of the first q dimensions of ``input``, from 0 on. With q the rank it names one element, else a slice.

    >>> x, places = fluid.layers.data("x", [3, 4, 5], append_batch_size=False), fluid.layers.data("places", [2], dtype="int64")
    >>> fluid.layers.gather_nd(x, places)
    Variable('gather_nd_0.tmp_0', float32[?, 5])
    """
    return LayerHelper("gather_nd", name=name).append("gather_nd", {"X": [input], "Index": [index]})


def scatter_nd_add(ref: Variable, index: Variable, updates: Variable, name: str | None = None) -> Variable:
    """Return ``ref`` with ``updates`` added to what the lines of ``index`` name, as :func:`gather_nd` reads them.

    ``updates`` is like ``gather_nd(ref, index)``. Several updates of one place add up, in their order.

    >>> x, places = fluid.layers.data("x", [3, 4, 5], append_batch_size=False), fluid.layers.data("places", [2], dtype="int64")
    >>> fluid.layers.scatter_nd_add(x, places, fluid.layers.data("new", [5]))
    Variable('scatter_nd_add_0.tmp_0', float32[3, 4, 5])
    """
    return LayerHelper("scatter_nd_add", name=name).append("scatter_nd_add", {"X": [ref], "Index": [index], "Updates": [updates]})


def scatter_nd(index: Variable, updates: Variable, shape: Sequence[int], name: str | None = None) -> Variable:
    """Return a tensor of ``shape`` that has ``updates`` where the lines of ``index`` say, and zeros elsewhere; see :func:`scatter_nd_add`.

    >>> places = fluid.layers.data("places", [2], dtype="int64")
    >>> fluid.layers.scatter_nd(places, fluid.layers.data("new", [5]), [3, 4, 5])
    Variable('scatter_nd_add_0.tmp_0', float32[3, 4, 5])
    """
    return scatter_nd_add(fill_constant(shape, updates.dtype, 0.0), index, updates, name)


def hash(input: Variable, hash_size: int, num_hash: int = 1, name: str | None = None) -> Variable:
    """Return ``num_hash`` numbers below ``hash_size`` for each row of ids, int32 or int64 [..., n]: int64 [..., num_hash, 1].

    They are XXH64 of the row, with the number of the hash as its seed, so a table that Fluid trained is read right.

    >>> fluid.layers.hash(fluid.layers.data("ids", [2], dtype="int32"), hash_size=1000, num_hash=4)
    Variable('hash_0.tmp_0', int64[?, 4, 1])
    """
    return LayerHelper("hash", name=name).append("hash", {"X": [input]}, {"mod_by": hash_size, "num_hash": num_hash}, dtype=VarType.INT64,
                                                 stop_gradient=True)


def sampling_id(x: Variable, min: float = 0.0, max: float = 1.0, seed: int = 0, dtype: DTypeLike = "float32") -> Variable:
    """Return a column number for each row of ``x`` [n, m], drawn with the probabilities in it: int64 [n].

    The random numbers are of [``min``, ``max``); with a ``seed`` other than 0 they are the same in each run. ``dtype`` means
    nothing here.

    >>> fluid.layers.sampling_id(fluid.layers.softmax(fluid.layers.data("x", [4])))
    Variable('sampling_id_0.tmp_0', int64[?])
    """
    return LayerHelper("sampling_id").append("sampling_id", {"X": [x]}, {"min": float(min), "max": float(max), "seed": seed},
                                             dtype=VarType.INT64, stop_gradient=True)


def _truth(type: str, input: Variable, dim: Any, keep_dim: bool, name: str | None) -> Variable:
    dims = [0] if dim is None else list(dim) if isinstance(dim, (list, tuple)) else [dim]
    return LayerHelper(type, name=name).append(type, {"X": [input]}, {"dim": dims, "keep_dim": keep_dim, "reduce_all": dim is None},
                                               stop_gradient=True)


def reduce_all(input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """Return whether all elements of a bool tensor along ``dim`` (a number, a list; None: everywhere) are true.

    >>> x = fluid.layers.data("x", [4], dtype="bool")
    >>> fluid.layers.reduce_all(x, dim=1)
    Variable('reduce_all_0.tmp_0', bool[?])
    """
    return _truth("reduce_all", input, dim, keep_dim, name)


def reduce_any(input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """Return whether any element of a bool tensor along ``dim`` (a number, a list; None: everywhere) is true.

    >>> x = fluid.layers.data("x", [4], dtype="bool")
    >>> fluid.layers.reduce_any(x)
    Variable('reduce_any_0.tmp_0', bool[1])
    """
    return _truth("reduce_any", input, dim, keep_dim, name)


def rank(input: Variable) -> Variable:
    """Return how many dimensions ``input`` has: int32 [1].

    >>> fluid.layers.rank(fluid.layers.data("x", [3, 4]))
    Variable('assign_0.tmp_0', int32[1])
    """
    return assign(np.array([len(input.shape)], "int32"))


def ones_like(x: Variable, out: Variable | None = None) -> Variable:
    """Return ones in the shape of ``x``, in ``out`` if that is given.

    >>> fluid.layers.ones_like(fluid.layers.data("x", [3])).shape
    (None, 3)
    """
    helper = LayerHelper("ones_like")
    if out is None:
        out = helper.create_variable_for_type_inference(x.dtype, stop_gradient=True)
    helper.append_op(type="scale", inputs={"X": [zeros_like(x)]}, outputs={"Out": [out]}, attrs={"bias": 1.0})
    return out


def eye(num_rows: int, num_columns: int | None = None, batch_shape: Sequence[int] | None = None, dtype: DTypeLike = "float32") -> Variable:
    """Return a matrix with ones on its diagonal and zeros elsewhere, [num_rows, num_columns]; or many, ``[*batch_shape, ...]``.

    >>> fluid.layers.eye(3, 4, batch_shape=[2]).shape
    (2, 3, 4)
    """
    matrix = np.eye(num_rows, num_columns, dtype=np.float32)
    out = assign(np.ascontiguousarray(np.broadcast_to(matrix, (*(batch_shape or ()), *matrix.shape))))
    return out if dtype in ("float32", VarType.FP32) else cast(out, dtype)


def diag(diagonal: Variable) -> Variable:
    """Return the matrix with ``diagonal`` [n] on its diagonal and zeros elsewhere.

    >>> fluid.layers.diag(fluid.layers.fill_constant([3], "float32", 2.0)).shape
    (3, 3)
    """
    if not isinstance(diagonal, Variable):
        diagonal = assign(diagonal)
    if len(diagonal.shape) != 1 or diagonal.shape[0] is None:
        raise ValueError(f"diag: diagonal must be [n] with a known n, got {diagonal!r}")
    return LayerHelper("diag").append("elementwise_mul", {"X": [eye(diagonal.shape[0], dtype=diagonal.dtype)], "Y": [diagonal]})


def size(input: Variable) -> Variable:
    """Return how many elements ``input`` has: int64 [1].

    >>> fluid.layers.size(fluid.layers.data("x", [3])).dtype
    VarType.INT64
    """
    helper = LayerHelper("size")
    dims = helper.append("shape", {"Input": [input]}, dtype=VarType.INT32, stop_gradient=True)
    return helper.append("reduce_prod", {"X": [cast(dims, "int64")]}, {"reduce_all": True}, stop_gradient=True)


def merge_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """Return selected rows with rows of equal numbers added up, in ascending order.

    ``x`` is a sparse gradient, such as that of ``embedding(is_sparse=True)``.

    >>> ids = fluid.layers.data("ids", [1], dtype="int64")
    >>> rows = fluid.layers.embedding(ids, [10, 2], is_sparse=True)
    >>> (_, gradient), = fluid.backward.append_backward(fluid.layers.reduce_sum(rows))
    >>> values = fluid.layers.get_tensor_from_selected_rows(fluid.layers.merge_selected_rows(gradient))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> exe.run(feed={"ids": np.array([[3], [3], [5]])}, fetch_list=[values])[0].tolist()
    [[2.0, 2.0], [1.0, 1.0]]
    """
    return LayerHelper("merge_selected_rows", name=name).append("merge_selected_rows", {"X": [x]}, stop_gradient=True)


def get_tensor_from_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """Return the values of selected rows, one after the other, as a dense tensor [rows held, ...].

    ``x`` is a sparse gradient, such as that of ``embedding(is_sparse=True)``.

    >>> ids = fluid.layers.data("ids", [1], dtype="int64")
    >>> rows = fluid.layers.embedding(ids, [10, 2], is_sparse=True)
    >>> (_, gradient), = fluid.backward.append_backward(fluid.layers.reduce_sum(rows))
    >>> values = fluid.layers.get_tensor_from_selected_rows(gradient)
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> exe.run(feed={"ids": np.array([[3], [3], [5]])}, fetch_list=[values])[0].shape
    (3, 2)
    """
    return LayerHelper("get_tensor_from_selected_rows", name=name).append("get_tensor_from_selected_rows", {"X": [x]}, stop_gradient=True)


def where(condition: Variable) -> Variable:
    """Return the places where ``condition``, bool of any shape, is true: int64 [number of them, rank of ``condition``].

    >>> x = fluid.layers.data("x", [3])
    >>> fluid.layers.where(x > 0.5)
    Variable('where_0.tmp_0', int64[?, 2])
    """
    return LayerHelper("where").append("where", {"Condition": [condition]}, dtype="int64", stop_gradient=True)


def _random_like(type: str, input: Variable, shape: Sequence[int], dtype: DTypeLike, from_dim: int, to_dim: int, **attrs: Any) -> Variable:
    return LayerHelper(type).append(type, {"Input": [input]}, {"shape": list(shape), "dtype": int(convert_dtype(dtype)),
                                                               "input_dim_idx": from_dim,
                                                               "output_dim_idx": to_dim, **attrs}, dtype=dtype, stop_gradient=True)


def uniform_random_batch_size_like(input: Variable, shape: Sequence[int], dtype: DTypeLike = "float32", input_dim_idx: int = 0,
                                   output_dim_idx: int = 0, min: float = -1.0, max: float = 1.0, seed: int = 0) -> Variable:
    """Return numbers of [``min``, ``max``) in ``shape``, of which dimension ``output_dim_idx`` is that of ``input``.

    ``input_dim_idx`` is the dimension of ``input`` that is taken.

    >>> fluid.layers.uniform_random_batch_size_like(fluid.layers.data("x", [3]), [-1, 5]).shape
    (None, 5)
    """
    return _random_like("uniform_random_batch_size_like", input, shape, dtype, input_dim_idx, output_dim_idx, min=float(min),
                        max=float(max), seed=seed)


def gaussian_random_batch_size_like(input: Variable, shape: Sequence[int], input_dim_idx: int = 0, output_dim_idx: int = 0,
                                    mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: DTypeLike = "float32") -> Variable:
    """Return normally distributed numbers in ``shape``, of which dimension ``output_dim_idx`` is that of ``input``.

    ``input_dim_idx`` is the dimension of ``input`` that is taken; ``mean`` and ``std`` are those of the distribution.

    >>> fluid.layers.gaussian_random_batch_size_like(fluid.layers.data("x", [3]), [-1, 5]).shape
    (None, 5)
    """
    return _random_like("gaussian_random_batch_size_like", input, shape, dtype, input_dim_idx, output_dim_idx, mean=float(mean),
                        std=float(std), seed=seed)


__all__ = ["pad", "pad_constant_like", "crop", "cumsum", "reverse", "argsort", "multiplex", "linspace", "scatter", "gather_nd",
           "scatter_nd_add", "scatter_nd", "hash", "sampling_id", "reduce_all", "reduce_any", "rank", "ones_like", "eye", "diag", "size",
           "merge_selected_rows", "get_tensor_from_selected_rows",
           "where",
           "uniform_random_batch_size_like", "gaussian_random_batch_size_like"]
