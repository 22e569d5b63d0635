"""Checkpoints with sparse tables: rows, states, keys that wait for a row and ages go on, on any number of servers."""

import os
import random
import re
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from job_support import Launched, alone, launch, needs_mpi, results

import trireme as fluid
from trireme import checkpoint as checkpoints
from trireme.checkpoint import command
from trireme.launch import cli

pytestmark = [needs_mpi, pytest.mark.mpi]

TABLES = Path(__file__).parent / "jobs" / "tables.py"
STEPS = 14
# Keys are admitted at their second touch and go after three steps without one: all that is counted must go on.
ARGS = ("--steps", STEPS, "--optimizer", "adam", "--entry-count", 2, "--max-age", 3)


def keep(folder, steps=3, *more):
    return ("--checkpoint", folder, "--checkpoint-steps", steps, *more)


def assert_goes_on(got, want):
    """The steps of another run, bit for bit: those that are not made again hand out what they had fetched."""
    np.testing.assert_array_equal(got["losses"], want["losses"])
    for name in ("words", "user", "fc"):
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "r.npz"
    launch(2, 2, *ARGS, "--out", path, script=TABLES)
    return results(path)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The checkpoints of a job whose trainer 0 died before step 8."""
    folder = tmp_path_factory.mktemp("killed") / "c"
    code, text = Launched(2, 2, *ARGS, "--kill", 8, "--pause", 0.15, script=TABLES,
                          options=keep(folder, 3, "--restarts", 0)).end()
    assert code == 1 and "died" in text
    assert checkpoints.steps(folder)[0] == 6
    return folder


def copy_of(folder, tmp_path):
    return Path(shutil.copytree(folder, tmp_path / "c"))


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_a_resumed_job_ends_like_one_that_was_not_stopped(servers, killed, uninterrupted, tmp_path):
    folder = copy_of(killed, tmp_path)
    text = launch(servers, 2, *ARGS, "--out", tmp_path / "r.npz", script=TABLES, options=keep(folder, 3, "--resume"))
    assert "going on from step 6" in text
    assert_goes_on(results(tmp_path / "r.npz"), uninterrupted)
    whole = checkpoints.newest(folder)
    assert whole.step == STEPS and whole.parts == servers and set(whole.tables) == {"words.table", "user.table"}


def test_a_checkpoint_does_not_depend_on_the_number_of_servers(killed, tmp_path):
    rows = []
    for servers in (1, 3):
        folder = copy_of(killed, tmp_path / str(servers))
        launch(servers, 2, *ARGS, script=TABLES, options=keep(folder, 100, "--resume"))
        found = checkpoints.newest(folder)
        rows.append({name: found.table_rows(name) for name in found.tables})
        assert found.tables["user.table"].updates == STEPS
    for name, table in rows[0].items():
        assert len(table) and table.tobytes() == rows[1][name].tobytes(), name


def test_equal_rows_have_equal_bytes_also_behind_their_fields(tmp_path):
    """A row of 3 values and 2 states ends with 4 bytes of no field: the same ones, whatever lay where the array is made."""
    alone("--steps", 3, *ARGS[2:], "--checkpoints", tmp_path / "c", script=TABLES)
    found = checkpoints.newest(tmp_path / "c")
    assert found.tables["user.table"].row_dtype.itemsize == 56
    for _ in range(3):
        rows = found.table_rows("user.table")
        litter = [np.full(rows.nbytes // 8, -1) for _ in range(9)]
        del litter
        assert not np.frombuffer(found.table_rows("user.table").tobytes(), np.uint8).reshape(-1, 56)[:, 52:].any()


def test_rows_are_read_and_compared_some_at_a_time(tmp_path, capsys, monkeypatch):
    alone("--steps", 6, *ARGS[2:], "--checkpoints", tmp_path / "c", script=TABLES)
    later = checkpoints.newest(tmp_path / "c")
    whole = later.table_rows("words.table")
    some = [later.table_rows("words.table", range(first, first + 256)) for first in range(0, 1024, 256)]
    joined = np.concatenate(some)
    assert all(len(one) < len(whole) for one in some)
    assert joined[np.argsort(joined["key"])].tobytes() == whole.tobytes()
    alone("--steps", 3, *ARGS[2:], "--checkpoints", tmp_path / "d", script=TABLES)
    said = []
    for bytes_at_a_time in (64 << 20, 300):
        monkeypatch.setattr(command, "_AT_A_TIME", bytes_at_a_time)
        assert command.command_diff(str(tmp_path / "d"), str(tmp_path / "c")) == 1
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] and re.search(r"words.table: \d+ rows changed, [1-9]\d* added, 0 removed", said[0]), said
    assert command.command_diff(str(tmp_path / "c"), later.folder) == 0
    with pytest.raises(ValueError, match="1 shards from 1024; there are 1024"):
        later.table_rows("words.table", range(1024, 1025))


def test_one_process_goes_on_from_a_jobs_checkpoint_and_a_job_from_its(tmp_path):
    """One trainer's curve is that of one process to the last bit, so all four ways end alike."""
    alone(*ARGS, "--out", tmp_path / "want.npz", script=TABLES)
    want = results(tmp_path / "want.npz")
    Launched(2, 1, *ARGS, "--kill", 7, script=TABLES, options=keep(tmp_path / "job", 6, "--restarts", 0)).end()
    alone(*ARGS, "--checkpoints", tmp_path / "job", "--out", tmp_path / "r.npz", script=TABLES)
    got = results(tmp_path / "r.npz")
    np.testing.assert_array_equal(got["losses"], want["losses"][6:])
    for name in ("words", "user", "fc"):
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)

    alone("--steps", 5, *ARGS[2:], "--checkpoints", tmp_path / "one", script=TABLES)
    launch(2, 1, *ARGS, "--out", tmp_path / "r.npz", script=TABLES, options=keep(tmp_path / "one", 100, "--resume"))
    got = results(tmp_path / "r.npz")
    assert np.isnan(got["losses"][:5]).all()           # what runs fetch in one process nobody keeps
    got["losses"][:5] = want["losses"][:5]
    assert_goes_on(got, want)


def test_a_damaged_row_is_named_and_the_checkpoint_before_it_taken(killed, uninterrupted, tmp_path):
    folder = copy_of(killed, tmp_path)
    found = checkpoints.find(folder, 6)
    key = found.table_rows("user.table")["key"][0]
    path = next(path for path in sorted(Path(found.folder).glob("part-*")) if key.tobytes() in path.read_bytes())
    data = bytearray(path.read_bytes())
    data[data.find(key.tobytes()) + 20] ^= 4           # in the row's values
    path.write_bytes(data)
    with pytest.raises(RuntimeError, match=f"'{path}': chunk 0 .* expected the checksum"):
        checkpoints.find(folder, 6).verify()
    text = launch(2, 2, *ARGS, "--out", tmp_path / "r.npz", script=TABLES, options=keep(folder, 3, "--resume"))
    assert f"'{path}': chunk 0" in text and "going on from step 3" in text
    assert_goes_on(results(tmp_path / "r.npz"), uninterrupted)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_dies_while_checkpoints_are_written(victim, tmp_path):
    """A checkpoint in every step: whatever is under way, the job goes on and what is there is whole."""
    folder, args = tmp_path / "c", (*ARGS, "--steps", 50, "--pause", 0.01)
    job = Launched(2, 2, *args, "--mark", tmp_path / "mark", "--out", tmp_path / "r.npz", script=TABLES, options=keep(folder, 1))
    ranks = job.ranks()
    job.await_training(tmp_path / "mark")
    time.sleep(random.uniform(0.0, 0.5))
    os.kill(ranks.known[victim].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0, text
    assert checkpoints.steps(folder)[0] == 50
    for step in checkpoints.steps(folder):
        checkpoints.find(folder, step).verify()
    launch(2, 2, *args, "--out", tmp_path / "w.npz", script=TABLES)
    want, got = results(tmp_path / "w.npz"), results(tmp_path / "r.npz")
    for name in ("words", "user", "fc"):
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)


@pytest.mark.parametrize("mode", ["async", "ssp(1)"])
def test_the_other_modes_have_them_too(mode, tmp_path):
    folder = tmp_path / "c"
    options = ("--mode", mode, *keep(folder, 4, "--checkpoint-keep", 9))
    launch(2, 2, *ARGS, script=TABLES, options=options)
    assert checkpoints.steps(folder)[0] == STEPS and len(checkpoints.steps(folder)) > 1
    for step in checkpoints.steps(folder):
        found = checkpoints.find(folder, step)
        found.verify()
        assert all(np.isfinite(found.table_rows(name)["values"]).all() for name in found.tables)
    text = launch(1, 2, *ARGS, "--steps", 20, script=TABLES, options=(*options, "--resume"))
    assert f"going on from step {STEPS}" in text
    assert checkpoints.newest(folder).tables["user.table"].updates > found.tables["user.table"].updates


def test_export_and_list_know_tables(killed, tmp_path, capsys):
    found = checkpoints.find(killed, 6)
    rows = found.table_rows("words.table")
    assert (np.diff(rows["key"]) > 0).all() and rows["values"].shape == (len(rows), 6) and rows["states"].shape[1:] == (2, 6)
    assert cli.main(["checkpoint", "export", str(killed), "--out", str(tmp_path / "all.npz")]) == 0
    with np.load(tmp_path / "all.npz") as got:
        for field in ("key", "values", "states", "touches", "last"):
            np.testing.assert_array_equal(got[f"words.table.{field}"], rows[field])
        assert "fc_0.w_0" in got and got["user.table.values"].shape[1] == 3
    assert cli.main(["checkpoint", "export", str(killed), "--out", str(tmp_path / "all.safetensors"), "--parameters"]) == 0
    header = (tmp_path / "all.safetensors").read_bytes()[:4000]
    assert b'"words.table.values":{"dtype":"F32"' in header and b"words.table.states" not in header
    assert cli.main(["checkpoint", "verify", str(killed)]) == 0
    capsys.readouterr()
    assert cli.main(["checkpoint", "list", str(killed)]) == 0
    assert str(len(rows) + found.tables["user.table"].rows) in capsys.readouterr().out


def test_another_width_is_refused(killed):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        ids = fluid.layers.data("ids", [1], dtype="int64")
        rows = fluid.layers.embedding(ids, [10, 4], is_distributed=True, param_attr="user.table")
        fluid.optimizer.Adam(0.1).minimize(fluid.layers.mean(rows))
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        scope = fluid.global_scope()
        with pytest.raises(ValueError, match="'user.table' in .* has rows of 3 float32 with 2 states, the program wants 4 float32 with 2"):
            checkpoints.find(killed, 6).load_table("user.table", scope)
        with pytest.raises(fluid.errors.NotFoundError, match="no sparse table 'other'"):
            checkpoints.find(killed, 6).load_table("other", scope)
