"""What metrics that look at one batch are in ONNX."""

from __future__ import annotations

import numpy as np

from ..program import Operator
from .onnx_graph import Graph
from .onnx_registry import _has, _in, _out, _type_of, converts


def _column(graph: Graph, op: Operator, slot: str) -> str:
    """An input that is [n, 1] or [n], as [n]."""
    return graph.add("Reshape", [_in(graph, op, slot), graph.longs([-1])])


def _ids(graph: Graph, op: Operator, slot: str) -> str:
    return graph.add("Cast", [_column(graph, op, slot)], to=int(graph.onnx.TensorProto.INT64))


def _one(graph: Graph, value: str, out: str, to: int | None = None) -> None:
    """Write one number, which is [1] here and without dimensions there."""
    if to is not None:
        value = graph.add("Cast", [value], to=to)
    graph.add("Reshape", [value, graph.longs([1])], out)


def _count_of(graph: Graph, mask: str, to: int) -> str:
    return graph.add("ReduceSum", [graph.add("Cast", [mask], to=to)], keepdims=0)


@converts("accuracy")
def _accuracy(graph: Graph, op: Operator) -> None:
    add, types = graph.add, graph.onnx.TensorProto
    label = add("Unsqueeze", [_column(graph, op, "Label"), graph.longs([1])])
    same = add("Cast", [add("Equal", [_in(graph, op, "Indices"), label])], to=int(types.INT64))
    right = add("ReduceSum", [add("ReduceMax", [same], axes=[1], keepdims=0)], keepdims=0)
    rows = add("Size", [label])
    divisor = add("Cast", [add("Max", [rows, graph.constant(1, np.int64)])], to=int(types.FLOAT))
    _one(graph, add("Div", [add("Cast", [right], to=int(types.FLOAT)), divisor]), _out(graph, op, "Accuracy"))
    _one(graph, right, _out(graph, op, "Correct"), int(types.INT32))
    _one(graph, rows, _out(graph, op, "Total"), int(types.INT32))


def _counts(graph: Graph, classes: int, ids: str, what: str, like: str) -> str:
    """For each class the sum of `what` over the rows with this id; [classes], of the type of `like`."""
    return graph.add("ScatterElements", [graph.add("Expand", [like, graph.longs([classes])]), ids, what], axis=0, reduction="add")


@converts("mean_iou")
def _mean_iou(graph: Graph, op: Operator) -> None:
    add, types, classes = graph.add, graph.onnx.TensorProto, int(op.attr("num_classes"))
    guess, label = _ids(graph, op, "Predictions"), _ids(graph, op, "Labels")
    hit = add("Cast", [add("Equal", [guess, label])], to=int(types.DOUBLE))
    zero, one = graph.constant(0.0, np.float64), graph.constant(1.0, np.float64)
    miss = add("Sub", [one, hit])
    correct = _counts(graph, classes, guess, hit, zero)
    wrong = add("Add", [_counts(graph, classes, guess, miss, zero), _counts(graph, classes, label, miss, zero)])
    sums = {}
    for name, value, slot in (("correct", correct, "InCorrects"), ("wrong", wrong, "InWrongs")):
        before = [add("Cast", [graph.name_of(each)], to=int(types.DOUBLE)) for each in (op.input(slot) if _has(op, slot) else [])]
        sums[name] = add("Sum", [value, *before])
    both = add("Add", [sums["correct"], sums["wrong"]])
    occurs = add("Greater", [both, zero])
    share = add("Where", [occurs, add("Div", [sums["correct"], add("Where", [occurs, both, one])]), zero])
    mean = add("Div", [add("ReduceSum", [share], keepdims=0), add("Max", [_count_of(graph, occurs, int(types.DOUBLE)), one])])
    before = [add("Cast", [graph.name_of(each)], to=int(types.DOUBLE)) for each in (op.input("InMeanIou") if _has(op, "InMeanIou") else [])]
    _one(graph, add("Sum", [mean, *before]), _out(graph, op, "OutMeanIou"), int(types.FLOAT))
    for name, slot in (("correct", "OutCorrect"), ("wrong", "OutWrong")):
        add("Cast", [sums[name]], _out(graph, op, slot), to=int(types.INT32))


def _differences(graph: Graph, value: str) -> str:
    """Of [n] numbers all differences: element [a, b] is value[a] - value[b]."""
    return graph.add("Sub", [graph.add("Unsqueeze", [value, graph.longs([1])]), graph.add("Unsqueeze", [value, graph.longs([0])])])


@converts("positive_negative_pair")
def _positive_negative_pair(graph: Graph, op: Operator) -> None:
    add, score = graph.add, op.input("Score")[0]
    scores = add("Gather", [graph.name_of(score), graph.constant(int(op.attr("column")), np.int64)], axis=1)
    query = _differences(graph, _ids(graph, op, "QueryID"))
    zero = graph.number(0.0, score)
    # Each pair of rows stands here once: from the row with the higher label.
    ahead = add("And", [add("Greater", [_differences(graph, _column(graph, op, "Label")), zero]),
                        add("Equal", [query, graph.constant(0, np.int64)])])
    gap = _differences(graph, scores)
    if _has(op, "Weight"):
        half = add("Mul", [_column(graph, op, "Weight"), graph.number(0.5, score)])
        weight = add("Add", [add("Unsqueeze", [half, graph.longs([1])]), add("Unsqueeze", [half, graph.longs([0])])])
    else:
        weight = graph.number(1.0, score)
    for kind, slot in (("Greater", "Positive"), ("Less", "Negative"), ("Equal", "Neutral")):
        if not op.output(f"{slot}Pair"):
            continue
        counted = add("Where", [add("And", [ahead, add(kind, [gap, zero])]), weight, zero])
        count = add("ReduceSum", [counted], keepdims=0)
        if _has(op, f"Accumulate{slot}Pair"):
            count = add("Add", [count, _in(graph, op, f"Accumulate{slot}Pair")])
        _one(graph, count, _out(graph, op, f"{slot}Pair"))


def _share(graph: Graph, right: str, wrong: str) -> str:
    """right / (right + wrong), and 1 of nothing."""
    one, all = graph.constant(1.0, np.float64), graph.add("Add", [right, wrong])
    is_some = graph.add("Greater", [all, graph.constant(0.0, np.float64)])
    return graph.add("Where", [is_some, graph.add("Div", [right, graph.add("Where", [is_some, all, one])]), one])


def _three(graph: Graph, precision: str, recall: str) -> list[str]:
    """Precision, recall and their harmonic mean, which is 0 where both are."""
    add, zero, one = graph.add, graph.constant(0.0, np.float64), graph.constant(1.0, np.float64)
    both = add("Add", [precision, recall])
    is_some = add("Greater", [both, zero])
    product = add("Mul", [graph.constant(2.0, np.float64), add("Mul", [precision, recall])])
    score = add("Where", [is_some, add("Div", [product, add("Where", [is_some, both, one])]), zero])
    return [add("Reshape", [value, graph.longs([1])]) for value in (precision, recall, score)]


def _six(graph: Graph, state: str, out: str) -> None:
    """Write the means over classes of precision and recall with their F1 score, then those of all rows together."""
    add = graph.add
    right, wrong, missed = (add("Gather", [state, graph.constant(column, np.int64)], axis=1) for column in (0, 1, 3))
    means = [add("ReduceMean", [_share(graph, right, other)], keepdims=0) for other in (wrong, missed)]
    right, wrong, missed = (add("ReduceSum", [value], keepdims=0) for value in (right, wrong, missed))
    together = [_share(graph, right, other) for other in (wrong, missed)]
    add("Concat", [*_three(graph, *means), *_three(graph, *together)], out, axis=0)


@converts("precision_recall")
def _precision_recall(graph: Graph, op: Operator) -> None:
    add, classes, double = graph.add, int(op.attr("class_number")), int(graph.onnx.TensorProto.DOUBLE)
    guess, label = _ids(graph, op, "Indices"), _ids(graph, op, "Labels")
    zero = graph.constant(0.0, np.float64)
    if _has(op, "Weights"):
        weight = add("Cast", [_column(graph, op, "Weights")], to=double)
    else:
        weight = add("Expand", [graph.constant(1.0, np.float64), add("Shape", [guess])])
    same = add("Equal", [guess, label])
    hit, miss = add("Where", [same, weight, zero]), add("Where", [same, zero, weight])
    right = _counts(graph, classes, guess, hit, zero)
    wrong, missed = (_counts(graph, classes, ids, miss, zero) for ids in (guess, label))
    others = add("Sub", [add("ReduceSum", [weight], keepdims=0), add("Sum", [right, wrong, missed])])
    state = add("Concat", [add("Unsqueeze", [column, graph.longs([1])]) for column in (right, wrong, others, missed)], axis=1)
    _six(graph, state, _out(graph, op, "BatchMetrics"))
    if _has(op, "StatesInfo"):
        state = add("Add", [state, add("Cast", [_in(graph, op, "StatesInfo")], to=double)])
    _six(graph, state, _out(graph, op, "AccumMetrics"))
    add("Cast", [state], _out(graph, op, "AccumStatesInfo"), to=_type_of(graph, op.output("AccumStatesInfo")[0]))
