"""What ranks print comes to the launcher's output: all of it, row by row, or the job says that it did not."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from job_support import LIMIT, SCRIPT, Launched, each_mpi, environment, launch_command, listeners, needs_mpi

from trireme.launch import pipes
from trireme.launch.log_multiplexer import LogMultiplexer

pytestmark = pytest.mark.mpi

SAYS = SCRIPT.with_name("says.py")


# -- rows ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def written_to(path, flags=os.O_WRONLY | os.O_CREAT, is_live=False):
    fd = os.open(path, flags)
    multiplexer = LogMultiplexer({1: fd, 2: fd}, is_live)
    try:
        yield multiplexer
    finally:
        multiplexer.close()
        os.close(fd)


def feed(multiplexer, source, text):
    multiplexer.feed(source, text, lambda count: None)


def test_rows_of_several_ranks_are_not_mixed(tmp_path):
    with written_to(tmp_path / "out") as multiplexer:
        a, b = multiplexer.source(1), multiplexer.source(1)
        for one, text in ((a, b"a be"), (b, b"b begins"), (a, b"gins\na2\n"), (b, b" and ends\nb2")):
            feed(multiplexer, one, text)
        multiplexer.drain(LIMIT)
    assert (tmp_path / "out").read_bytes() == b"a begins\na2\nb begins and ends\nb2"


def test_a_row_without_an_end_is_shown_soon_and_others_begin_behind_it(tmp_path):
    out = tmp_path / "out"
    with written_to(out) as multiplexer:
        a, b = multiplexer.source(1, b"A: "), multiplexer.source(1, b"B: ")
        feed(multiplexer, a, b"epoch 1 ...")
        end = time.monotonic() + LIMIT
        while out.read_bytes() != b"A: epoch 1 ..." and time.monotonic() < end:
            time.sleep(0.01)
        feed(multiplexer, a, b" done\n")
        feed(multiplexer, a, b"epoch 2")
        multiplexer.drain(LIMIT)
        feed(multiplexer, b, b"x\ny\n")
        multiplexer.drain(LIMIT)
    assert out.read_bytes() == b"A: epoch 1 ... done\nA: epoch 2\nB: x\nB: y\n"


def test_the_line_at_the_bottom_stays_below_rows(tmp_path):
    with written_to(tmp_path / "out", is_live=True) as multiplexer:
        a = multiplexer.source(1)
        multiplexer.show(b"step 1")
        feed(multiplexer, a, b"row\n")
        feed(multiplexer, a, b"half")
        multiplexer.drain(LIMIT)
        multiplexer.show(b"step 2")                         # not after a row that has no end
        feed(multiplexer, a, b" whole\n")
        multiplexer.drain(LIMIT)
    assert (tmp_path / "out").read_bytes() == b"\r\x1b[Kstep 1\r\x1b[Krow\nstep 1\r\x1b[Khalf whole\nstep 2"


def test_lines_that_nobody_reads_hold_up_no_rank_and_are_counted(monkeypatch):
    ours, theirs = os.pipe()
    multiplexer = LogMultiplexer({1: theirs, 2: theirs})
    taken = []
    one = multiplexer.source(1)
    for _ in range(10):
        multiplexer.feed(one, b"x" * 99_999 + b"\n", taken.append)
    multiplexer.drain(0.3)
    assert multiplexer.lost() == ["10 lines of stdout could not be written: nobody has read it for 0.3 s"]
    multiplexer.close()
    os.close(ours)
    os.close(theirs)


def test_a_rank_waits_while_nobody_reads_and_nothing_is_lost(tmp_path):
    ours, theirs = os.pipe()
    multiplexer = LogMultiplexer({1: theirs, 2: theirs})
    for fd, (_, number) in pipes.make(tmp_path, [0]).items():
        multiplexer.read_from(fd, multiplexer.source(number))
    rank = subprocess.Popen([*pipes.WRAPPER, "sh", "-c", "seq 200000; kill -9 $$"],
                            env={**os.environ, "TRIREME_JOB_FOLDER": str(tmp_path), "OMPI_COMM_WORLD_RANK": "0"})
    with pytest.raises(subprocess.TimeoutExpired):
        rank.wait(0.5)
    text = []
    reader = threading.Thread(target=lambda: text.extend(iter(lambda: os.read(ours, 1 << 16), b"")))
    reader.start()
    assert rank.wait(LIMIT) == -signal.SIGKILL
    multiplexer.drain(LIMIT)
    multiplexer.close()
    os.close(theirs)
    reader.join(LIMIT)
    os.close(ours)
    assert b"".join(text) == b"".join(b"%d\n" % i for i in range(1, 200_001))


# -- jobs ------------------------------------------------------------------------------------------------------------


def assert_all_said(text, rows=2000):
    for trainer in (0, 1):
        prefix = f"trainer {trainer} says "
        assert [row for row in text.splitlines() if row.startswith(prefix)] == [f"{prefix}{row}" for row in range(rows)]


def mpirun_of(job):
    rank = job.ranks().known[0].pid
    return int(Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[1])


@each_mpi
def test_output_does_not_depend_on_mpirun_being_awake(version, tmp_path):
    job = Launched(1, 2, tmp_path / "go", version=version, script=SAYS)
    mpirun = mpirun_of(job)
    job.wait_for(lambda: (tmp_path / "go.0").exists() and (tmp_path / "go.1").exists(), "its first step")
    os.kill(mpirun, signal.SIGSTOP)
    (tmp_path / "go").touch()
    code, text = job.end()
    assert code == 0, text
    assert_all_said(text)


@each_mpi
def test_a_silent_connection_to_mpirun_loses_no_output(version, tmp_path):
    job = Launched(1, 2, tmp_path / "go", version=version, script=SAYS)
    mpirun = mpirun_of(job)
    job.wait_for(lambda: (tmp_path / "go.0").exists() and (tmp_path / "go.1").exists(), "its first step")
    with contextlib.ExitStack() as held:
        for address, port in listeners(mpirun):
            held.enter_context(socket.create_connection(("127.0.0.1" if len(address) == 8 else "::1", port), 5))
        (tmp_path / "go").touch()
        code, text = job.end()
    assert code == 0, text
    assert_all_said(text)


@needs_mpi
@pytest.mark.parametrize("how, why", [("full", "No space left on device"), ("closed", "Bad file descriptor")])
def test_rows_that_cannot_be_written_are_said_and_the_job_has_failed(how, why, tmp_path):
    (tmp_path / "go").touch()
    command = launch_command(1, 2, tmp_path / "go", script=SAYS)
    line = [sys.executable, "-c", "import os, sys; os.close(1); os.execv(sys.argv[1], sys.argv[1:])",
            *command] if how == "closed" else command
    with open("/dev/full", "wb") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), timeout=LIMIT, check=False)
    assert done.returncode == os.EX_IOERR, done.stderr
    assert f"exit code 74: 4000 lines of stdout could not be written: {why}" in done.stderr, done.stderr


@each_mpi
@pytest.mark.turns(2, at=1)
def test_a_reader_that_sleeps_holds_up_the_job_and_loses_nothing(version, tmp_path):
    """Longer than a rank may be silent."""
    (tmp_path / "go").touch()
    job = Launched(1, 2, tmp_path / "go", 30_000, version=version, script=SAYS)
    job.wait_for(lambda: (tmp_path / "go.0").exists() and (tmp_path / "go.1").exists(), "its first step")
    time.sleep(5)
    assert job.process.poll() is None
    code, text = job.end()
    assert code == 0, text[-2000:]
    assert_all_said(text, 30_000)


@needs_mpi
def test_tags_name_the_rank_of_each_row(tmp_path):
    (tmp_path / "go").touch()
    code, text = Launched(1, 2, tmp_path / "go", 3, script=SAYS, options=("--tag-output",)).end()
    assert code == 0 and {"[1,1]<stdout>: trainer 0 says 0", "[1,2]<stdout>: trainer 1 says 2"} <= set(text.splitlines()), text
