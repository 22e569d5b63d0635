"""Checkpoints of changes. Such a checkpoint and the checkpoints below it are the whole state for every job that goes on from it. An error
names the file that is missing."""

import os
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from job_support import Launched, alone, launch, needs_mpi, results
from simulated_jobs import simulate

import trireme as fluid
from trireme import checkpoint as checkpoints
from trireme.job.checkpoint_settings import Settings
from trireme.launch import cli

pytestmark = [needs_mpi, pytest.mark.mpi]

TABLES = Path(__file__).parent / "jobs" / "tables.py"
STEPS = 14
# Keys are admitted at their second touch and go after three steps without one; --rare adds some that are seldom used.
ARGS = ("--steps", STEPS, "--optimizer", "adam", "--entry-count", 2, "--max-age", 3, "--rare", 400)


def keep(folder, every, *more):
    return ("--checkpoint", folder, "--checkpoint-steps", 1, "--checkpoint-keep", 99, "--checkpoint-full-every", every, *more)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Folders of one job with a checkpoint of each step: in "whole" all are full, in "changes" every fifth one; and the results."""
    folder = tmp_path_factory.mktemp("written")
    for name, every in (("whole", 1), ("changes", 5)):
        launch(2, 2, *ARGS, "--out", folder / f"{name}.npz", script=TABLES, options=keep(folder / name, every))
    return folder


def up_to(step, folder, tmp_path):
    """A copy of the folder as it was after this step."""
    copy = Path(shutil.copytree(folder, tmp_path / "c"))
    for later in copy.glob("step-*"):
        if int(later.name[5:]) > step:
            shutil.rmtree(later)
    return copy


def test_changes_and_full_checkpoints_have_the_same_rows(written):
    steps = checkpoints.steps(written / "whole")
    assert len(steps) == STEPS and checkpoints.steps(written / "changes") == steps
    bases = [checkpoints.find(written / "changes", step).base_step for step in reversed(steps)]
    assert bases == [None, 1, 2, 3, 4, None, 6, 7, 8, 9, None, 11, 12, 13]
    for step in steps:
        whole, changes = (checkpoints.find(written / name, step) for name in ("whole", "changes"))
        changes.verify()
        for name in whole.tables:
            assert whole.tables[name].rows == changes.tables[name].rows
            np.testing.assert_array_equal(whole.table_rows(name), changes.table_rows(name), err_msg=f"{name} of step {step}")


@pytest.mark.parametrize(("servers", "step"), [(1, 4), (2, 9), (3, 13)])
def test_a_job_that_goes_on_from_changes_ends_like_one_that_was_not_stopped(servers, step, written, tmp_path):
    folder = up_to(step, written / "changes", tmp_path)
    text = launch(servers, 2, *ARGS, "--out", tmp_path / "r.npz", script=TABLES, options=keep(folder, 5, "--resume"))
    assert f"going on from step {step}" in text
    got, want = results(tmp_path / "r.npz"), results(written / "whole.npz")
    for name in ("losses", "words", "user", "fc"):
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)
    assert checkpoints.find(folder, step + 1).base_step is None, "a server that was started anew remembers no rows"


def test_one_process_writes_changes_too(tmp_path):
    alone(*ARGS, "--out", tmp_path / "want.npz", script=TABLES)
    for every, name in ((1, "whole"), (3, "changes")):
        text = launch(1, 1, *ARGS, script=TABLES, options=keep(tmp_path / name, every))
        assert "warning" not in text
    for step in checkpoints.steps(tmp_path / "whole"):
        whole, changes = (checkpoints.find(tmp_path / name, step) for name in ("whole", "changes"))
        for name in whole.tables:
            np.testing.assert_array_equal(whole.table_rows(name), changes.table_rows(name))


@pytest.mark.parametrize("seed", range(3))
def test_what_is_missing_or_damaged_below_is_named_and_the_newest_whole_one_taken(seed, written, tmp_path):
    folder, chance = up_to(13, written / "changes", tmp_path), random.Random(seed)
    victim = chance.choice([8, 9, 11, 12])
    part = chance.choice(sorted((folder / f"step-{victim:09d}").glob("part-*")))
    if seed == 0:
        part.unlink()
    else:
        data = np.memmap(part, np.uint8, "r+")
        data[chance.randrange(len(data))] ^= 2
        data.flush()
    wanted = 13 if victim < 10 else victim - 1         # step 13 builds on 12 and 11, and 11 is full
    text = launch(2, 2, *ARGS, "--out", tmp_path / "r.npz", script=TABLES, options=keep(folder, 5, "--resume"))
    assert f"going on from step {wanted}," in text
    got, want = results(tmp_path / "r.npz"), results(written / "whole.npz")
    for name in ("words", "user", "fc"):
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)
    if wanted < 13:
        assert part.name in text and f"step-{victim:09d}" in text


def test_the_command_line_says_what_a_checkpoint_builds_on(written, capsys):
    assert cli.main(["checkpoint", "list", str(written / "changes")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[0] == "13" and "since 12" in line for line in lines), lines
    assert any(line.split()[0] == "11" and "full" in line for line in lines), lines
    assert cli.main(["checkpoint", "verify", str(written / "changes")]) == 0


def test_a_checkpoint_of_changes_is_found_by_every_name_of_its_folder(written, tmp_path, monkeypatch):
    folder = up_to(13, written / "changes", tmp_path)
    (tmp_path / "newest").symlink_to(folder / "step-000000013")
    monkeypatch.chdir(folder / "step-000000012")
    want = checkpoints.find(folder, 13).table_rows("words.table")
    for name in ("../step-000000013", "../step-000000013//", "../step-000000013/.", f"{tmp_path}/newest", f"{tmp_path}/newest/"):
        found = checkpoints.Checkpoint(name)
        found.verify()
        np.testing.assert_array_equal(found.table_rows("words.table"), want)
    checkpoints.Checkpoint(".").verify()


def test_a_compacted_checkpoint_needs_no_other_and_differs_in_nothing(written, tmp_path, capsys):
    folder = up_to(13, written / "changes", tmp_path)
    step = folder / "step-000000013"
    assert cli.main(["checkpoint", "compact", str(folder), "--step", "12"]) == 2
    assert "that of step 13 builds on it" in capsys.readouterr().err
    assert cli.main(["checkpoint", "compact", str(folder)]) == 0
    assert "of changes since step 12 before" in capsys.readouterr().out
    for older in folder.glob("step-*"):
        if older != step:
            shutil.rmtree(older)
    found = checkpoints.find(folder, 13)
    found.verify()
    assert found.base_step is None
    assert cli.main(["checkpoint", "diff", str(step), str(written / "whole" / "step-000000013")]) == 0
    assert cli.main(["checkpoint", "diff", str(step), str(written / "whole" / "step-000000012")]) == 1
    said = capsys.readouterr().out
    assert "words.table: " in said and "rows changed" in said and "fc_0.w_0: " in said
    text = launch(3, 2, *ARGS, "--out", tmp_path / "r.npz", script=TABLES, options=keep(folder, 5, "--resume"))
    assert "going on from step 13" in text
    got, want = results(tmp_path / "r.npz"), results(written / "whole.npz")
    for name in ("words", "user", "fc"):
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)


def test_a_compacted_checkpoint_keeps_its_place_among_the_others(written, tmp_path):
    folder = up_to(11, written / "changes", tmp_path)
    before = checkpoints.find(folder, 10)
    assert cli.main(["checkpoint", "compact", str(folder), "--step", "10"]) == 0
    after = checkpoints.find(folder, 10)
    assert (after.run, after.command, after.created, after.base_step) == (before.run, before.command, before.created, None)
    assert checkpoints.newest(folder).step == 11


@pytest.mark.parametrize("keep_asked", [0, 1])
def test_checkpoints_on_request_in_the_same_folder_break_none_of_the_others(keep_asked, written, tmp_path):
    """Those of the script take the place of one that others build on (keep 0), or remove it (keep 1)."""
    folder = tmp_path / "c"
    launch(2, 2, *ARGS, "--ask", keep_asked, script=TABLES, options=keep(folder, 5))
    steps = checkpoints.steps(folder)
    assert steps[0] == STEPS and (keep_asked or steps == checkpoints.steps(written / "whole"))
    bases = [one.base_step for one in (checkpoints.find(folder, step) for step in steps)]
    assert None in bases and any(base is not None for base in bases)
    for step in steps:
        whole, asked = (checkpoints.find(where, step) for where in (written / "whole", folder))
        asked.verify()
        for name in whole.tables:
            np.testing.assert_array_equal(whole.table_rows(name), asked.table_rows(name), err_msg=f"{name} of step {step}")


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_rank_that_dies_while_changes_are_written(victim, tmp_path):
    """A checkpoint in every step: whatever is under way, the job goes on and what is there is whole."""
    folder, args = tmp_path / "c", (*ARGS, "--steps", 50, "--pause", 0.01)
    job = Launched(2, 2, *args, "--mark", tmp_path / "mark", "--out", tmp_path / "r.npz", script=TABLES, options=keep(folder, 4))
    ranks = job.ranks()
    job.await_training(tmp_path / "mark")
    time.sleep(random.uniform(0.0, 0.5))
    os.kill(ranks.known[victim].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0, text
    assert checkpoints.steps(folder)[0] == 50
    for step in checkpoints.steps(folder):
        checkpoints.find(folder, step).verify()
    launch(2, 2, *args, "--out", tmp_path / "w.npz", script=TABLES, options=keep(tmp_path / "w", 1))
    newest, want = checkpoints.newest(folder), checkpoints.newest(tmp_path / "w")
    for name in want.tables:
        np.testing.assert_array_equal(newest.table_rows(name), want.table_rows(name), err_msg=name)


def test_kills_at_any_moment_leave_only_checkpoints_with_the_rows_of_full_ones(written, tmp_path):
    """Simulated jobs: servers, trainers and standbys die, up to four of them, while one to all of the checkpoints stay."""
    starts = changes = 0
    for seed in range(10):
        chance, folder = random.Random(seed), tmp_path / str(seed)
        servers, standbys = chance.choice((1, 2, 3)), chance.choice((0, 1, 2))
        kills = [[(chance.randrange(servers + 2 + standbys), chance.uniform(1, 140)) for _ in range(2)] for _ in range(2)]
        options = ("--checkpoint", folder, "--checkpoint-steps", 1, "--checkpoint-keep", chance.choice((1, 2, 99)),
                   "--checkpoint-full-every", chance.choice((3, 6, 20)))
        ended = simulate(servers, 2, *ARGS, script=TABLES, options=options, seed=seed, kills=kills, standbys=standbys)
        said = f"seed {seed}, {servers} servers, {standbys} standbys, {options}, kills {kills}:\n{ended.text}"
        assert ended.code == 0 and checkpoints.steps(folder)[0] == STEPS, said
        for step in checkpoints.steps(folder):
            whole, found = (checkpoints.find(where, step) for where in (written / "whole", folder))
            found.verify()
            for name in whole.tables:
                np.testing.assert_array_equal(whole.table_rows(name), found.table_rows(name), err_msg=f"{name} of step {step}, {said}")
            changes += found.base_step is not None
        starts += ended.starts
    assert starts > 10 and changes > 10


def test_coded_rows_are_near_the_exact_ones_and_a_job_goes_on_from_them(written, tmp_path, capsys):
    """The job is that of "changes". Its rows are coded, full ones and changes; every number of servers reads the same."""
    folder = tmp_path / "c"
    launch(2, 2, *ARGS, script=TABLES, options=keep(folder, 5, "--checkpoint-rows", "int8"))
    for step in checkpoints.steps(folder):
        exact, coded = (checkpoints.find(where, step) for where in (written / "changes", folder))
        coded.verify()
        assert coded.nbytes < exact.nbytes and coded.base_step == exact.base_step
        assert (coded.row_type, exact.row_type) == ("int8", "exact")
        for name in exact.tables:
            a, b = exact.table_rows(name), coded.table_rows(name)
            for field in ("key", "touches", "last"):
                np.testing.assert_array_equal(a[field], b[field])
            bound = np.abs(a["values"]).max(axis=1, keepdims=True) / 252
            assert (np.abs(a["values"] - b["values"]) <= bound * 1.001).all()
            second = a["states"][:, 1]                     # Adam's mean of squares
            assert ((second == 0) == (b["states"][:, 1] == 0)).all() and (b["states"][:, 1] >= 0).all()
    ends = []
    for servers in (1, 3):
        copy = up_to(13, folder, tmp_path / str(servers))
        launch(servers, 2, *ARGS, "--out", tmp_path / "r.npz", script=TABLES, options=keep(copy, 5, "--resume"))
        ends.append(results(tmp_path / "r.npz"))
    for name in ("words", "user", "fc"):
        np.testing.assert_array_equal(ends[0][name], ends[1][name], err_msg=name)
    assert cli.main(["checkpoint", "list", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert any("full, int8" in line for line in lines) and any("since 12, int8" in line for line in lines), lines


def test_an_unknown_way_to_write_rows_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"checkpoint: rows='int4': 'exact' and 'int8' are possible"):
        fluid.distributed.checkpoint(tmp_path, rows="int4")
    monkeypatch.setenv("TRIREME_CHECKPOINT_ROWS", "bf16")
    monkeypatch.setenv("TRIREME_CHECKPOINT", str(tmp_path))
    with pytest.raises(ValueError, match="TRIREME_CHECKPOINT_ROWS='bf16'"):
        Settings().from_environment()
