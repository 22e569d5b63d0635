"""Jobs of real ranks keep checkpoints, stop, and go on as if they had not."""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from job_support import (
    LIMIT, MPIS, Launched, alone, assert_within, each_mpi, environment, job_lines, launch, launch_under_mpi, needs_mpi, results,
    wait_for_newest,
)

from trireme import checkpoint as checkpoints
from trireme.launch.mpi import Layout, command_line
from trireme.launch.programs import server_program

pytestmark = [needs_mpi, pytest.mark.mpi]

RESUME = Path(__file__).parent / "jobs" / "resume.py"


def keep(folder, steps=5, *more):
    return ("--checkpoint", folder, "--checkpoint-steps", steps, *more)


def assert_goes_on(got, want, first):
    """The last steps of another run, bit for bit."""
    assert got.keys() == want.keys()
    np.testing.assert_array_equal(got["losses"], want["losses"][first:])
    for name, array in want.items():
        if name != "losses":
            np.testing.assert_array_equal(got[name], array, err_msg=name)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "r.npz"
    launch(2, 2, "--out", path, script=RESUME)
    return results(path)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The checkpoints of a job whose trainer 0 died before step 13."""
    folder = tmp_path_factory.mktemp("killed") / "c"
    code, text = Launched(2, 2, "--kill", 13, "--pause", 0.02, script=RESUME, options=keep(folder, 5, "--restarts", 0)).end()
    assert code == 1 and "died" in text
    assert checkpoints.steps(folder)[0] == 10
    return folder


def copy_of(folder, tmp_path):
    subprocess.run(["cp", "-r", folder, tmp_path / "c"], check=True)
    return tmp_path / "c"


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_a_resumed_job_ends_like_one_that_was_not_stopped(servers, killed, uninterrupted, tmp_path):
    folder = copy_of(killed, tmp_path)
    text = launch(servers, 2, "--out", tmp_path / "r.npz", script=RESUME, options=keep(folder, 5, "--resume"))
    assert f"going on from step 10, {folder}/step-000000010" in text and "trainer 1: 10 steps to step 20" in text
    assert_goes_on(results(tmp_path / "r.npz"), uninterrupted, 10)
    assert checkpoints.steps(folder)[0] == 20
    for step in checkpoints.steps(folder):
        checkpoints.find(folder, step).verify()


def test_a_trainer_without_a_step_since_the_launch_goes_on_as_the_others_do(tmp_path):
    """Trainer 1 had come to the end of its data before. When the job is started again, the servers' memory counts from the checkpoint that
    the launch began with, for a trainer that has no step in it, too, and not from a newer one."""
    folder, mark = tmp_path / "c", tmp_path / "mark"
    args = ("--few", "--steps", 60, "--pause", 0.03, "--mark", mark)
    code, text = Launched(1, 2, *args, "--ask", 8, script=RESUME, options=keep(folder, 5, "--mode", "async")).end()
    assert code == 75, text
    job = Launched(1, 2, *args, script=RESUME, options=keep(folder, 5, "--mode", "async", "--resume", "--standbys", 0))
    ranks = job.ranks()
    wait_for_newest(folder, job.process, checkpoints.steps(folder)[0])
    os.kill(ranks.known[0].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "from the memory of its servers" in text, text
    assert checkpoints.newest(folder).trainer(0)[0] == 60


def test_a_script_needs_to_know_nothing(killed, uninterrupted, tmp_path):
    folder = copy_of(killed, tmp_path)
    launch(3, 2, "--plain", "--out", tmp_path / "r.npz", script=RESUME, options=keep(folder, 50, "--resume"))
    assert_goes_on(results(tmp_path / "r.npz"), uninterrupted, 0)      # the first ten losses are those of before


@pytest.mark.parametrize("how", [(), ("--plain",)], ids=["resumed", "plain"])
def test_a_resumed_job_that_loses_a_rank_ends_the_same(how, killed, uninterrupted, tmp_path):
    """Started again from the servers' memory, with checkpoints after it and before it."""
    folder = copy_of(killed, tmp_path)
    text = launch(2, 2, *how, "--kill", 17, "--pause", 0.02, "--out", tmp_path / "r.npz", script=RESUME,
                  options=keep(folder, 5, "--resume"))
    assert "starting the job again" in text
    got = results(tmp_path / "r.npz")
    got["losses"] = got["losses"][-3:]
    assert_goes_on(got, uninterrupted, 17)
    assert not list(folder.glob(".began-*"))


def test_a_trainer_that_has_no_batch_left_ends_well(tmp_path):
    """It makes no step, but agrees to the work that the others go on with."""
    launch(2, 2, "--few", script=RESUME, options=keep(tmp_path / "c", 5, "--mode", "async"))
    assert checkpoints.find(tmp_path / "c", 20).trainer(1)[0] == 4
    text = launch(2, 2, "--few", "--steps", 30, script=RESUME, options=keep(tmp_path / "c", 5, "--mode", "async", "--resume"))
    assert "going on from step 20" in text and "trainer 1: 0 steps to step 4" in text, text
    assert checkpoints.find(tmp_path / "c", 30).trainer(1)[0] == 4


def test_a_trainer_that_makes_no_step_is_where_the_checkpoint_had_it(tmp_path):
    for steps in (20, 30):
        launch(2, 2, "--few", "--steps", steps, "--keep-in", tmp_path / "c", script=RESUME, options=("--mode", "async"))
        found = checkpoints.newest(tmp_path / "c")
        assert found.trainer(1) == (4, 4, b"of trainer 1") and found.trainer(0) == (steps, steps, b"of trainer 0")


def test_a_folder_that_the_script_names_is_for_one_job_at_a_time(tmp_path):
    """Two wrote there, and each removed and took up what was the other's."""
    folder = tmp_path / "c"
    first = Launched(1, 1, "--steps", 100_000, "--pause", 0.01, "--keep-in", folder, "--mark", tmp_path / "begun", script=RESUME)
    first.await_training(tmp_path / "begun")
    code, text = Launched(1, 1, "--keep-in", folder, script=RESUME).end()
    assert code == 1 and f"checkpoint: folder '{folder}': another job that runs keeps its own there" in text, text
    code, text = Launched(1, 1, script=RESUME, options=("--checkpoint", folder)).end()
    assert code == 2 and f"--checkpoint {folder}: another job that runs keeps its own there" in text, text
    first.process.send_signal(signal.SIGTERM)
    assert first.end()[0] == 75 and not list(folder.glob(".began-*"))
    launch(1, 1, "--keep-in", folder, "--steps", 8, script=RESUME)


def test_a_folder_that_cannot_be_made_is_refused_before_the_first_step(tmp_path):
    (tmp_path / "file").touch()
    code, text = Launched(1, 2, "--mark", tmp_path / "begun", script=RESUME, options=("--checkpoint", tmp_path / "file" / "c")).end()
    assert code == 1 and f"cannot create the folder '{tmp_path / 'file' / 'c'}': Not a directory" in text and "again" not in text, text
    assert not (tmp_path / "begun").exists()


def test_a_folder_of_the_launcher_is_not_anothers_that_a_script_names(tmp_path):
    first = Launched(1, 1, "--steps", 100_000, "--pause", 0.01, "--mark", tmp_path / "begun", script=RESUME,
                     options=("--checkpoint", tmp_path / "c"))
    first.await_training(tmp_path / "begun")
    code, text = Launched(1, 1, "--keep-in", tmp_path / "c", script=RESUME).end()
    assert code == 1 and "another job that runs keeps its own there" in text, text
    assert list((tmp_path / "c").glob(".began-*"))
    first.process.send_signal(signal.SIGINT)
    assert first.end()[0] == 128 + signal.SIGINT and not list((tmp_path / "c").glob(".began-*"))


def test_a_parameter_is_in_pieces_and_is_one_array(killed):
    found = checkpoints.find(killed, 10)
    assert found.parts == 3 and found.mode == "sync"
    assert found.arrays["fc_1.w_0"].shape == found.arrays["fc_1.w_0_moment1_0"].shape == (80, 300)
    assert found.arrays["fc_1.w_0_moment1_0"].param == "fc_1.w_0"
    assert found.trainer(0) == (10, 10, None)
    kinds = {array.kind for array in found.arrays.values()}
    assert kinds == {"parameter", "optimizer", "schedule", "statistic"}


def test_a_damaged_one_is_named_and_the_one_before_it_taken(killed, uninterrupted, tmp_path):
    folder = copy_of(killed, tmp_path)
    path = next((folder / "step-000000010").glob("part-00001-*"))
    data = bytearray(path.read_bytes())
    data[100] ^= 16
    path.write_bytes(data)
    text = launch(2, 2, "--out", tmp_path / "r.npz", script=RESUME, options=keep(folder, 5, "--resume"))
    assert f"'{path}': chunk 0 (bytes 0 to {len(data)}): expected the checksum " in text
    assert "the checkpoint before it is taken" in text and "going on from step 5" in text
    assert_goes_on(results(tmp_path / "r.npz"), uninterrupted, 5)


def test_a_job_goes_on_only_from_what_is_there(uninterrupted, tmp_path):
    code, text = Launched(1, 2, script=RESUME, options=keep(tmp_path / "c", 50, "--resume")).end()
    assert code == 2 and f"--resume: the folder '{tmp_path / 'c'}' does not exist" in text, text
    launch(1, 2, "--out", tmp_path / "r.npz", script=RESUME, options=keep(tmp_path / "c", 50))
    assert_goes_on(results(tmp_path / "r.npz"), uninterrupted, 0)
    assert checkpoints.steps(tmp_path / "c") == [20]                 # the one at the end
    text = launch(1, 2, "--steps", 24, script=RESUME, options=keep(tmp_path / "c", 50, "--resume"))
    assert "trainer 0: 4 steps to step 24" in text


def test_a_script_can_say_it_itself(uninterrupted, tmp_path):
    code, _ = Launched(2, 2, "--keep-in", tmp_path / "c", "--ask", 11, script=RESUME).end()
    assert code == 75
    assert checkpoints.newest(tmp_path / "c").trainer(0) == (11, 11, b"of trainer 0")
    launch(1, 2, "--keep-in", tmp_path / "c", "--out", tmp_path / "r.npz", script=RESUME)
    assert_goes_on(results(tmp_path / "r.npz"), uninterrupted, 11)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.turns(2)
def test_a_rank_that_dies_while_checkpoints_are_written(mode, victim, tmp_path):
    """A checkpoint in every step: whatever is under way, the job goes on and what is there is whole."""
    steps, folder = 60, tmp_path / "c"
    args = ("--steps", steps, "--plain", "--pause", 0.01)
    job = Launched(2, 2, *args, "--mark", tmp_path / "mark", "--out", tmp_path / "r.npz", script=RESUME,
                   options=("--mode", mode, *keep(folder, 1)))
    ranks = job.ranks()
    job.await_training(tmp_path / "mark")
    time.sleep(random.uniform(0.0, 0.6))
    os.kill(ranks.known[victim].pid, signal.SIGKILL)
    code, text = job.end()
    found = checkpoints.steps(folder)
    for step in found:
        checkpoints.find(folder, step).verify()
    if mode == "async":                                # trainer 0 is missed by nobody
        assert code == 0 and (victim == 2 or found[0] == steps), text
        return
    assert code == 0 and found[0] == steps, text
    launch(2, 2, *args, "--out", tmp_path / "w.npz", script=RESUME)
    want, got = results(tmp_path / "w.npz"), results(tmp_path / "r.npz")
    for name in want.keys() - {"losses"}:
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)


def wait_until_parked(mark, steps, process):
    """Until trainer 0, which has made so many steps, or one more, makes no more."""
    deadline, made, since = time.monotonic() + LIMIT, 0, time.monotonic()
    while made < steps or time.monotonic() < since + 1:
        assert process.poll() is None and time.monotonic() < deadline, made
        now = int(mark.read_text() or made)            # it may be empty for a moment
        made, since = now, since if now == made else time.monotonic()
        time.sleep(0.02)


def test_a_checkpoint_that_a_death_has_cost_is_begun_anew(tmp_path):
    """It waits for a trainer that stands still when a server dies. The next one would be due 60 steps later."""
    folder, mark = tmp_path / "c", tmp_path / "mark"
    job = Launched(2, 2, "--steps", 180, "--plain", "--pause", 0.02, "--mark", mark, script=RESUME,
                   options=("--mode", "async", *keep(folder, 60, "--checkpoint-keep", 9)), env=environment(TRIREME_TIMEOUT="60"))
    ranks = job.ranks()
    wait_for_steps(folder, 0, 60, job.process)
    os.kill(ranks.known[3].pid, signal.SIGSTOP)
    wait_until_parked(mark, 120, job.process)
    os.kill(ranks.known[1].pid, signal.SIGKILL)
    job.await_word("lost.1")
    os.kill(ranks.known[3].pid, signal.SIGCONT)
    code, text = job.end()
    assert code == 0 and "a checkpoint was not written" in text, text
    assert any(120 < step < 180 for step in checkpoints.steps(folder)), (checkpoints.steps(folder), text)


# -- asked to stop ------------------------------------------------------------------------------------------------------


@each_mpi
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=lambda number: number.name)
@pytest.mark.turns(2)
def test_a_signal_to_the_launcher_is_a_checkpoint_and_an_exit_code(version, number, uninterrupted, tmp_path):
    job = Launched(2, 2, "--pause", 0.2, "--mark", tmp_path / "mark", script=RESUME, version=version,
                   options=keep(tmp_path / "c", 1000))
    job.await_training(tmp_path / "mark")
    job.process.send_signal(number)
    code, text = job.end()
    assert code == 75, text
    step = checkpoints.steps(tmp_path / "c")[0]
    assert re.search(rf"trainer 0, .* stopped by {number.name} after step {step}; the checkpoint is {tmp_path}/c/step-0*{step}\n", text)
    assert len(job_lines(text)) == 1 and "the job was stopped, exit code 75" in text
    launch(1, 2, "--out", tmp_path / "r.npz", script=RESUME, options=keep(tmp_path / "c", 1000, "--resume"))
    assert_goes_on(results(tmp_path / "r.npz"), uninterrupted, step)


@each_mpi
@pytest.mark.parametrize("when", ["began.0", "joins.2", "joined.3"])
@pytest.mark.turns(2)
def test_a_signal_at_the_start_is_not_forgotten(version, when, tmp_path):
    """Before ranks can act on it, which it would end then. A job so young stops before its first step, or after some."""
    job = Launched(2, 2, "--pause", 0.2, script=RESUME, version=version, options=keep(tmp_path / "c", 1000))
    job.wait_for(lambda: list(Path(tempfile.gettempdir()).glob(f"trireme-job-{job.process.pid}-*/{when}")), when)
    number = random.choice([signal.SIGTERM, signal.SIGUSR1])
    job.process.send_signal(number)
    code, text = job.end()
    assert code == 75 and "the job was stopped, exit code 75" in text and "again" not in text, text
    assert f"stopped by {number.name} after step " in text and "ended" not in text, text


def test_a_signal_during_a_long_preparation_ends_the_job(tmp_path):
    job = Launched(1, 1, "--prepare", 100, options=keep(tmp_path / "c", 1000))
    job.ranks()
    job.process.send_signal(signal.SIGTERM)
    code, text = job.end()
    assert code == 75 and "the job was stopped, exit code 75: stopped by SIGTERM before it trained" in text, text


@each_mpi
def test_a_signal_under_plain_mpirun(version, tmp_path):
    mpi = MPIS[version]
    line = command_line(mpi, Layout(2, 2), [server_program()], [sys.executable, str(RESUME), "--ask", "7"])
    env = environment(TRIREME_CHECKPOINT=str(tmp_path / "c"), **({"LD_LIBRARY_PATH": mpi.libdir} if mpi.major < 5 else {}))
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert "stopped by SIGUSR1 after step 7" in done.stdout + done.stderr
    checkpoints.find(tmp_path / "c", 7).verify()


def test_without_checkpoints_a_signal_ends_the_job(tmp_path):
    job = Launched(1, 1, "--pause", 0.2, "--mark", tmp_path / "mark", script=RESUME)
    job.await_training(tmp_path / "mark")
    job.process.send_signal(signal.SIGTERM)
    code, text = job.end()
    assert code == 128 + signal.SIGTERM and "stopped by SIGTERM" in text


# -- the other modes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["async", "ssp(0)", "ssp(2)", "geo(3)", "average(3)", "sync(backups=1)", "sync(degraded)"])
def test_every_mode_has_checkpoints(mode, tmp_path):
    folder = tmp_path / "c"
    options = ("--mode", mode, *keep(folder, 4, "--checkpoint-keep", 9))
    launch(2, 3, "--steps", 30, script=RESUME, options=options)
    found = checkpoints.steps(folder)
    assert found == sorted(found, reverse=True) and len(found) > 1
    for step in found:
        one = checkpoints.find(folder, step)
        one.verify()
        steps = [one.trainer(i)[0] for i in range(3)]
        # If trainer 0 has ended its steps, one that has made fewer makes the next ones. It counts on from the newest name.
        assert one.mode == mode and (step in steps if mode in ("average(3)", "sync(degraded)") else min(steps) <= step)
        assert all(np.isfinite(one[name]).all() for name in one.arrays)
    newest = checkpoints.newest(folder)
    assert [newest.trainer(i)[0] for i in range(3)] == [30, 30, 30] and newest.step >= 30
    text = launch(1, 2, "--steps", 36, "--out", tmp_path / "r.npz", script=RESUME, options=(*options, "--resume"))
    assert "trainer 0: 6 steps to step 36" in text
    assert np.isfinite(results(tmp_path / "r.npz")["losses"]).all()


def test_a_trainer_that_has_left_has_its_position_in_a_checkpoint(tmp_path):
    folder = tmp_path / "c"
    options = ("--mode", "async", *keep(folder, 1000))
    launch(2, 2, "--early", tmp_path / "early", script=RESUME, options=options)
    found = checkpoints.newest(folder)
    assert [found.trainer(i)[:2] for i in (0, 1)] == [(20, 20), (4, 4)]
    text = launch(1, 2, "--steps", 24, script=RESUME, options=(*options, "--resume"))
    assert "trainer 1: 20 steps to step 24" in text


# -- when trainer 0 is there no more ---------------------------------------------------------------------------------------


def wait_for_steps(folder, trainer, steps, process):
    """Until a checkpoint has so many steps of this trainer; return it."""
    deadline = time.monotonic() + LIMIT
    while True:
        found = [checkpoints.find(folder, step) for step in checkpoints.steps(folder)[:1]]
        if found and found[0].trainer(trainer)[0] >= steps:
            return found[0]
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("mode", ["async", "sync", "sync(degraded)"])
def test_the_last_checkpoint_has_what_others_made_behind_the_end_of_trainer_0(mode, tmp_path):
    folder = tmp_path / "c"
    options = ("--mode", mode, *keep(folder, 5, "--checkpoint-keep", 9))
    launch(2, 2, "--leave", tmp_path / "left", "--pause", 0.02, script=RESUME, options=options)
    found = checkpoints.newest(folder)
    assert [found.trainer(i)[0] for i in (0, 1)] == [2, 20]
    assert any(4 < checkpoints.find(folder, step).trainer(1)[0] < 20 for step in checkpoints.steps(folder))
    for step in checkpoints.steps(folder):
        checkpoints.find(folder, step).verify()
    text = launch(1, 2, "--steps", 24, script=RESUME, options=(*options, "--resume"))
    assert f"going on from step {found.step}" in text and "trainer 1: 4 steps to step 24" in text
    assert checkpoints.newest(folder).trainer(1)[0] == 24


@pytest.mark.parametrize("to", ["launcher", 0, 1])
def test_a_signal_behind_the_end_of_trainer_0_is_a_checkpoint_of_what_others_made(to, tmp_path):
    folder = tmp_path / "c"
    job = Launched(2, 2, "--leave", tmp_path / "left", "--steps", 2000, "--pause", 0.05, script=RESUME,
                   options=("--mode", "async", *keep(folder, 10)))
    ranks = job.ranks()
    before = wait_for_steps(folder, 1, 10, job.process).trainer(1)[0]
    if to == "launcher":
        job.process.send_signal(signal.SIGTERM)
    else:
        os.kill(ranks.known[job.servers + to].pid, signal.SIGUSR1)
    code, text = job.end()
    name = "SIGTERM" if to == "launcher" else "SIGUSR1"
    assert code == 75 and "trainer 1" in text and f"stopped by {name} after step " in text, text
    found = checkpoints.newest(folder)
    found.verify()
    assert found.trainer(0)[0] == 2 and before < found.trainer(1)[0] < 1000


def test_another_trainer_makes_checkpoints_when_trainer_0_has_died(tmp_path):
    folder = tmp_path / "c"
    options = ("--mode", "async", *keep(folder, 5, "--checkpoint-keep", 9))
    text = launch_under_mpi(2, 3, "--kill", 7, "--pause", 0.05, script=RESUME, options=options)
    assert "died" in text or "lost" in text
    steps = checkpoints.steps(folder)
    assert len(steps) >= 3
    for step in steps:
        checkpoints.find(folder, step).verify()
    found = checkpoints.newest(folder)
    assert [found.trainer(i)[0] for i in (1, 2)] == [20, 20] and found.step == 20
    assert "trainer 1: 4 steps to step 24" in launch_under_mpi(1, 3, "--steps", 24, script=RESUME, options=(*options, "--resume"))


def test_the_interval_counts_from_the_last_checkpoint_of_any_trainer(tmp_path):
    """Trainer 0 dies 6 s behind one, and they are 8 s apart: the next trainer does not wait for 8 s more."""
    folder = tmp_path / "c"
    job = Launched(1, 2, "--steps", 100_000, "--plain", "--pause", 0.05, script=RESUME,
                   options=("--mode", "async", "--checkpoint", folder, "--checkpoint-seconds", 8))
    ranks = job.ranks()
    before, at = wait_for_newest(folder, job.process)
    time.sleep(max(0.0, at + 6 - time.time()))
    os.kill(ranks.known[1].pid, signal.SIGKILL)
    _, then = wait_for_newest(folder, job.process, before)
    job.process.send_signal(signal.SIGTERM)
    code, text = job.end()
    assert code == 75, text
    assert_within(9.5, then - at, text)


def test_a_job_that_dies_again_and_again_has_checkpoints_in_time(tmp_path):
    """The first one is due 6 s after the launch, in which the job is started again twice, or as soon as it trains again."""
    folder = tmp_path / "c"
    job = Launched(1, 2, "--steps", 100_000, "--plain", "--pause", 0.05, "--mark", tmp_path / "mark", script=RESUME,
                   options=("--checkpoint", folder, "--checkpoint-seconds", 6))
    for _ in range(2):
        job.await_training(tmp_path / "mark")
        ranks = job.ranks()
        time.sleep(2)
        os.kill(ranks.known[1].pid, signal.SIGKILL)
        (tmp_path / "mark").unlink()
    begun = next(folder.glob(".began-*")).stat().st_mtime
    job.await_training(tmp_path / "mark")
    trains = (tmp_path / "mark").stat().st_mtime
    _, at = wait_for_newest(folder, job.process)
    job.process.send_signal(signal.SIGTERM)
    code, text = job.end()
    assert code == 75, text
    assert_within(2, at - max(begun + 6, trains), text)


# -- saving by hand ------------------------------------------------------------------------------------------------------


def test_save_persistables_in_a_job_has_the_optimizers_state(tmp_path):
    """One trainer's are those of one process to the last byte, wherever the servers keep them."""
    alone("--save", tmp_path / "one", script=RESUME)
    launch(2, 1, "--save", tmp_path / "job", script=RESUME)
    names = sorted(os.listdir(tmp_path / "one"))
    assert "fc_1.w_0_moment2_0" in names and sorted(os.listdir(tmp_path / "job")) == names
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "job" / name).read_bytes(), name


# -- mistakes --------------------------------------------------------------------------------------------------------------


def test_a_folder_that_can_be_written_no_more_is_said_and_training_goes_on_to_an_end_that_is_no_good_one(uninterrupted, tmp_path):
    job = Launched(2, 2, "--out", tmp_path / "r.npz", "--pause", 0.05, "--mark", tmp_path / "begun", script=RESUME,
                   options=keep(tmp_path / "c"))
    job.await_training(tmp_path / "begun")
    (tmp_path / "c").rename(tmp_path / "before")
    (tmp_path / "c").touch()
    code, text = job.end()
    assert code == 1 and text.count("a checkpoint was not written: ") == 1 and f"{tmp_path}/c" in text, text
    assert "the last checkpoint was not written: " in text and "starting the job again" not in text, text
    assert_goes_on(results(tmp_path / "r.npz"), uninterrupted, 0)


@pytest.mark.parametrize("options, message", [
    (("--resume",), "--anew and --checkpoint-... need --checkpoint DIR"),
    (("--checkpoint-steps", 3), "need --checkpoint DIR"),
    (("--checkpoint", "c", "--checkpoint-keep", 0), "--checkpoint-keep: '0'; a whole number from 1 on"),
])
def test_mistakes_are_explained(options, message):
    code, text = Launched(1, 1, script=RESUME, options=options).end()
    assert code == 2 and message in text
