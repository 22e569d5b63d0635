"""What operators of DynamicRNN are in ONNX: sequences from the longest to the shortest, step by step.

A rank table is the order of the sequences ([sequences] int64); the sequences it was made from are its own.
"""

from __future__ import annotations

import numpy as np

from ..program import Operator
from .onnx_blocks import info, inner_graph
from .onnx_graph import Graph
from .onnx_lods import Sequences, numbered, offsets_from, picked, sequences_of
from .onnx_registry import _in, _int64, _out, _refuse, converts


@converts("lod_rank_table")
def _lod_rank_table(graph: Graph, op: Operator) -> None:
    x, level = op.input("X")[0], int(op.attr("level"))
    s, table = sequences_of(graph, op, "X", level=level), op.output("Out")[0]
    lods = graph.lods(x)[:level + 1]
    graph.add_node("TopK", [s.lengths, graph.add("Reshape", [s.count, graph.longs([1])])],
                   [graph.fresh("lengths"), graph.written(table)], axis=0)
    graph.put_lods(table, lods)


def _order(graph: Graph, op: Operator) -> str:
    return _in(graph, op, "RankTable")


def _ranked(graph: Graph, op: Operator, value: str) -> str:
    """What a value has for each sequence, from the longest to the shortest."""
    return graph.add("Gather", [value, _order(graph, op)])


@converts("max_sequence_len")
def _max_sequence_len(graph: Graph, op: Operator) -> None:
    graph.add("Reshape", [sequences_of(graph, op, "RankTable").longest, graph.longs([1])], _out(graph, op))
    graph.put_lods(op.output("Out")[0], [])


def _by_steps(graph: Graph, op: Operator) -> tuple[str, str]:
    """The rows in the order of their steps, the longest sequence first; and how many rows each step has."""
    add, s = graph.add, sequences_of(graph, op, "RankTable")
    steps = add("Max", [s.longest, graph.constant(1, np.int64)])           # there is one, without rows, where all sequences are empty
    step = add("Unsqueeze", [numbered(graph, steps), graph.longs([1])])
    goes_on = add("Less", [step, _ranked(graph, op, s.lengths)])           # [steps, sequences]
    rows = add("Compress", [add("Reshape", [add("Add", [step, _ranked(graph, op, s.starts)]), graph.longs([-1])]),
                            add("Reshape", [goes_on, graph.longs([-1])])])
    return rows, add("ReduceSum", [_int64(graph, goes_on), graph.longs([1])], keepdims=0)


@converts("lod_tensor_to_array")
def _lod_tensor_to_array(graph: Graph, op: Operator) -> None:
    x, array, add = op.input("X")[0], op.output("Out")[0], graph.add
    value, below = graph.name_of(x), graph.lods(x)[len(graph.lods(op.input("RankTable")[0])):]
    if len(below) > 1:
        raise _refuse(op, f"{x!r} has {len(below)} levels of sequences below that of the table; one is exported")
    parts, counts = _by_steps(graph, op)
    if not below:
        add("SplitToSequence", [add("Gather", [value, parts], axis=0), counts], _out(graph, op), axis=0)
        graph.put_lods(array, [])
        return
    inner, steps = Sequences(graph, below[0]), Sequences(graph, offsets_from(graph, counts))       # a step has so many sequences
    rows, offsets = picked(graph, *(add("Gather", [each, parts]) for each in (inner.starts, inner.lengths)))
    edges = Sequences(graph, add("Gather", [offsets, steps.offsets]))                               # and these rows
    more = add("Add", [counts, graph.constant(1, np.int64)])
    places, of_entries = picked(graph, steps.starts, more)                                          # of the offsets that a step has
    entries = add("Sub", [add("Gather", [offsets, places]), Sequences(graph, of_entries).of_rows(edges.starts)])
    lods = [add("SplitToSequence", [entries, more], axis=0)]
    add("SplitToSequence", [add("Gather", [value, rows], axis=0), edges.lengths], _out(graph, op), axis=0)
    graph.put_lods(array, lods)


@converts("array_to_lod_tensor")
def _array_to_lod_tensor(graph: Graph, op: Operator) -> None:
    array, add, lods = op.input("X")[0], graph.add, graph.lods(op.input("RankTable")[0])
    parts, counts = _by_steps(graph, op)
    rest = [max(dim, 0) for dim in graph.shape(array)[1:]]
    value, below = _joined(graph, graph.name_of(array), np.zeros([0, *rest], graph.dtype(array))), graph.lods(array)
    if not below:
        add("ScatterND", [value, add("Unsqueeze", [parts, graph.longs([1])]), value], _out(graph, op))
        graph.put_lods(op.output("Out")[0], lods)
        return
    entries = _joined(graph, below[0], np.zeros([1], np.int64))            # the offsets that steps have, one step behind the other
    of_steps = Sequences(graph, offsets_from(graph, add("Add", [counts, graph.constant(1, np.int64)])))
    gaps = add("Sub", [add("Slice", [add("Concat", [entries, graph.longs([0])], axis=0), graph.longs([1]), graph.longs([2**63 - 1])]),
                       entries])
    lengths = add("Compress", [gaps, add("Greater", [of_steps.place_from_end, graph.constant(0, np.int64)])])
    by_steps, at = Sequences(graph, offsets_from(graph, lengths)), add("Unsqueeze", [parts, graph.longs([1])])
    rows, offsets = picked(graph, *(add("ScatterND", [each, at, each]) for each in (by_steps.starts, lengths)))
    add("Gather", [value, rows], _out(graph, op), axis=0)
    graph.put_lods(op.output("Out")[0], [*lods, offsets])


def _joined(graph: Graph, array: str, nothing: np.ndarray) -> str:
    """All elements, one behind the other; ``nothing`` where a loop over empty sequences has written no element."""
    some, none, type = graph.inside(graph.block), graph.inside(graph.block), int(graph.onnx.helper.np_dtype_to_tensor_dtype(nothing.dtype))
    results = [some.add("ConcatFromSequence", [array], axis=0), none.add("Identity", [none.constant(nothing, nothing.dtype)])]
    branches = {label: inner_graph(branch, "join", [], [info(branch, result, type)])
                for label, branch, result in zip(("then_branch", "else_branch"), (some, none), results)}
    return graph.add("If", [graph.add("Greater", [graph.add("SequenceLength", [array]), graph.constant(0, np.int64)])], **branches)


@converts("reorder_lod_tensor_by_rank")
def _reorder_lod_tensor_by_rank(graph: Graph, op: Operator) -> None:
    x, lods, out = op.input("X")[0], graph.lods(op.input("X")[0]), op.output("Out")[0]
    if not lods:
        graph.add("Gather", [graph.name_of(x), _order(graph, op)], _out(graph, op), axis=0)
        graph.put_lods(out, [])
        return
    if len(lods) > 1:
        raise _refuse(op, f"{x!r} has {len(lods)} levels of sequences; one is exported")
    s = Sequences(graph, lods[0])
    rows, offsets = picked(graph, _ranked(graph, op, s.starts), _ranked(graph, op, s.lengths))
    graph.add("Gather", [graph.name_of(x), rows], _out(graph, op), axis=0)
    graph.put_lods(out, [offsets])


@converts("shrink_rnn_memory")
def _shrink_rnn_memory(graph: Graph, op: Operator) -> None:
    """Keep what belongs to the sequences that go on: they come first."""
    x, add, lods, out = op.input("X")[0], graph.add, graph.lods(op.input("X")[0]), op.output("Out")[0]
    step = _int64(graph, add("Reshape", [_in(graph, op, "I"), graph.longs([])]))
    goes_on = _int64(graph, add("Greater", [sequences_of(graph, op, "RankTable").lengths, step]))
    count = add("ReduceSum", [goes_on], keepdims=1)
    first = graph.longs([0])
    if not lods:
        add("Slice", [graph.name_of(x), first, count], _out(graph, op))
        graph.put_lods(out, [])
        return
    if len(lods) > 1:
        raise _refuse(op, f"{x!r} has {len(lods)} levels of sequences; one is exported")
    offsets = add("Slice", [lods[0], first, add("Add", [count, graph.longs([1])])])
    rows = add("Slice", [offsets, graph.longs([-1]), graph.longs([2**63 - 1])])
    add("Slice", [graph.name_of(x), first, rows], _out(graph, op))
    graph.put_lods(out, [offsets])
