"""What operators with a block are in ONNX: If, Loop and Scan, whose graphs read what stands around them by name.

What a block writes into variables of outer blocks becomes outputs of the node: a loop carries them from iteration to iteration, and a
condition that does not hold leaves them as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..native.dtypes import VarType
from ..program import Block, Operator
from .onnx_graph import Graph
from .onnx_registry import _in, _out, _refuse, convert, converts


def _block_of(graph: Graph, op: Operator) -> Block:
    return graph.block.program.block(op.attr("sub_block"))


def _outer(graph: Graph, op: Operator) -> list[str]:
    """The variables of outer blocks that the operator's block writes, each once."""
    return list(dict.fromkeys(op.output("Out")))


def info(graph: Graph, name: str, type: int) -> Any:
    """Describe an input or output of a graph by its type; shapes may change from iteration to iteration."""
    return graph.onnx.helper.make_tensor_value_info(name, type, None)


def sequence_info(graph: Graph, name: str, type: int) -> Any:
    return graph.onnx.helper.make_tensor_sequence_value_info(name, type, None)


def _described(graph: Graph, var: str, names: Sequence[str]) -> list[Any]:
    """Describe a variable's value and the offsets of its sequences; an array has arrays of offsets."""
    kind = sequence_info if _is_array(graph, var) else info
    return [kind(graph, name, graph.onnx.TensorProto.INT64 if i else graph.type_of(var)) for i, name in enumerate(names)]


def _is_array(graph: Graph, var: str) -> bool:
    return bool(graph.var(var).type == VarType.LOD_TENSOR_ARRAY)


def scalar_info(graph: Graph, name: str, type: str) -> Any:
    return graph.onnx.helper.make_tensor_value_info(name, getattr(graph.onnx.TensorProto, type), [])


def inner_graph(graph: Graph, label: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    return graph.onnx.helper.make_graph(graph.nodes, graph.fresh(label), list(inputs), list(outputs))


def _or_nothing(graph: Graph, var: str) -> str:
    """What a variable holds at this place: a tensor without elements where nothing has been written to it."""
    found = graph.find(var)
    if found is not None or _is_array(graph, var):
        return graph.name_of(var)
    shape = [0, *(max(dim, 0) for dim in graph.shape(var)[1:])]
    return graph.constant(np.zeros(shape), graph.dtype(var))


def _handed_out(graph: Graph, variables: Sequence[str], levels: Sequence[int]) -> list[Any]:
    """Make outputs of a graph of what these variables hold at its end, and of the offsets of their sequences: each from a node of its
    own."""
    infos = []
    for var, count in zip(variables, levels, strict=True):
        values = [_or_nothing(graph, var), *_offsets(graph, var, count)]
        infos += _described(graph, var, [graph.add("Identity", [value]) for value in values])
    return infos


def _offsets(graph: Graph, var: str, count: int) -> list[str]:
    """The offsets of a variable's sequences at this place, of ``count`` levels; no sequences where nothing has been written to it."""
    return graph.lods(var) if graph.lods(var) else [graph.longs([0])] * count


def _written(graph: Graph, variables: Sequence[str], levels: Sequence[int]) -> list[str]:
    """Return names for values of these variables and for the offsets of their sequences."""
    names = []
    for var, count in zip(variables, levels, strict=True):
        offsets = [graph.fresh(f"{var}.offsets") for _ in range(count)]
        names += [graph.written(var), *offsets]
        graph.put_lods(var, offsets)
    return names


def _check_levels(graph: Graph, op: Operator, variables: Sequence[str], levels: Sequence[int]) -> None:
    for var, count in zip(variables, levels, strict=True):
        now = len(graph.lods(var))
        if now != count and graph.find(var) is not None:
            raise _refuse(op, f"{var!r} has {now} levels of sequences in one case, and {count} in the other")


# Makes of a graph, states and one step of inputs the new states, and outputs with the types of their elements.
Step = Callable[[Graph, list[str], list[str]], tuple[list[str], list[tuple[str, int]]]]


def scanned(graph: Graph, first: Sequence[tuple[str, int]], along: Sequence[tuple[str, int]], step: Step,
            is_reverse: bool = False) -> tuple[list[str], list[str]]:
    """Append a Scan: ``step`` makes new states and outputs of states and of one step of the inputs, from the first to the last or the other
    way.

    Values come with the types of their elements. Returns the states behind the last step, and the outputs over all steps.
    """
    body = graph.inside(graph.block)
    states, items = ([body.fresh(hint) for _ in given] for hint, given in (("state", first), ("item", along)))
    after, outs = step(body, states, items)
    types = [type for _, type in first]
    inputs = [info(body, name, type) for name, type in zip((*states, *items), (*types, *(type for _, type in along)))]
    outputs = [info(body, body.add("Identity", [name]), type) for name, type in (*zip(after, types, strict=True), *outs)]
    names = [graph.fresh("scanned") for _ in outputs]
    ways = {"scan_input_directions": [1] * len(along), "scan_output_directions": [1] * len(outs)} if is_reverse else {}
    graph.add_node("Scan", [name for name, _ in (*first, *along)], names, body=inner_graph(body, "scan", inputs, outputs),
                   num_scan_inputs=len(along), **ways)
    return names[:len(first)], names[len(first):]


# -- conditions ------------------------------------------------------------------------------------------------------------


@converts("conditional_block")
def _conditional_block(graph: Graph, op: Operator) -> None:
    conditions = [graph.name_of(name) for name in op.input("Cond")]
    if op.attr("is_scalar_condition"):
        holds = graph.add("Reshape", [conditions[0], graph.longs([])])
    else:                                              # if no tensor is empty
        sizes = [graph.add("Size", [condition]) for condition in conditions]
        least = graph.add("Min", sizes) if len(sizes) > 1 else sizes[0]
        holds = graph.add("Greater", [least, graph.constant(0, np.int64)])
    outer, inside, otherwise = _outer(graph, op), graph.inside(_block_of(graph, op)), graph.inside(graph.block)
    convert(inside, inside.block.ops)
    levels = [len(inside.lods(var)) for var in outer]
    _check_levels(graph, op, outer, levels)
    branches = {label: inner_graph(branch, label, [], _handed_out(branch, outer, levels)) for label,
                branch in (("then_branch", inside), ("else_branch", otherwise))}
    graph.add_node("If", [holds], _written(graph, outer, levels), **branches)


# -- loops -----------------------------------------------------------------------------------------------------------------


@converts("while")
def _while(graph: Graph, op: Operator) -> None:
    condition, outer = op.input("Condition")[0], _outer(graph, op)
    body = graph.inside(_block_of(graph, op))
    for var in outer:
        if _is_array(graph, var):
            graph.name_of(var)                         # an empty one, if nothing has been written to it
    levels = [len(graph.lods(var)) for var in outer]
    first = [name for var, count in zip(outer, levels) for name in (_or_nothing(graph, var), *_offsets(graph, var, count))]
    carried = iter(_written(body, outer, levels))
    inputs = [scalar_info(body, body.fresh("iteration"), "INT64"), scalar_info(body, body.fresh("condition"), "BOOL")]
    for var, count in zip(outer, levels):
        inputs += _described(body, var, [next(carried) for _ in range(1 + count)])
    convert(body, body.block.ops)
    _check_levels(body, op, outer, levels)
    goes_on = body.add("Reshape", [body.name_of(condition), body.longs([])])
    outputs = [scalar_info(body, goes_on, "BOOL"), *_handed_out(body, outer, levels)]
    starts = graph.add("Reshape", [graph.name_of(condition), graph.longs([])])
    graph.add_node("Loop", ["", starts, *first], _written(graph, outer, levels), body=inner_graph(body, "while", inputs, outputs))


@converts("recurrent")
def _recurrent(graph: Graph, op: Operator) -> None:
    steps, before, after, outs = op.input("inputs"), list(op.attr("ex_states")), list(op.attr("states")), op.output("outputs")
    first = [graph.name_of(name) for name in (op.input("initial_states") if before else [])]
    body = graph.inside(_block_of(graph, op))
    inputs = [info(body, body.written(var), body.type_of(var)) for var in (*before, *steps)]
    convert(body, body.block.ops)
    for var in (*after, *outs):
        if body.find(var) is None:
            raise _refuse(op, f"its block computes no {var!r}")
    outputs = _handed_out(body, [*after, *outs], [0] * len((*after, *outs)))
    way = [int(op.attr("reverse"))]
    graph.add_node("Scan", [*first, *(graph.name_of(name) for name in steps)],
                   [*(graph.fresh("state") for _ in after), *(graph.written(name) for name in outs)],
                   body=inner_graph(body, "recurrent", inputs, outputs),
                   num_scan_inputs=len(steps), scan_input_directions=way * len(steps), scan_output_directions=way * len(outs))


@converts("rnn_memory_helper")
def _rnn_memory_helper(graph: Graph, op: Operator) -> None:
    graph.add("Identity", [_in(graph, op, "X")], _out(graph, op))
