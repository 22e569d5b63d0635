"""What splitting a batch in two by a mask, and merging it again, is in ONNX: rows, or sequences."""

from __future__ import annotations

from ..program import Operator
from .onnx_graph import Graph
from .onnx_lods import Sequences, picked
from .onnx_registry import _in, _out, _refuse, converts


def _mask(graph: Graph, op: Operator) -> str:
    return graph.add("Reshape", [_in(graph, op, "Mask"), graph.longs([-1])])


def _sequences(graph: Graph, op: Operator, slot: str) -> Sequences | None:
    """The sequences of an input, of one level; None if there are rows alone."""
    name = op.input(slot)[0]
    lods = graph.lods(name)
    if len(lods) > 1:
        raise _refuse(op, f"{name!r} has {len(lods)} levels of sequences; rows and one level are exported")
    return Sequences(graph, lods[0]) if lods else None


@converts("split_lod_tensor")
def _split_lod_tensor(graph: Graph, op: Operator) -> None:
    x, s, mask = _in(graph, op, "X"), _sequences(graph, op, "X"), _mask(graph, op)
    for slot, chosen in (("OutTrue", mask), ("OutFalse", graph.add("Not", [mask]))):
        if s is None:
            graph.add("Compress", [x, chosen], _out(graph, op, slot), axis=0)
            continue
        rows, offsets = picked(graph, *(graph.add("Compress", [value, chosen]) for value in (s.starts, s.lengths)))
        graph.add("Gather", [x, rows], _out(graph, op, slot), axis=0)
        graph.put_lods(op.output(slot)[0], [offsets])


@converts("merge_lod_tensor")
def _merge_lod_tensor(graph: Graph, op: Operator) -> None:
    """Rows, or sequences, of both, one behind the other, go back to where the mask took them from."""
    add, mask = graph.add, _mask(graph, op)
    places = add("Transpose", [add("Concat", [add("NonZero", [each]) for each in (mask, add("Not", [mask]))], axis=1)], perm=[1, 0])
    rows = add("Concat", [_in(graph, op, "InTrue"), _in(graph, op, "InFalse")], axis=0)
    yes, no = (_sequences(graph, op, slot) for slot in ("InTrue", "InFalse"))
    if yes is None or no is None:
        add("ScatterND", [rows, places, rows], _out(graph, op))
        return
    starts = add("Concat", [yes.starts, add("Add", [no.starts, yes.rows])], axis=0)
    lengths = add("Concat", [yes.lengths, no.lengths], axis=0)
    order, offsets = picked(graph, *(add("ScatterND", [value, places, value]) for value in (starts, lengths)))
    add("Gather", [rows, order], _out(graph, op), axis=0)
    graph.put_lods(op.output("Out")[0], [offsets])
