"""The examples on sequences run as they are, alone and in a job; a few steps each."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from job_support import environment, launch, needs_mpi

import trireme as fluid

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LIMIT = 120


def alone(example, *args):
    """Run an example in one process; return what it printed."""
    done = subprocess.run([sys.executable, EXAMPLES / example / "train.py", *map(str, args)], check=False, env=environment(),
                          capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def in_job(example, *args):
    return launch(2, 2, *args, script=EXAMPLES / example / "train.py", env=environment())


def points(output, value):
    """The values of a curve, by step."""
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return {row["step"]: row[value] for row in rows if value in row}


@pytest.fixture
def polarity():
    try:
        fluid.dataset.sentence_polarity.sentences()
    except fluid.dataset.common.DataSetError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("network", ["conv", "lstm", "words"])
def test_sentence_polarity_learns_in_a_few_steps(polarity, network):
    output = alone("sentence_polarity", "--network", network, "--sentences", 1280, "--epochs", 3, "--curve", 20, "--at-least", 0)
    losses = points(output, "loss")
    assert list(losses) == [20, 40, 60] and losses[60] < losses[20]
    assert "of 1068 sentences" in output


@needs_mpi
def test_sentence_polarity_in_a_job(polarity):
    output = in_job("sentence_polarity", "--network", "lstm", "--sentences", 320, "--epochs", 1, "--curve", 5, "--at-least", 0)
    assert '"run": "lstm, 2 trainers"' in output and list(points(output, "loss")) == [5]


def test_sentence_polarity_says_when_it_has_not_learnt(polarity):
    done = subprocess.run([sys.executable, EXAMPLES / "sentence_polarity" / "train.py", "--sentences", "64", "--epochs", "1"],
                          check=False, env=environment(), capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 1 and "the model has not learnt enough" in done.stderr


@pytest.mark.parametrize("loss", ["crf", "softmax"])
def test_tagger_learns_in_a_few_steps(loss):
    output = alone("tagger", "--loss", loss, "--sentences", 320, "--epochs", 3, "--curve", 10, "--at-least", 0)
    losses = points(output, "loss")
    assert list(losses) == [10, 20, 30] and losses[30] < losses[10]
    assert list(points(output, "f1")) == [10, 20, 30] and "2000 other sentences: precision" in output


@needs_mpi
def test_tagger_in_a_job_takes_the_steps_of_one_process():
    args = "tagger", "--sentences", 160, "--epochs", 1, "--curve", 1, "--at-least", 0
    mine, theirs = points(alone(*args), "loss"), points(in_job(*args), "loss")
    assert theirs == pytest.approx(mine, rel=1e-3) and len(mine) == 5


@pytest.mark.parametrize("task", ["dates", "reverse"])
def test_attention_learns_in_a_few_steps(task):
    output = alone("attention", "--task", task, "--epochs", 2, "--steps", 20, "--batch", 16, "--width", 16, "--curve", 20,
                   "--tests", 20, "--at-least", 0)
    losses = points(output, "loss")
    assert list(losses) == [20, 40] and losses[40] < losses[20]
    assert output.count("  ->  ") == 5 and "of 20 texts it has not seen" in output


@needs_mpi
def test_attention_in_a_job_takes_the_steps_of_one_process():
    args = "attention", "--epochs", 1, "--steps", 5, "--batch", 16, "--curve", 1, "--tests", 5, "--at-least", 0
    mine, theirs = points(alone(*args), "loss"), points(in_job(*args), "loss")
    assert theirs == pytest.approx(mine, rel=1e-3) and len(mine) == 5
