"""Tensor arrays, sequences step by step, batches in two by a mask."""

from __future__ import annotations


from ..native import unique_name
from ..native.dtypes import DTypeLike, VarType
from ..parameters.layer_helper import LayerHelper
from ..program import Variable


def create_array(dtype: DTypeLike, name: str | None = None) -> Variable:
    """Return an empty tensor array, for ``array_write``.

    >>> fluid.layers.create_array("float32", name="steps")
    Variable('steps', LOD_TENSOR_ARRAY of float32[])
    """
    helper = LayerHelper("array", name=name)
    return helper.create_variable(name=helper.name if name else unique_name.generate("array"), dtype=dtype,
                                  type=VarType.LOD_TENSOR_ARRAY)


def array_write(x: Variable, i: Variable, array: Variable | None = None) -> Variable:
    """Set element ``i`` (int64 [1]) of ``array``, or of a new one, to ``x``; return the array.

    >>> x, i = fluid.layers.data("x", [4]), fluid.layers.fill_constant([1], "int64", 0)
    >>> fluid.layers.array_read(fluid.layers.array_write(x, i), i)
    Variable('array_read_0.tmp_0', float32[?, 4])
    """
    helper = LayerHelper("array_write")
    helper.check_variable(x, "x")
    helper.check_variable(i, "i")
    if array is None:
        array = create_array(x.dtype)
    elif helper.check_variable(array, "array").type != VarType.LOD_TENSOR_ARRAY:
        raise TypeError(f"array_write: array must be a tensor array, got {array!r}")
    helper.append_op(type="write_to_array", inputs={"X": [x], "I": [i]}, outputs={"Out": [array]})
    return array


def array_read(array: Variable, i: Variable) -> Variable:
    """Return element ``i`` (int64 [1]) of a tensor array.

    >>> first = fluid.layers.fill_constant([1], "int64", 0)
    >>> array = fluid.layers.array_write(fluid.layers.data("x", [4]), first)
    >>> fluid.layers.array_read(array, first)
    Variable('array_read_0.tmp_0', float32[?, 4])
    """
    return LayerHelper("array_read").append("read_from_array", {"X": [array], "I": [i]})


def array_length(array: Variable) -> Variable:
    """Return the number of elements of a tensor array (int64 [1]).

    >>> i = fluid.layers.fill_constant([1], "int64", 6)
    >>> steps = fluid.layers.array_write(fluid.layers.zeros([2], "float32"), i)
    >>> fluid.Executor().run(fetch_list=[fluid.layers.array_length(steps)])[0]
    array([7])
    """
    return LayerHelper("array_length").append("lod_array_length", {"X": [array]}, dtype=VarType.INT64,
                                              stop_gradient=True)


def lod_rank_table(x: Variable, level: int = 0) -> Variable:
    """Return the sequences of ``x`` ranked from the longest to the shortest.

    ``level`` is the level of sequences that is ranked; 0 is the outermost.

    >>> x = fluid.layers.data("x", [4], lod_level=1)
    >>> table = fluid.layers.lod_rank_table(x)
    >>> fluid.layers.max_sequence_len(table)
    Variable('max_sequence_len_0.tmp_0', int64[1])
    """
    helper = LayerHelper("lod_rank_table")
    table = helper.create_variable(name=unique_name.generate("lod_rank_table"), type=VarType.LOD_RANK_TABLE)
    helper.append_op(type="lod_rank_table", inputs={"X": [x]}, outputs={"Out": [table]}, attrs={"level": level})
    return table


def max_sequence_len(rank_table: Variable) -> Variable:
    """Return the length of the longest sequence (int64 [1]).

    >>> x = fluid.layers.data("x", [4], lod_level=1)
    >>> fluid.layers.max_sequence_len(fluid.layers.lod_rank_table(x))
    Variable('max_sequence_len_0.tmp_0', int64[1])
    """
    return LayerHelper("max_sequence_len").append("max_sequence_len", {"RankTable": [rank_table]}, dtype=VarType.INT64,
                                                  stop_gradient=True)


def lod_tensor_to_array(x: Variable, table: Variable) -> Variable:
    """Return an array whose element t holds step t of all sequences that have one, the longest sequence first.

    >>> x = fluid.layers.data("x", [4], lod_level=1)
    >>> table = fluid.layers.lod_rank_table(x)
    >>> steps = fluid.layers.lod_tensor_to_array(x, table)
    >>> fluid.layers.array_to_lod_tensor(steps, table)
    Variable('array_to_lod_tensor_0.tmp_0', float32[?, 4])
    """
    helper = LayerHelper("lod_tensor_to_array")
    array = create_array(x.dtype)
    helper.append_op(type="lod_tensor_to_array", inputs={"X": [x], "RankTable": [table]}, outputs={"Out": [array]})
    return array


def array_to_lod_tensor(x: Variable, table: Variable) -> Variable:
    """Return the sequences that ``lod_tensor_to_array`` would take apart into this array.

    >>> x = fluid.layers.data("x", [4], lod_level=1)
    >>> table = fluid.layers.lod_rank_table(x)
    >>> fluid.layers.array_to_lod_tensor(fluid.layers.lod_tensor_to_array(x, table), table)
    Variable('array_to_lod_tensor_0.tmp_0', float32[?, 4])
    """
    return LayerHelper("array_to_lod_tensor").append("array_to_lod_tensor", {"X": [x], "RankTable": [table]})


def reorder_lod_tensor_by_rank(x: Variable, rank_table: Variable) -> Variable:
    """Return the sequences of ``x`` (or its rows, if it has none) in the order of the table.

    >>> x = fluid.layers.data("x", [4], lod_level=1)
    >>> fluid.layers.reorder_lod_tensor_by_rank(x, fluid.layers.lod_rank_table(x))
    Variable('reorder_lod_tensor_by_rank_0.tmp_0', float32[?, 4])
    """
    return LayerHelper("reorder_lod_tensor_by_rank").append("reorder_lod_tensor_by_rank",
                                                            {"X": [x], "RankTable": [rank_table]})


def shrink_memory(x: Variable, i: Variable, table: Variable) -> Variable:
    """Return what ``x`` has of the sequences that are longer than ``i``: its first rows.

    >>> x = fluid.layers.data("x", [4], lod_level=1)
    >>> step = fluid.layers.fill_constant([1], "int64", 0)
    >>> fluid.layers.shrink_memory(x, step, fluid.layers.lod_rank_table(x))
    Variable('shrink_memory_0.tmp_0', float32[?, 4])
    """
    return LayerHelper("shrink_memory").append("shrink_rnn_memory", {"X": [x], "I": [i], "RankTable": [table]})


def tensor_array_to_tensor(input: Variable, axis: int = 1, name: str | None = None) -> tuple[Variable, Variable]:
    """Return the elements of a tensor array, joined along ``axis``, and how long each is along it (int32).

    >>> steps = fluid.layers.create_array("float32")
    >>> for t, size in enumerate([2, 3]):
    ...     i = fluid.layers.fill_constant([1], "int64", t)
    ...     _ = fluid.layers.array_write(fluid.layers.ones([1, size], "float32"), i, steps)
    >>> joined, sizes = fluid.layers.tensor_array_to_tensor(steps)
    >>> [one.tolist() for one in fluid.Executor().run(fetch_list=[joined, sizes])]
    [[[1.0, 1.0, 1.0, 1.0, 1.0]], [2, 3]]
    """
    helper = LayerHelper("tensor_array_to_tensor", name=name)
    out = helper.create_variable_for_type_inference(input.dtype)
    sizes = helper.create_variable_for_type_inference(VarType.INT32, stop_gradient=True)
    helper.append_op(type="tensor_array_to_tensor", inputs={"X": [input]},
                     outputs={"Out": [out], "OutIndex": [sizes]}, attrs={"axis": axis})
    return out, sizes


def split_lod_tensor(input: Variable, mask: Variable, level: int = 0) -> tuple[Variable, Variable]:
    """Return the rows (or sequences of ``level``) where ``mask`` (bool [n, 1]) is true, and the others.

    >>> x, mask = fluid.layers.data("x", [4]), fluid.layers.data("mask", [1], dtype="bool")
    >>> fluid.layers.split_lod_tensor(x, mask)[0]
    Variable('split_lod_tensor_0.tmp_0', float32[?, 4])
    """
    helper = LayerHelper("split_lod_tensor")
    yes, no = (helper.create_variable_for_type_inference(input.dtype) for _ in range(2))
    helper.append_op(type="split_lod_tensor", inputs={"X": [input], "Mask": [mask]},
                     outputs={"OutTrue": [yes], "OutFalse": [no]}, attrs={"level": level})
    return yes, no


def merge_lod_tensor(in_true: Variable, in_false: Variable, x: Variable, mask: Variable, level: int = 0) -> Variable:
    """Return the rows (or sequences) of both in the order they had before ``split_lod_tensor(x, mask, level)``.

    ``in_true`` and ``in_false`` are what that returned.

    >>> x, mask = fluid.layers.data("x", [1]), fluid.layers.data("mask", [1], dtype="bool")
    >>> yes, no = fluid.layers.split_lod_tensor(x, mask)
    >>> out = fluid.layers.merge_lod_tensor(fluid.layers.scale(yes, 10.0), no, x, mask)
    >>> feed = {"x": np.array([[1], [2], [3]], "float32"), "mask": np.array([[True], [False], [True]])}
    >>> fluid.Executor().run(feed=feed, fetch_list=[out])[0].tolist()
    [[10.0], [2.0], [30.0]]
    """
    return LayerHelper("merge_lod_tensor").append(
        "merge_lod_tensor", {"X": [x], "Mask": [mask], "InTrue": [in_true], "InFalse": [in_false]}, {"level": level},
        dtype=in_true.dtype)


def is_empty(x: Variable, cond: Variable | None = None) -> Variable:
    """Return whether ``x`` has no elements (bool [1]), in ``cond`` if given.

    >>> fluid.layers.is_empty(fluid.layers.data("x", [4]))
    Variable('is_empty_0.tmp_0', bool[1])
    """
    helper = LayerHelper("is_empty")
    if cond is None:
        return helper.append("is_empty", {"X": [x]}, dtype=VarType.BOOL, stop_gradient=True)
    helper.append_op(type="is_empty", inputs={"X": [x]}, outputs={"Out": [cond]})
    return cond


__all__ = ["create_array", "array_write", "array_read", "array_length", "lod_rank_table", "max_sequence_len",
           "lod_tensor_to_array", "array_to_lod_tensor", "reorder_lod_tensor_by_rank", "shrink_memory",
           "tensor_array_to_tensor", "split_lod_tensor", "merge_lod_tensor", "is_empty"]
