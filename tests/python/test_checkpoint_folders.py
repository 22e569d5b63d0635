"""A folder of checkpoints belongs to one run: another run neither removes its checkpoints nor goes on from them without a word."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from job_support import LIMIT, Launched, environment, launch, launch_under_mpi, needs_mpi, results, wait_for

import trireme.distributed
from trireme import checkpoint as checkpoints

SCRIPT = Path(__file__).parent / "jobs" / "folders.py"


def run(*args, code=0, script=SCRIPT, **extra):
    """Run the script in one process; return what it prints."""
    done = subprocess.run([sys.executable, script, *map(str, args)], env=environment(**extra), capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def steps(folder):
    return sorted(checkpoints.steps(folder))


def aside(folder):
    return next(iter(sorted(Path(folder).glob("aside-*"))))


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def forget_run(folder):
    """Make a checkpoint like those of older versions: take the fields `run` and `order` out of its manifest."""
    data, at, kept = (folder / "manifest").read_bytes(), 24, b""

    def number(at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value, at

    while at < len(data):
        begin, (tag, at) = at, number(at)
        value, at = number(at) if tag & 7 in (0, 2) else (0, at + 8)
        at += value if tag & 7 == 2 else 0
        kept += data[begin:at] if tag >> 3 < 11 else b""
    assert len(kept) < len(data) - 24
    (folder / "manifest").write_bytes(data[:12] + struct.pack("<IQ", crc32c(kept), len(kept)) + kept)


# -- one process: save_checkpoint -----------------------------------------------------------------------------------------


def test_saves_of_another_run_move_aside_and_the_folder_is_the_new_ones(tmp_path):
    run("save", tmp_path, "--steps", 9)
    text = run("save", tmp_path, "--steps", 3, "--other")
    assert f"the folder '{tmp_path}' held 3 checkpoints of another run (step 9, written " in text and "by 'folders.py save" in text, text
    assert steps(tmp_path) == [1, 2, 3] and steps(aside(tmp_path)) == [7, 8, 9]
    assert "loaded 3" in run("load", tmp_path)
    assert "loaded 9" in run("load", aside(tmp_path)), "what lies aside is a folder of checkpoints like any other"


def test_a_script_that_loads_an_older_checkpoint_goes_on_with_that_run(tmp_path):
    run("save", tmp_path, "--steps", 9)
    text = run("save", tmp_path, "--from", 7, "--steps", 2, "--keep", 2)
    assert "another run" not in text and not list(tmp_path.glob("aside-*"))
    assert steps(tmp_path) == [8, 9]
    text = run("save", tmp_path, "--from", 8, "--by", 10, "--steps", 1)
    assert steps(tmp_path) == [8, 9, 18] and "loaded 18" in run("load", tmp_path)
    text = run("save", tmp_path, "--from", 8, "--steps", 0, "--at", 4)      # the counts begin again: what was written last is the newest
    assert "loaded 4" in run("load", tmp_path) and 4 in steps(tmp_path) and len(steps(tmp_path)) == 3, text


def test_a_second_process_that_saves_at_the_same_time_is_refused(tmp_path):
    first = subprocess.Popen([sys.executable, SCRIPT, "save", tmp_path, "--steps", "1", "--stay", tmp_path / "begun"], env=environment(),
                             text=True)
    try:
        wait_for(first, (tmp_path / "begun").exists, "a checkpoint")
        assert "another job that runs keeps its own there" in run("save", tmp_path, "--steps", 3, code=1)
        assert steps(tmp_path) == [1]
    finally:
        first.kill()
        first.wait()


def test_files_of_a_killed_writer_are_removed_by_the_next_run(tmp_path):
    run("save", tmp_path, "--steps", 1)
    incomplete = tmp_path / "step-000000900"
    incomplete.mkdir()
    (incomplete / "part-00000-of-00001.0123456789abcdef.data.tmp").write_bytes(b"half")
    run("save", tmp_path, "--from", 1, "--steps", 1)
    assert not incomplete.exists() and steps(tmp_path) == [1, 2]


def test_checkpoints_of_two_runs_in_one_folder_are_told_apart(tmp_path):
    run("save", tmp_path / "a", "--steps", 3)
    run("save", tmp_path / "b", "--steps", 9, "--other")
    shutil.copytree(tmp_path / "b" / "step-000000009", tmp_path / "a" / "step-000000009")
    text = run("load", tmp_path / "a", code=1)
    assert (f"the folder '{tmp_path / 'a'}' holds checkpoints of more than one run: step 9, "
            "written") in text and "Move those of one run" in text
    assert "loaded 3" in run("load", tmp_path / "a" / "step-000000003")
    text = run("save", tmp_path / "a", "--from", 3, "--steps", 2)
    assert "held 1 checkpoint of another run (step 9" in text and steps(tmp_path / "a") == [3, 4, 5], text


def test_a_copied_folder_goes_on(tmp_path):
    run("save", tmp_path / "a", "--steps", 3)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert "another run" not in run("save", tmp_path / "b", "--from", 3, "--steps", 1)
    assert steps(tmp_path / "b") == [2, 3, 4] and steps(tmp_path / "a") == [1, 2, 3]


# -- one process: loops and trainers ------------------------------------------------------------------------------------------


def test_a_loop_that_begins_refuses_a_used_folder_before_its_first_step(tmp_path):
    run("loop", tmp_path, "--steps", 8)
    before = steps(tmp_path)
    text = run("loop", tmp_path, "--steps", 4, "--other", code=1)
    assert "holds checkpoints of another run: step 8, written" in text and "--resume (resume=True)" in text and "--anew (anew=True)" in text
    assert "step of the loop" not in text and steps(tmp_path) == before
    assert "going on from step 8" in run("loop", tmp_path, "--steps", 8, "--resume")
    text = run("loop", tmp_path, "--steps", 4, "--other", "--anew")
    assert "of another run" in text and steps(tmp_path)[-1] == 4 and steps(aside(tmp_path)) == before


def test_a_fluid_trainer_says_where_it_goes_on_and_refuses_what_another_script_wrote(tmp_path):
    run("trainer", tmp_path / "c", "--steps", 4)
    text = run("trainer", tmp_path / "c", "--steps", 4)
    assert "going on from step 4" in text and "nothing is left to train" in text and "another program" not in text, text
    text = run("trainer", tmp_path / "c", "--steps", 5, "--rate", 0.5)
    assert "learning_rate_0 is 0.1 in the checkpoint and 0.5 in the script: the checkpoint's counts" in text, text
    assert "is of another program" in run("trainer", tmp_path / "c", "--steps", 6, "--other")
    other = shutil.copy(SCRIPT, tmp_path / "other.py")
    text = run("trainer", tmp_path / "c", "--steps", 6, script=other, code=1)
    assert "does not hold checkpoints of 'other.py trainer" in text and "by 'folders.py trainer" in text, text
    assert "going on from step 6" in run("trainer", tmp_path / "c", "--steps", 7, script=other, TRIREME_RESUME="1")


def test_a_folder_of_an_older_version_is_refused_or_taken_over(tmp_path):
    """Its manifests have no run."""
    run("save", tmp_path / "c", "--steps", 2, "--by", 7)
    forget_run(tmp_path / "c" / "step-000000007")
    forget_run(tmp_path / "c" / "step-000000014")
    shutil.copytree(tmp_path / "c", tmp_path / "d")
    text = run("loop", tmp_path / "c", "--steps", 2, code=1)
    assert "holds checkpoints of another run: step 14, written" in text and " by " not in text.split("step 14")[1].split(".")[0], text
    assert "held 2 checkpoints of another run" in run("save", tmp_path / "c", "--steps", 2)
    assert "another run" not in run("save", tmp_path / "d", "--from", 14, "--steps", 2, "--keep", 2)
    assert steps(tmp_path / "d") == [15, 16], "the run that goes on from them owns them, and removes them"


# -- jobs ------------------------------------------------------------------------------------------------------------------


@needs_mpi
@pytest.mark.mpi
def test_a_job_in_a_used_folder_is_refused_resumed_or_begun_anew(tmp_path):
    folder = tmp_path / "used"
    keep = ("--checkpoint", folder, "--checkpoint-steps", 2)
    text = launch_under_mpi(1, 1, "job", "--steps", 9, script=SCRIPT, options=(*keep, "--resume=auto"))
    assert text.count("holds no checkpoint: the training begins") == 1
    before = steps(folder)
    assert before[-1] == 9
    code, text = Launched(1, 1, "job", "--steps", 3, "--other", script=SCRIPT, options=keep).end()
    assert code == 2 and "holds checkpoints of another run: step 9, written" in text and "by 'folders.py job --steps 9'" in text, text
    code, text = Launched(1, 1, "job", "--steps", 3, "--other", script=SCRIPT, options=(*keep, "--resume=auto")).end()
    assert code == 2 and "does not hold checkpoints of 'folders.py job --steps 3 --other'" in text, text
    assert steps(folder) == before
    assert "going on from step 9" in launch_under_mpi(1, 1, "job", "--steps", 9, script=SCRIPT, options=(*keep, "--resume=auto"))
    text = launch_under_mpi(2, 1, "job", "--steps", 12, script=SCRIPT, options=(*keep, "--resume"))
    assert "going on from step 9" in text and steps(folder)[-1] == 12
    before = steps(folder)
    text = launch_under_mpi(1, 1, "job", "--steps", 3, "--other", script=SCRIPT, options=(*keep, "--anew"))
    assert "of another run" in text and steps(folder) == [2, 3] and steps(aside(folder)) == before, text
    assert "going on from step 3" in launch_under_mpi(1, 1, "job", "--steps", 4, "--other", script=SCRIPT, options=(*keep, "--resume"))


@needs_mpi
@pytest.mark.mpi
def test_a_job_that_is_started_again_finds_its_own_checkpoints(tmp_path):
    """The launch begins anew in a used folder, and loses the servers' memory with a death: it must not take its own checkpoints for
    another's."""
    folder = tmp_path / "c"
    keep = ("--checkpoint", folder, "--checkpoint-steps", 2)
    launch(1, 1, "job", "--steps", 9, script=SCRIPT, options=keep)
    text = launch(1, 1, "job", "--steps", 8, "--kill", 5, "--also", tmp_path / "also", script=SCRIPT,
                  options=(*keep, "--anew", "--standbys", 0))
    assert "starting the job again" in text and text.count("of another run") == 1, text
    assert steps(folder)[-1] == 8 and steps(tmp_path / "also")[-1] == 8


FULL = '''
import os, resource, signal, sys
import numpy as np, trireme as fluid
L, io = fluid.layers, fluid.io
rows = L.embedding(L.data("ids", [1], dtype="int64"), [20000, 16], is_distributed=True, param_attr="table")
big = L.create_parameter([300_000], "float32", "big")
loss = L.elementwise_add(L.reduce_mean(rows), L.mean(big))
fluid.optimizer.Adagrad(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def step():
    exe.run(feed={"ids": np.arange(20000).reshape(-1, 1)}, fetch_list=[loss])
def files(folder):
    return {os.path.join(at, name): open(os.path.join(at, name), "rb").read() for at, _, names in os.walk(folder) for name in names}
def refused(save, folder, words, size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        save(folder)
        said = "nothing"
    except OSError as error:
        said = str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert all(word in said for word in (folder, *words)), (folder, said)
saves = {"apart": lambda at: io.save_persistables(exe, at), "whole": lambda at: io.save_persistables(exe, at, filename="all"),
         "kept": lambda at: io.save_checkpoint(exe, at), "dense": lambda at: io.save_vars(exe, at, vars=[big]),
         "model": lambda at: io.save_inference_model(at, ["ids"], [rows], exe)}
step()
for name, save in saves.items():
    for size in (10, 60_000):
        refused(save, f"new-{name}", ["File too large"], size)
        assert not files(f"new-{name}"), name
    save(f"old-{name}")
    before = files(f"old-{name}")
    step()
    refused(save, f"old-{name}", ["File too large"], 60_000)
    assert files(f"old-{name}") == before, name
open("a-file", "w").close()
for name, save in saves.items():
    for place, why in ("a-file", ("is a directory", "exists", "Not a directory")), ("a-file/inside", ("Not a directory",)):
        try:
            save(place)
            raise SystemExit(f"{name} was written to {place}")
        except OSError as error:
            assert "a-file" in str(error) and any(one in str(error) for one in why), (name, str(error))
with fluid.scope_guard(fluid.core.Scope()):
    io.load_checkpoint(exe, "old-kept")
    io.load_persistables(exe, "old-apart")
    io.load_persistables(exe, "old-whole", filename="all")
'''


def test_a_failed_write_names_the_path_and_keeps_the_old_files(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=LIMIT,
                          check=False)
    assert done.returncode == 0, done.stderr


@needs_mpi
@pytest.mark.mpi
def test_one_line_begins_a_job_and_goes_on_after_a_kill(tmp_path):
    begins, goes_on = "holds no checkpoint: the training begins", "going on from step"
    line = {"script": SCRIPT.with_name("dies.py"), "options": ("--checkpoint", tmp_path / "c", "--checkpoint-steps", 5, "--resume=auto")}
    launch(2, 2, tmp_path / "whole.npz", script=line["script"])
    out = tmp_path / "got.npz"
    Path(f"{out}.dies").touch()
    code, text = Launched(2, 2, out, script=line["script"], options=(*line["options"], "--restarts", 0)).end()
    assert code == 1 and text.count(begins) == 1 and goes_on not in text, text
    text = launch_under_mpi(2, 2, out, **line)
    assert text.count(goes_on) == 1 and begins not in text, text
    np.testing.assert_array_equal(results(out)["losses"], results(tmp_path / "whole.npz")["losses"])
    code, text = Launched(2, 2, "another.npz", **line).end()
    assert code == 2 and "does not hold checkpoints of 'dies.py another.npz'" in text, text


def test_a_script_and_the_environment_of_plain_mpirun_ask_for_auto_too(tmp_path):
    (tmp_path / "a").mkdir()
    assert "holds no checkpoint: the training begins" in run("loop", tmp_path / "a", "--steps", 4, "--resume")
    assert "going on from step 4" in run("loop", tmp_path / "a", "--steps", 4, "--resume")
    with pytest.raises(ValueError, match="True, False and 'auto' are possible"):
        trireme.distributed.checkpoint(tmp_path, resume="always")
