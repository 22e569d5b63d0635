"""Metrics of the whole job: they add up the counts of all trainers' batches."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from ..metrics.metrics import Auc, MetricBase
from ..native.errors import InvalidArgumentError, NotFoundError
from ..native.scope import Scope
from ..program import Variable
from ..run.scopes import global_scope
from .collectives import meet


def merge_metric(metric: MetricBase) -> MetricBase:
    """Return a metric of all trainers' batches. ``metric`` is this trainer's and does not change. A collective: all trainers call it.

    Most metrics count whole numbers: then ``eval()`` returns the value of one process over the same batches, to the last bit. For a metric
    of your own this call adds up its public attributes that are numbers, and its arrays (``MetricBase.counts``).

    >>> metric = fluid.metrics.Auc()
    >>> metric.update(np.array([0.1, 0.8]), np.array([0, 1]))
    >>> fluid.distributed.merge_metric(metric).eval()
    1.0
    """
    if not isinstance(metric, MetricBase):
        raise InvalidArgumentError(f"merge_metric takes a metric of fluid.metrics, got {metric!r}")
    merged = copy.deepcopy(metric)
    counts = metric.counts()
    merged.set_counts(reduce(_added, meet(f"merge_metric({type(metric).__name__}: {_form(counts)})", counts).values()))
    return merged


def merge_auc(states: Sequence[Variable], scope: Scope | None = None) -> float:
    """Return the area under the curve over all trainers' runs, from the third result of ``layers.auc``. A collective: all trainers call it.

    ``states`` is that third result, a list of variables. ``scope`` holds the counts; the default is the global scope.

    >>> x, label = fluid.layers.data("x", [2]), fluid.layers.data("label", [1], dtype="int64")
    >>> area, _, states = fluid.layers.auc(x, label)
    >>> exe = fluid.Executor(fluid.CPUPlace())
    >>> _ = exe.run(fluid.default_startup_program())
    >>> feed = {"x": np.array([[0.9, 0.1], [0.2, 0.8]], "float32"), "label": np.array([[0], [1]])}
    >>> _ = exe.run(fluid.default_main_program(), feed=feed, fetch_list=[area])
    >>> fluid.distributed.merge_auc(states)
    1.0
    """
    if len(states) != 4 or not all(isinstance(var, Variable) for var in states):
        raise InvalidArgumentError(f"merge_auc takes the third result of layers.auc, four variables; got {states!r}")
    curve = _curve(states[2])
    if curve != "ROC":
        raise InvalidArgumentError(f"merge_auc: layers.auc was made with curve={curve!r}; the area of all trainers is that of curve='ROC'")
    positives, negatives = (_value(var, scope or global_scope()) for var in states[2:])
    metric = Auc(num_thresholds=positives.size - 1)
    metric.set_counts({"_positives": positives, "_negatives": negatives})
    area: float = merge_metric(metric).eval()
    return area


def _curve(positives: Variable) -> Any:
    for op in positives.block.ops:
        if op.type == "auc" and positives.name in op.output("StatPosOut"):
            return op.attr("curve")
    raise InvalidArgumentError(f"merge_auc: no operator auc of the program counts in {positives.name!r}")


def _value(var: Variable, scope: Scope) -> np.ndarray:
    found = scope.find_var(var.name)
    if found is None or found.kind() is None:
        raise NotFoundError(f"merge_auc: {var.name!r} has no value in this scope: run the startup program first")
    return np.array(found.get_tensor()).reshape(-1)


def _added(one: Any, other: Any) -> Any:
    if isinstance(one, list):
        return [_added(a, b) for a, b in zip(one, other)]
    if isinstance(one, dict):
        return {name: _added(value, other[name]) for name, value in one.items()}
    return one + other


def _form(counts: Any) -> str:
    """Return the properties of a metric that must be the same on all trainers."""
    if isinstance(counts, list):
        return f"[{', '.join(map(_form, counts))}]"
    return ", ".join(f"{name} {list(np.shape(value))}" for name, value in counts.items())
