"""examples/word2vec: what it learns from, that it learns with each of its losses, and that a job does the same."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from job_support import LIMIT, environment, launch, needs_mpi

import trireme as fluid

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "word2vec" / "train.py"
FEW = ["--passes", "2", "--steps", "40", "--every", "20", "--vocabulary", "300", "--width", "8", "--hidden", "16", "--rate",
       "0.01", "--batch", "128"]
needs_text = pytest.mark.skipif(fluid.dataset.common.find("tinyshakespeare", "input.txt") is None,
                                reason="the data set tinyshakespeare is not here: set TRIREME_DATA_HOME")


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("word2vec", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reports(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def run(*options):
    done = subprocess.run([sys.executable, SCRIPT, *FEW, *options], check=False, env=environment(), capture_output=True, text=True,
                          timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_text_becomes_contexts_and_words(script):
    assert script.words_of("Speak, speak.\nO, 'tis he!") == ["speak", ",", "speak", ".", "o", ",", "'tis", "he", "!"]
    contexts, following = script.grams(np.arange(7))
    assert contexts[:, :, 0].tolist() == [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]]
    assert following.tolist() == [[4], [5], [6]]


def test_each_pass_has_an_order_of_its_own(script):
    first, second = ([feed["word"].ravel().tolist() for feed in script.batches(np.arange(30), 10, seed)()] for seed in (1, 2))
    assert [len(words) for words in first] == [10, 10, 6]
    assert first != second and sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(4, 30))


@pytest.mark.parametrize("loss", ["softmax", "nce", "hsigmoid"])
def test_tests_cost_minus_the_log_of_a_probability(script, exe, rng, loss):
    """Over all words exp(-cost) adds up to 1: perplexities of different losses may be compared."""
    options = script.parse(["--loss", loss, "--vocabulary", "11", "--width", "3", "--hidden", "5"])
    context, word = rng.integers(0, 11, size=(1, 4, 1)), np.arange(11)[:, None]
    cost = script.network(options, is_test=True)
    exe.run(fluid.default_startup_program())
    costs = [exe.run(feed={"context": context, "word": one[None]}, fetch_list=[cost])[0][0] for one in word]
    assert np.exp(-np.array(costs, "float64")).sum() == pytest.approx(1, abs=1e-5)


@needs_text
@pytest.mark.parametrize("loss", ["softmax", "nce", "hsigmoid"])
def test_word2vec_learns(loss):
    text = run("--loss", loss)
    lines = reports(text)
    assert [(line["pass"], line["step"]) for line in lines] == [(1, 20), (1, 40), (2, 60), (2, 80)]
    assert lines[-1]["perplexity"] < min(lines[0]["perplexity"], 100) and lines[-1]["cost"] < lines[0]["cost"]
    neighbours = dict(line.split(": ") for line in text.splitlines()[-5:])
    assert "king" in neighbours and all(len(words.split()) == 6 for words in neighbours.values())


@needs_text
@needs_mpi
@pytest.mark.mpi
def test_a_job_learns_the_same():
    """hsigmoid draws nothing, so the steps are those of one process but for rounding."""
    alone = reports(run("--loss", "hsigmoid"))
    job = reports(launch(2, 2, *FEW, "--loss", "hsigmoid", script=SCRIPT))
    assert [line["step"] for line in job] == [line["step"] for line in alone]
    for name in ("cost", "perplexity"):
        np.testing.assert_allclose([line[name] for line in job], [line[name] for line in alone], rtol=2e-3)


@needs_text
@needs_mpi
@pytest.mark.mpi
def test_a_job_learns_from_words_that_each_trainer_draws():
    lines = reports(launch(2, 2, *FEW, "--loss", "nce", script=SCRIPT))
    assert len(lines) == 4 and lines[-1]["perplexity"] < min(lines[0]["perplexity"], 100)
