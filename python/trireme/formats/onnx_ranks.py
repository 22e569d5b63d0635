"""What operators of DynamicRNN are in ONNX: sequences from the longest to the shortest, step by step.

A rank table is the order of the sequences ([sequences] int64); the sequences it was made from are its own.
"""

from __future__ import annotations

import numpy as np

from ..framework import Operator
from .onnx_blocks import info, inner_graph
from .onnx_graph import Graph
from .onnx_lods import Sequences, numbered, picked, sequences_of
from .onnx_registry import _in, _int64, _out, _refuse, converts


@converts("lod_rank_table")
def _lod_rank_table(graph: Graph, op: Operator) -> None:
    x, level = op.input("X")[0], int(op.attr("level"))
    lods = graph.lods(x)
    if len(lods) != level + 1:
        raise _refuse(op, f"{x!r} has {len(lods)} levels of sequences here; the last level alone, {len(lods) - 1}, is ranked, not {level}")
    s = sequences_of(graph, op, "X")
    table = op.output("Out")[0]
    graph.add_node("TopK", [s.lengths, graph.add("Reshape", [s.count, graph.longs([1])])], [graph.fresh("lengths"), graph.written(table)], axis=0)
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
    rows = add("Compress", [add("Reshape", [add("Add", [step, _ranked(graph, op, s.starts)]), graph.longs([-1])]), add("Reshape", [goes_on, graph.longs([-1])])])
    return rows, add("ReduceSum", [_int64(graph, goes_on), graph.longs([1])], keepdims=0)


@converts("lod_tensor_to_array")
def _lod_tensor_to_array(graph: Graph, op: Operator) -> None:
    _like_the_table(graph, op)
    rows, counts = _by_steps(graph, op)
    graph.add("SplitToSequence", [graph.add("Gather", [_in(graph, op, "X"), rows], axis=0), counts], _out(graph, op), axis=0)
    graph.put_lods(op.output("Out")[0], [])


def _like_the_table(graph: Graph, op: Operator) -> None:
    x, table = op.input("X")[0], op.input("RankTable")[0]
    if len(graph.lods(x)) != len(graph.lods(table)):
        raise _refuse(op, f"{x!r} has {len(graph.lods(x))} levels of sequences, and the table {len(graph.lods(table))}; steps that are sequences are not exported")


@converts("array_to_lod_tensor")
def _array_to_lod_tensor(graph: Graph, op: Operator) -> None:
    rows, _ = _by_steps(graph, op)
    value, lods = _joined(graph, op.input("X")[0]), graph.lods(op.input("RankTable")[0])
    graph.add("ScatterND", [value, graph.add("Unsqueeze", [rows, graph.longs([1])]), value], _out(graph, op))
    graph.put_lods(op.output("Out")[0], lods)


def _joined(graph: Graph, array: str) -> str:
    """All elements, one behind the other: no rows, where a loop over empty sequences has written no element."""
    value, some, none = graph.name_of(array), graph.inside(graph.block), graph.inside(graph.block)
    nothing = np.zeros([0, *(max(dim, 0) for dim in graph.shape(array)[1:])])
    results = [some.add("ConcatFromSequence", [value], axis=0), none.add("Identity", [none.constant(nothing, graph.dtype(array))])]
    branches = {label: inner_graph(branch, "join", [], [info(branch, result, graph.type_of(array))])
                for label, branch, result in zip(("then_branch", "else_branch"), (some, none), results)}
    return graph.add("If", [graph.add("Greater", [graph.add("SequenceLength", [value]), graph.constant(0, np.int64)])], **branches)


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


__all__: list[str] = []
