"""What operators that pick, place, order, count and fill elements are in ONNX."""

from __future__ import annotations

import numpy as np

from ..program import Operator
from .onnx_graph import Graph
from .onnx_registry import _has, _in, _int64, _out, _refuse, _scalar, _type_of, converts

TO_THE_END, BEFORE_THE_FRONT = 2**63 - 1, -(2**63)


# -- truth -----------------------------------------------------------------------------------------------------------------


def _of_all(graph: Graph, mask: str, kind: str, out: str | None = None) -> str:
    """ReduceMin of a mask says whether all are true, ReduceMax whether any is; [1]."""
    number = graph.add(kind, [graph.add("Cast", [mask], to=int(graph.onnx.TensorProto.INT32))], keepdims=0)
    return graph.add("Cast", [graph.add("Reshape", [number, graph.longs([1])])], out, to=int(graph.onnx.TensorProto.BOOL))


@converts("isnan", "isinf", "isfinite")
def _finite(graph: Graph, op: Operator) -> None:
    x = _in(graph, op, "X")
    if op.type != "isfinite":
        _of_all(graph, graph.add({"isnan": "IsNaN", "isinf": "IsInf"}[op.type], [x]), "ReduceMax", _out(graph, op))
    else:
        bad = graph.add("Or", [graph.add("IsNaN", [x]), graph.add("IsInf", [x])])
        graph.add("Not", [_of_all(graph, bad, "ReduceMax")], _out(graph, op))


@converts("reduce_all", "reduce_any")
def _reduce_truth(graph: Graph, op: Operator) -> None:
    kind, rank = {"reduce_all": "ReduceMin", "reduce_any": "ReduceMax"}[op.type], len(graph.shape(op.input("X")[0]))
    dims = list(range(rank)) if op.attr("reduce_all") else [int(dim) for dim in op.attr("dim")]
    if len(dims) == rank and not op.attr("keep_dim"):
        _of_all(graph, _in(graph, op, "X"), kind, _out(graph, op))
        return
    numbers = graph.add("Cast", [_in(graph, op, "X")], to=int(graph.onnx.TensorProto.INT32))
    graph.add("Cast", [graph.add(kind, [numbers], axes=dims, keepdims=int(op.attr("keep_dim")))], _out(graph, op),
              to=int(graph.onnx.TensorProto.BOOL))


@converts("where", "where_index")
def _where(graph: Graph, op: Operator) -> None:
    if _has(op, "X"):
        graph.add("Where", [_in(graph, op, slot) for slot in ("Condition", "X", "Y")], _out(graph, op))
        return
    graph.add("Transpose", [graph.add("NonZero", [_in(graph, op, "Condition")])], _out(graph, op), perm=[1, 0])


@converts("expand_as", "expand_as_v2")
def _expand_as(graph: Graph, op: Operator) -> None:
    x, add = _in(graph, op, "X"), graph.add
    slot = next((slot for slot in ("target_tensor", "Y") if _has(op, slot)), None)
    shape = add("Shape", [_in(graph, op, slot)]) if slot else graph.longs([max(extent, 1) for extent in op.attr("target_shape")])
    if op.type == "expand_as":
        add("Tile", [x, add("Div", [shape, add("Max", [add("Shape", [x]), graph.longs([1])])])], _out(graph, op))
    else:
        add("Expand", [x, shape], _out(graph, op))


@converts("is_empty")
def _is_empty(graph: Graph, op: Operator) -> None:
    empty = graph.add("Equal", [graph.add("Size", [_in(graph, op, "X")]), graph.constant(0, np.int64)])
    graph.add("Reshape", [empty, graph.longs([1])], _out(graph, op))


@converts("sequence_mask")
def _sequence_mask(graph: Graph, op: Operator) -> None:
    lengths = _int64(graph, _in(graph, op, "X"))
    longest = int(op.attr("maxlen"))
    limit = graph.add("ReduceMax", [lengths], keepdims=0) if longest < 0 else graph.constant(longest, np.int64)
    places = graph.add("Range", [graph.constant(0, np.int64), limit, graph.constant(1, np.int64)])
    inside = graph.add("Less", [places, graph.add("Unsqueeze", [lengths, graph.longs([-1])])])
    graph.add("Cast", [inside], _out(graph, op, "Y"), to=_type_of(graph, op.output("Y")[0]))


# -- whole numbers -----------------------------------------------------------------------------------------------------------


@converts("elementwise_mod", "elementwise_floordiv")
def _whole_division(graph: Graph, op: Operator) -> None:
    x, y = op.input("X")[0], op.input("Y")[0]
    ranks, axis = (len(graph.shape(x)), len(graph.shape(y))), op.attr("axis")
    divisor = graph.name_of(y)
    behind = 0 if axis == -1 else ranks[0] - axis - ranks[1]
    if behind > 0:
        divisor = graph.add("Unsqueeze", [divisor, graph.longs(range(ranks[1], ranks[1] + behind))])
    is_zero = graph.add("Equal", [divisor, graph.number(0, y)])
    safe = graph.add("Where", [is_zero, graph.number(1, y), divisor])      # by 0, which gives 0 here, ONNX says nothing
    rest = graph.add("Mod", [graph.name_of(x), safe], _out(graph, op) if op.type == "elementwise_mod" else None)
    if op.type == "elementwise_floordiv":
        quotient = graph.add("Div", [graph.add("Sub", [graph.name_of(x), rest]), safe])
        graph.add("Where", [is_zero, graph.number(0, x), quotient], _out(graph, op))


@converts("increment")
def _increment(graph: Graph, op: Operator) -> None:
    x = op.input("X")[0]
    graph.add("Add", [graph.name_of(x), graph.number(op.attr("step"), x)], _out(graph, op))


# -- boxes -----------------------------------------------------------------------------------------------------------------


@converts("crop")
def _crop(graph: Graph, op: Operator) -> None:
    rank = len(graph.shape(op.input("X")[0]))
    offsets, shape = list(op.attr("offsets")) or [0] * rank, list(op.attr("shape"))
    first = _int64(graph, _in(graph, op, "Offsets")) if _has(op, "Offsets") else graph.longs(offsets)
    if _has(op, "Y"):
        last = graph.add("Add", [first, graph.add("Shape", [_in(graph, op, "Y")])])
    elif _has(op, "Offsets"):
        takes_rest = graph.constant([extent < 0 for extent in shape], np.bool_)
        last = graph.add("Where", [takes_rest, graph.longs([TO_THE_END] * rank), graph.add("Add", [first, graph.longs(shape)])])
    else:
        last = graph.longs([TO_THE_END if extent < 0 else offset + extent for offset, extent in zip(offsets, shape)])
    graph.add("Slice", [_in(graph, op, "X"), first, last], _out(graph, op))


@converts("reverse")
def _reverse(graph: Graph, op: Operator) -> None:
    axes = [int(axis) for axis in op.attr("axis")]
    first, last, steps = ([n] * len(axes) for n in (-1, BEFORE_THE_FRONT, -1))
    graph.add("Slice", [_in(graph, op, "X"), graph.longs(first), graph.longs(last), graph.longs(axes), graph.longs(steps)], _out(graph, op))


@converts("pad_constant_like")
def _pad_constant_like(graph: Graph, op: Operator) -> None:
    y = op.input("Y")[0]
    missing = graph.add("Sub", [graph.add("Shape", [_in(graph, op, "X")]), graph.add("Shape", [graph.name_of(y)])])
    pads = graph.add("Concat", [graph.longs([0] * len(graph.shape(y))), missing], axis=0)
    graph.add("Pad", [graph.name_of(y), pads, graph.number(op.attr("pad_value"), y)], _out(graph, op))


@converts("unstack")
def _unstack(graph: Graph, op: Operator) -> None:
    names, axis = op.output("Y"), int(op.attr("axis"))
    parts = [graph.fresh("part") for _ in names]
    graph.nodes.append(graph.onnx.helper.make_node("Split", [_in(graph, op, "X"), graph.longs([1] * len(names))], parts, axis=axis))
    for name, part in zip(names, parts):
        graph.add("Squeeze", [part, graph.longs([axis])], graph.written(name))


# -- rows ------------------------------------------------------------------------------------------------------------------


@converts("multiplex")
def _multiplex(graph: Graph, op: Operator) -> None:
    which = graph.add("Reshape", [_int64(graph, _in(graph, op, "Ids")), graph.longs([-1, 1])])
    count = graph.add("Squeeze", [graph.add("Slice", [graph.add("Shape", [which]), graph.longs([0]), graph.longs([1])]), graph.longs([0])])
    rows = graph.add("Range", [graph.constant(0, np.int64), count, graph.constant(1, np.int64)])
    places = graph.add("Concat", [which, graph.add("Unsqueeze", [rows, graph.longs([1])])], axis=1)
    all = graph.add("Concat", [graph.add("Unsqueeze", [graph.name_of(name), graph.longs([0])]) for name in op.input("X")], axis=0)
    graph.add("GatherND", [all, places], _out(graph, op))


@converts("scatter")
def _scatter(graph: Graph, op: Operator) -> None:
    x, updates = op.input("X")[0], _in(graph, op, "Updates")
    rows = graph.add("Reshape", [_int64(graph, _in(graph, op, "Ids")), graph.longs([-1, 1])])
    if op.attr("overwrite"):
        graph.add("ScatterND", [graph.name_of(x), rows, updates], _out(graph, op))
        return
    zeros = graph.add("Expand", [graph.number(0.0, x), graph.add("Shape", [updates])])
    cleared = graph.add("ScatterND", [graph.name_of(x), rows, zeros])
    _add_rows(graph, cleared, rows, updates, len(graph.shape(x)), _out(graph, op))


def _add_rows(graph: Graph, x: str, rows: str, updates: str, rank: int, out: str | None = None) -> str:
    """Add updates to rows of x, which may be named twice. ScatterND does not do that: some runtimes add at the same time, and lose sums."""
    places = graph.add("Expand", [graph.add("Reshape", [rows, graph.longs([-1, *[1] * (rank - 1)])]), graph.add("Shape", [updates])])
    return graph.add("ScatterElements", [x, places, updates], out, axis=0, reduction="add")


@converts("scatter_nd_add")
def _scatter_nd_add(graph: Graph, op: Operator) -> None:
    """What an index names is a row of x, if x has one dimension for all that the index counts and one for the rest."""
    x, add, count = _in(graph, op, "X"), graph.add, graph.shape(op.input("Index")[0])[-1]
    if count < 1:
        raise _refuse(op, f"{op.input('Index')[0]!r} is {graph.shape(op.input('Index')[0])}; its last dimension must be known")
    shape, index = add("Shape", [x]), _int64(graph, _in(graph, op, "Index"))
    steps = [add("ReduceProd", [add("Slice", [shape, graph.longs([axis + 1]), graph.longs([count])])], keepdims=1) if axis
             + 1 < count else graph.longs([1])
             for axis in range(count)]
    rows = add("ReduceSum", [add("Mul", [index, add("Concat", steps, axis=0)]), graph.longs([-1])], keepdims=0)
    rest = add("ReduceProd", [add("Concat", [add("Slice", [shape, graph.longs([count]), graph.longs([TO_THE_END])]), graph.longs([1])],
                                  axis=0)], keepdims=1)
    as_rows = add("Concat", [graph.longs([-1]), rest], axis=0)
    flat, updates = (add("Reshape", [value, as_rows]) for value in (x, _in(graph, op, "Updates")))
    add("Reshape", [_add_rows(graph, flat, rows, updates, 2), shape], _out(graph, op))


@converts("argsort")
def _argsort(graph: Graph, op: Operator) -> None:
    x, axis = _in(graph, op, "X"), int(op.attr("axis"))
    extent = graph.add("Gather", [graph.add("Shape", [x]), graph.longs([axis])])
    graph.nodes.append(graph.onnx.helper.make_node("TopK", [x, extent], [_out(graph, op), _out(graph, op, "Indices")], axis=axis, largest=0,
                                                   sorted=1))


# -- sums over rows ----------------------------------------------------------------------------------------------------------


@converts("norm")
def _norm(graph: Graph, op: Operator) -> None:
    x, axis = op.input("X")[0], int(op.attr("axis"))
    squares = graph.add("ReduceSumSquare", [graph.name_of(x)], axes=[axis], keepdims=1)
    length = graph.add("Sqrt", [graph.add("Add", [squares, graph.number(op.attr("epsilon"), x)])])
    graph.add("Div", [graph.name_of(x), length], _out(graph, op))


@converts("squared_l2_norm", "l1_norm")
def _length(graph: Graph, op: Operator) -> None:
    kind = {"squared_l2_norm": "ReduceSumSquare", "l1_norm": "ReduceL1"}[op.type]
    graph.add("Reshape", [graph.add(kind, [_in(graph, op, "X")], keepdims=0), graph.longs([1])], _out(graph, op))


@converts("soft_relu")
def _soft_relu(graph: Graph, op: Operator) -> None:
    x, limit = op.input("X")[0], float(op.attr("threshold"))
    graph.add("Softplus", [graph.add("Clip", [graph.name_of(x), graph.number(-limit, x), graph.number(limit, x)])], _out(graph, op))


# -- new tensors -------------------------------------------------------------------------------------------------------------


@converts("range")
def _range(graph: Graph, op: Operator) -> None:
    graph.add("Range", [_scalar(graph, op, slot) for slot in ("Start", "End", "Step")], _out(graph, op))


@converts("linspace")
def _linspace(graph: Graph, op: Operator) -> None:
    start, to = op.input("Start")[0], _type_of(graph, op.input("Start")[0])
    first, last, count = (_scalar(graph, op, slot) for slot in ("Start", "Stop", "Num"))
    count = _int64(graph, count)
    one = graph.constant(1, np.int64)
    places = graph.add("Cast", [graph.add("Range", [graph.constant(0, np.int64), count, one])], to=to)
    steps = graph.add("Cast", [graph.add("Max", [graph.add("Sub", [count, one]), one])], to=to)
    way = graph.add("Div", [graph.add("Mul", [graph.add("Sub", [last, first]), places]), steps])
    graph.add("Add", [way, graph.add("Reshape", [graph.name_of(start), graph.longs([])])], _out(graph, op))


@converts("fill")
def _fill(graph: Graph, op: Operator) -> None:
    out = op.output("Out")[0]
    graph.constants[graph.written(out)] = np.array(op.attr("value"), graph.dtype(out)).reshape(op.attr("shape"))


@converts("fill_zeros_like")
def _fill_zeros_like(graph: Graph, op: Operator) -> None:
    x = op.input("X")[0]
    graph.add("Expand", [graph.number(0, x), graph.add("Shape", [graph.name_of(x)])], _out(graph, op))


@converts("fill_constant_batch_size_like")
def _fill_constant_batch_size_like(graph: Graph, op: Operator) -> None:
    out, shape, at = op.output("Out")[0], [int(n) for n in op.attr("shape")], int(op.attr("output_dim_idx"))
    extent = graph.add("Gather", [graph.add("Shape", [_in(graph, op, "Input")]), graph.longs([int(op.attr("input_dim_idx"))])])
    parts = [*([graph.longs(shape[:at])] if at else []), extent, *([graph.longs(shape[at + 1:])] if shape[at + 1:] else [])]
    graph.add("Expand", [graph.number(op.attr("value"), out), graph.add("Concat", parts, axis=0)], _out(graph, op))
