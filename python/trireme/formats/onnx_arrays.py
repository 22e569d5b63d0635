"""What arrays of steps are in ONNX: sequences of tensors.

Where elements have sequences (LoD), their offsets are in arrays beside: one for each level.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..program import Operator
from .onnx_blocks import inner_graph, scalar_info, sequence_info
from .onnx_graph import Graph
from .onnx_registry import _in, _out, _refuse, converts


def _place(graph: Graph, op: Operator) -> str:
    index = graph.add("Reshape", [_in(graph, op, "I"), graph.longs([])])
    return graph.add("Cast", [index], to=int(graph.onnx.TensorProto.INT64))


@converts("write_to_array")
def _write_to_array(graph: Graph, op: Operator) -> None:
    array, x = op.output("Out")[0], op.input("X")[0]
    before, at = graph.name_of(array), _place(graph, op)
    lods, levels = graph.lods(array), graph.lods(x)
    if len(lods) != len(levels):
        raise _refuse(op, f"{x!r} has {len(levels)} levels of sequences, and elements of {array!r} have {len(lods)}")
    value = _with_element(graph, before, graph.name_of(x), at, graph.dtype(array))
    offsets = [_with_element(graph, level, element, at, np.int64) for level, element in zip(lods, levels)]
    graph.add("Identity", [value], _out(graph, op))
    graph.put_lods(array, offsets)


def _with_element(graph: Graph, array: str, x: str, at: str, dtype: Any) -> str:
    """Insert the element; at a place within the array, it replaces what stands there, and beyond its end empty ones come first."""
    type = int(graph.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    within, beyond = graph.inside(graph.block), graph.inside(graph.block)
    values = [within.add("SequenceInsert", [within.add("SequenceErase", [array, at]), x, at]),
              beyond.add("SequenceInsert", [_padded(beyond, array, at, dtype), x])]
    branches = {label: inner_graph(branch, "write", [], [sequence_info(branch, value, type)])
                for label, branch, value in zip(("then_branch", "else_branch"), (within, beyond), values)}
    return graph.add("If", [graph.add("Less", [at, graph.add("SequenceLength", [array])])], **branches)


def _padded(graph: Graph, array: str, at: str, dtype: Any) -> str:
    """Append elements without elements until the array has a place ``at``."""
    body, type = graph.inside(graph.block), int(graph.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    names = [body.fresh(hint) for hint in ("iteration", "condition", "array")]
    goes_on = body.add("Identity", [names[1]])
    longer = body.add("SequenceInsert", [names[2], body.constant(np.zeros([0]), dtype)])
    inputs = [scalar_info(body, names[0], "INT64"), scalar_info(body, names[1], "BOOL"), sequence_info(body, names[2], type)]
    outputs = [scalar_info(body, goes_on, "BOOL"), sequence_info(body, longer, type)]
    missing = graph.add("Sub", [at, graph.add("SequenceLength", [array])])
    return graph.add("Loop", [missing, "", array], body=inner_graph(body, "pad", inputs, outputs))


@converts("read_from_array")
def _read_from_array(graph: Graph, op: Operator) -> None:
    at, array = _place(graph, op), op.input("X")[0]
    value = _in(graph, op, "X")
    lods = [graph.add("SequenceAt", [level, at]) for level in graph.lods(array)]
    graph.add("SequenceAt", [value, at], _out(graph, op))
    graph.put_lods(op.output("Out")[0], lods)


@converts("lod_array_length")
def _lod_array_length(graph: Graph, op: Operator) -> None:
    graph.add("Reshape", [graph.add("SequenceLength", [_in(graph, op, "X")]), graph.longs([1])], _out(graph, op))


@converts("tensor_array_to_tensor")
def _tensor_array_to_tensor(graph: Graph, op: Operator) -> None:
    array, axis = _in(graph, op, "X"), int(op.attr("axis"))
    graph.add("ConcatFromSequence", [array], _out(graph, op), axis=axis)
    if not op.output("OutIndex"):
        return
    body = graph.inside(graph.block)
    step, condition = body.fresh("iteration"), body.fresh("condition")
    extent = body.add("Gather", [body.add("Shape", [body.add("SequenceAt", [array, step])]), body.constant(axis, np.int64)])
    number = body.add("Cast", [extent], to=int(graph.onnx.TensorProto.INT32))
    outputs = [scalar_info(body, body.add("Identity", [condition]), "BOOL"), scalar_info(body, number, "INT32")]
    inputs = [scalar_info(body, step, "INT64"), scalar_info(body, condition, "BOOL")]
    graph.add("Loop", [graph.add("SequenceLength", [array]), ""], _out(graph, op, "OutIndex"),
              body=inner_graph(body, "extents", inputs, outputs))
