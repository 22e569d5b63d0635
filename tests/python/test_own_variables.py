"""What trainers alone have is there after any restart of a job, to the bit."""

import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from job_support import Launched, launch, needs_mpi, own_of

import trireme as fluid
from trireme.job.mode import parse
from trireme.distributed.transpiler import transpile

OWN = Path(__file__).parent / "jobs" / "own.py"
BATCH_NORM = ["batch_norm_0.w_1", "batch_norm_0.w_2"]


def kept_by(program):
    ops = [op for op in program.global_block().ops if op.type == "keep_variables"]
    return [name for op in ops for name in op.input("X")]


def net(norm):
    x, y = fluid.layers.data("x", [3]), fluid.layers.data("y", [1])
    hidden = fluid.layers.fc(x, 4)
    hidden = fluid.layers.batch_norm(hidden) if norm else hidden
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    return fluid.default_main_program()


def test_a_program_without_such_variables_keeps_none():
    assert kept_by(transpile(net(norm=False), 2).trainer) == []


def test_a_trainers_own_variables_are_kept_before_the_step_is_ended():
    trainer = transpile(net(norm=True), 2).trainer
    assert kept_by(trainer) == BATCH_NORM
    types = [op.type for op in trainer.global_block().ops]
    assert types.index("keep_variables") + 1 == types.index("send_barrier")


def test_in_mode_geo_the_optimizers_state_is_kept_with_each_exchange():
    result = transpile(net(norm=True), 2, mode=parse("geo(5)"))
    for program in (result.trainer, result.idle, result.flush):
        assert set(BATCH_NORM) < set(kept_by(program)) and "fc_0.w_0_velocity_0" in kept_by(program)
        assert "fc_0.w_0" not in kept_by(program)
        assert [op.type for op in program.global_block().ops][-2:] == ["keep_variables", "exchange_deltas"]


# -- jobs -----------------------------------------------------------------------------------------------------------


def assert_same(got, want):
    assert got.keys() == want.keys() and len(got) > 10
    for key, array in want.items():
        np.testing.assert_array_equal(got[key], array, err_msg=str(key))


def run_killed(servers, trainers, victims, tmp_path, *args, options=()):
    """A job in which these ranks (None: mpirun) are killed at some moment after the first step; its results."""
    mark = tmp_path / "begun"
    job = Launched(servers, trainers, "--out", tmp_path / "killed", "--mark", mark, *args, script=OWN, options=options)
    ranks = job.ranks()
    job.await_training(mark)
    time.sleep(random.uniform(0.0, 0.4))
    parent = int(Path(f"/proc/{ranks.known[0].pid}/stat").read_text().rpartition(")")[2].split()[1])
    for victim in victims:
        os.kill(parent if victim is None else ranks.known[victim].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "starting the job again (1 of 3)" in text, text
    assert not list(Path("/dev/shm").glob(f"trireme-state-{job.process.pid}-*"))
    return own_of(tmp_path / "killed", trainers)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "r"
    launch(2, 2, "--out", path, "--pause", 0, script=OWN)
    return own_of(path, 2)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("victims", [(3,), (0, 1, 2, 3), (None,)], ids=["trainer 1", "all ranks", "mpirun"])
def test_a_restart_costs_no_bit_of_what_trainers_have(victims, uninterrupted, tmp_path):
    assert_same(run_killed(2, 2, victims, tmp_path), uninterrupted)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("table", [(), ("--table",)], ids=["dense", "table"])
def test_a_restart_costs_no_bit_of_a_lone_trainer_in_mode_geo(table, tmp_path):
    """What it had not exchanged is computed anew, with what its optimizer had at the exchange, of a table's rows, too. (mpirun dies:
    servers whose last trainer has died leave nothing.)"""
    launch(1, 1, "--out", tmp_path / "whole", "--pause", 0, *table, script=OWN, options=("--mode", "geo(7)"))
    assert_same(run_killed(1, 1, (None,), tmp_path, *table, options=("--mode", "geo(7)")), own_of(tmp_path / "whole", 1))
