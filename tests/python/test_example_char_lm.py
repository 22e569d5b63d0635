"""examples/char_lm: its windows, that it learns, that it writes with what it has learnt, and that a job does the same."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from job_support import LIMIT, environment, launch, needs_mpi

import trireme as fluid

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "char_lm" / "train.py"
FEW = ["--width", "48", "--length", "40", "--batch", "16", "--steps", "60", "--report", "30", "--write", "40"]


@pytest.fixture
def script():
    try:
        fluid.dataset.tinyshakespeare.arrays()
    except fluid.dataset.common.DataSetError as error:
        pytest.skip(str(error))
    spec = importlib.util.spec_from_file_location("char_lm", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*options):
    done = subprocess.run([sys.executable, SCRIPT, *FEW, *options], check=False, env=environment(), capture_output=True, text=True,
                          timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def reports(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_windows_are_of_the_text_and_differ_from_pass_to_pass(script):
    ids = np.arange(100)
    read = list(script.batches(ids, length=10, batch=3, steps=6, seed=1)())
    assert [len(batch) for batch in read] == [3] * 6
    windows = [window for batch in read for window in batch]
    assert all(np.array_equal(x, np.arange(x[0], x[0] + 10)) and np.array_equal(y, x + 1) for x, y in windows)
    firsts = [int(x[0]) for x, _ in windows]
    assert len(set(firsts[:8])) == 8 and firsts[:8] != firsts[8:16]
    again = list(script.batches(ids, 10, 3, 6, seed=1)())
    assert np.array_equal(again, read) and not np.array_equal(list(script.batches(ids, 10, 3, 6, seed=2)()), read)


def test_the_language_model_learns_and_writes(script, tmp_path):
    output = run("--save", str(tmp_path), "--begin", "KING")
    lines = reports(output)
    assert [line["step"] for line in lines] == list(range(6, 61, 6))
    assert [line["step"] for line in lines if "held_out" in line] == [30, 60]
    assert lines[-1]["train"] < lines[0]["train"] and lines[-1]["held_out"] < 3.5                # guessing has 4.17
    assert f"held-out text: {lines[-1]['held_out']:.4f} nats" in output
    written = output[output.index("KING"):]
    assert len(written) == 4 + 40 + 1
    same, other = (run("--load", str(tmp_path), "--begin", "KING", "--seed", seed) for seed in "12")
    assert same == written and other != written and len(other) == len(written)


def test_a_low_temperature_writes_what_is_most_likely(script, exe):
    fluid.default_startup_program().random_seed = 3
    with fluid.program_guard(fluid.Program(), fluid.default_startup_program()):
        script.lstm(fluid.layers.data("ids", [1], dtype="int64", lod_level=1), 16)
    exe.run(fluid.default_startup_program())
    writer = script.Writer(16)
    cold = {writer.text("A", 20, temperature=1e-7, seed=seed) for seed in range(3)}
    warm = {writer.text("A", 20, temperature=1.0, seed=seed) for seed in range(3)}
    assert len(cold) == 1 and len(warm) == 3


@needs_mpi
def test_a_job_learns_the_same(script):
    options = [*FEW, "--dropout", "0"]
    alone, job = reports(run("--dropout", "0")), reports(launch(2, 2, *options, script=SCRIPT, env=environment()))
    assert {line["run"] for line in job} == {"job 2+2"} and {line["run"] for line in alone} == {"one process"}
    assert [line["step"] for line in job] == [line["step"] for line in alone]
    np.testing.assert_allclose([line["train"] for line in job], [line["train"] for line in alone], rtol=2e-3)
