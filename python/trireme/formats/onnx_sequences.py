"""What operators on sequences are in ONNX: rows are found by the offsets of the sequences."""

from __future__ import annotations

import numpy as np

from ..program import Operator
from .onnx_graph import Graph
from .onnx_lods import TO_THE_END, Sequences, like_rows, numbered, offsets_from, picked, sequences_of, with_rows
from .onnx_pieces import extent
from .onnx_registry import _has, _in, _int64, _out, _refuse, _type_of, converts


def _outer_lods(graph: Graph, op: Operator, slot: str) -> list[str]:
    return graph.lods(op.input(slot)[0])[:-1]


# -- one row for each sequence -----------------------------------------------------------------------------------------------


@converts("sequence_pool")
def _sequence_pool(graph: Graph, op: Operator) -> None:
    x, add, how, s = op.input("X")[0], graph.add, str(op.attr("pooltype")).upper(), sequences_of(graph, op, "X")
    rank = len(graph.shape(x))
    lods = _outer_lods(graph, op, "X")
    lengths = like_rows(graph, s.lengths, rank)
    if how in ("FIRST", "LAST"):
        row = s.starts if how == "FIRST" else add("Sub", [s.ends, graph.constant(1, np.int64)])
        safe = add("Where", [add("Greater", [s.lengths, graph.constant(0, np.int64)]), row, s.rows])
        value = add("Gather", [with_rows(graph, graph.name_of(x), graph.number(0.0, x)), safe], axis=0)
    elif how == "MAX":
        value = s.over("ReduceMax", graph.name_of(x), graph.number(-np.inf, x))
    else:
        value = s.over("ReduceSum", graph.name_of(x), graph.number(0.0, x))
        if how != "SUM":
            count = add("Cast", [add("Max", [lengths, graph.constant(1, np.int64)])], to=_type_of(graph, x))
            value = add("Div", [value, count if how == "AVERAGE" else add("Sqrt", [count])])
    is_some = add("Greater", [lengths, graph.constant(0, np.int64)])
    add("Where", [is_some, value, graph.number(op.attr("pad_value"), x)], _out(graph, op))
    graph.put_lods(op.output("Out")[0], lods)


@converts("sequence_softmax")
def _sequence_softmax(graph: Graph, op: Operator) -> None:
    x, add, s = op.input("X")[0], graph.add, sequences_of(graph, op, "X")
    flat = add("Reshape", [graph.name_of(x), graph.longs([-1])])
    top = s.over("ReduceMax", flat, graph.number(-np.inf, x))
    grown = add("Exp", [add("Sub", [flat, s.of_rows(top)])])
    sums = s.over("ReduceSum", grown, graph.number(0.0, x))
    add("Reshape", [add("Div", [grown, s.of_rows(sums)]), add("Shape", [graph.name_of(x)])], _out(graph, op))


@converts("sequence_pad")
def _sequence_pad(graph: Graph, op: Operator) -> None:
    x, add, s, length = op.input("X")[0], graph.add, sequences_of(graph, op, "X"), int(op.attr("padded_length"))
    rank = len(graph.shape(x))
    fill = _in(graph, op, "PadValue")
    if len(graph.shape(op.input("PadValue")[0])) and graph.shape(op.input("PadValue")[0]) != [1]:
        fill = add("Reshape", [fill, add("Slice", [add("Shape", [graph.name_of(x)]), graph.longs([1]), graph.longs([TO_THE_END])])])
    lods = _outer_lods(graph, op, "X")
    steps = s.side_by_side(graph.name_of(x), fill, count=s.longest if length < 0 else graph.constant(length, np.int64))
    add("Transpose", [steps], _out(graph, op), perm=[1, 0, *range(2, rank + 1)])
    graph.put_lods(op.output("Out")[0], lods)
    if op.output("Length"):
        add("Unsqueeze", [s.lengths, graph.longs([1])], _out(graph, op, "Length"))
        graph.put_lods(op.output("Length")[0], [])


@converts("sequence_unpad")
def _sequence_unpad(graph: Graph, op: Operator) -> None:
    x, add = op.input("X")[0], graph.add
    lengths = add("Reshape", [_int64(graph, _in(graph, op, "Length")), graph.longs([-1])])
    lods = graph.lods(x)
    offsets = offsets_from(graph, lengths)
    s = Sequences(graph, offsets)
    places = add("Concat", [add("Unsqueeze", [each, graph.longs([1])]) for each in (s.owner, s.place)], axis=1)
    rows = add("GatherND", [graph.name_of(x), places])
    add("Unsqueeze" if len(graph.shape(x)) == 2 else "Identity", [rows, *([graph.longs([1])] if len(graph.shape(x)) == 2 else [])],
        _out(graph, op))
    graph.put_lods(op.output("Out")[0], [*lods, offsets])


# -- other rows --------------------------------------------------------------------------------------------------------------


@converts("sequence_reverse")
def _sequence_reverse(graph: Graph, op: Operator) -> None:
    s, x = sequences_of(graph, op, "X"), _in(graph, op, "X")
    graph.add("Gather", [x, graph.add("Add", [s.of_rows(s.starts), s.place_from_end])], _out(graph, op, "Y"), axis=0)


@converts("sequence_expand")
def _sequence_expand(graph: Graph, op: Operator) -> None:
    x, lods = _in(graph, op, "X"), graph.lods(op.input("X")[0])
    times = sequences_of(graph, op, "Y", level=int(op.attr("ref_level")))
    copies = Sequences(graph, offsets_from(graph, times.lengths))          # which row, or sequence, each copy is of
    if not lods:
        graph.add("Gather", [x, copies.owner], _out(graph, op), axis=0)
        return
    s = sequences_of(graph, op, "X")
    rows, offsets = picked(graph, copies.of_rows(s.starts), copies.of_rows(s.lengths))
    graph.add("Gather", [x, rows], _out(graph, op), axis=0)
    graph.put_lods(op.output("Out")[0], [offsets])


@converts("sequence_expand_as")
def _sequence_expand_as(graph: Graph, op: Operator) -> None:
    s, lods = sequences_of(graph, op, "Y"), graph.lods(op.input("Y")[0])
    graph.add("Gather", [_in(graph, op, "X"), s.owner], _out(graph, op), axis=0)
    graph.put_lods(op.output("Out")[0], lods)


@converts("sequence_slice")
def _sequence_slice(graph: Graph, op: Operator) -> None:
    s, x = sequences_of(graph, op, "X"), _in(graph, op, "X")
    first, lengths = (graph.add("Reshape", [_int64(graph, _in(graph, op, slot)), graph.longs([-1])]) for slot in ("Offset", "Length"))
    rows, offsets = picked(graph, graph.add("Add", [s.starts, first]), lengths)
    lods = _outer_lods(graph, op, "X")
    graph.add("Gather", [x, rows], _out(graph, op), axis=0)
    graph.put_lods(op.output("Out")[0], [*lods, offsets])


@converts("sequence_concat")
def _sequence_concat(graph: Graph, op: Operator) -> None:
    add, all = graph.add, [sequences_of(graph, op, "X", i) for i in range(len(op.input("X")))]
    values, lods = [graph.name_of(name) for name in op.input("X")], _outer_lods(graph, op, "X")
    offsets = offsets_from(graph, _added(graph, [s.lengths for s in all]))
    begins, places = Sequences(graph, offsets).starts, []
    for s in all:                                      # where the rows of each input go
        places.append(add("Add", [s.of_rows(begins), s.place]))
        begins = add("Add", [begins, s.lengths])
    rows = add("Concat", values, axis=0)
    add("ScatterND", [rows, add("Unsqueeze", [add("Concat", places, axis=0), graph.longs([1])]), rows], _out(graph, op))
    graph.put_lods(op.output("Out")[0], [*lods, offsets])


def _added(graph: Graph, values: list[str]) -> str:
    """The sum of whole numbers, which Sum does not take."""
    total = values[0]
    for value in values[1:]:
        total = graph.add("Add", [total, value])
    return total


@converts("sequence_reshape")
def _sequence_reshape(graph: Graph, op: Operator) -> None:
    x, new = op.input("X")[0], int(op.attr("new_dim"))
    s, width = sequences_of(graph, op, "X"), extent(graph, graph.name_of(x), 1)
    offsets = graph.add("Div", [graph.add("Mul", [s.offsets, width]), graph.constant(new, np.int64)])
    lods = _outer_lods(graph, op, "X")
    graph.add("Reshape", [graph.name_of(x), graph.longs([-1, new])], _out(graph, op))
    graph.put_lods(op.output("Out")[0], [*lods, offsets])


@converts("lod_reset")
def _lod_reset(graph: Graph, op: Operator) -> None:
    x = _in(graph, op, "X")
    if not _has(op, "Y"):
        lods = [graph.longs([int(offset) for offset in op.attr("target_lod")])]
    else:
        lods = graph.lods(op.input("Y")[0]) or [graph.add("Reshape", [_int64(graph, _in(graph, op, "Y")), graph.longs([-1])])]
    graph.add("Identity", [x], _out(graph, op))
    graph.put_lods(op.output("Out")[0], lods)


@converts("sequence_scatter")
def _sequence_scatter(graph: Graph, op: Operator) -> None:
    x, add, s = op.input("X")[0], graph.add, sequences_of(graph, op, "Ids")
    width = add("Gather", [add("Shape", [graph.name_of(x)]), graph.constant(1, np.int64)])
    places = add("Add", [add("Mul", [s.owner, width]), add("Reshape", [_int64(graph, _in(graph, op, "Ids")), graph.longs([-1])])])
    flat, updates = (add("Reshape", [value, graph.longs([-1])]) for value in (graph.name_of(x), _in(graph, op, "Updates")))
    shape = add("Shape", [graph.name_of(x)])
    add("Reshape", [add("ScatterElements", [flat, places, updates], axis=0, reduction="add"), shape], _out(graph, op))


# -- rows that stay ----------------------------------------------------------------------------------------------------------


def _keep(graph: Graph, op: Operator, slot: str, out: str, stays: str) -> None:
    """Leave out the rows of which ``stays`` ([rows] bool) is false."""
    s, x, lods = sequences_of(graph, op, slot), _in(graph, op, slot), _outer_lods(graph, op, slot)
    counted = graph.add("CumSum", [_int64(graph, stays), graph.constant(0, np.int64)])
    offsets = graph.add("Gather", [graph.add("Concat", [graph.longs([0]), counted], axis=0), s.offsets])
    graph.add("Compress", [x, stays], _out(graph, op, out), axis=0)
    graph.put_lods(op.output(out)[0], [*lods, offsets])


@converts("sequence_erase")
def _sequence_erase(graph: Graph, op: Operator) -> None:
    x, tokens = op.input("X")[0], [int(token) for token in op.attr("tokens")]
    ids = graph.add("Reshape", [graph.name_of(x), graph.longs([-1, 1])])
    hits = graph.add("Cast", [graph.add("Equal", [ids, graph.constant(tokens, graph.dtype(x))])], to=int(graph.onnx.TensorProto.INT64))
    count = graph.add("ReduceSum", [hits, graph.longs([1])], keepdims=0)
    _keep(graph, op, "X", "Out", graph.add("Equal", [count, graph.constant(0, np.int64)]))


@converts("ctc_align")
def _ctc_align(graph: Graph, op: Operator) -> None:
    x, s = op.input("Input")[0], sequences_of(graph, op, "Input")
    ids = graph.add("Reshape", [graph.name_of(x), graph.longs([-1])])
    stays = graph.add("Not", [graph.add("Equal", [ids, graph.number(op.attr("blank"), x)])])
    if op.attr("merge_repeated"):
        before = graph.add("Slice", [graph.add("Concat", [graph.constant([0], graph.dtype(x)), ids], axis=0), graph.longs([0]),
                                     graph.longs([-1])])
        is_first = graph.add("Equal", [s.place, graph.constant(0, np.int64)])
        stays = graph.add("And", [stays, graph.add("Or", [is_first, graph.add("Not", [graph.add("Equal", [ids, before])])])])
    _keep(graph, op, "Input", "Output", stays)


# -- windows -----------------------------------------------------------------------------------------------------------------


def _windows(graph: Graph, s: Sequences, value: str, start: int, length: int, fill: str, padding: str | None = None) -> str:
    """The rows from ``start`` on that follow each row, [rows, length, ...]; beyond the ends of a sequence ``fill``, or rows of
    ``padding``."""
    add = graph.add
    places = add("Add", [add("Unsqueeze", [s.numbers, graph.longs([1])]), graph.longs(range(start, start + length))])
    first, end = (add("Unsqueeze", [s.of_rows(each), graph.longs([1])]) for each in (s.starts, s.ends))
    is_before, is_behind = add("Less", [places, first]), add("GreaterOrEqual", [places, end])
    if padding is None:
        safe = add("Where", [add("Or", [is_before, is_behind]), s.rows, places])
        return add("Gather", [with_rows(graph, value, fill), safe], axis=0)
    middle = add("Add", [s.rows, graph.constant(max(-start, 0), np.int64)])
    before, behind = (add("Add", [middle, add("Sub", [places, edge])]) for edge in (first, end))
    safe = add("Where", [is_before, before, add("Where", [is_behind, behind, places])])
    return add("Gather", [add("Concat", [value, padding], axis=0), safe], axis=0)


@converts("sequence_conv")
def _sequence_conv(graph: Graph, op: Operator) -> None:
    x, length = op.input("X")[0], int(op.attr("contextLength"))
    padding = _in(graph, op, "PaddingData") if op.attr("paddingTrainable") else None
    windows = _windows(graph, sequences_of(graph, op, "X"), graph.name_of(x), int(op.attr("contextStart")), length, graph.number(0.0, x),
                       padding)
    graph.add("MatMul", [graph.add("Flatten", [windows], axis=1), _in(graph, op, "Filter")], _out(graph, op))


@converts("sequence_enumerate")
def _sequence_enumerate(graph: Graph, op: Operator) -> None:
    x, length = op.input("X")[0], int(op.attr("win_size"))
    windows = _windows(graph, sequences_of(graph, op, "X"), graph.name_of(x), 0, length, graph.number(op.attr("pad_value"), x))
    graph.add("Reshape", [windows, graph.longs([-1, length])], _out(graph, op))


@converts("row_conv")
def _row_conv(graph: Graph, op: Operator) -> None:
    x, length = op.input("X")[0], graph.shape(op.input("Filter")[0])[0]
    windows = _windows(graph, sequences_of(graph, op, "X"), graph.name_of(x), 0, length, graph.number(0.0, x))
    graph.add("ReduceSum", [graph.add("Mul", [windows, _in(graph, op, "Filter")]), graph.longs([1])], _out(graph, op), keepdims=0)


@converts("im2sequence")
def _im2sequence(graph: Graph, op: Operator) -> None:
    x, add = op.input("X")[0], graph.add
    channels, *extents = graph.shape(x)[1:]
    if _has(op, "Y") or min(channels, *extents) < 0:
        raise _refuse(op, f"{x!r} is {graph.shape(x)}; images of known sizes alone are exported, without true sizes in Y")
    kernels, strides, pads = ([int(n) for n in op.attr(name)] for name in ("kernels", "strides", "paddings"))
    # rounded towards 0, as in C
    counts = [int((n + pads[i] + pads[i + 2] - kernels[i] + strides[i] - 1) / strides[i]) + 1 for i, n in enumerate(extents)]
    reach = [(counts[i] - 1) * strides[i] + kernels[i] - n - pads[i] for i, n in enumerate(extents)]
    ends = [max(pads[i + 2], reach[i]) for i in range(2)]
    value = add("Pad", [graph.name_of(x), graph.longs([0, 0, *pads[:2], 0, 0, *ends]),
                        graph.number(0.0, x)]) if any(pads + ends) else graph.name_of(x)
    # [images, channels, down, kernel height, right, kernel width]
    for axis, count, stride, kernel in zip((2, 4), counts, strides, kernels):
        value = add("Gather", [value, graph.constant(np.arange(count)[:, None] * stride + np.arange(kernel), np.int64)], axis=axis)
    ordered = add("Transpose", [value], perm=[0, 2, 4, 1, 3, 5])
    add("Reshape", [ordered, graph.longs([-1, channels * kernels[0] * kernels[1]])], _out(graph, op))
    images = add("Gather", [add("Shape", [graph.name_of(x)]), graph.constant(0, np.int64)])
    numbers = numbered(graph, add("Add", [images, graph.constant(1, np.int64)]))
    graph.put_lods(op.output("Out")[0], [add("Mul", [numbers, graph.constant(counts[0] * counts[1], np.int64)])])
