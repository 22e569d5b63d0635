"""examples/dlrm: lines in the format of Criteo, the products of pairs, and a job that learns as one process does."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
from job_support import alone, launch

import trireme as fluid

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "dlrm" / "train.py"


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("dlrm", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def areas(text):
    return [json.loads(line)["auc"] for line in text.splitlines() if line.startswith("{")]


def test_lines_have_the_format_of_criteo_and_are_read(script, tmp_path):
    script.write_lines(tmp_path / "some.tsv", 50, seed=1)
    fields = [line.split("\t") for line in (tmp_path / "some.tsv").read_text().splitlines()]
    assert {len(line) for line in fields} == {1 + 13 + 26}
    assert all(re.fullmatch(r"[01]", line[0]) and all(re.fullmatch(r"\d*", field) for field in line[1:14])
               and all(re.fullmatch(r"([0-9a-f]{8})?", field) for field in line[14:]) for line in fields)
    batch, = script.lines(str(tmp_path / "some.tsv"), 50)
    assert batch["counts"].tolist() == [[float(field or 0) for field in line[1:14]] for line in fields]
    assert batch["c26"].ravel().tolist() == [fluid.feeds.hash_id(line[39], script.KEYS) for line in fields]


def test_interactions_are_the_products_of_all_pairs(script, exe, rng):
    rows = rng.normal(size=(3, 4, 5)).astype("float32")                    # three samples of four vectors
    vectors = [fluid.layers.data(f"v{i}", [5]) for i in range(4)]
    found, = exe.run(feed={f"v{i}": rows[:, i] for i in range(4)}, fetch_list=[script.interactions(vectors, 5)])
    wanted = np.einsum("nik,njk->nij", rows, rows)
    np.testing.assert_allclose(found, [[one[i, j] for i in range(4) for j in range(i)] for one in wanted], rtol=1e-5, atol=1e-6)


def test_a_job_learns_as_one_process_does(tmp_path):
    few = ["--rows", "4000", "--epochs", "1", "--folder", str(tmp_path / "lines"), "--at-least", "0.6"]
    one, job = areas(alone(*few, script=SCRIPT)), areas(launch(2, 2, *few, script=SCRIPT))
    assert len(one) == 1 and job == pytest.approx(one, abs=2e-3)
