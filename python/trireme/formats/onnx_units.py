"""What layers and steps of recurrent layers that are one operator here are in ONNX."""

from __future__ import annotations

import numpy as np

from ..program import Operator
from .onnx_converters import _flat
from .onnx_graph import Graph
from .onnx_lods import numbered, sequences_of
from .onnx_pieces import extent, part_of_shape, shape_of
from .onnx_registry import _has, _in, _out, _refuse, converts

# By name, and by the number that gru_unit has.
ACTIVATIONS: dict[str | int, str] = {"identity": "Identity", "sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", 0: "Identity",
                                     1: "Sigmoid", 2: "Tanh", 3: "Relu"}


def parts(graph: Graph, value: str, first: int, last: int) -> str:
    return graph.add("Slice", [value, graph.longs([first]), graph.longs([last]), graph.longs([1])])


@converts("fc")
def _fc(graph: Graph, op: Operator) -> None:
    out = op.output("Out")[0]
    value = graph.add("MatMul", [_flat(graph, op.input("Input")[0], int(op.attr("in_num_col_dims"))), _in(graph, op, "W")])
    if _has(op, "Bias"):
        value = graph.add("Add", [value, _in(graph, op, "Bias")])
    kind = {"": "Identity", "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}[op.attr("activation_type")]
    if len(graph.shape(out)) == 2:
        graph.add(kind, [value], _out(graph, op))
    else:
        shape = shape_of(graph, part_of_shape(graph, _in(graph, op, "Input"), 0, int(op.attr("in_num_col_dims"))), graph.shape(out)[-1])
        graph.add("Reshape", [graph.add(kind, [value]), shape], _out(graph, op))


@converts("lstm_unit")
def _lstm_unit(graph: Graph, op: Operator) -> None:
    x, width = op.input("X")[0], graph.shape(op.output("C")[0])[1]
    i, f, o, j = (parts(graph, graph.name_of(x), k * width, (k + 1) * width) for k in range(4))
    forget = graph.add("Sigmoid", [graph.add("Add", [f, graph.number(op.attr("forget_bias"), x)])])
    new = graph.add("Mul", [graph.add("Sigmoid", [i]), graph.add("Tanh", [j])])
    cell = graph.add("Add", [graph.add("Mul", [_in(graph, op, "C_prev"), forget]), new], _out(graph, op, "C"))
    graph.add("Mul", [graph.add("Tanh", [cell]), graph.add("Sigmoid", [o])], _out(graph, op, "H"))


def gru_weights(graph: Graph, op: Operator, width: int) -> list[str]:
    """The two matrices of a weight, which lie one after the other: of the gates, and of the candidate."""
    weights = graph.add("Reshape", [_in(graph, op, "Weight"), graph.longs([-1])])
    return [graph.add("Reshape", [graph.add("Slice", [weights, graph.longs([first * width**2]), graph.longs([last * width**2])]),
                                  graph.longs([width, -1])])
            for first, last in ((0, 2), (2, 3))]


def gru_step(graph: Graph, op: Operator, x: str, before: str, weights: list[str], width: int, like: str, out: str | None = None) -> str:
    """The state behind a step, whose input has been projected."""
    sums = graph.add("Add", [parts(graph, x, 0, 2 * width), graph.add("MatMul", [before, weights[0]])])
    gates = graph.add(ACTIVATIONS[op.attr("gate_activation")], [sums])
    update, reset = (parts(graph, gates, k * width, (k + 1) * width) for k in range(2))
    kept = graph.add("MatMul", [graph.add("Mul", [reset, before]), weights[1]])
    candidate = graph.add(ACTIVATIONS[op.attr("activation")], [graph.add("Add", [parts(graph, x, 2 * width, 3 * width), kept])])
    old, new = (before, candidate) if op.attr("origin_mode") else (candidate, before)      # update counts for the first one
    rest = graph.add("Sub", [graph.number(1.0, like), update])
    return graph.add("Add", [graph.add("Mul", [update, old]), graph.add("Mul", [rest, new])], out)


@converts("gru_unit")
def _gru_unit(graph: Graph, op: Operator) -> None:
    x, before, width = _in(graph, op, "Input"), _in(graph, op, "HiddenPrev"), graph.shape(op.input("HiddenPrev")[0])[1]
    if _has(op, "Bias"):
        x = graph.add("Add", [x, _in(graph, op, "Bias")])
    gru_step(graph, op, x, before, gru_weights(graph, op, width), width, op.input("Input")[0], _out(graph, op, "Hidden"))


@converts("data_norm")
def _data_norm(graph: Graph, op: Operator) -> None:
    size = _in(graph, op, "BatchSize")
    centred = graph.add("Sub", [_in(graph, op, "X"), graph.add("Div", [_in(graph, op, "BatchSum"), size])])
    graph.add("Mul", [centred, graph.add("Sqrt", [graph.add("Div", [size, _in(graph, op, "BatchSquareSum")])])], _out(graph, op, "Y"))


@converts("cvm")
def _cvm(graph: Graph, op: Operator) -> None:
    x = op.input("X")[0]
    width = graph.shape(x)[1]
    if not op.attr("use_cvm"):
        graph.add("Slice", [graph.name_of(x), graph.longs([2]), graph.longs([width]), graph.longs([1])], _out(graph, op, "Y"))
        return
    shown, clicked = (graph.add("Log", [graph.add("Add", [parts(graph, graph.name_of(x), k, k + 1), graph.number(1.0, x)])])
                      for k in range(2))
    rest = parts(graph, graph.name_of(x), 2, width)
    graph.add("Concat", [shown, graph.add("Sub", [clicked, shown]), rest], _out(graph, op, "Y"), axis=1)


@converts("add_position_encoding")
def _add_position_encoding(graph: Graph, op: Operator) -> None:
    x = op.input("X")[0]
    width, to, add = graph.shape(x)[-1], graph.type_of(x), graph.add
    if width < 0:
        raise _refuse(op, f"{x!r} is {graph.shape(x)}; the width must be known")
    half = width // 2
    slow = 10000.0 ** (np.arange(half) / (half - 1)) if half > 1 else np.full([half], 10000.0)
    place = numbered(graph, extent(graph, graph.name_of(x), 1)) if len(graph.shape(x)) == 3 else sequences_of(graph, op, "X").place
    places = add("Unsqueeze", [add("Cast", [place], to=to), graph.longs([1])])
    angles = add("Div", [places, graph.number(slow, x)])
    waves = add("Mul", [add("Concat", [add("Sin", [angles]), add("Cos", [angles])], axis=1), graph.number(op.attr("beta"), x)])
    add("Add", [add("Mul", [graph.name_of(x), graph.number(op.attr("alpha"), x)]), waves], _out(graph, op))


@converts("sum_of_squares")
def _sum_of_squares(graph: Graph, op: Operator) -> None:
    squares = [graph.add("ReduceSumSquare", [graph.name_of(name)], keepdims=0) for name in op.input("X")]
    graph.add("Reshape", [graph.add("Sum", squares), graph.longs([1])], _out(graph, op))


@converts("clip_by_norm")
def _clip_by_norm(graph: Graph, op: Operator) -> None:
    x = op.input("X")[0]
    most = graph.number(op.attr("max_norm"), x)
    norm = graph.add("Max", [graph.add("ReduceL2", [graph.name_of(x)], keepdims=0), most])
    graph.add("Mul", [graph.name_of(x), graph.add("Div", [most, norm])], _out(graph, op))


@converts("fill_zeros_like2")
def _fill_zeros_like2(graph: Graph, op: Operator) -> None:
    zero = graph.number(np.zeros([]), op.output("Out")[0])
    graph.add("Expand", [zero, graph.add("Shape", [_in(graph, op, "X")])], _out(graph, op))
