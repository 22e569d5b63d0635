"""Jobs whose data and checkpoints lie in a store, under mpirun: they end as jobs with files do, to the bit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from click_support import CLICK, click_files
from job_support import MPIS, Launched, environment, launch, launch_under_mpi, needs_mpi, results
from saved_job_support import SCRIPT, assert_holds, data, mpirun, run, script  # noqa: F401 - a fixture
from store_support import BUCKET, Proxy, find_store, folder_of, the_server

import trireme as fluid
from trireme import checkpoint as checkpoints
from trireme.launch import cli
from trireme.launch.programs import trainer_program
from trireme.stores.folders import list_files
from trireme.stores.saves import download_saved

pytestmark = [pytest.mark.mpi, needs_mpi]


@pytest.fixture(scope="module")
def s3():
    pytest.importorskip("pyarrow")
    return the_server()


@pytest.fixture
def stored(s3, data):  # noqa: F811
    """The files of `data` in the store: their pattern, and the environment of ranks."""
    for path in Path(data).parent.iterdir():
        s3.put(f"data/{path.name}", path.read_bytes())
    return f"s3://{BUCKET}/data/*.txt", environment(**s3.environment())


@pytest.mark.parametrize("split", ["batches", "tasks"])
def test_a_job_trains_from_a_store_as_from_files(data, stored, tmp_path, split):  # noqa: F811
    uri, env = stored
    how = ("--split", split)
    launch(2, 2, data, "--save", tmp_path / "files", *how, script=SCRIPT)
    launch_under_mpi(2, 2, uri, "--save", tmp_path / "store", *how, script=SCRIPT, env=env)
    assert_holds(tmp_path / "store", tmp_path / "files")


@pytest.mark.skipif("5" not in MPIS, reason="no Open MPI 5 is installed")
def test_a_killed_trainer_changes_no_bit(data, stored, tmp_path):  # noqa: F811
    uri, env = stored
    how = ("--split", "tasks", "--epochs", 100)
    launch(2, 2, data, "--save", tmp_path / "files", *how, script=SCRIPT)
    job = Launched(2, 2, uri, "--save", tmp_path / "store", *how, script=SCRIPT, env=env, replacements=True)
    ranks = job.ranks()
    job.await_word("began.3")
    os.kill(ranks.known[3].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0, text
    assert_holds(tmp_path / "store", tmp_path / "files")


def test_a_saved_job_reads_a_store_without_a_script(data, stored, tmp_path, monkeypatch):  # noqa: F811
    uri, env = stored
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    script(uri, "--write", tmp_path / "job", "--servers", 2, "--split", "tasks")
    monkeypatch.setenv("TRIREME_STORE_COMMAND", f"exec {sys.executable} -m trireme store")
    code, out, err = mpirun(2, 2, trainer_program(), "--save", tmp_path / "store", tmp_path / "job")
    assert code == 0, out + err
    code, out, err = mpirun(2, 2, sys.executable, SCRIPT, data, "--save", tmp_path / "files", "--split", "tasks")
    assert code == 0, out + err
    assert_holds(tmp_path / "store", tmp_path / "files")
    monkeypatch.setenv("TRIREME_STORE_COMMAND", "no-such-program")
    code, out, err = mpirun(2, 2, trainer_program(), tmp_path / "job")
    assert code != 0 and re.search(r"the process that reads stores, 'no-such-program', has ended", out + err)


# == checkpoints ==============================================================================================


RESUME = SCRIPT.with_name("resume.py")


@pytest.fixture
def here(s3, monkeypatch):
    return find_store(s3, monkeypatch)


def assert_ends_like(got, want, first):
    """The last steps of another run, bit for bit."""
    np.testing.assert_array_equal(got["losses"], want["losses"][first:])
    assert got.keys() == want.keys()
    for name in want.keys() - {"losses"}:
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)


def test_a_job_is_checkpointed_to_a_store_killed_and_resumed(here, tmp_path):
    env, folder = environment(**here.environment()), f"s3://{BUCKET}/{tmp_path.name}"
    launch(2, 2, "--out", tmp_path / "whole.npz", script=RESUME)
    keep = ("--checkpoint", folder, "--checkpoint-steps", 5)
    code, text = Launched(2, 2, "--kill", 13, "--pause", 0.05, script=RESUME, env=env, options=(*keep, "--restarts", 0)).end()
    assert code == 1 and "died" in text, text
    at = checkpoints.steps(folder)[0]                  # 10, or later by how long the one before it was written
    assert 10 <= at <= 13
    names = {name for name, _ in list_files(folder)}
    assert f"step-{at:09}/manifest" in names
    assert len([name for name in names if name.startswith(f"step-{at:09}/part-")]) == 3     # two servers, and trainer 0
    code, text = Launched(1, 2, script=RESUME, env=env, options=keep).end()
    assert code == 2 and f"the folder '{folder}' holds" in text, text                        # another run may not begin there
    text = launch_under_mpi(3, 2, "--out", tmp_path / "r.npz", script=RESUME, env=env, options=(*keep, "--resume"))
    assert f"going on from step {at}, {folder}/step-{at:09}" in text and f"trainer 1: {20 - at} steps to step 20" in text, text
    assert_ends_like(results(tmp_path / "r.npz"), results(tmp_path / "whole.npz"), at)
    assert checkpoints.steps(folder)[0] == 20
    checkpoints.find(folder).verify()
    assert {name for name, _ in list_files(folder) if name.startswith(".")} == {".fetched-0", ".fetched-1"}


@pytest.mark.parametrize("scheme", ["gs", "hdfs"])
def test_a_job_is_checkpointed_to_another_store_and_resumed(scheme, monkeypatch, tmp_path):
    pytest.importorskip("pyarrow")
    elsewhere = folder_of(scheme, tmp_path.name, monkeypatch)
    launch(1, 1, "--out", tmp_path / "whole.npz", script=RESUME)
    keep = ("--checkpoint", elsewhere, "--checkpoint-steps", 5)
    code, text = Launched(1, 1, "--ask", 12, script=RESUME, options=keep).end()
    assert code == 75 and f"the checkpoint is {elsewhere}/step-000000012" in text, text
    text = launch_under_mpi(1, 1, "--out", tmp_path / "r.npz", script=RESUME, options=(*keep, "--resume"))
    assert f"going on from step 12, {elsewhere}/step-000000012" in text, text
    assert_ends_like(results(tmp_path / "r.npz"), results(tmp_path / "whole.npz"), 12)
    assert checkpoints.steps(elsewhere) == [20, 15, 12]
    checkpoints.find(elsewhere).verify()
    assert {name for name, _ in list_files(elsewhere) if name.startswith(".")} == {".fetched-0"}       # the run's claim is gone


def test_one_line_begins_a_job_in_a_store_and_goes_on_after_a_kill(here, tmp_path):
    env, dies, out = environment(**here.environment()), SCRIPT.with_name("dies.py"), tmp_path / "got.npz"
    Path(f"{out}.dies").touch()
    keep = ("--checkpoint", f"s3://{BUCKET}/{tmp_path.name}", "--checkpoint-steps", 5)
    code, text = Launched(2, 2, out, script=dies, env=env, options=(*keep, "--resume")).end()
    assert code == 2 and "holds no checkpoint" in text, text
    keep += ("--resume=auto",)
    code, text = Launched(2, 2, out, script=dies, env=env, options=(*keep, "--restarts", 0)).end()
    assert code == 1 and text.count("holds no checkpoint: the training begins") == 1, text
    text = launch_under_mpi(2, 2, out, script=dies, env=env, options=keep)
    assert text.count("going on from step") == 1 and "the training begins" not in text, text
    assert len(results(out)["losses"]) == 5


def test_a_job_that_is_stopped_while_its_servers_read_goes_on_from_the_same_checkpoint(here, tmp_path):
    """The store is silent meanwhile. Replayed steps of the job that goes on return what they fetched."""
    env, keep = environment(**here.environment()), ("--checkpoint", f"s3://{BUCKET}/{tmp_path.name}", "--checkpoint-steps", 5)
    launch(2, 2, "--out", tmp_path / "whole.npz", script=RESUME)
    code, text = Launched(2, 2, "--ask", 12, script=RESUME, env=env, options=keep).end()
    assert code == 75, text
    there, proxy, reads = list_files(keep[1]), Proxy(here.port), threading.Event()
    proxy.fault = lambda at, verb, path: reads.set() or "stall" if verb == "GET" and "/part-" in path else None
    job = Launched(2, 2, script=RESUME, env=environment(**here.environment(proxy.port)), options=(*keep, "--resume"))
    job.wait_for(reads.is_set, "a server that reads its part")
    job.process.send_signal(signal.SIGTERM)
    code, text = job.end()
    proxy.stop()
    assert code == 75 and "stopped by SIGTERM before it trained" in text and "step" not in text, text
    assert [one for one in list_files(keep[1]) if one[0] != ".claim"] == there
    launch_under_mpi(2, 2, "--plain", "--out", tmp_path / "r.npz", script=RESUME, env=env, options=(*keep, "--resume"))
    assert_ends_like(results(tmp_path / "r.npz"), results(tmp_path / "whole.npz"), 0)


def test_a_damaged_part_in_a_store_is_named_and_the_checkpoint_before_is_used(here, tmp_path):
    env, folder = environment(**here.environment()), f"s3://{BUCKET}/{tmp_path.name}"
    keep = ("--checkpoint", folder, "--checkpoint-steps", 10)
    launch_under_mpi(2, 2, script=RESUME, env=env, options=keep)
    name = next(name for name, _ in list_files(folder) if name.startswith("step-000000020/part-00001"))
    content = here.get(f"{tmp_path.name}/{name}")
    here.put(f"{tmp_path.name}/{name}", content[:70] + bytes([content[70] ^ 1]) + content[71:])
    text = launch_under_mpi(2, 2, script=RESUME, env=env, options=(*keep, "--resume"))
    assert "going on from step 10" in text and f"'{folder}/{name}': chunk 0" in text, text


def test_a_checkpoint_is_made_over_any_request_that_fails(here, tmp_path):
    """Each of the requests that write, in turn: it fails, or its answer is lost."""
    proxy, folder = Proxy(here.port), f"s3://{BUCKET}/{tmp_path.name}"
    env = environment(**here.environment(proxy.port), TRIREME_STORE_TIMEOUT="2")
    faults = iter(["fail", "cut", "lost", "stall"] * 200)
    proxy.fault = lambda at, verb, path: next(faults) if at % 7 == 3 else None
    keep = ("--checkpoint", folder, "--checkpoint-steps", 5)
    text = launch_under_mpi(2, 2, "--out", tmp_path / "whole.npz", script=RESUME, env=env, options=keep)
    proxy.stop()
    assert "cannot" not in text and checkpoints.steps(folder)[0] == 20, text
    for step in checkpoints.steps(folder):
        checkpoints.find(folder, step).verify()


def test_a_store_that_is_gone_is_reported_and_training_goes_on(here, tmp_path):
    proxy, folder = Proxy(here.port), f"s3://{BUCKET}/{tmp_path.name}"
    proxy.fault = lambda at, verb, path: "refuse" if "step-" in path and verb in ("PUT", "POST") else None
    env = environment(**here.environment(proxy.port), TRIREME_STORE_TIMEOUT="2")
    code, text = Launched(2, 2, "--out", tmp_path / "r.npz", script=RESUME, env=env,
                          options=("--checkpoint", folder, "--checkpoint-steps", 10)).end()
    proxy.stop()
    assert code == 1 and re.search(rf"{folder}/step-0+10/part-\S+ cannot be written: .*ACCESS_DENIED", text), text
    assert "secret-of-tests" not in text and checkpoints.steps(folder) == []


def test_checkpoints_of_changes_lie_in_a_store_too(here, tmp_path):
    """A table's changed rows alone, resumed from several files; then written anew as a full one."""
    env, folder = environment(**here.environment()), f"s3://{BUCKET}/{tmp_path.name}"
    train = SCRIPT.with_name("train.py")
    launch_under_mpi(2, 2, "--table", "--steps", 20, script=train, env=env,
                     options=("--checkpoint", folder, "--checkpoint-steps", 5, "--checkpoint-full-every", 10, "--mode", "sync"))
    newest = checkpoints.find(folder)
    newest.verify()
    assert newest.base_step is not None
    before = newest.table_rows(next(iter(newest.tables))).tobytes()
    assert cli.main(["checkpoint", "compact", folder]) == 0
    compact = checkpoints.find(folder)
    assert compact.base_step is None and compact.table_rows(next(iter(compact.tables))).tobytes() == before


def test_one_process_keeps_and_reads_checkpoints_in_a_store(here, capfd, tmp_path):
    loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line"))
    fluid.optimizer.Momentum(0.1, momentum=0.9).minimize(loss)
    exe, folder = fluid.Executor(), f"s3://{BUCKET}/{tmp_path.name}"
    exe.run(fluid.default_startup_program())
    fed = {"x": np.ones((3, 2), "float32")}
    for step in range(1, 6):
        exe.run(feed=fed)
        fluid.io.save_checkpoint(exe, folder, step=step, keep=2)
    wanted = [np.array(fluid.global_scope().find_var(name).get_tensor()) for name in ("line.w_0", "line.b_0")]
    exe.run(feed=fed)
    assert checkpoints.steps(folder) == [5, 4]
    assert fluid.io.load_checkpoint(exe, folder).step == 5
    for name, value in zip(("line.w_0", "line.b_0"), wanted):
        assert np.array_equal(np.array(fluid.global_scope().find_var(name).get_tensor()), value)
    assert cli.main(["checkpoint", "list", folder]) == 0 and cli.main(["checkpoint", "verify", folder]) == 0
    assert f"{folder}/step-000000005: valid" in capfd.readouterr().out
    assert cli.main(["checkpoint", "verify", f"{folder}/step-000000004"]) == 0


def test_programs_without_a_script_take_uris(here, stored, tmp_path, monkeypatch):
    """`trireme-trainer` keeps checkpoints in a store and goes on from them; `trireme predict` serves an export there."""
    uri, env = stored
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TRIREME_STORE_COMMAND", f"exec {sys.executable} -m trireme store")
    script(uri, "--write", tmp_path / "job")
    folder, saved = f"s3://{BUCKET}/{tmp_path.name}", f"s3://{BUCKET}/{tmp_path.name}.saved"
    for more in (("--epochs", 1), ("--epochs", 3, "--resume")):
        code, out, err = run(trainer_program(), "--checkpoint", folder, *more, "--save", saved, tmp_path / "job")
        assert code == 0, out + err
    assert f"going on from step 9, {folder}/step-000000009" in out + err
    script(uri, "--save", tmp_path / "python")
    download_saved(saved, str(tmp_path / "c"))
    assert [name.endswith("/__saved__") for name, _ in list_files(saved)].count(True) == 1        # the first one is gone
    assert_holds(tmp_path / "c", tmp_path / "python")
    guess = fluid.layers.fc(fluid.layers.data("x", [2]), 1, param_attr=fluid.initializer.Constant(1.0), bias_attr=False)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.serving.export_model(f"s3://{BUCKET}/predict", ["x"], [guess], exe)
    done = subprocess.run([sys.executable, "-m", "trireme", "predict", f"s3://{BUCKET}/predict"], input='{"x": [1, 2]}\n', text=True,
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and "3" in done.stdout, done.stderr


def test_what_trainers_accumulate_is_in_a_checkpoint_of_a_store(here, data, tmp_path):  # noqa: F811
    env, folder = environment(**here.environment()), f"s3://{BUCKET}/{tmp_path.name}"
    how = ("--optimizer", "dgc", "--width", 3000, "--epochs", 3)
    launch(2, 2, data, "--save", tmp_path / "whole", *how, script=SCRIPT)
    keep = ("--checkpoint", folder, "--checkpoint-steps", 9)
    launch_under_mpi(2, 2, data, *how[:-1], 1, script=SCRIPT, env=env, options=keep)
    assert any("@TRAINER@1" in name for name in checkpoints.find(folder).arrays)
    launch_under_mpi(2, 2, data, "--save", tmp_path / "resumed", *how, script=SCRIPT, env=env, options=(*keep, "--resume"))
    assert_holds(tmp_path / "resumed", tmp_path / "whole")
    assert not [name for name, _ in list_files(folder) if name.startswith(".own-")]


# == serving ==================================================================================================


def test_a_predictor_follows_the_exports_of_a_job_in_a_store(here, tmp_path):
    env, folder = environment(**here.environment()), f"s3://{BUCKET}/{tmp_path.name}"
    train, held_out = (here.put(f"{tmp_path.name}.data/{path.name}", path.read_bytes()) for path in click_files(tmp_path))
    job = Launched(2, 2, train, "--held-out", held_out, "--export", folder, "--epochs", 4, "--pause", 0.1, "--out", tmp_path / "out.npz",
                   script=CLICK, env=env)
    feed = {"user": np.array([[1]]), "ad": np.array([[2]]), "site": np.array([[3]]), "price": np.ones((1, 1), "float32")}
    seen = {}
    with fluid.serving.Predictor(folder, wait=60) as predictor:
        predictor.follow(0.02)

        def follows():
            seen[predictor.version] = predictor.run(feed)[0].item()
            return len(seen) >= 3
        job.wait_for(follows, "three exports that were served")
        code, text = job.end()
        assert code == 0 and len(set(seen.values())) >= 2, (text, seen)
        predictor.refresh()
        with np.load(tmp_path / "out.npz") as out:
            served, = predictor.run({name: out[name] for name in ("user", "ad", "site", "price")})
            np.testing.assert_allclose(served, out["click"], rtol=1e-6)
