"""Loops of the core are checkpointed in the middle of a pass and go on there; leased tasks are each done once all the same."""

import re
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from job_support import LIMIT, Launched, full_disk, launch, needs_mpi, results, wait_for

from trireme import checkpoint as checkpoints

LOOPS = Path(__file__).parent / "jobs" / "loops.py"
FILES, BATCHES, BATCH, RATE = 8, 4, 4, 0.5             # as the script has them


def keep(folder, steps=3, *more):
    return ("--checkpoint", folder, "--checkpoint-steps", steps, "--checkpoint-keep", 99, *more)


def assert_same(got, want):
    assert got.keys() == want.keys()
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


def counts_in(folder):
    """How often each line was trained on, by the newest checkpoint."""
    found = checkpoints.newest(folder)
    return np.round(-found["counts"][:, 0] * BATCH / RATE, 3)


# -- one process ----------------------------------------------------------------------------------------------------------


def run(*args, code=0, env=None):
    import subprocess
    import sys

    from job_support import environment

    done = subprocess.run([sys.executable, LOOPS, *map(str, args)], env=env or environment(), capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_disk_that_stays_full_is_no_good_end_of_a_loop(tmp_path):
    text = run(tmp_path / "data", "--keep-in", tmp_path / "c", code=1, env=full_disk(tmp_path, "STAYS"))
    assert text.count("trireme warning: a checkpoint was not written: ") == 1 and re.search(r"No space left on device: \d+ of its file "
                                                                                            r"system's \d+ bytes are free", text)
    assert "FileError: the last checkpoint was not written: " in text and not list((tmp_path / "c").iterdir())


@needs_mpi
@pytest.mark.mpi
def test_a_disk_that_stays_full_is_no_good_end_of_a_job(tmp_path):
    job = Launched(1, 2, tmp_path / "data", script=LOOPS, options=keep(tmp_path / "c"), env=full_disk(tmp_path, "STAYS"))
    code, text = job.end()
    assert code == 1 and text.count("trireme warning: a checkpoint was not written: ") == 1 and "No space left on device" in text, text
    assert "the last checkpoint was not written: " in text and "again" not in text and not list((tmp_path / "c").glob("step-*")), text


def test_one_process_goes_on_in_the_middle_of_a_pass(tmp_path):
    run(tmp_path / "data", "--deep", "--out", tmp_path / "want.npz")
    text = run(tmp_path / "data", "--deep", "--keep-in", tmp_path / "c", "--every", 7, "--stop", 35, "--pause", 0.05, code=75)
    step = checkpoints.steps(tmp_path / "c")[0]
    assert 35 <= step < 64 and f"stopped by SIGUSR1 after step {step}" in text
    text = run(tmp_path / "data", "--deep", "--keep-in", tmp_path / "c", "--every", 7, "--out", tmp_path / "got.npz")
    assert f"going on from step {step}" in text
    assert_same(results(tmp_path / "got.npz"), results(tmp_path / "want.npz"))
    assert checkpoints.steps(tmp_path / "c")[0] == 64


def test_one_process_has_its_folder_for_itself(tmp_path):
    import fcntl

    (tmp_path / "c").mkdir()
    fd = os.open(tmp_path / "c", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)                     # as a job has it that runs
    text = run(tmp_path / "data", "--deep", "--keep-in", tmp_path / "c", code=1)
    os.close(fd)
    assert f"checkpoint: folder '{tmp_path / 'c'}': another job that runs keeps its own there" in text
    run(tmp_path / "data", "--deep", "--keep-in", tmp_path / "c")


def test_a_folder_that_cannot_be_made_is_refused_before_the_first_step(tmp_path):
    (tmp_path / "file").touch()
    text = run(tmp_path / "data", "--deep", "--keep-in", tmp_path / "file" / "c", code=1)
    assert f"cannot create the folder '{tmp_path / 'file' / 'c'}': Not a directory" in text


def put_a_file_in_the_way(folder):
    """Let the folder be a file. A checkpoint that is being written may make the folder again before the file is there."""
    for attempt in range(100):
        folder.rename(folder.with_name(f"before-{attempt}"))
        try:
            folder.touch(exist_ok=False)
            return
        except FileExistsError:
            continue
    raise AssertionError(f"{folder} is made again and again")


def test_a_script_stopped_without_a_checkpoint_says_so(tmp_path):
    import subprocess
    import sys

    from job_support import environment

    command = [sys.executable, LOOPS, tmp_path / "data", "--keep-in", tmp_path / "c", "--every", "1", "--epochs", "99", "--pause", "0.02"]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        wait_for(running, lambda: checkpoints.steps(tmp_path / "c"), "a checkpoint")
        put_a_file_in_the_way(tmp_path / "c")
        text = ""
        while "a checkpoint was not written" not in text:
            line = running.stdout.readline()
            assert line, text
            text += line
        running.send_signal(signal.SIGUSR1)
        text += running.communicate(timeout=LIMIT)[0]
    assert running.returncode == 75, text
    assert "stopped by SIGUSR1" in text and "in no checkpoint" in text


def test_several_threads_stand_still_for_a_checkpoint(tmp_path):
    """Hogwild: at the pause no step is under way, so the counts of a checkpoint are whole."""
    run(tmp_path / "data", "--thread", 3, "--keep-in", tmp_path / "c", "--every", 10, "--kill", 40, "--pause", 0.03, code=-9)
    found = checkpoints.newest(tmp_path / "c")
    assert found.step >= 40
    trained = counts_in(tmp_path / "c")
    assert trained.sum() == found.step * BATCH
    assert checkpoints.find(tmp_path / "c", found.step).trainer(0)[0] == found.step


# -- jobs -------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    launch(2, 2, folder / "data", "--deep", "--out", folder / "r.npz", script=LOOPS)
    return results(folder / "r.npz")


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("servers", [1, 3])
def test_a_job_goes_on_in_the_middle_of_a_pass(servers, uninterrupted, tmp_path):
    folder = tmp_path / "c"
    args = (tmp_path / "data", "--deep", "--pause", 0.1)
    code, text = Launched(2, 2, *args, "--kill", 6, script=LOOPS, options=keep(folder, 3, "--restarts", 0)).end()
    assert code == 1 and "died" in text
    step = checkpoints.steps(folder)[0]
    assert 6 <= step < 32 and step % 3 == 0
    text = launch(servers, 2, *args, "--out", tmp_path / "r.npz", script=LOOPS, options=keep(folder, 3, "--resume"))
    assert f"going on from step {step}" in text
    assert_same(results(tmp_path / "r.npz"), uninterrupted)
    assert checkpoints.steps(folder)[0] == 32
    assert {checkpoints.find(folder, one).trainer(0)[:2] for one in checkpoints.steps(folder)} == {
        (one, one) for one in checkpoints.steps(folder)}


@needs_mpi
@pytest.mark.mpi
def test_a_job_is_stopped_in_the_middle_of_a_pass(uninterrupted, tmp_path):
    args = (tmp_path / "data", "--deep", "--pause", 0.1)
    job = Launched(2, 2, *args, "--mark", tmp_path / "mark", script=LOOPS, options=keep(tmp_path / "c", 1000))
    job.await_training(tmp_path / "mark")
    time.sleep(0.3)
    job.process.send_signal(signal.SIGTERM)
    code, text = job.end()
    assert code == 75, text
    launch(2, 2, *args, "--out", tmp_path / "r.npz", script=LOOPS, options=keep(tmp_path / "c", 1000, "--resume"))
    assert_same(results(tmp_path / "r.npz"), uninterrupted)


def wait_for_checkpoint(folder, process):
    """And a little longer: the job is anywhere then."""
    wait_for(process, lambda: checkpoints.steps(folder), "a checkpoint")
    time.sleep(random.uniform(0.0, 0.3))


def assert_all_done(data, folder):
    """Each line counts once in each of two passes. The others may have made steps since trainer 0 made its last one, and the newest
    checkpoint: what is not in that is done again, from there."""
    assert counts_in(folder).max() <= 2
    launch(1, 1, data, script=LOOPS, options=("--mode", "async", *keep(folder, 1000, "--resume")))
    np.testing.assert_array_equal(counts_in(folder), 2)


# -- leased tasks -----------------------------------------------------------------------------------------------------------


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("trainers", [1, 3])
def test_leased_tasks_go_on_from_a_checkpoint(trainers, tmp_path):
    """With another number of trainers, too: each line counts once in each pass."""
    folder = tmp_path / "c"
    args = (tmp_path / "data", "--pause", 0.06)
    code, text = Launched(1, 2, *args, "--stop", 8, script=LOOPS, options=("--mode", "async", *keep(folder, 4))).end()
    assert code == 75, text
    found = checkpoints.newest(folder)
    before = counts_in(folder)
    assert found.tasks and 0 < before.sum() < 2 * FILES * BATCHES * BATCH
    assert sum(found.trainer(i)[0] for i in range(found.trainers)) * BATCH == before.sum()
    launch(2, trainers, *args, script=LOOPS, options=("--mode", "async", *keep(folder, 1000, "--resume")))
    np.testing.assert_array_equal(counts_in(folder), 2)


@needs_mpi
@pytest.mark.mpi
def test_a_finished_job_has_nothing_left_to_do_and_more_passes_go_on(tmp_path):
    options = ("--mode", "async", *keep(tmp_path / "c", 1000))
    for epochs, resume in ((1, ()), (1, ("--resume",)), (3, ("--resume",))):
        launch(1, 2, tmp_path / "data", "--epochs", epochs, script=LOOPS, options=(*options, *resume))
        np.testing.assert_array_equal(counts_in(tmp_path / "c"), epochs)


@needs_mpi
@pytest.mark.mpi
def test_the_last_checkpoint_has_what_others_did_when_trainer_0_had_nothing_to_do(tmp_path):
    launch(1, 2, tmp_path / "data", "--epochs", 1, "--pause", 0.05, "--slow", 1.0, script=LOOPS,
           options=("--mode", "async", *keep(tmp_path / "c", 1)))
    np.testing.assert_array_equal(counts_in(tmp_path / "c"), 1)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("victim, mode", [("server", "async"), ("trainer", "async"), ("trainer", "ssp(1)")])
def test_a_rank_that_dies_loses_no_line_and_doubles_none(victim, mode, tmp_path):
    """A standby takes server 0's place; trainer 1's task is another's, but for the steps that it made."""
    folder = tmp_path / "c"
    job = Launched(1, 3, tmp_path / "data", "--pause", 0.1, script=LOOPS, options=("--mode", mode, *keep(folder, 2)))
    ranks = job.ranks()
    wait_for_checkpoint(folder, job.process)
    os.kill(ranks.known[0 if victim == "server" else 2].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0, text
    assert_all_done(tmp_path / "data", folder)


@needs_mpi
@pytest.mark.mpi
def test_a_job_that_is_started_again_goes_on_with_its_tasks(tmp_path):
    """Without a standby the server's death starts the job again, from what the server has left."""
    folder = tmp_path / "c"
    job = Launched(1, 2, tmp_path / "data", "--pause", 0.1, script=LOOPS,
                   options=("--mode", "async", "--standbys", 0, *keep(folder, 2)))
    ranks = job.ranks()
    wait_for_checkpoint(folder, job.process)
    os.kill(ranks.known[0].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "starting the job again" in text
    assert_all_done(tmp_path / "data", folder)


@needs_mpi
@pytest.mark.mpi
def test_a_trainer_and_server_0_die_together_and_no_line_is_lost(tmp_path):
    """Standbys take both places. A row of the counted parameter lies on one of two servers: each has every line, and those twice
    over which the trainer died."""
    folder = tmp_path / "c"
    job = Launched(2, 3, tmp_path / "data", "--pause", 0.1, script=LOOPS,
                   options=("--mode", "async", "--standbys", 2, *keep(folder, 2)))
    ranks = job.ranks()
    wait_for_checkpoint(folder, job.process)
    for rank in (3, 0):
        os.kill(ranks.known[rank].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0, text
    launch(1, 1, tmp_path / "data", script=LOOPS, options=("--mode", "async", *keep(folder, 1000, "--resume")))
    counts = counts_in(folder)
    assert counts.min() >= 2, counts
    assert (counts - 2).sum() <= BATCHES * BATCH and counts.max() <= 3, counts         # a task at most


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("mode", ["async", "ssp(2)"])
def test_all_trainers_and_server_0_die_together_and_no_line_is_lost(mode, tmp_path):
    """Nobody takes a trainer's place: the job starts again, from what the servers have and not from the checkpoint."""
    folder = tmp_path / "c"
    job = Launched(2, 3, tmp_path / "data", "--pause", 0.1, script=LOOPS, options=("--mode", mode, "--standbys", 2, *keep(folder, 2)))
    ranks = job.ranks()
    wait_for_checkpoint(folder, job.process)
    for rank in (2, 3, 4, 0):
        os.kill(ranks.known[rank].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "from the memory of its servers" in text, text
    launch(1, 1, tmp_path / "data", script=LOOPS, options=("--mode", mode, *keep(folder, 1000, "--resume")))
    counts = counts_in(folder)
    assert counts.min() >= 2, counts
    assert (counts - 2).sum() <= 3 * BATCHES * BATCH, counts                           # a task of each at most


@needs_mpi
@pytest.mark.mpi
def test_in_geo_what_is_done_of_the_tasks_is_with_the_servers(tmp_path):
    """A task ends with an exchange, though its batches are no multiple of those between two."""
    launch(2, 1, tmp_path / "data", script=LOOPS, options=("--mode", "geo(3)", *keep(tmp_path / "c", 1000)))
    np.testing.assert_array_equal(counts_in(tmp_path / "c"), 2)
