"""What a script sets between two steps, and operators that write what the servers have, or read a parameter after its update: a job
computes what one process computes.
"""

import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from job_support import Launched, alone, launch, needs_mpi

import trireme as fluid
from trireme import layers
from trireme.job.mode import parse
from trireme.distributed.optimize_part import is_training
from trireme.distributed.transpiler import transpile

JOBS = Path(__file__).parent / "jobs"
VALUES, SETS = JOBS / "values.py", JOBS / "sets.py"
ONLY_TRAINER_0 = {"end.w1_velocity_0"}               # for a save trainer 0 fetches the optimizers' states


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "r"
    alone("--out", path, script=VALUES)
    return dict(np.load(f"{path}.0.npz"))


def assert_same(path, trainers, want):
    for index in range(trainers):
        got = dict(np.load(f"{path}.{index}.npz"))
        assert got.keys() == want.keys() and len(got) > 200
        for key in want.keys() - (ONLY_TRAINER_0 if index else set()):
            np.testing.assert_array_equal(got[key], want[key], err_msg=f"{key} of trainer {index}")


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize(("servers", "trainers", "mode"), [(1, 1, "sync"), (1, 2, "sync"), (2, 2, "sync(degraded)")])
def test_set_values_count_as_in_one_process(servers, trainers, mode, one_process, tmp_path):
    launch(servers, trainers, "--out", tmp_path / "r", script=VALUES, options=("--mode", mode))
    assert_same(tmp_path / "r", trainers, one_process)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("victims", [(1,), (3,), (0, 1, 2, 3)], ids=["server 1", "trainer 1", "all ranks"])
def test_deaths_cost_no_bit_of_what_is_set(victims, one_process, tmp_path):
    job = Launched(2, 2, "--out", tmp_path / "r", "--seen", tmp_path / "seen", script=VALUES)
    ranks = job.ranks()
    job.await_training(tmp_path / "seen.0")
    time.sleep(random.uniform(0.0, 0.4))
    for victim in victims:
        os.kill(ranks.known[victim].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0, text
    for index in range(2):                             # fetches of replayed steps that nobody kept are NaN
        got = dict(np.load(f"{tmp_path / 'r'}.{index}.npz"))
        for key in (f"20.{name}" for name in ("w0", "w1", "b1", "w2", "by_hand")):
            np.testing.assert_array_equal(got[key], one_process[key], err_msg=f"{key} of trainer {index}: {text}")


def run_sets(*hows, **how):
    job = Launched(1, len(hows), *hows, script=SETS, options=("--mode", how.get("mode", "sync"), "--restarts", "0"))
    return job.end()


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize(("hows", "mode", "text"), [
    (("nothing", "7"), "sync", "has set 'w' before step 3, and trainer 0 has not"),
    (("7", "8"), "sync", "'w' before step 3, and trainer"),
    (("rates",), "sync", "'learning_rate_0' was set to float32[2] after step 2; the servers have 4 bytes of float32"),
    (("startup",), "sync", "the servers have the rows of table 'rows' since the first step"),
    (("startup",), "geo(2)", "the servers have the rows of table 'rows' since the first step"),
    (("7",), "sync(backups=1)", "in mode sync(backups=1) the servers take no values that a script sets"),
])
def test_values_that_a_job_cannot_take_are_refused_by_name(hows, mode, text):
    code, printed = run_sets(*hows, mode=mode)
    assert code == 1 and text in printed, printed


@needs_mpi
@pytest.mark.mpi
def test_in_async_the_values_of_trainer_0_count_and_others_say_so():
    code, printed = run_sets("rate", "rate", mode="async")
    assert code == 0 and ("trainer 1: 'learning_rate_0' was set after step 2; in mode async what the script of trainer 0 sets "
                          "counts") in printed, printed
    code, printed = run_sets("100", mode="async")
    assert code == 0 and "trainer 0: [-1.0, -2.0, 99.0, 98.0]" in printed, printed


# -- programs ---------------------------------------------------------------------------------------------------------


def net():
    x = layers.data("x", [4])
    w = layers.create_parameter([4, 3], "float32", name="w")
    loss = layers.mean(layers.square(layers.mul(x, w)))
    return w, loss


def types(program):
    return [op.type for op in program.global_block().ops]


def test_an_operator_that_writes_a_parameter_behind_its_update_moves_to_the_servers():
    w, loss = net()
    fluid.optimizer.SGD(0.1).minimize(loss)
    layers.assign(layers.clip(w, -1.0, 1.0), w)
    result = transpile(fluid.default_main_program(), 1)
    assert types(result.servers[0]) == ["sgd", "clip", "assign", "assign"]
    assert "clip" not in types(result.trainer)
    assert [op.attr("op_pointwise_on") for op in result.servers[0].global_block().ops[:3]] == ["w"] * 3


def test_an_operator_that_writes_a_parameter_before_the_step_runs_on_both_sides():
    x = layers.data("x", [4])
    w = layers.create_parameter([4, 3], "float32", name="w")
    layers.assign(layers.clip(w, -1.0, 1.0), w)
    fluid.optimizer.SGD(0.1).minimize(layers.mean(layers.square(layers.mul(x, w))))
    result = transpile(fluid.default_main_program(), 1)
    assert types(result.servers[0]) == ["clip", "assign", "sgd", "assign"]
    assert types(result.trainer)[:4] == ["send_sets", "recv_wait", "clip", "assign"]


def test_an_operator_that_reads_a_parameter_behind_its_update_waits_for_it():
    w, loss = net()
    fluid.optimizer.SGD(0.1).minimize(loss)
    mean = layers.create_global_var([4, 3], 0.0, "float32", persistable=True, name="mean")
    layers.assign(mean * 0.5 + w * 0.5, mean)
    kinds = types(transpile(fluid.default_main_program(), 1).trainer)
    assert kinds[kinds.index("fetch_barrier"):] == ["fetch_barrier", "scale", "elementwise_add", "assign"]
    kinds = types(transpile(fluid.default_main_program(), 1, mode=parse("geo(3)")).trainer)
    assert kinds[-1] == "exchange_deltas" and "fetch_barrier" not in kinds


def test_averages_of_the_library_stay_with_the_trainers():
    w, loss = net()
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    fluid.optimizer.ExponentialMovingAverage(0.9).update()
    fluid.optimizer.ModelAverage(0.5, min_average_window=2, max_average_window=4)
    result = transpile(fluid.default_main_program(), 1)
    kinds = types(result.trainer)
    assert types(result.servers[0]) == ["momentum", "assign"]
    assert kinds[kinds.index("fetch_barrier") + 1:][-1] == "average_accumulates" and types(result.after)[-1] == "average_accumulates"
    assert not is_training(result.after)


def test_operators_around_updates_that_no_job_can_run_are_refused_by_name():
    def behind(write, match):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            w, loss = net()
            optimizer = fluid.optimizer.Momentum(0.1, 0.9)
            optimizer.minimize(loss)
            write(w, loss, optimizer)
            with pytest.raises(fluid.core.EnforceNotMet, match=match):
                transpile(fluid.default_main_program(), 2)

    def second(w, loss, optimizer):
        other = layers.create_parameter([4, 3], "float32", name="other")
        fluid.optimizer.SGD(0.1).minimize(layers.mean(layers.square(w * other)))

    def between(w, loss, optimizer):
        mean = layers.create_global_var([4, 3], 0.0, "float32", persistable=True, name="mean")
        layers.assign(w * 0.5, mean)
        layers.assign(layers.clip(w, -1.0, 1.0), w)

    behind(lambda w, loss, _: layers.assign(w * loss, w), "writes 'w', which the parameter servers have.*depends on the data")
    behind(lambda w, loss, _: layers.assign(w + layers.gaussian_random([4, 3]), w), "draws random numbers")
    behind(lambda w, loss, o: layers.Print(fluid.default_main_program().global_block().var("w_velocity_0")),
           "after the optimizers have changed it")
    behind(second, "from parameters that an optimizer has updated; in a job all gradients")
    behind(between, "reads between two updates")
