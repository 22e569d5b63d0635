"""What losses are in ONNX, for programs whose target is one."""

from __future__ import annotations

from ..framework import Operator
from .onnx_converters import _in, _out, converts
from .onnx_graph import Graph


def _picked_or_mixed(graph: Graph, op: Operator, scores: str, logs: str, out: str) -> None:
    """Write -logs[label] of each row, or the sum over soft labels; 0 where the label is ignored."""
    label = op.input("Label")[0]
    value = graph.name_of(label)
    if op.attr("soft_label"):
        graph.add("Neg", [graph.add("ReduceSum", [graph.add("Mul", [value, logs]), graph.longs([-1])], keepdims=1)], out)
        return
    if len(graph.shape(label)) < len(graph.shape(op.input(scores)[0])):
        value = graph.add("Unsqueeze", [value, graph.longs([-1])])
    ignored = graph.add("Equal", [value, graph.number(op.attr("ignore_index"), label)])
    safe = graph.add("Where", [ignored, graph.number(0, label), value])
    loss = graph.add("Neg", [graph.add("GatherElements", [logs, safe], axis=-1)])
    graph.add("Where", [ignored, graph.number(0.0, op.input(scores)[0]), loss], out)


@converts("softmax_with_cross_entropy")
def _softmax_with_cross_entropy(graph: Graph, op: Operator) -> None:
    logits = _in(graph, op, "Logits")
    if "Softmax" in op.output_names and op.output("Softmax"):
        graph.add("Softmax", [logits], _out(graph, op, "Softmax"), axis=-1)
    _picked_or_mixed(graph, op, "Logits", graph.add("LogSoftmax", [logits], axis=-1), _out(graph, op, "Loss"))


@converts("cross_entropy")
def _cross_entropy(graph: Graph, op: Operator) -> None:
    _picked_or_mixed(graph, op, "X", graph.add("Log", [_in(graph, op, "X")]), _out(graph, op, "Y"))


@converts("rank_loss", "hinge_loss", "margin_rank_loss", "log_loss")
def _of_pairs(graph: Graph, op: Operator) -> None:
    add, first = graph.add, op.input({"rank_loss": "Left", "hinge_loss": "Logits", "margin_rank_loss": "X1", "log_loss": "Predicted"}[op.type])[0]
    score, one, zero = graph.name_of(first), graph.number(1.0, first), graph.number(0.0, first)
    if op.type == "rank_loss":
        ahead = add("Sub", [score, _in(graph, op, "Right")])
        add("Sub", [add("Softplus", [ahead]), add("Mul", [_in(graph, op, "Label"), ahead])], _out(graph, op))
    elif op.type == "hinge_loss":
        side = add("Sub", [add("Mul", [_in(graph, op, "Labels"), graph.number(2.0, first)]), one])
        add("Max", [add("Sub", [one, add("Mul", [side, score])]), zero], _out(graph, op, "Loss"))
    elif op.type == "margin_rank_loss":
        ahead = add("Mul", [_in(graph, op, "Label"), add("Sub", [score, _in(graph, op, "X2")])])
        add("Max", [add("Sub", [graph.number(op.attr("margin"), first), ahead]), zero], _out(graph, op))
    else:
        label, tiny = _in(graph, op, "Labels"), graph.number(op.attr("epsilon"), first)
        yes = add("Mul", [label, add("Log", [add("Add", [score, tiny])])])
        no = add("Mul", [add("Sub", [one, label]), add("Log", [add("Add", [add("Sub", [one, score]), tiny])])])
        add("Neg", [add("Add", [yes, no])], _out(graph, op, "Loss"))


@converts("huber_loss")
def _huber_loss(graph: Graph, op: Operator) -> None:
    x, add = op.input("X")[0], graph.add
    delta, half = graph.number(op.attr("delta"), x), graph.number(0.5, x)
    size = add("Abs", [add("Sub", [_in(graph, op, "Y"), graph.name_of(x)])])
    near = add("Mul", [add("Mul", [size, size]), half])
    far = add("Mul", [delta, add("Sub", [size, add("Mul", [delta, half])])])
    add("Where", [add("LessOrEqual", [size, delta]), near, far], _out(graph, op))


__all__: list[str] = []
