"""Rows of tables that a script loads or sets between two steps: a job has the rows of one process."""

import os
import random
import shutil
import signal
import time

import numpy as np
import pytest
from compare_scripts import build_transport
from forked_jobs import Built, run_job
from job_support import ROW_SETS as SCRIPT
from job_support import Launched, alone, assert_same_tables, launch, needs_mpi


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "r"
    alone("--out", path, script=SCRIPT)
    return path


def assert_same(path, one, trainers):
    want = dict(np.load(f"{one}.0.npz"))
    for index in range(trainers):
        got = dict(np.load(f"{path}.{index}.npz"))
        assert got.keys() == want.keys() and len(got) > 60
        for key in want:
            np.testing.assert_array_equal(got[key], want[key], err_msg=f"{key} of trainer {index}")
    assert_same_tables(path, one)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize(("servers", "trainers", "mode"), [
    (1, 1, "sync"), (2, 1, "ssp(2)"), (2, 2, "sync"), (1, 2, "sync(degraded)")])
def test_rows_that_a_script_sets_are_those_of_one_process(servers, trainers, mode, one_process, tmp_path):
    launch(servers, trainers, "--out", tmp_path / "r", script=SCRIPT, options=("--mode", mode))
    assert_same(tmp_path / "r", one_process, trainers)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("victims", [(1,), (2,), (0, 1, 2, 3)], ids=["server 1", "trainer 0", "all ranks"])
def test_deaths_cost_no_row_that_is_set(victims, one_process, tmp_path):
    job = Launched(2, 2, "--out", tmp_path / "r", "--seen", tmp_path / "seen", script=SCRIPT)
    ranks = job.ranks()
    job.await_training(tmp_path / "seen.0")
    time.sleep(random.uniform(0.0, 0.9))
    for victim in victims:
        os.kill(ranks.known[victim].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0, text
    assert_same_tables(tmp_path / "r", one_process)      # replayed steps look up the present rows


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize(("trainers", "mode"), [(2, "async"), (1, "async")])
def test_trainers_that_step_alone_or_keep_rows_see_those_that_are_set(trainers, mode, tmp_path):
    launch(2, trainers, "--out", tmp_path / "r", *["--keep"] * (trainers == 1), script=SCRIPT, options=("--mode", mode))
    for index in range(trainers):
        found = dict(np.load(f"{tmp_path / 'r'}.{index}.npz"))
        assert (found["set.3.plain"][:2] == 0.25).all()
        np.testing.assert_array_equal(found["set.9.plain"], found["set.15.plain"])
        np.testing.assert_array_equal(found["set.11.aged"][:60], np.random.RandomState(7).rand(60, 3).astype("float16"))
        if trainers == 1:
            keys = np.random.RandomState(9).randint(0, 60, 12)
            assert not np.array_equal(found["8.plain"][keys], found["set.9.plain"][keys])
            np.testing.assert_array_equal(found["batch.9"], found["set.9.plain"][keys])


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize(("wrong", "trainers", "mode", "texts"), [
    ("set", 1, "geo(2)", ["rows of table 'plain' are set after step", "in mode geo(2) the servers take none"]),
    ("set", 1, "sync(backups=1)", ["in mode sync(backups=1) the servers take none"]),
    ("differ", 2, "sync", ["CRC-32 of keys and values", "trainer 0", "trainer 1"]),
])
def test_rows_that_cannot_be_set_are_refused_by_name(wrong, trainers, mode, texts, tmp_path):
    code, printed = Launched(1, trainers, "--out", tmp_path / "r", "--wrong", wrong, script=SCRIPT,
                             options=("--mode", mode, "--restarts", "0")).end()
    assert code == 1 and all(text in printed for text in texts), printed


@needs_mpi
@pytest.mark.mpi
def test_a_damaged_table_leaves_the_servers_rows_and_fails_on_all_trainers(tmp_path):
    printed = launch(2, 2, "--out", tmp_path / "r", "--wrong", "damaged", script=SCRIPT)
    assert printed.count("has the rows from before: True") == 2, printed
    assert ("caught by trainer 1: the loading of the table 'plain', which had 4 updates: trainer 0, which sends the rows for all, could "
            "not") in printed


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
@pytest.mark.parametrize("mode", ["async", "ssp(3)", "sync", "sync(degraded)"])
@pytest.mark.parametrize("lone", [0, 1])
def test_rows_that_are_set_count_where_one_trainer_has_made_more_steps(lone, mode, tmp_path):
    built = Built("""
x = L.data("x", [1], dtype="int64")
rows = L.embedding(x, [9, 2], is_distributed=True, param_attr="table")
loss = L.mean(L.fc(rows, 1))
test = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.SGD(0.1).minimize(loss)
""", f"""
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
feed = {{"x": np.array([[1], [2]])}}
exe.run(feed=feed)
for number in range(3 * (D.trainer_index() == {lone})):
    exe.run(feed=feed)
D.barrier()
fluid.io.set_table_rows("table", [2], np.full((1, 2), 7, "float32"))
note("rows", exe.run(test, feed=feed, fetch_list=[rows])[0])
D.barrier()
""")
    for one in run_job(build_transport(tmp_path), built, str(tmp_path), 2, 2, mode)[:2]:
        assert not one.error and (one.notes[0][1][1] == 7).all() and (one.notes[0][1][0] != 7).all(), one
