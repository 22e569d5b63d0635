"""Jobs that lose a process and come home all the same."""

import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from job_support import SCRIPT, Launched, each_mpi, launch, needs_mpi

from trireme.launch.watch import Ranks

pytestmark = pytest.mark.mpi
STEPS = 120
ARGS = ("--steps", STEPS, "--optimizer", "adam", "--pause", 0.004, "--clip", 0.2)     # servers exchange sums in every step


def params(path):
    with np.load(path) as data:
        return {name: data[name] for name in data.files if name != "losses"}


def state_left():
    return {path.name for path in Path("/dev/shm").glob(f"trireme-state-{os.getpid()}-*")}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "params.npz"
    launch(2, 2, *ARGS, "--out", out)
    return params(out)


def start(tmp_path, version=None, options=()):
    """A job that has made its first step."""
    mark, out = tmp_path / "begun", tmp_path / "params.npz"
    mark.unlink(missing_ok=True)
    job = Launched(2, 2, *ARGS, "--out", out, "--mark", mark, version=version, options=options, hold=tmp_path / "go")
    ranks = job.ranks()
    job.await_training(mark)
    return job, ranks, out


def check_whole(job, out, uninterrupted, said):
    code, text = job.end()
    assert code == 0, text
    assert said in text, text
    for name, value in uninterrupted.items():
        assert np.array_equal(params(out)[name], value), f"{name} differs:\n{text}"
    assert not list(Path("/dev/shm").glob(f"trireme-state-{job.process.pid}-*"))
    return text


@each_mpi
@pytest.mark.parametrize("victim", [0, 1, 2, 3])
@pytest.mark.turns(2)
def test_a_killed_rank_costs_no_bit(version, victim, uninterrupted, tmp_path):
    job, ranks, out = start(tmp_path, version)
    time.sleep(random.uniform(0.0, 0.4))
    os.kill(ranks.known[victim].pid, signal.SIGKILL)
    text = check_whole(job, out, uninterrupted, "the others go on" if victim < 2 else "starting the job again (1 of 3)")
    assert ("the others go on" in text) == (victim < 2), text


@each_mpi
@pytest.mark.turns(2)
def test_a_job_without_a_standby_left_starts_again(version, uninterrupted, tmp_path):
    job, ranks, out = start(tmp_path, version)
    for victim in (0, 1):
        os.kill(ranks.known[victim].pid, signal.SIGKILL)
        time.sleep(0.2)
    check_whole(job, out, uninterrupted, "starting the job again (1 of 3)")


@needs_mpi
def test_a_server_that_dies_in_the_first_step_is_a_new_start(tmp_path):
    """The trainer has told the servers their work, and waits for what they have."""
    mark = tmp_path / "pulls"
    job = Launched(1, 1, mark, script=SCRIPT.with_name("first_pull.py"), options=("--standbys", 0, "--restarts", 1))
    ranks = job.ranks()
    job.await_training(mark)
    os.kill(ranks.known[0].pid, signal.SIGKILL)
    mark.unlink()
    code, text = job.end()
    assert code == 0 and "starting the job again (1 of 1)" in text, text


@each_mpi
@pytest.mark.turns(2, at=1)
def test_a_server_that_sleeps_too_long_is_replaced(version, uninterrupted, tmp_path):
    job, ranks, out = start(tmp_path, version)
    os.kill(ranks.known[1].pid, signal.SIGSTOP)
    check_whole(job, out, uninterrupted, "rank 1 (server 1) was silent for 3.0 s; the others go on")


@each_mpi
@pytest.mark.turns(2)
def test_a_standby_that_dies_is_missed_by_nobody(version, uninterrupted, tmp_path):
    job, ranks, out = start(tmp_path, version)
    standbys = Ranks(job.process.pid, Path("/nonexistent"), 2, 2, 1)
    while 4 not in standbys.known:
        standbys.look(0.005)
    os.kill(standbys.known[4].pid, signal.SIGKILL)
    check_whole(job, out, uninterrupted, "rank 4 (standby 0) died; the others go on")


@each_mpi
def test_a_killed_mpirun_costs_no_bit(version, uninterrupted, tmp_path):
    job, ranks, out = start(tmp_path, version)
    time.sleep(random.uniform(0.0, 0.4))
    os.kill(int(Path(f"/proc/{ranks.known[0].pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    check_whole(job, out, uninterrupted, "starting the job again (1 of 3)")


@needs_mpi
def test_a_rank_that_sleeps_too_long_is_replaced(uninterrupted, tmp_path):
    job, ranks, out = start(tmp_path)
    os.kill(ranks.known[2].pid, signal.SIGSTOP)
    check_whole(job, out, uninterrupted, "starting the job again (1 of 3)")


@each_mpi
@pytest.mark.turns(2, at=1)
def test_trainers_that_all_sleep_too_long_are_a_new_start(version, uninterrupted, tmp_path):
    """The standby finds that nobody is left whom it could serve, and leaves, perhaps before the servers give up: it cannot say then that
    others go on without them."""
    job, ranks, out = start(tmp_path, version)
    for victim in (2, 3):
        os.kill(ranks.known[victim].pid, signal.SIGSTOP)
    text = check_whole(job, out, uninterrupted, "starting the job again (1 of 3)")
    assert "the others go on" not in text, text


@needs_mpi
def test_a_job_is_not_started_again_after_an_error_of_the_script():
    code, text = Launched(1, 2, "--fault", "raise", "--fault-trainer", 1).end()
    assert code == 1 and "again" not in text, text


@needs_mpi
def test_deaths_without_end_end_the_job():
    code, text = Launched(1, 1, "--steps", 40, "--fault", "kill", options=("--restarts", 1)).end()
    assert code != 0 and "starting the job again (1 of 1)" in text and "the job failed" in text, text


@each_mpi
@pytest.mark.soak
def test_ranks_killed_at_any_moment_cost_no_bit(version, uninterrupted, tmp_path):
    end = time.monotonic() + float(os.environ.get("TRIREME_SOAK_SECONDS", "60"))
    while time.monotonic() < end:
        job, ranks, out = start(tmp_path, version)
        time.sleep(random.uniform(0.0, 1.0))
        try:                                           # now and then the second in a row, too soon after the first
            if random.random() < 0.3:
                os.kill(ranks.known[random.randrange(4)].pid, signal.SIGKILL)
                time.sleep(random.uniform(0.0, 0.1))
            os.kill(ranks.known[random.randrange(4)].pid, signal.SIGKILL)
        except ProcessLookupError:
            pass                                       # the job was at its end
        check_whole(job, out, uninterrupted, "")
