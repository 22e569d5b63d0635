"""What recurrent layers over sequences are in ONNX: a Scan over the steps of all sequences side by side.

A sequence that is over goes on with steps that nobody looks at.
"""

from __future__ import annotations

from ..program import Operator
from .onnx_blocks import scanned
from .onnx_graph import Graph
from .onnx_lods import Sequences, sequences_of
from .onnx_registry import _has, _in, _out, _type_of, converts
from .onnx_units import ACTIVATIONS, gru_step, gru_weights, parts


def _activated(graph: Graph, op: Operator, name: str, value: str) -> str:
    return graph.add(ACTIVATIONS[op.attr(name)], [value])


def _state(graph: Graph, op: Operator, slot: str, s: Sequences, width: int, like: str) -> str:
    """A state before the first step: an input, or zeros."""
    if _has(op, slot):
        return _in(graph, op, slot)
    shape = graph.add("Concat", [graph.add("Reshape", [s.count, graph.longs([1])]), graph.longs([width])], axis=0)
    return graph.add("Expand", [graph.number(0.0, like), shape])


def _along(graph: Graph, op: Operator, s: Sequences, value: str, like: str) -> tuple[str, int]:
    return s.side_by_side(value, graph.number(0.0, like), bool(op.attr("is_reverse"))), _type_of(graph, like)


@converts("gru")
def _gru(graph: Graph, op: Operator) -> None:
    x, s = op.input("Input")[0], sequences_of(graph, op, "Input")
    width, to = graph.shape(op.input("Weight")[0])[0], _type_of(graph, x)
    rows = graph.add("Add", [graph.name_of(x), _in(graph, op, "Bias")]) if _has(op, "Bias") else graph.name_of(x)
    weights = gru_weights(graph, op, width)

    def step(body: Graph, states: list[str], items: list[str]) -> tuple[list[str], list[tuple[str, int]]]:
        hidden = gru_step(body, op, items[0], states[0], weights, width, x)
        return [hidden], [(hidden, to)]

    _, [hidden] = scanned(graph, [(_state(graph, op, "H0", s, width, x), to)], [_along(graph, op, s, rows, x)], step)
    graph.add("Identity", [s.in_a_row(hidden, bool(op.attr("is_reverse")))], _out(graph, op, "Hidden"))


class _Lstm:
    """What lstm and lstmp have in common: the gates, and the cell."""

    def __init__(self, graph: Graph, op: Operator) -> None:
        self.op, self.x, bias = op, op.input("Input")[0], _in(graph, op, "Bias")
        self.width = graph.shape(op.input("Weight")[0])[1] // 4
        self.weight = _in(graph, op, "Weight")
        self.rows = graph.add("Add", [graph.name_of(self.x), parts(graph, bias, 0, 4 * self.width)])
        self.peepholes = [parts(graph, bias, k * self.width, (k + 1) * self.width) for k in (4, 5, 6)] if op.attr("use_peepholes") else None

    def step(self, body: Graph, item: str, hidden: str, cell: str) -> tuple[str, str]:
        """The hidden state and the cell behind a step."""
        add, op = body.add, self.op
        sums = add("Add", [item, add("MatMul", [hidden, self.weight])])
        candidate, enters, stays, leaves = (parts(body, sums, k * self.width, (k + 1) * self.width) for k in range(4))
        if self.peepholes:
            enters, stays = (add("Add", [gate, add("Mul", [cell, peephole])]) for gate, peephole in zip((enters, stays), self.peepholes))
        enters, stays = (_activated(body, op, "gate_activation", gate) for gate in (enters, stays))
        new = add("Add", [add("Mul", [_activated(body, op, "candidate_activation", candidate), enters]), add("Mul", [cell, stays])])
        new = self.clipped(body, "cell_clip", new)
        if self.peepholes:
            leaves = add("Add", [leaves, add("Mul", [new, self.peepholes[2]])])
        return add("Mul", [_activated(body, op, "gate_activation", leaves), _activated(body, op, "cell_activation", new)]), new

    def clipped(self, graph: Graph, name: str, value: str) -> str:
        limit = float(self.op.attr(name)) if self.op.has_attr(name) else 0.0
        return graph.add("Clip", [value, graph.number(-limit, self.x), graph.number(limit, self.x)]) if limit > 0 else value


@converts("lstm", "lstmp")
def _lstm(graph: Graph, op: Operator) -> None:
    net, s = _Lstm(graph, op), sequences_of(graph, op, "Input")
    to, is_projected = _type_of(graph, net.x), op.type == "lstmp"
    projection = _in(graph, op, "ProjWeight") if is_projected else ""
    narrow = graph.shape(op.input("Weight")[0])[0]

    def step(body: Graph, states: list[str], items: list[str]) -> tuple[list[str], list[tuple[str, int]]]:
        hidden, cell = net.step(body, items[0], *states)
        if is_projected:
            hidden = net.clipped(body, "proj_clip", _activated(body, op, "proj_activation", body.add("MatMul", [hidden, projection])))
        return [hidden, cell], [(hidden, to), (cell, to)]

    first = [(_state(graph, op, "H0", s, narrow, net.x), to), (_state(graph, op, "C0", s, net.width, net.x), to)]
    _, outs = scanned(graph, first, [_along(graph, op, s, net.rows, net.x)], step)
    for slot, value in zip(("Projection" if is_projected else "Hidden", "Cell"), outs):
        graph.add("Identity", [s.in_a_row(value, bool(op.attr("is_reverse")))], _out(graph, op, slot))


@converts("attention_lstm")
def _attention_lstm(graph: Graph, op: Operator) -> None:
    x, s = op.input("X")[0], sequences_of(graph, op, "X")
    inner, width, to, zero = graph.shape(x)[1], graph.shape(op.input("C0")[0])[1], _type_of(graph, x), graph.number(0.0, x)
    add, attention, bias = graph.add, _in(graph, op, "AttentionWeight"), _in(graph, op, "LSTMBias")
    of_x, of_cell = (add("Slice", [attention, graph.longs([first]), graph.longs([first + count]), graph.longs([0])])
                     for first, count in ((0, inner), (inner, width)))
    weight = _in(graph, op, "LSTMWeight")
    own = add("MatMul", [graph.name_of(x), of_x])
    if _has(op, "AttentionBias"):
        own = add("Add", [own, _in(graph, op, "AttentionBias")])
    scale, shift = (_in(graph, op, slot) if _has(op, slot) else None for slot in ("AttentionScalar", "AttentionScalarBias"))
    scores = add("Squeeze", [s.side_by_side(own, zero), graph.longs([2])])             # [steps, sequences]
    outside = add("Equal", [s.steps(), s.rows])
    rows = add("Transpose", [s.side_by_side(graph.name_of(x), zero)], perm=[1, 0, 2])  # [sequences, steps, inner]

    def step(body: Graph, states: list[str], items: list[str]) -> tuple[list[str], list[tuple[str, int]]]:
        hidden, cell = states
        score = body.add("Relu", [body.add("Add", [scores, body.add("Transpose", [body.add("MatMul", [cell, of_cell])], perm=[1, 0])])])
        if scale:
            score = body.add("Mul", [score, scale])
            score = body.add("Relu", [body.add("Add", [score, shift]) if shift else score])
        share = body.add("Softmax", [body.add("Where", [outside, body.number(-1e30, x), score])], axis=0)
        share = body.add("Unsqueeze", [body.add("Transpose", [share], perm=[1, 0]), body.longs([1])])
        mixture = body.add("Squeeze", [body.add("MatMul", [share, rows]), body.longs([1])])
        sums = body.add("Add", [body.add("MatMul", [body.add("Concat", [hidden, mixture], axis=1), weight]), bias])
        stays, enters, leaves, candidate = (parts(body, sums, k * width, (k + 1) * width) for k in range(4))
        stays, enters, leaves = (_activated(body, op, "gate_activation", gate) for gate in (stays, enters, leaves))
        entering = body.add("Mul", [enters, _activated(body, op, "candidate_activation", candidate)])
        cell = body.add("Add", [body.add("Mul", [stays, cell]), entering])
        hidden = body.add("Mul", [leaves, _activated(body, op, "cell_activation", cell)])
        return [hidden, cell], [(hidden, to), (cell, to)]

    first = [(_state(graph, op, "H0", s, width, x), to), (_in(graph, op, "C0"), to)]
    _, outs = scanned(graph, first, [(scores, to)], step)
    for slot, value in zip(("Hidden", "Cell"), outs):
        add("Identity", [s.in_a_row(value)], _out(graph, op, slot))
