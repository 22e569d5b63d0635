"""A spare takes a dead trainer's place, and the job goes on as if nothing had happened."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from job_support import LIMIT, MPIS, Launched, launch

from trireme.launch.watch import Ranks

pytestmark = pytest.mark.skipif("5" not in MPIS, reason="no Open MPI 5 is installed")

ARGS = ("--steps", 120, "--optimizer", "adam", "--pause", 0.004, "--clip", 0.2)


def params(path):
    with np.load(path) as data:
        return {name: data[name] for name in data.files if name != "losses"}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "params.npz"
    launch(2, 2, *ARGS, "--sparse", "--out", out, version="5")
    return params(out)


def start(tmp_path, *args, spares=1, options=()):
    """A job that has made its first step."""
    mark = tmp_path / "begun"
    job = Launched(2, 2, *ARGS, *args, "--mark", mark, version="5", heirs=True, options=("--spares", spares, *options))
    ranks = Ranks(job.process.pid, Path("/nonexistent"), 2, 2, spares)
    end = time.monotonic() + LIMIT
    while not mark.exists() or len(ranks.known) < ranks.size:
        assert job.process.poll() is None, job.process.stdout.read()
        assert time.monotonic() < end
        ranks.look(0.01)
    return job, ranks


def go_on(job):
    code, text = job.end()
    assert code == 0, text
    assert "starting the job again" not in text, text
    return text


@pytest.mark.parametrize("victim", [0, 1])
def test_an_heir_costs_no_bit(victim, uninterrupted, tmp_path):
    out = tmp_path / "params.npz"
    job, ranks = start(tmp_path, "--sparse", "--out", out)
    os.kill(ranks.known[2 + victim].pid, signal.SIGKILL)
    text = go_on(job)
    assert f"rank 4 (spare 0) takes the place of trainer {victim}" in text, text
    for name, value in uninterrupted.items():
        assert np.array_equal(params(out)[name], value), f"{name} differs:\n{text}"


def test_an_heir_of_an_heir_and_a_server_cost_no_bit(uninterrupted, tmp_path):
    out = tmp_path / "params.npz"
    job, ranks = start(tmp_path, "--sparse", "--out", out, spares=3)
    for rank in (3, 4, 0):
        os.kill(ranks.known[rank].pid, signal.SIGKILL)
        time.sleep(0.3)
    text = go_on(job)
    assert "takes the place of trainer 1" in text, text
    for name, value in uninterrupted.items():
        assert np.array_equal(params(out)[name], value), f"{name} differs:\n{text}"


@pytest.mark.parametrize("mode", ["async", "ssp(1)", "geo(3)", "sync(fewer)"])
def test_an_heir_makes_the_steps_that_are_left(mode, tmp_path):
    job, ranks = start(tmp_path, options=("--mode", mode))
    os.kill(ranks.known[3].pid, signal.SIGKILL)
    text = go_on(job)
    assert "takes the place of trainer 1" in text and "trainer 1 of 2" in text, text


def test_one_that_slept_finds_its_place_taken_and_ends(uninterrupted, tmp_path):
    out = tmp_path / "params.npz"
    job, ranks = start(tmp_path, "--sparse", "--out", out, "--linger", 1)
    pid = ranks.known[3].pid
    os.kill(pid, signal.SIGSTOP)
    time.sleep(3.6)
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass                                           # the heir has ended it
    text = go_on(job)
    assert "takes the place of trainer 1" in text, text
    for name, value in uninterrupted.items():
        assert np.array_equal(params(out)[name], value), f"{name} differs:\n{text}"


def test_where_spares_are_for_servers_the_job_starts_again(tmp_path):
    mark = tmp_path / "begun"
    job = Launched(2, 2, *ARGS, "--mark", mark, version="5")
    ranks = job.ranks()
    while not mark.exists():
        assert job.process.poll() is None, job.process.stdout.read()
        time.sleep(0.01)
    os.kill(ranks.known[3].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "starting the job again (1 of 3)" in text, text
