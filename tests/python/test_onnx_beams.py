"""Beam searches give in onnxruntime what they give here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trireme as fluid

from onnx_support import assert_close, exported

layers = fluid.layers
OPERATORS = ("beam_search", "beam_search_decode")


def assert_same_lods(make: Callable[[], Any], folder: Path, feeds: list[dict[str, Any]]) -> None:
    """Compare for feeds of (array, lengths level by level)."""
    _, targets, session, run = exported(make, folder)
    for each in feeds:
        theirs = {}
        for name, (array, lengths) in each.items():
            theirs[name] = array
            theirs |= {f"{name}.offsets" + (f".{level}" if len(lengths) > 1 else ""): np.cumsum([0, *counts]) for level,
                       counts in enumerate(lengths)}
        wanted = run({name: fluid.create_lod_tensor(array, lengths) for name, (array, lengths) in each.items()})
        names = [info.name for info in session.get_outputs()]
        got = dict(zip(names, session.run(None, theirs), strict=True))
        for target, want in zip(targets, wanted, strict=True):
            assert_close(got[target.name], np.array(want))
            assert [value.tolist() for name,
                    value in got.items() if name.startswith(f"{target.name}.offsets")] == [list(level) for level in want.lod()]


def pair(name: str, type: str) -> Any:
    return layers.data(name, [1], dtype=type, lod_level=2)


@pytest.mark.parametrize(("given", "is_accumulated"), [(True, True), (False, True), (True, False)])
def test_the_best_of_each_source_are_selected(given: bool, is_accumulated: bool, tmp_path: Path) -> None:
    def make() -> Any:
        inputs = {"pre_ids": layers.data("pre_ids", [1], dtype="int64"), "pre_scores": layers.data("pre_scores", [1]),
                  "scores": layers.data("scores", [3], lod_level=2)}
        inputs |= {"ids": layers.data("ids", [3], dtype="int64")} if given else {}
        helper = fluid.layer_helper.LayerHelper("beam_search")
        outs = {slot: helper.create_variable_for_type_inference(type) for slot,
                type in (("selected_ids", "int64"), ("selected_scores", "float32"), ("parent_idx", "int32"))}
        helper.append_op("beam_search", {slot: [var] for slot, var in inputs.items()}, {slot: [var] for slot, var in outs.items()},
                         {"level": 0, "beam_size": 3, "end_id": 0, "is_accumulated": is_accumulated})
        return list(outs.values())

    random, feeds = np.random.RandomState(3), []
    # the third source, then the last one alone, has ended altogether
    for rows, ended in (([2, 1, 2], [1, 3, 4]), ([1, 0, 2], []), ([3, 1], [3]), ([2], [0, 1])):
        count = sum(rows)
        before = random.randint(1, 9, [count, 1])
        before[ended] = 0
        scores = random.rand(count, 3).round(1).astype("float32") + 0.05
        feed = {"pre_ids": (before, []), "pre_scores": (random.rand(count, 1).astype("float32"), []),
                "scores": (scores, [rows, [1] * count])}
        feeds.append(feed | ({"ids": (random.randint(1, 9, [count, 3]), [])} if given else {}))
    assert_same_lods(make, tmp_path, feeds)


def test_sentences_are_found_from_the_last_step_back(tmp_path: Path) -> None:
    """Two sources; the second one has ended, and been dropped, before the last step."""
    def make() -> Any:
        ids, scores = layers.create_array("int64"), layers.create_array("float32")
        for i in range(4):
            at = layers.fill_constant([1], "int64", i)
            layers.array_write(pair(f"i{i}", "int64"), at, ids)
            layers.array_write(pair(f"s{i}", "float32"), at, scores)
        return layers.beam_search_decode(ids, scores, beam_size=2, end_id=9)

    steps = [([1, 2], [0.0, 0.0], [1, 1], [1, 1]),
             ([3, 4, 5, 9], [0.5, 0.4, 0.7, 0.6], [1, 1], [2, 2]),
             ([6, 7, 9, 9], [0.9, 0.8, 0.75, 0.6], [2, 2], [2, 0, 1, 1]),
             ([9, 9], [1.2, 1.3], [2, 2], [1, 1, 0, 0])]
    feed = {}
    for i, (words, values, rows, candidates) in enumerate(steps):
        feed[f"i{i}"] = np.array(words)[:, None], [rows, candidates]
        feed[f"s{i}"] = np.array(values, "float32")[:, None], [rows, candidates]
    assert_same_lods(make, tmp_path, [feed])
