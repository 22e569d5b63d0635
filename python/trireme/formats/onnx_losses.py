"""What losses are in ONNX, for programs whose target is one."""

from __future__ import annotations

import math

import numpy as np

from ..program import Operator
from .onnx_graph import Graph
from .onnx_pieces import extent
from .onnx_registry import _attr, _has, _in, _out, _type_of, converts


def _picked_or_mixed(graph: Graph, op: Operator, scores: str, logs: str, out: str) -> str:
    """Write and return -logs[label] of each row, or the sum over soft labels; 0 where the label is ignored."""
    label = op.input("Label")[0]
    value = graph.name_of(label)
    if _attr(op, "soft_label", False):
        return graph.add("Neg", [graph.add("ReduceSum", [graph.add("Mul", [value, logs]), graph.longs([-1])], keepdims=1)], out)
    if len(graph.shape(label)) < len(graph.shape(op.input(scores)[0])):
        value = graph.add("Unsqueeze", [value, graph.longs([-1])])
    ignored = graph.add("Equal", [value, graph.number(op.attr("ignore_index"), label)])
    safe = graph.add("Where", [ignored, graph.number(0, label), value])
    loss = graph.add("Neg", [graph.add("GatherElements", [logs, safe], axis=-1)])
    return graph.add("Where", [ignored, graph.number(0.0, op.input(scores)[0]), loss], out)


@converts("softmax_with_cross_entropy")
def _softmax_with_cross_entropy(graph: Graph, op: Operator) -> None:
    logits = _in(graph, op, "Logits")
    if "Softmax" in op.output_names and op.output("Softmax"):
        graph.add("Softmax", [logits], _out(graph, op, "Softmax"), axis=-1)
    _picked_or_mixed(graph, op, "Logits", graph.add("LogSoftmax", [logits], axis=-1), _out(graph, op, "Loss"))


@converts("cross_entropy", "cross_entropy2")
def _cross_entropy(graph: Graph, op: Operator) -> None:
    _picked_or_mixed(graph, op, "X", graph.add("Log", [_in(graph, op, "X")]), _out(graph, op, "Y"))


@converts("rank_loss", "hinge_loss", "margin_rank_loss", "log_loss")
def _of_pairs(graph: Graph, op: Operator) -> None:
    add, first = graph.add, op.input({"rank_loss": "Left", "hinge_loss": "Logits", "margin_rank_loss": "X1",
                                      "log_loss": "Predicted"}[op.type])[0]
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


@converts("bpr_loss")
def _bpr_loss(graph: Graph, op: Operator) -> None:
    x, label = op.input("X")[0], op.input("Label")[0]
    shape, value, add = graph.shape(x), graph.name_of(label), graph.add
    if len(graph.shape(label)) < len(shape):
        value = add("Unsqueeze", [value, graph.longs([-1])])
    ahead = add("Sub", [graph.name_of(x), add("GatherElements", [graph.name_of(x), value], axis=-1)])
    all = add("ReduceSum", [add("Softplus", [ahead]), graph.longs([-1])], keepdims=1)
    others = add("Sub", [all, graph.number(math.log(2.0), x)])             # without the label's own log(1 + exp(0))
    one = graph.constant(1, np.int64)
    count = add("Max", [add("Sub", [extent(graph, graph.name_of(x), -1), one]), one])
    add("Div", [others, add("Cast", [count], to=_type_of(graph, x))], _out(graph, op, "Y"))


@converts("kldiv_loss")
def _kldiv_loss(graph: Graph, op: Operator) -> None:
    x, add, how = op.input("X")[0], graph.add, op.attr("reduction")
    target, zero = _in(graph, op, "Target"), graph.number(0.0, x)
    counts = add("Greater", [target, zero])
    logs = add("Log", [add("Where", [counts, target, graph.number(1.0, x)])])
    value = add("Where", [counts, add("Mul", [target, add("Sub", [logs, graph.name_of(x)])]), zero],
                _out(graph, op, "Loss") if how == "none" else None)
    if how == "none":
        return
    value = add("ReduceMean" if how == "mean" else "ReduceSum", [value], keepdims=0)
    if how == "batchmean":
        rows = add("Gather", [add("Shape", [graph.name_of(x)]), graph.longs([0])])
        value = add("Div", [value, add("Cast", [rows], to=_type_of(graph, x))])
    add("Reshape", [value, graph.longs([1])], _out(graph, op, "Loss"))


@converts("modified_huber_loss")
def _modified_huber_loss(graph: Graph, op: Operator) -> None:
    x, add = op.input("X")[0], graph.add
    one, side = graph.number(1.0, x), add("Sub", [add("Mul", [_in(graph, op, "Y"), graph.number(2.0, x)]), graph.number(1.0, x)])
    margin = add("Mul", [side, graph.name_of(x)])
    short = add("Max", [add("Sub", [one, margin]), graph.number(0.0, x)])
    is_far = add("Less", [margin, graph.number(-1.0, x)])
    add("Where", [is_far, add("Mul", [margin, graph.number(-4.0, x)]), add("Mul", [short, short])], _out(graph, op))


@converts("sigmoid_cross_entropy_with_logits")
def _sigmoid_cross_entropy(graph: Graph, op: Operator) -> None:
    x, add = op.input("X")[0], graph.add
    score, label, zero = graph.name_of(x), _in(graph, op, "Label"), graph.number(0.0, x)
    tail = add("Softplus", [add("Neg", [add("Abs", [score])])])
    loss = add("Add", [add("Sub", [add("Max", [score, zero]), add("Mul", [score, label])]), tail])
    ignored = add("Equal", [label, graph.number(op.attr("ignore_index"), x)])
    if not op.attr("normalize"):
        add("Where", [ignored, zero, loss], _out(graph, op))
        return
    counted = add("ReduceSum", [add("Cast", [add("Not", [ignored])], to=_type_of(graph, x))], keepdims=0)
    add("Div", [add("Where", [ignored, zero, loss]), add("Max", [counted, graph.number(1.0, x)])], _out(graph, op))


@converts("smooth_l1_loss")
def _smooth_l1_loss(graph: Graph, op: Operator) -> None:
    x, add, bend = op.input("X")[0], graph.add, float(op.attr("sigma")) ** 2
    gap = add("Sub", [graph.name_of(x), _in(graph, op, "Y")])
    if _has(op, "InsideWeight"):
        gap = add("Mul", [gap, _in(graph, op, "InsideWeight")])
    size = add("Abs", [gap])
    near = add("Mul", [add("Mul", [gap, gap]), graph.number(bend / 2, x)])
    loss = add("Where", [add("Less", [size, graph.number(1 / bend, x)]), near, add("Sub", [size, graph.number(0.5 / bend, x)])])
    if _has(op, "OutsideWeight"):
        loss = add("Mul", [loss, _in(graph, op, "OutsideWeight")])
    add("ReduceSum", [add("Flatten", [loss], axis=1), graph.longs([1])], _out(graph, op), keepdims=1)


@converts("teacher_student_sigmoid_loss")
def _teacher_student_sigmoid_loss(graph: Graph, op: Operator) -> None:
    x, add = op.input("X")[0], graph.add
    score, label = graph.name_of(x), _in(graph, op, "Label")
    clicks = add("Softplus", [score])
    of_teacher = add("Sub", [add("Mul", [clicks, graph.number(2.0, x)]), add("Mul", [label, score])])
    without = add("Where", [add("Less", [label, graph.number(-1.0, x)]), clicks, add("Sub", [clicks, score])])
    add("Where", [add("Less", [label, graph.number(0.0, x)]), without, of_teacher], _out(graph, op, "Y"))


@converts("hierarchical_sigmoid")
def _hierarchical_sigmoid(graph: Graph, op: Operator) -> None:
    x, add = op.input("X")[0], graph.add
    to = _type_of(graph, x)
    if _has(op, "PathTable"):
        nodes, turns = _in(graph, op, "PathTable"), _in(graph, op, "PathCode")
        inside = add("LessOrEqual", [graph.longs([0]), nodes])
        # the first negative number ends a path
        ended = add("CumSum", [add("Cast", [add("Not", [inside])], to=to), graph.constant(1, np.int64)])
        inside = add("Equal", [ended, graph.number(0.0, x)])
    else:
        classes = int(op.attr("num_classes"))
        label = add("Reshape", [_in(graph, op, "Label"), graph.longs([-1])])
        code = np.arange(classes)[:, None] + classes
        bits = np.arange((classes - 1).bit_length())[None, :]
        nodes, turns = (add("Gather", [graph.constant(table, np.int64), label]) for table in ((code >> (bits + 1)) - 1, code >> bits & 1))
        inside = add("LessOrEqual", [graph.longs([0]), nodes])
    safe = add("Where", [inside, nodes, graph.longs([0])])
    weights = add("Gather", [_in(graph, op, "W"), safe])                   # [n, longest path, width]
    score = add("Squeeze", [add("MatMul", [weights, add("Unsqueeze", [graph.name_of(x), graph.longs([-1])])]), graph.longs([-1])])
    if _has(op, "Bias"):
        score = add("Add", [score, add("Gather", [add("Reshape", [_in(graph, op, "Bias"), graph.longs([-1])]), safe])])
    is_turn = add("Cast", [turns], to=int(graph.onnx.TensorProto.BOOL))
    cost = add("Softplus", [add("Where", [is_turn, add("Neg", [score]), score])])
    add("ReduceSum", [add("Where", [inside, cost, graph.number(0.0, x)]), graph.longs([1])], _out(graph, op), keepdims=1)
