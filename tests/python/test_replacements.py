"""A standby takes a dead trainer's place, and the job goes on as if nothing had happened."""

import os
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from job_support import MPIS, SCRIPT, Launched, launch, launch_under_mpi, own_of

from trireme import checkpoint as checkpoints
from trireme.launch.watch import Ranks

pytestmark = [pytest.mark.mpi, pytest.mark.skipif("5" not in MPIS, reason="no Open MPI 5 is installed")]

RESUME, OWN, LOOPS = SCRIPT.with_name("resume.py"), SCRIPT.with_name("own.py"), SCRIPT.with_name("loops.py")
ARGS = ("--steps", 120, "--optimizer", "adam", "--pause", 0.004, "--clip", 0.2)


def params(path):
    with np.load(path) as data:
        return {name: data[name] for name in data.files if name != "losses"}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "params.npz"
    launch(2, 2, *ARGS, "--sparse", "--out", out)
    return params(out)


def start(tmp_path, *args, standbys=1, options=(), servers=2, trainers=2, script=SCRIPT):
    """A job that has made its first step."""
    mark = tmp_path / "begun"
    args = (*ARGS, *args) if script == SCRIPT else args
    job = Launched(servers, trainers, *args, "--mark", mark, version="5", replacements=True, options=("--standbys", standbys, *options),
                   script=script, hold=tmp_path / "go" if script == SCRIPT else None)
    ranks = Ranks(job.process.pid, Path("/nonexistent"), servers, trainers, standbys)
    job.wait_for(lambda: ranks.look(0.01) or mark.exists() and len(ranks.known) == ranks.size, "a step")
    return job, ranks


def go_on(job):
    code, text = job.end()
    assert code == 0, text
    assert "starting the job again" not in text, text
    return text


@pytest.mark.parametrize("victim", [0, 1])
def test_a_replacement_costs_no_bit(victim, uninterrupted, tmp_path):
    out = tmp_path / "params.npz"
    job, ranks = start(tmp_path, "--sparse", "--out", out)
    os.kill(ranks.known[2 + victim].pid, signal.SIGKILL)
    text = go_on(job)
    assert f"rank 4 (standby 0) takes the place of trainer {victim}" in text, text
    for name, value in uninterrupted.items():
        assert np.array_equal(params(out)[name], value), f"{name} differs:\n{text}"


def test_a_replacement_of_a_replacement_and_a_server_cost_no_bit(uninterrupted, tmp_path):
    out = tmp_path / "params.npz"
    job, ranks = start(tmp_path, "--sparse", "--out", out, standbys=3)
    for rank in (3, 4, 0):
        os.kill(ranks.known[rank].pid, signal.SIGKILL)
        time.sleep(0.3)
    text = go_on(job)
    assert "takes the place of trainer 1" in text, text
    for name, value in uninterrupted.items():
        assert np.array_equal(params(out)[name], value), f"{name} differs:\n{text}"


def test_more_trainers_that_die_at_once_than_there_are_standbys_are_a_new_start(uninterrupted, tmp_path):
    out = tmp_path / "params.npz"
    job, ranks = start(tmp_path, "--sparse", "--out", out)
    for rank in (2, 3):
        os.kill(ranks.known[rank].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "starting the job again (1 of 3)" in text, text
    for name, value in uninterrupted.items():
        assert np.array_equal(params(out)[name], value), f"{name} differs:\n{text}"


@pytest.mark.parametrize("mode", ["async", "ssp(1)", "geo(3)", "sync(degraded)"])
def test_a_replacement_makes_the_steps_that_are_left(mode, tmp_path):
    job, ranks = start(tmp_path, options=("--mode", mode))
    os.kill(ranks.known[3].pid, signal.SIGKILL)
    text = go_on(job)
    assert "takes the place of trainer 1" in text and "trainer 1 of 2" in text, text


def test_a_trainer_that_slept_ends_when_a_replacement_has_its_place(uninterrupted, tmp_path):
    out = tmp_path / "params.npz"
    job, ranks = start(tmp_path, "--sparse", "--out", out, "--linger", 1)
    pid = ranks.known[3].pid
    os.kill(pid, signal.SIGSTOP)
    job.await_word("replacement.4")
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass                                           # the replacement has ended it
    text = go_on(job)
    assert "takes the place of trainer 1" in text, text
    for name, value in uninterrupted.items():
        assert np.array_equal(params(out)[name], value), f"{name} differs:\n{text}"


def test_standbys_for_servers_let_the_job_start_again(tmp_path):
    mark = tmp_path / "begun"
    job = Launched(2, 2, *ARGS, "--mark", mark, version="5")
    ranks = job.ranks()
    job.await_training(mark)
    os.kill(ranks.known[3].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "starting the job again (1 of 3)" in text, text


# -- what trainers alone have -----------------------------------------------------------------------------------------------


def assert_own(path, want, trainers):
    got = own_of(path, trainers)
    assert got.keys() == want.keys()
    for key, array in want.items():
        np.testing.assert_array_equal(got[key], array, err_msg=str(key))


@pytest.mark.parametrize("trainers, victim, mode", [(2, 0, "sync"), (2, 1, "sync"), (1, 0, "geo(7)")])
def test_a_replacement_has_what_the_dead_trainer_alone_had(trainers, victim, mode, tmp_path):
    """Moving averages, an AUC's statistics, a schedule's counter; in geo what its optimizer remembers."""
    launch(2, trainers, "--out", tmp_path / "whole", "--pause", 0, script=OWN, options=("--mode", mode))
    job, ranks = start(tmp_path, "--out", tmp_path / "r", script=OWN, trainers=trainers, options=("--mode", mode))
    time.sleep(random.uniform(0, 0.4))
    os.kill(ranks.known[2 + victim].pid, signal.SIGKILL)
    text = go_on(job)
    assert f"takes the place of trainer {victim}" in text, text
    assert_own(tmp_path / "r", own_of(tmp_path / "whole", trainers), trainers)


# -- checkpoints ---------------------------------------------------------------------------------------------------------------


def keep(folder, steps):
    return ("--checkpoint", folder, "--checkpoint-steps", steps, "--checkpoint-keep", 999)


def assert_goes_on(folder, step, tmp_path, want, *args):
    """The job goes on from that checkpoint, with other numbers of servers, as if there had been no other."""
    alone = tmp_path / f"from-{step}"
    shutil.copytree(checkpoints.find(folder, step).folder, alone / Path(checkpoints.find(folder, step).folder).name)
    text = launch_under_mpi(1, 2, *ARGS, *args, "--out", tmp_path / "again.npz", version="5", options=("--checkpoint", alone, "--resume"))
    assert f"going on from step {step}" in text, text
    for name, value in want.items():
        assert np.array_equal(params(tmp_path / "again.npz")[name], value), f"{name} differs from step {step} on:\n{text}"


@pytest.mark.parametrize("victim", [0, 1])
def test_checkpoints_before_and_after_a_replacement_are_whole(victim, uninterrupted, tmp_path):
    folder, out = tmp_path / "c", tmp_path / "params.npz"
    job, ranks = start(tmp_path, "--sparse", "--out", out, options=keep(folder, 4))
    job.wait_for(lambda: len(checkpoints.steps(folder)) > 1, "checkpoints")
    time.sleep(random.uniform(0, 0.1))
    os.kill(ranks.known[2 + victim].pid, signal.SIGKILL)
    before = checkpoints.steps(folder)[0]
    text = go_on(job)
    assert f"takes the place of trainer {victim}" in text, text
    for name, value in uninterrupted.items():
        assert np.array_equal(params(out)[name], value), f"{name} differs:\n{text}"
    steps = [step for step in checkpoints.steps(folder) if checkpoints.find(folder, step).verify() is None]
    after = [step for step in steps if step > before]
    assert steps[0] == 120 and len(after) > 1, steps
    assert {checkpoints.find(folder, step).trainer(0)[:2] for step in steps} == {(step, step) for step in steps}
    assert_goes_on(folder, after[-1], tmp_path, uninterrupted, "--sparse")
    assert_goes_on(folder, before, tmp_path, uninterrupted, "--sparse")


@pytest.mark.parametrize("asked", ["launcher", "trainer 1"])
def test_a_trainer_asked_to_stop_that_dies_has_a_replacement_that_stops(asked, tmp_path):
    folder = tmp_path / "c"
    job, ranks = start(tmp_path, "--steps", 3000, options=keep(folder, 1000))
    os.kill(ranks.known[2].pid, signal.SIGSTOP)        # it has no time to act on it
    if asked == "launcher":
        job.process.send_signal(signal.SIGTERM)
    else:
        os.kill(ranks.known[3].pid, signal.SIGUSR1)
    time.sleep(0.5)
    os.kill(ranks.known[2].pid, signal.SIGKILL)
    code, text = job.end()
    step = checkpoints.steps(folder)[0]
    assert code == 75 and "takes the place of trainer 0" in text, text
    name = "SIGTERM" if asked == "launcher" else "SIGUSR1"
    assert f"stopped by {name} after step {step}; the checkpoint is " in text, text
    checkpoints.find(folder, step).verify()


def test_a_replacement_of_a_resumed_job_counts_from_where_that_began_though_trainer_0_has_left(tmp_path):
    folder, left = tmp_path / "c", tmp_path / "left"
    launch(2, 2, "--steps", 10, script=RESUME, options=keep(folder, 5))
    job = Launched(2, 2, "--steps", 200, "--pause", 0.02, "--leave", left, script=RESUME, version="5", replacements=True,
                   options=("--mode", "async", *keep(folder, 1000), "--resume"), hold=tmp_path / "go")
    ranks = job.ranks()
    job.wait_for(left.exists, "one that has left")
    job.await_word("left.2")
    os.kill(ranks.known[3].pid, signal.SIGKILL)
    text = go_on(job)
    assert "takes the place of trainer 1" in text and "trainer 1: 190 steps to step 200" in text, text
    assert not list(folder.glob(".began-*"))


# -- loops of the core ------------------------------------------------------------------------------------------------------------


def counts_in(folder):
    """How often each line was trained on, by the newest checkpoint: as loops.py has them."""
    return np.round(-checkpoints.newest(folder)["counts"][:, 0] * 4 / 0.5, 3)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_replacement_goes_on_in_the_middle_of_a_pass(victim, tmp_path):
    launch(2, 2, tmp_path / "data", "--deep", "--out", tmp_path / "whole.npz", script=LOOPS)
    job, ranks = start(tmp_path, tmp_path / "data", "--deep", "--pause", 0.1, "--out", tmp_path / "r.npz", script=LOOPS,
                       options=keep(tmp_path / "c", 3))
    job.wait_for(lambda: checkpoints.steps(tmp_path / "c"), "a checkpoint")
    os.kill(ranks.known[2 + victim].pid, signal.SIGKILL)
    text = go_on(job)
    assert f"takes the place of trainer {victim}" in text, text
    for name, value in params(tmp_path / "whole.npz").items():
        assert np.array_equal(params(tmp_path / "r.npz")[name], value), f"{name} differs:\n{text}"
    assert checkpoints.steps(tmp_path / "c")[0] == 32


@pytest.mark.parametrize("victim", [0, 1])
def test_a_replacement_takes_leased_tasks(victim, tmp_path):
    """Each line counts once in each of two passes, but for those of a step or two that one server had of the dead and another not."""
    folder = tmp_path / "c"
    job, ranks = start(tmp_path, tmp_path / "data", "--pause", 0.1, script=LOOPS, options=("--mode", "async", *keep(folder, 2)))
    job.wait_for(lambda: checkpoints.steps(folder), "a checkpoint")
    time.sleep(random.uniform(0, 0.2))
    os.kill(ranks.known[2 + victim].pid, signal.SIGKILL)
    text = go_on(job)
    assert f"takes the place of trainer {victim}" in text, text
    launch_under_mpi(1, 1, tmp_path / "data", script=LOOPS, options=("--mode", "async", *keep(folder, 1000), "--resume"), version="5")
    counts = counts_in(folder)
    assert counts.min() >= 2 and counts.sum() <= 2 * counts.size + 8, (counts, text)
