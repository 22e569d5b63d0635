"""Starting jobs in tests: every job is bounded, and what it prints is kept."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from simulated_jobs import simulate

import trireme
from trireme import checkpoint as checkpoints
from trireme.errors import TriremeError
from trireme.launch import mpi
from trireme.launch.watch import Ranks

SCRIPT = Path(__file__).parent / "jobs" / "train.py"
SEQUENCES = SCRIPT.with_name("sequences.py")
SMALL = SCRIPT.with_name("small.py")
UNLIKE = SCRIPT.with_name("unlike.py")
ROW_SETS = SCRIPT.with_name("row_sets.py")
LIMIT = 90                                             # seconds, for a job on a busy machine


def installations() -> dict[str, mpi.Mpi]:
    """The MPIs that are here, by their major version."""
    found = {}
    for path in (Path(sys.prefix) / "bin" / "mpirun", shutil.which("mpirun", path="/usr/local/bin:/usr/bin")):
        try:
            one = mpi.find(str(path))
        except TriremeError:
            continue
        found.setdefault(str(one.major), one)
    return found


MPIS = installations()
each_mpi = pytest.mark.parametrize("version", [
    pytest.param(version, marks=pytest.mark.skipif(version not in MPIS, reason=f"no Open MPI {version} is installed"))
    for version in ("5", "4")])
needs_mpi = pytest.mark.skipif(not MPIS, reason="no Open MPI is installed")


def environment(**extra: str) -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_", "PMIX_", "TRIREME_JOB"))}
    return {**env, "TRIREME_NUM_THREADS": "1", **extra}


def alone(*args: object, script: Path = SCRIPT) -> str:
    """Run the script in one process."""
    done = subprocess.run([sys.executable, script, *map(str, args)], env=environment(), capture_output=True, text=True,
                          timeout=LIMIT, check=True)
    return done.stdout


def compiled(folder: Path, source: str, *defines: str) -> str:
    """Compile a shared object of a file of jobs/; return its path."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    out = folder / "compiled.so"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", *(f"-D{define}" for define in defines),
                    f"-I{Path(__file__).resolve().parents[2]}", "-o", out, SCRIPT.with_name(source)], check=True, timeout=60)
    return str(out)


def bad_transport(folder: Path, *defines: str) -> str:
    """Compile a transport with a fault; return its path, for TRIREME_TRANSPORT."""
    real = Path(trireme._core.__file__).with_name("trireme_mpi.so")
    if not real.exists():
        pytest.skip("no MPI transport beside the package")
    return compiled(folder, "bad_transport.c", *defines, f'REAL="{real}"')


def full_disk(folder: Path, *defines: str) -> dict[str, str]:
    """Return the environment in which the first write of a checkpoint finds the disk full, and (without STAYS) all others find it free."""
    flag = folder / "full"
    flag.write_text("")
    return environment(LD_PRELOAD=compiled(folder, "full_disk.c", f'FLAG="{flag}"', *defines))


def slack() -> float:
    """Seconds by which a promise of few seconds may be late: what some starts of nothing under mpirun take on this machine, with all
    else that it does at this time (0.3 s each, where that is nothing)."""
    if not MPIS:
        return 2.0
    line = [next(iter(MPIS.values())).mpirun, *["--allow-run-as-root"] * (os.geteuid() == 0), "--oversubscribe", "-np", "4", "true"]
    begin = time.monotonic()
    subprocess.run(line, env=environment(), capture_output=True, timeout=LIMIT, check=False)
    return max(2.0, 6 * (time.monotonic() - begin))


def assert_within(seconds: float, took: float, text: object = "") -> None:
    """The promise is `seconds`; a busy machine is given slack, which is measured only then."""
    assert took < seconds or took < seconds + slack(), f"{took:.2f} s, and {seconds:g} are promised\n{text}"


_begun: list[subprocess.Popen[str]] = []


def end_with_test(process: subprocess.Popen[str]) -> None:
    """Let a job, by its launcher or mpirun, end with the test that is running, however that ends."""
    _begun.append(process)


def end_jobs() -> None:
    """End what is left of this test's jobs: one that failed may leave ranks that are stopped, whom nothing but this ends."""
    while _begun:
        process = _begun.pop()
        if process.returncode is None:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"/trireme-job-{process.pid}-".encode() in (path / "environ").read_bytes():
                    os.kill(int(path.name), signal.SIGKILL)


def launch_command(servers: int, trainers: int, *args: object, version: str | None = None, options: tuple[object, ...] = (),
                   script: Path = SCRIPT) -> list[str]:
    """Return the command line of a job: ``options`` are the launcher's, ``args`` the script's, ``version`` is of the MPI."""
    named = ["--mpirun", MPIS[version].mpirun] if version else []
    return [str(word) for word in (sys.executable, "-m", "trireme", "launch", "--servers", servers, "--trainers", trainers, *named,
                                   *options, script, *args)]


def wait_for(process: subprocess.Popen[str], has_come: Callable[[], object], what: str) -> None:
    """Wait for something that comes while a process runs."""
    deadline = time.monotonic() + LIMIT
    while not has_come():
        assert process.poll() is None, f"it ended without {what}:\n{process.stdout.read()}"
        if time.monotonic() >= deadline:
            process.terminate()
            time.sleep(1)
            process.terminate()                        # at once, without a checkpoint
            pytest.fail(f"it runs without {what} for {LIMIT} s:\n{process.communicate(timeout=LIMIT)[0]}")
        time.sleep(0.005)


def said_in(job: Launched, what: str) -> list[Path]:
    """Return the file in which a rank has said that for the launcher to read, if it has: "began.0", "lost.3"."""
    return list(Path(tempfile.gettempdir()).glob(f"trireme-job-{job.process.pid}-*/{what}"))


class Launched:
    """A job under ``trireme launch``. ``replacements``: standbys take the places of trainers, too. ``hold``: a file for the scripts'
    ``--hold``, which `end` makes, so that the job is in the middle of its steps until then, however late the test kills a rank."""

    def __init__(self, servers: int, trainers: int, *args: object, version: str | None = None,
                 options: tuple[object, ...] = (), script: Path = SCRIPT, env: dict[str, str] | None = None,
                 replacements: bool = False, hold: Path | None = None) -> None:
        quiet = () if "--progress" in options else ("--progress", 0)
        command = launch_command(servers, trainers, *args, version=version, script=script,
                                 options=(*quiet, "--standbys-for", "all" if replacements else "servers", *options))
        command += ["--hold", str(hold)] if hold else []
        self.servers, self.trainers, self.hold = servers, trainers, hold
        self.process = subprocess.Popen(command, env=env or environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True)
        end_with_test(self.process)

    def ranks(self) -> Ranks:
        """Wait until all ranks run; the watch of the launcher itself finds them."""
        deadline = time.monotonic() + LIMIT
        ranks = Ranks(self.process.pid, Path("/nonexistent"), self.servers, self.trainers)
        while len(ranks.known) < ranks.size:
            assert self.process.poll() is None, f"the job ended before it began:\n{self.process.stdout.read()}"
            assert time.monotonic() < deadline, "the ranks do not start"
            ranks.look(0.005)
        return ranks

    def wait_for(self, has_come: Callable[[], object], what: str) -> None:
        """Wait for something that comes while the job runs."""
        wait_for(self.process, has_come, what)

    def await_training(self, mark: Path) -> None:
        self.wait_for(mark.exists, "a step")

    def await_word(self, what: str) -> None:
        """Wait for what a rank says to the launcher (said_in)."""
        self.wait_for(lambda: said_in(self, what), what)

    def end(self, seconds: float = LIMIT) -> tuple[int, str]:
        """Wait for the end; return the exit code and all output."""
        if self.hold:
            self.hold.touch()
        try:
            text, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            text, _ = self.process.communicate(timeout=LIMIT)
            pytest.fail(f"the job did not end within {seconds} s:\n{text}")
        return self.process.returncode, text


def listeners(pid: int) -> list[tuple[str, int]]:
    """The addresses, as the kernel writes them, and TCP ports on which a process listens."""
    inodes = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(path).removeprefix("socket:[").rstrip("]"))
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]]
    return [(row[1].partition(":")[0], int(row[1].partition(":")[2], 16)) for row in rows if row[3] == "0A" and row[9] in inodes]


def wait_for_newest(folder: Path, process: subprocess.Popen[str], after: int = -1) -> tuple[int, float]:
    """Wait for a checkpoint of a later step; return its step, and when it was there."""
    wait_for(process, lambda: max(checkpoints.steps(folder), default=-1) > after, "a later checkpoint")
    step = checkpoints.steps(folder)[0]
    return step, (folder / f"step-{step:09}" / "manifest").stat().st_mtime


def ended(servers: int, trainers: int, *args: object, script: Path = SCRIPT, options: tuple[object, ...] = (),
          env: dict[str, str] | None = None) -> tuple[int, str]:
    """Run a job, in the simulator; return its exit code and what its ranks have printed."""
    how = simulate(servers, trainers, *args, script=script, options=options, env=env or environment())
    return how.code, how.text


def launch(servers: int, trainers: int, *args: object, script: Path = SCRIPT, options: tuple[object, ...] = (),
           env: dict[str, str] | None = None) -> str:
    """Run a job that must go well, in the simulator (simulated_jobs.py); return its output."""
    code, text = ended(servers, trainers, *args, script=script, options=options, env=env)
    assert code == 0, text
    return text


def launch_under_mpi(servers: int, trainers: int, *args: object, **how: object) -> str:
    """Run a job that must go well, under mpirun; return its output."""
    code, text = Launched(servers, trainers, *args, **how).end()
    assert code == 0, text
    return text


def results(path: object) -> dict[str, np.ndarray]:
    """The arrays that a job has written."""
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays}


def assert_finite(found: dict[str, np.ndarray], text: str = "") -> None:
    """All numbers are finite. The last two losses may be NaN. Their batches in train.py have fewer samples than there are trainers. If no
    trainer whose gradients count has a sample, the loss is the mean over no samples, which is NaN."""
    for name, value in found.items():
        assert np.isfinite(value[:-2] if name == "losses" else value).all(), name + text


def own_of(path: object, trainers: int) -> dict[tuple[int, str], np.ndarray]:
    """What each trainer has written of its own variables."""
    found = {}
    for index in range(trainers):
        with np.load(f"{path}.{index}.npz") as arrays:
            found.update({(index, name): arrays[name] for name in arrays})
    return found


def job_lines(text: str) -> list[str]:
    """The lines in which the job says why it failed."""
    return re.findall(r"^trireme: (.*)$", text, re.M)


def saved_table(path, table):
    """All that is kept of a table: the optimizer's states and the ages of rows, too. How its rows lie in files depends on the servers."""
    folder = Path(f"{path}.end") / table
    rows = np.concatenate([np.load(part) for part in sorted(folder.glob("rows-*.npy"))])
    about = json.loads((folder / "about.json").read_text())
    del about["parts"]
    return about, rows[np.argsort(rows["key"])]


def assert_same_tables(path, one):
    for table in ("plain", "aged"):
        (about, rows), (about_one, rows_one) = saved_table(path, table), saved_table(one, table)
        assert about == about_one
        for field in rows.dtype.names:
            np.testing.assert_array_equal(rows[field], rows_one[field], err_msg=f"{field} of {table}")
