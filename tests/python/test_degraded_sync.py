"""Jobs in which it is decided what makes an update, on several servers: slow trainers, dead ones, dead servers."""

import os
import random
import signal
import time

import numpy as np
import pytest
from job_support import Launched, assert_finite, each_mpi, launch, launch_under_mpi, needs_mpi, results

pytestmark = pytest.mark.mpi
STEPS = 80
ARGS = ("--steps", STEPS, "--optimizer", "adam", "--pause", 0.004, "--clip", 0.2)     # servers exchange sums in every step


@pytest.fixture(scope="module")
def in_sync(tmp_path_factory):
    """What a job of mode sync ends with."""
    out = tmp_path_factory.mktemp("sync") / "r.npz"
    launch(2, 3, *ARGS, "--out", out)
    return results(out)


def begin(tmp_path, mode, version=None, *args):
    """A job of 2 servers and 3 trainers that has made its first step."""
    mark = tmp_path / "begun"
    job = Launched(2, 3, *ARGS, "--out", tmp_path / "r.npz", "--mark", mark, *args, version=version, options=("--mode", mode),
                   hold=tmp_path / "go")
    ranks = job.ranks()
    job.await_training(mark)
    return job, ranks


def end_well(job, tmp_path, said):
    code, text = job.end()
    assert code == 0 and said in text and "starting the job again" not in text, text
    got = results(tmp_path / "r.npz")
    assert_finite(got, text)
    assert len(got["losses"]) == STEPS
    return text, got


@needs_mpi
def test_degraded_sync_without_a_death_is_sync_to_the_bit(in_sync, tmp_path):
    launch(2, 3, *ARGS, "--out", tmp_path / "r.npz", options=("--mode", "sync(degraded)"))
    for name, array in results(tmp_path / "r.npz").items():
        np.testing.assert_array_equal(array, in_sync[name], err_msg=name)


@each_mpi
@pytest.mark.turns(2)
def test_a_dead_server_costs_no_bit(version, in_sync, tmp_path):
    victim = random.randrange(2)
    job, ranks = begin(tmp_path, "sync(degraded)", version)
    time.sleep(random.uniform(0.0, 0.3))
    os.kill(ranks.known[victim].pid, signal.SIGKILL)
    text, got = end_well(job, tmp_path, f"rank {victim} (server {victim}) died; the others go on")
    for name, array in in_sync.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name + text)


@each_mpi
@pytest.mark.parametrize("mode", ["sync(degraded)", "sync(backups=1)"])
@pytest.mark.turns(2)
def test_a_trainer_that_dies_at_any_moment_is_left_out(version, mode, tmp_path):
    job, ranks = begin(tmp_path, mode, version)
    time.sleep(random.uniform(0.0, 0.3))
    os.kill(ranks.known[3].pid, signal.SIGKILL)
    text, _ = end_well(job, tmp_path, "rank 3 (trainer 1) died; the others go on")
    assert "trainer 0 of 3" in text and "trainer 2 of 3" in text and "trainer 1 of 3" not in text


@each_mpi
@pytest.mark.turns(2, at=1)
def test_with_backups_a_dead_server_is_replaced(version, tmp_path):
    victim = random.randrange(2)
    job, ranks = begin(tmp_path, "sync(backups=1)", version)
    time.sleep(random.uniform(0.0, 0.3))
    os.kill(ranks.known[victim].pid, signal.SIGKILL)
    text, _ = end_well(job, tmp_path, f"rank {victim} (server {victim}) died; the others go on")
    assert text.count(" of 3: ") == 3


@each_mpi
@pytest.mark.turns(2)
def test_with_backups_nobody_waits_for_a_slow_trainer(version, tmp_path):
    pauses = ("--pause", 0.04, "--steps", 20, "--times", tmp_path / "times")
    text = launch_under_mpi(2, 3, *pauses, "--slow", 2, version=version, options=("--mode", "sync(backups=1)"))
    assert text.count(" of 3: ") == 3
    assert np.median(np.diff(np.loadtxt(tmp_path / "times"))) < 0.3       # the slow one pauses 0.4 s after each step


@needs_mpi
def test_started_again_it_goes_on_from_what_all_servers_have(in_sync, tmp_path):
    job, ranks = begin(tmp_path, "sync(degraded)")
    for victim in (0, 1):                              # there is one standby
        os.kill(ranks.known[victim].pid, signal.SIGKILL)
        time.sleep(0.2)
    code, text = job.end()
    assert code == 0 and "starting the job again (1 of 3)" in text, text
    got = results(tmp_path / "r.npz")
    for name, array in in_sync.items():
        if name != "losses":                           # those of steps that were not made again are not known
            np.testing.assert_array_equal(got[name], array, err_msg=name + text)
