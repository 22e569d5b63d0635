"""Jobs whose data and checkpoints lie in a store, under mpirun: they end as jobs with files do, to the bit."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest
from job_support import MPIS, Launched, environment, launch_under_mpi, needs_mpi
from saved_job_support import SCRIPT, assert_holds, data, mpirun, script  # noqa: F401 - a fixture
from store_support import BUCKET, S3

from trireme.launch.programs import trainer_program

pytestmark = [pytest.mark.mpi, needs_mpi]


@pytest.fixture(scope="module")
def s3():
    pytest.importorskip("pyarrow")
    server = S3()
    yield server
    server.stop()


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
    launch_under_mpi(2, 2, data, "--save", tmp_path / "files", *how, script=SCRIPT)
    launch_under_mpi(2, 2, uri, "--save", tmp_path / "store", *how, script=SCRIPT, env=env)
    assert_holds(tmp_path / "store", tmp_path / "files")


@pytest.mark.skipif("5" not in MPIS, reason="no Open MPI 5 is installed")
def test_a_killed_trainer_changes_no_bit(data, stored, tmp_path):  # noqa: F811
    uri, env = stored
    how = ("--split", "tasks", "--epochs", 100)
    launch_under_mpi(2, 2, data, "--save", tmp_path / "files", *how, script=SCRIPT)
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
