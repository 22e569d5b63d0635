"""Metrics of all trainers are those of one process over the same data."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from job_support import SCRIPT, alone, launch, needs_mpi

import trireme as fluid
from trireme.errors import InvalidArgumentError

pytestmark = pytest.mark.mpi

METRICS = SCRIPT.with_name("merged_metrics.py")


def found(text: str) -> dict[str, object]:
    return json.loads(re.search(r"^\{.*\}$", text, re.M).group())


@needs_mpi
def test_metrics_of_a_job_are_those_of_one_process() -> None:
    text = launch(2, 3, script=METRICS)
    one = alone(script=METRICS)
    assert found(text) == found(one)
    assert found(one)["auc"] == found(one)["layer"] != 0.5
    assert re.search("own (.*)", text).group() != re.search("own (.*)", one).group()       # a trainer's own is another


def test_counts_of_every_metric_add_up() -> None:
    rng = np.random.default_rng(1)
    made = {name: getattr(fluid.metrics, name) for name in ("Accuracy", "Precision", "Recall", "Auc", "ChunkEvaluator", "EditDistance")}
    given = {"Accuracy": lambda: (rng.random(), 3), "ChunkEvaluator": lambda: (5, 4, 2), "EditDistance": lambda: (rng.integers(0, 3, 4), 4)}
    for name, make in made.items():
        parts, whole = [make(), make()], make()
        for part in parts:
            batch = given.get(name, lambda: (rng.random(9), rng.integers(0, 2, 9)))()
            part.update(*batch)
            whole.update(*batch)
        counts = parts[0].counts()
        parts[1].set_counts({key: value + counts[key] for key, value in parts[1].counts().items()})
        assert parts[1].eval() == whole.eval(), name


def test_a_value_that_is_no_metric_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="merge_metric takes a metric"):
        fluid.distributed.merge_metric(3)
    x, label = fluid.layers.data("x", [2]), fluid.layers.data("label", [1], dtype="int64")
    area, _, states = fluid.layers.auc(x, label, curve="PR")
    with pytest.raises(InvalidArgumentError, match="curve='PR'"):
        fluid.distributed.merge_auc(states)
    with pytest.raises(InvalidArgumentError, match="four variables"):
        fluid.distributed.merge_auc([area])
