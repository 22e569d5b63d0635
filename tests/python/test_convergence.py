"""What nets learn in bfloat16 is what they learn in float32: benchmarks/convergence.py, its record, and a short run."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from job_support import needs_mpi

import trireme as fluid
from trireme.errors import TriremeError

ROOT = Path(__file__).resolve().parents[2]


def load():
    spec = importlib.util.spec_from_file_location("convergence", ROOT / "benchmarks" / "convergence.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["convergence"] = module
    spec.loader.exec_module(module)
    return module


convergence = load()


def is_here(data):
    try:
        data()
    except TriremeError:
        return False
    return True


needs_plays = pytest.mark.skipif(not is_here(fluid.dataset.tinyshakespeare.characters),
                                 reason="the data set tinyshakespeare is not here: set TRIREME_DATA_HOME")


def test_the_record_has_every_run_and_none_is_too_far():
    runs = convergence.recorded()
    assert {(one["data"], one["place"], one["precision"]) for one in runs} == {
        (row, place, precision) for row in convergence.ROWS for place in convergence.PLACES for precision in convergence.PRECISIONS}
    assert all(one["line"] == convergence.ROWS[one["data"]].line for one in runs)
    assert all(len(one["curve"]) >= 2 for one in runs)
    assert convergence.too_far(runs) == []


def test_the_page_shows_the_record():
    assert convergence.table(convergence.recorded()) in (ROOT / "docs" / "precision.md").read_text()


def test_a_metric_that_is_far_from_float32s_is_named():
    runs = [{"data": name, "place": "one process", "precision": precision, "metric": metric}
            for name, precision, metric in (("census", "float32", 85.0), ("census", "bfloat16", 84.6), ("tagger", "float32", 90.0),
                                            ("tagger", "bfloat16", 90.2), ("characters", "float32", 2.0), ("characters", "bfloat16", 2.02),
                                            ("digits", "float32", 98.0), ("digits", "mixed", 97.5))]
    wrong = convergence.too_far(runs)
    assert [line.split(",")[0] for line in wrong] == ["digits", "census", "characters"]
    assert "97.5 in mixed precision, 98 in float32" in wrong.pop(0)
    assert "84.6 in bfloat16, 85 in float32: apart by more than 0.3 points" in wrong[0] and "0.01 nats" in wrong[1]


def test_a_newer_run_stands_in_the_place_of_the_older(tmp_path):
    path, one = tmp_path / "record.jsonl", {"data": "tagger", "place": "2 + 2", "precision": "bfloat16", "line": "", "metric": 1.0,
                                            "curve": []}
    convergence.record(one, path)
    convergence.record({**one, "data": "census"}, path)
    convergence.record({**one, "metric": 2.0}, path)
    assert [(run["data"], run["metric"]) for run in convergence.recorded(path)] == [("census", 1.0), ("tagger", 2.0)]


SHORT = "char_lm/train.py --steps 20 --width 32 --length 32 --batch 8 --report 10 --write 1"


@needs_plays
def test_a_short_run_learns_the_same_in_all_precisions():
    row = replace(convergence.ROWS["characters"], line=SHORT)
    exact, *others = (convergence.run(row, "one process", precision) for precision in convergence.PRECISIONS)
    assert len(others) == 2 and others[0]["curve"] != others[1]["curve"]
    for rough in others:
        assert abs(exact["metric"] - rough["metric"]) < convergence.NATS
        assert len(exact["curve"]) == len(rough["curve"]) > 2 and exact["curve"] != rough["curve"]


@needs_plays
@needs_mpi
@pytest.mark.mpi
def test_a_short_job_learns_the_same_with_all_that_travels_in_bfloat16():
    row = replace(convergence.ROWS["characters"], line=SHORT)
    exact, *others = (convergence.run(row, "2 + 2", precision) for precision in convergence.PRECISIONS)
    assert all(abs(exact["metric"] - rough["metric"]) < convergence.NATS for rough in others)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", convergence.ROWS)
def test_nets_learn_in_bfloat16_what_they_learn_in_float32(name, tmp_path):
    for place in convergence.PLACES:
        for precision in convergence.PRECISIONS:
            convergence.record(convergence.run(convergence.ROWS[name], place, precision), tmp_path / "record.jsonl")
    assert convergence.too_far(convergence.recorded(tmp_path / "record.jsonl")) == []
