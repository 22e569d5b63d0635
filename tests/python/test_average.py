"""Mode average(k): local SGD (Stich, 2019). Trainers take k steps by themselves; then their parameters become the mean of all."""

import os
import random
import signal
import time

import numpy as np
import pytest
from job_support import SCRIPT, Launched, alone, ended, needs_mpi, results

from trireme.job import mode as modes
from trireme.errors import TriremeError

LOCAL = SCRIPT.with_name("local_sgd.py")


def local_sgd(trainers, steps, period):
    """What jobs/local_sgd.py trains, by NumPy in float64: w and the rows of the table after the last step, which is an exchange."""
    w, rows = np.zeros((trainers, 3)), np.zeros((trainers, 10))
    speed_w, speed_rows = np.zeros_like(w), np.zeros_like(rows)
    for step in range(steps):
        for t in range(trainers):
            rng = np.random.default_rng((step, t))
            x, word, target = rng.normal(size=(4, 3)), rng.integers(0, 10, (4, 1))[:, 0], rng.normal(size=(4, 1))[:, 0]
            slope = 2 * (x @ w[t] + rows[t][word] - target) / 4
            speed_w[t] = 0.5 * speed_w[t] + x.T @ slope
            w[t] -= 0.05 * speed_w[t]
            touched = np.unique(word)
            speed_rows[t][touched] = 0.5 * speed_rows[t][touched] + np.bincount(word, slope, 10)[touched]
            rows[t][touched] -= 0.05 * speed_rows[t][touched]
        if (step + 1) % period == 0:
            w[:], rows[:] = w.mean(0), rows.mean(0)
    return w[0], rows[0]


def run(tmp_path, servers, trainers, mode, *args, name="r", kill=None, options=()):
    job = Launched(servers, trainers, "--out", tmp_path / name, *args, script=LOCAL, options=("--mode", mode, *options), replacements=True)
    if kill is not None:
        ranks = job.ranks()
        job.await_training(tmp_path / "begun")
        time.sleep(random.uniform(0.0, 0.3))
        os.kill(ranks.known[kill].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0, text
    found = []
    for index in range(trainers):
        with np.load(tmp_path / f"{name}.{index}.npz") as data:
            found.append({name: data[name].ravel() for name in data.files})
    return found


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize(("servers", "trainers", "period"), [(1, 2, 3), (2, 3, 4), (2, 2, 1)])
def test_parameters_become_the_mean_of_all_trainers(servers, trainers, period, tmp_path):
    w, rows = local_sgd(trainers, 12, period)
    for one in run(tmp_path, servers, trainers, f"average({period})", "--steps", 12):
        np.testing.assert_allclose(one["w"], w, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(one["rows"], rows, rtol=2e-5, atol=2e-6)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("victim", [0, 2, 3])
def test_a_death_changes_no_bit(victim, tmp_path):
    args = ("--steps", 120, "--pause", 0.005)
    whole = run(tmp_path, 2, 2, "average(4)", *args, name="whole")
    for one, other in zip(whole, run(tmp_path, 2, 2, "average(4)", *args, "--mark", tmp_path / "begun", kill=victim), strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@needs_mpi
@pytest.mark.mpi
def test_a_resumed_job_has_the_bits_of_one_that_was_not_stopped(tmp_path):
    """Where the optimizer keeps nothing: a checkpoint has one trainer's state of it, for all."""
    options = ("--checkpoint", tmp_path / "c", "--checkpoint-steps", 8)
    whole = run(tmp_path, 2, 2, "average(4)", "--momentum", 0, "--steps", 40, name="whole")
    run(tmp_path, 2, 2, "average(4)", "--momentum", 0, "--steps", 24, options=options)
    for one, other in zip(whole, run(tmp_path, 1, 2, "average(4)", "--momentum", 0, "--steps", 40, options=(*options, "--resume")),
                          strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@needs_mpi
@pytest.mark.mpi
def test_the_number_of_servers_changes_no_bit(tmp_path):
    one, two = (run(tmp_path, servers, 3, "average(3)", name=f"{servers}")[0] for servers in (1, 2))
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)


@needs_mpi
@pytest.mark.mpi
def test_a_trainer_alone_is_one_process_but_for_the_rounding_of_differences(tmp_path):
    alone("--optimizer", "adam", "--out", tmp_path / "one.npz")
    code, text = ended(2, 1, "--optimizer", "adam", "--out", tmp_path / "job.npz", options=("--mode", "average(3)"))
    assert code == 0, text
    one, job = results(tmp_path / "one.npz"), results(tmp_path / "job.npz")
    for name in one:
        np.testing.assert_allclose(job[name], one[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("text", "told"), [("average", "average needs a number, like average"), ("average(0)", "a whole number from 1"),
                                            ("avarage(3)", "average")])
def test_mistakes_in_the_mode_are_explained(text, told):
    with pytest.raises(TriremeError, match=told):
        modes.parse(text)
