"""Checkpoints of saved jobs: trireme-trainer goes on from them, alone and beside servers, whoever dies."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from job_support import (
    LIMIT, MPIS, Launched, assert_within, environment, full_disk, launch, launch_under_mpi, needs_mpi, wait_for, wait_for_newest,
)
from saved_job_support import assert_holds, begin, data, mpirun, run, script, values  # noqa: F401 - a fixture

from trireme import checkpoint as checkpoints
from trireme.launch.mpi import Layout, command_line
from trireme.launch.programs import server_program, trainer_program


@pytest.mark.parametrize("how", [("--dropout", 0.3), ("--table", "--optimizer", "sgd")], ids=str)
def test_the_program_alone_goes_on_from_a_checkpoint(data, tmp_path, how):
    script(data, "--write", tmp_path / "job", "--save", tmp_path / "want", *how)
    job = trainer_program(), tmp_path / "job"
    assert run(*job)[0] == 0
    keep = ("--checkpoint", tmp_path / "c", "--checkpoint-steps", 4, "--save", tmp_path / "got")
    assert run(*job, *keep, "--steps", 9)[0] == 0
    assert list(checkpoints.steps(tmp_path / "c")) == [9, 8, 4]
    code, out, err = run(*job, *keep, "--resume")
    assert code == 0 and "going on from step 9" in err, out + err
    assert values(tmp_path / "got") == values(tmp_path / "want")
    for step in checkpoints.steps(tmp_path / "c"):
        checkpoints.find(tmp_path / "c", step).verify()


def test_auto_begins_in_an_empty_folder_and_goes_on_in_a_used_one(data, tmp_path):
    script(data, "--write", tmp_path / "job", "--save", tmp_path / "want")
    assert run(trainer_program(), tmp_path / "job")[0] == 0
    line = (trainer_program(), tmp_path / "job", "--checkpoint", tmp_path / "c", "--checkpoint-steps", 4, "--save", tmp_path / "got")
    code, out, err = run(*line, "--resume")
    assert code == 1 and "holds no checkpoint; with --resume=auto" in err and not (tmp_path / "c").exists(), out + err
    code, out, err = run(*line, "--resume=always")
    assert code == 2 and "--resume and --resume=auto are possible, not 'always'" in err, out + err
    code, out, err = run(*line, "--resume=auto", "--steps", 9)
    assert code == 0 and err.count("holds no checkpoint: the training begins") == 1, out + err
    code, out, err = run(*line, "--resume=auto")
    assert code == 0 and err.count("going on from step 9") == 1 and "the training begins" not in err, out + err
    assert values(tmp_path / "got") == values(tmp_path / "want")


@needs_mpi
@pytest.mark.mpi
def test_beside_servers_it_goes_on_from_a_checkpoint(data, tmp_path):
    script(data, "--write", tmp_path / "job", "--save", tmp_path / "want", "--servers", 1, 2, "--table", "--optimizer", "adam")
    job = trainer_program(), tmp_path / "job"
    assert mpirun(2, 2, *job)[0] == 0
    keep = ("--checkpoint", tmp_path / "c", "--checkpoint-steps", 4, "--save", tmp_path / "got")
    code, out, err = mpirun(2, 2, *job, *keep, "--steps", 9)
    assert code == 0 and checkpoints.steps(tmp_path / "c")[0] == 9, out + err
    code, out, err = mpirun(1, 2, *job, *keep, "--resume")
    assert code == 0 and "going on from step 9" in err, out + err
    assert_holds(tmp_path / "got", tmp_path / "want")
    assert checkpoints.newest(tmp_path / "c").tables


def test_a_signal_that_was_ignored_before_stays_ignored(data, tmp_path):
    script(data, "--write", tmp_path / "job", "--epochs", 100000)
    keep = f"--checkpoint {tmp_path / 'c'} --checkpoint-steps 20"
    process = subprocess.Popen(["sh", "-c", f"trap '' TERM; exec {trainer_program()} {tmp_path / 'job'} {keep}"], env=environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_for(process, lambda: checkpoints.steps(tmp_path / "c"), "a checkpoint")
    process.send_signal(signal.SIGTERM)
    seen = checkpoints.steps(tmp_path / "c")[0]
    wait_for(process, lambda: checkpoints.steps(tmp_path / "c")[0] >= seen + 40, "two more checkpoints")
    process.send_signal(signal.SIGUSR1)
    out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 75 and "stopped by SIGUSR1 after step" in out, out


@needs_mpi
@pytest.mark.mpi
def test_trainers_must_go_on_from_the_same_checkpoint(data, tmp_path):
    script(data, "--write", tmp_path / "job", "--servers", 1, "--optimizer", "sgd")
    run = f"exec {trainer_program()} {tmp_path}/job --steps 3 --resume=auto --checkpoint {tmp_path}"
    assert mpirun(1, 1, "bash", "-c", f"{run}/c1")[0] == 0
    code, out, err = mpirun(1, 2, "bash", "-c", f"{run}/c$OMPI_COMM_WORLD_RANK")
    assert code != 0
    assert re.search(r"checkpoints|goes on from", out + err) and "the beginning" in out + err, out + err


@pytest.mark.parametrize("name, text", [("STEPS", "0"), ("STEPS", "4 "), ("SECONDS", "0"), ("KEEP", "-1")])
def test_checkpoint_variables_of_the_environment_are_checked_as_for_scripts(data, tmp_path, name, text):
    script(data, "--write", tmp_path / "job")
    job = trainer_program(), tmp_path / "job", "--steps", 2
    code, out, err = run(*job, TRIREME_CHECKPOINT=str(tmp_path / "c"), **{f"TRIREME_CHECKPOINT_{name}": text})
    assert code == 2 and f"TRIREME_CHECKPOINT_{name}='{text}' in the environment; a number above 0 is possible" in err, out + err
    code, out, err = run(*job, TRIREME_CHECKPOINT=str(tmp_path / "c"), **{f"TRIREME_CHECKPOINT_{name}": ""})
    assert code == 0, out + err


def test_a_signal_is_a_checkpoint_and_an_exit_code(data, tmp_path):
    script(data, "--write", tmp_path / "job", "--epochs", 100000)
    keep = ("--checkpoint", tmp_path / "c", "--checkpoint-steps", "20")
    process = subprocess.Popen([trainer_program(), tmp_path / "job", *keep], env=environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_for(process, lambda: checkpoints.steps(tmp_path / "c"), "a checkpoint")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 75 and re.search(r"stopped by SIGTERM after step \d+; the checkpoint is ", out), out
    checkpoints.newest(tmp_path / "c").verify()


def few_steps_of_trainer_0(folder, every=40):
    """The trainers' part of a command line behind two servers: trainer 0 makes 5 steps."""
    words = " ".join(map(str, (trainer_program(), folder / "job", "--checkpoint", folder / "c", "--checkpoint-steps", every)))
    return "bash", "-c", f"[ $OMPI_COMM_WORLD_RANK = 2 ] && few='--steps 5'; exec {words} $few"


def wait_for_steps(folder, steps, process):
    """Until a checkpoint has so many steps of trainer 1; return how many."""
    deadline = time.monotonic() + LIMIT
    while True:
        found = [checkpoints.find(folder, step).trainer(1)[0] for step in checkpoints.steps(folder)[:1]]
        if found and found[0] >= steps:
            return found[0]
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("mode", ["async", "sync"])
def test_steps_of_others_after_the_end_of_trainer_0_are_in_checkpoints(mode, data, tmp_path):
    # So many steps are between two checkpoints that the one before is written.
    script(data, "--write", tmp_path / "job", "--epochs", 1000, "--servers", 2, "--mode", mode)
    code, out, err = mpirun(2, 2, *few_steps_of_trainer_0(tmp_path, every=2000))
    assert code == 0, out + err
    found = checkpoints.newest(tmp_path / "c")
    assert (found.trainer(0)[0], found.trainer(1)[0]) == (5, 9000)
    assert len(checkpoints.steps(tmp_path / "c")) == 3
    for step in checkpoints.steps(tmp_path / "c"):
        checkpoints.find(tmp_path / "c", step).verify()


@needs_mpi
@pytest.mark.mpi
def test_a_signal_behind_the_end_of_trainer_0_is_a_checkpoint(data, tmp_path):
    script(data, "--write", tmp_path / "job", "--epochs", 1000000, "--servers", 2, "--mode", "async")
    mpi = next(iter(MPIS.values()))
    line = command_line(mpi, Layout(2, 2), [server_program()], list(few_steps_of_trainer_0(tmp_path)))
    job = subprocess.Popen(line, env=environment(**({"LD_LIBRARY_PATH": mpi.libdir} if mpi.major < 5 else {})),
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    before = wait_for_steps(tmp_path / "c", 40, job)
    job.send_signal(signal.SIGUSR1)
    text, _ = job.communicate(timeout=LIMIT)
    assert re.search(r"trainer 1, .* stopped by SIGUSR1 after step \d+; the checkpoint is ", text), text
    found = checkpoints.newest(tmp_path / "c")
    found.verify()
    assert found.trainer(0)[0] == 5 and found.trainer(1)[0] > before


@needs_mpi
@pytest.mark.mpi
def test_another_trainer_makes_checkpoints_when_trainer_0_has_died(data, tmp_path):
    script(data, "--write", tmp_path / "job", "--epochs", 1000000, "--servers", 2, "--mode", "async")
    job = Launched(2, 2, script=tmp_path / "job", options=("--checkpoint", tmp_path / "c", "--checkpoint-steps", 200))
    ranks = job.ranks()
    wait_for_steps(tmp_path / "c", 1, job.process)
    os.kill(ranks.known[2].pid, signal.SIGKILL)
    time.sleep(1)
    wait_for_steps(tmp_path / "c", wait_for_steps(tmp_path / "c", 1, job.process) + 400, job.process)
    job.process.send_signal(signal.SIGTERM)
    code, text = job.end()
    assert code == 75 and re.search(r"trainer 1, .* stopped by SIGTERM after step \d+; the checkpoint is ", text), text
    checkpoints.newest(tmp_path / "c").verify()


@needs_mpi
@pytest.mark.mpi
def test_a_trainer_without_data_goes_on_as_the_others_do(data, tmp_path):
    """There is one file: trainer 1 has made no step when the job is started again, and there is a checkpoint by then."""
    script(Path(data).parent / "a.txt", "--write", tmp_path / "job", "--epochs", 3000, "--servers", 1, "--mode", "async", "--split",
           "files")
    job = Launched(1, 2, script=tmp_path / "job", options=("--checkpoint", tmp_path / "c", "--checkpoint-steps", 200, "--standbys", 0))
    ranks = job.ranks()
    wait_for_newest(tmp_path / "c", job.process)
    os.kill(ranks.known[0].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "from the memory of its servers" in text, text


@needs_mpi
@pytest.mark.mpi
def test_the_interval_counts_from_the_last_checkpoint_of_any_trainer(data, tmp_path):
    """Trainer 0 dies 4.5 s behind one, and they are 6 s apart: the next trainer does not wait for 6 s more."""
    # Nobody reads what the job prints until it ends: a full pipe would hold its trainers up.
    script(data, "--write", tmp_path / "job", "--epochs", 1000000, "--servers", 1, "--mode", "async", "--print", 1000000)
    job = Launched(1, 2, script=tmp_path / "job", options=("--checkpoint", tmp_path / "c", "--checkpoint-seconds", 6))
    ranks = job.ranks()
    before, at = wait_for_newest(tmp_path / "c", job.process)
    time.sleep(max(0.0, at + 4.5 - time.time()))
    os.kill(ranks.known[1].pid, signal.SIGKILL)
    _, then = wait_for_newest(tmp_path / "c", job.process, before)
    job.process.send_signal(signal.SIGTERM)
    code, text = job.end()
    assert code == 75, text
    assert_within(7.5, then - at, text)


@needs_mpi
@pytest.mark.mpi
def test_a_resumed_job_has_the_accumulators_of_each_trainer(data, tmp_path):
    script(data, "--write", tmp_path / "job", "--optimizer", "dgc", "--width", 3000, "--servers", 1, "--save", tmp_path / "got")
    launch(1, 2, "--save", tmp_path / "want", script=tmp_path / "job")
    keep = ("--checkpoint", tmp_path / "c", "--checkpoint-steps", 4)
    launch(1, 2, "--steps", 9, script=tmp_path / "job", options=keep)
    text = launch(1, 2, script=tmp_path / "job", options=(*keep, "--resume"))
    assert "going on from step 9" in text, text
    assert_holds(tmp_path / "got", tmp_path / "want")
    assert {name[-10:] for name in checkpoints.newest(tmp_path / "c").arrays if "_dgc_u_" in name} == {"@TRAINER@0", "@TRAINER@1"}


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("resumes", [True, False], ids=["resume", "anew"])
def test_a_killed_rank_costs_no_bit_of_a_job_with_checkpoints(data, tmp_path, resumes):
    """The servers' steps are those since the job began, whatever checkpoints came later."""
    script(data, "--write", tmp_path / "job", "--epochs", 300, "--servers", 2, "--save", tmp_path / "got")
    launch(2, 2, "--save", tmp_path / "want", script=tmp_path / "job")
    keep, first = ("--checkpoint", tmp_path / "c", "--checkpoint-steps", 100), 0
    if resumes:
        launch(2, 2, "--steps", first := 150, script=tmp_path / "job", options=keep)
    job = Launched(2, 2, script=tmp_path / "job", options=(*keep, *["--resume"] * resumes))
    ranks, deadline = job.ranks(), time.monotonic() + LIMIT
    while max(checkpoints.steps(tmp_path / "c"), default=0) <= first:
        assert job.process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(ranks.known[3].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "starting the job again (1 of 3)" in text, text
    assert text.count("going on from step") == resumes, text
    assert_holds(tmp_path / "got", tmp_path / "want")
    assert checkpoints.steps(tmp_path / "c")[0] == 2700 and not list((tmp_path / "c").glob(".began-*"))


@pytest.mark.parametrize("how", ["alone", pytest.param("job", marks=[needs_mpi, pytest.mark.mpi])])
@pytest.mark.parametrize("every", [1000, 50], ids=["last", "regular"])
def test_a_full_disk_costs_one_checkpoint_and_not_the_last(data, tmp_path, how, every):
    """The last one is tried once more; a regular one is there the next time. Whoever writes a part finds the disk full, once.

    In a job they are written in the background: one that is due while another is being written is made later, perhaps at the end.
    """
    script(data, "--write", tmp_path / "job", "--epochs", 20, "--servers", 2)
    env = full_disk(tmp_path)
    words = ("--checkpoint", tmp_path / "c", "--checkpoint-steps", every, "--checkpoint-keep", 99)
    if how == "job":
        code, text = Launched(2, 2, script=tmp_path / "job", options=words, env=env).end()
    else:
        code, *said = run(trainer_program(), *words, tmp_path / "job", **env)
        text = "".join(said)
    assert code == 0 and text.count("a checkpoint was not written: ") == 1 and "No space left on device" in text, text
    found = sorted(checkpoints.steps(tmp_path / "c"))
    assert found[-1] == 180 and 50 not in found and not (tmp_path / "full").exists(), (found, text)
    assert how == "job" or found == ([100, 150, 180] if every == 50 else [180])
    for step in found:
        checkpoints.find(tmp_path / "c", step).verify()


@pytest.mark.parametrize("how", ["alone", pytest.param("job", marks=[needs_mpi, pytest.mark.mpi])])
def test_a_disk_that_stays_full_is_said_once_and_is_no_good_end(data, tmp_path, how):
    """The reason is said when it begins and at the end, and no folder of a checkpoint that did not come to be stays."""
    script(data, "--write", tmp_path / "job", "--epochs", 20, "--servers", 2)
    env = full_disk(tmp_path, "STAYS")
    words = ("--checkpoint", tmp_path / "c", "--checkpoint-steps", 20)
    if how == "job":
        code, text = Launched(2, 2, script=tmp_path / "job", options=words, env=env).end()
    else:
        code, *said = run(trainer_program(), *words, tmp_path / "job", **env)
        text = "".join(said)
    assert code == 1 and "No space left on device" in text, text
    assert text.count("a checkpoint was not written: ") == 1 and "the last checkpoint was not written: " in text, text
    assert "again" not in text and not list((tmp_path / "c").glob("step-*")), text


def test_a_stop_on_a_full_disk_names_no_checkpoint(data, tmp_path):
    script(data, "--write", tmp_path / "job", "--epochs", 100000)
    process = subprocess.Popen([trainer_program(), "--checkpoint", tmp_path / "c", "--checkpoint-steps", "20", tmp_path / "job"],
                               env=full_disk(tmp_path, "STAYS"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_for(process, lambda: (tmp_path / "c").exists(), "a folder for checkpoints")
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 75 and re.search(r"stopped by SIGTERM after step \d+; it is in no checkpoint", out), out


@needs_mpi
@pytest.mark.mpi
def test_the_launcher_says_where_checkpoints_are(data, tmp_path):
    script(data, "--write", tmp_path / "job", "--save", tmp_path / "want", "--servers", 2)
    launch_under_mpi(2, 2, script=tmp_path / "job")
    keep = ("--checkpoint", tmp_path / "c", "--checkpoint-steps", 4, "--checkpoint-seconds", 0.5)
    launch_under_mpi(2, 2, "--steps", 9, "--save", tmp_path / "got", script=tmp_path / "job", options=keep)
    assert checkpoints.steps(tmp_path / "c")[0] == 9
    text = launch_under_mpi(2, 2, "--save", tmp_path / "got", script=tmp_path / "job", options=(*keep, "--resume"))
    assert "going on from step 9" in text, text
    assert_holds(tmp_path / "got", tmp_path / "want")


def test_a_folder_is_for_one_training_at_a_time(data, tmp_path):
    """Two wrote there, and each removed and took up what was the other's."""
    folder = tmp_path / "c"
    script(data, "--write", tmp_path / "job", "--epochs", 1000000)
    line = (trainer_program(), "--checkpoint", folder, "--checkpoint-steps", 100)
    first = begin(*line, tmp_path / "job")
    wait_for_newest(folder, first)
    code, out, err = run(*line, tmp_path / "job")
    assert code == 1 and f"checkpoint: folder '{folder}': another job that runs keeps its own there" in err, out + err
    first.send_signal(signal.SIGTERM)
    assert first.wait(LIMIT) == 75
    code, out, err = run(*line, "--resume", "--epochs", 1, tmp_path / "job")
    assert code == 0 and "going on from step" in err, out + err


def test_a_folder_that_cannot_be_made_is_refused_before_the_first_step(data, tmp_path):
    (tmp_path / "file").touch()
    script(data, "--write", tmp_path / "job")
    code, out, err = run(trainer_program(), "--checkpoint", tmp_path / "file" / "c", tmp_path / "job")
    assert code == 1 and f"cannot create the folder '{tmp_path / 'file' / 'c'}': Not a directory" in err and "step" not in out, out + err


@needs_mpi
@pytest.mark.mpi
def test_a_folder_is_for_one_job_at_a_time(data, tmp_path):
    """That one of its trainers has: the launcher knows nothing of an option of theirs."""
    folder = tmp_path / "c"
    script(data, "--write", tmp_path / "job", "--epochs", 1000000, "--servers", 1)
    mine = ("--checkpoint", folder, "--checkpoint-steps", 100)
    first = Launched(1, 2, *mine, script=tmp_path / "job")
    wait_for_newest(folder, first.process)
    code, text = Launched(1, 2, *mine, script=tmp_path / "job").end()
    assert code == 1 and f"checkpoint: folder '{folder}': another job that runs keeps its own there" in text and "again" not in text, text
    code, text = Launched(1, 2, script=tmp_path / "job", options=mine).end()
    assert code == 2 and f"--checkpoint {folder}: another job that runs keeps its own there" in text, text
    assert list(folder.glob(".began-*"))
    first.process.send_signal(signal.SIGTERM)
    code, text = first.end()
    assert code == 75 and "stopped by SIGTERM after step" in text, text


@needs_mpi
@pytest.mark.mpi
def test_the_launcher_stops_it_at_a_checkpoint(data, tmp_path):
    script(data, "--write", tmp_path / "job", "--epochs", 1000000, "--servers", 2)
    job = Launched(2, 2, script=tmp_path / "job", options=("--checkpoint", tmp_path / "c", "--checkpoint-steps", 200))
    job.wait_for(lambda: checkpoints.steps(tmp_path / "c"), "a checkpoint")
    job.process.send_signal(signal.SIGTERM)
    code, text = job.end()
    assert code == 75 and re.search(r"stopped by SIGTERM after step \d+; the checkpoint is ", text), text
    checkpoints.newest(tmp_path / "c").verify()
