"""Jobs of real ranks: servers and C trainers under every mpirun that is here.

The trainer (tests/pserver/job_train.c) compares each parameter that it pulls with what all trainers' gradients make
of it, so a round trip that ends with "done" was right. The rest is about how jobs end: a rank that is killed or stopped
ends its job soon, with one line that names it.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from job_support import LIMIT, assert_within, end_with_test

ROOT = pathlib.Path(__file__).resolve().parents[2]


def find_build() -> pathlib.Path | None:
    """Return the build folder named by TRIREME_BUILD, else the one that was built last."""
    named = os.environ.get("TRIREME_BUILD")
    if named:
        return pathlib.Path(named)
    found = list(ROOT.glob("build/**/tests/pserver/job_train"))
    return max(found, key=lambda path: path.stat().st_mtime).parents[2] if found else None


def find_mpiruns() -> dict[str, list[str]]:
    """Return the command line of each mpirun, by a name that says how deaths look under it."""
    common = ["--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", "--mca", "mpi_yield_when_idle", "1"]
    found = {}
    for path in (pathlib.Path(sys.prefix) / "bin" / "mpirun", shutil.which("mpirun", path="/usr/local/bin:/usr/bin")):
        if not path or not os.access(path, os.X_OK):
            continue
        says = subprocess.run([path, "--version"], check=False, capture_output=True, text=True, timeout=30).stdout
        version = re.search(r"\(Open MPI\) (\d+)", says)
        if version and version[1] == "5":
            found["5"] = [str(path), *common]
            found["5-ulfm"] = [str(path), "--with-ft", "ulfm", *common]
        elif version and version[1] == "4":
            found["4"] = [str(path), *common]
            found["4-recovery"] = [str(path), "--enable-recovery", *common]
    return found


BUILD = find_build()
MPIRUNS = find_mpiruns()
pytestmark = [pytest.mark.mpi, pytest.mark.skipif(
    BUILD is None or not MPIRUNS, reason="needs a CMake build of the tests (or TRIREME_BUILD), and an mpirun"
)]


class Job:
    """A job under mpirun; knows its ranks' processes as soon as the ranks know each other."""

    def __init__(self, mpirun: list[str], servers: int, trainers: int, *options: str) -> None:
        transport = BUILD / "python" / "trireme" / "trireme_mpi.so"
        env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "TRIREME_TRANSPORT": str(transport)}
        env.pop("LD_LIBRARY_PATH", None)
        command = [*mpirun, "-np", str(servers), str(BUILD / "bin" / "trireme-pserver"), *self.server_options(options),
                   ":", "-np", str(trainers), str(BUILD / "tests" / "pserver" / "job_train"), *options]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        end_with_test(self.process)
        self.text = ""

    @staticmethod
    def server_options(options: tuple[str, ...]) -> list[str]:
        both = ("--timeout", "--heartbeat", "--grace")
        pairs = zip(options[::2], options[1::2], strict=True)
        return [word for name, value in pairs if name in both for word in (name, value)]

    def pids(self, count: int) -> dict[int, int]:
        """Wait until trainer 0 has printed the ranks."""
        pids: dict[int, int] = {}
        while len(pids) < count:
            line = self.process.stdout.readline()
            assert line, f"the job ended before it began:\n{self.text}"
            self.text += line
            found = re.match(r"rank (\d+) \(\w+ \d+, host .*, pid (\d+)\)$", line)
            if found:
                pids[int(found[1])] = int(found[2])
        return pids

    def kill(self, pid: int, signal_: int) -> None:
        """Send a signal to a rank, which must be there."""
        try:
            os.kill(pid, signal_)
        except ProcessLookupError:
            self.end()
            pytest.fail(f"the job has ended by itself:\n{self.text}")

    def end(self, timeout: float = LIMIT) -> int:
        try:
            rest, _ = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            rest, _ = self.process.communicate()
            pytest.fail(f"the job does not end:\n{self.text}{rest}")
        self.text += rest
        return self.process.returncode

    def lines(self) -> list[str]:
        return [line for line in self.text.splitlines() if line.startswith("trireme:")]


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


def assert_end_within(seconds: float, pids: list[int], text: str) -> None:
    begin = time.monotonic()
    while any(map(is_alive, pids)) and time.monotonic() < begin + LIMIT:
        time.sleep(0.01)
    assert not any(map(is_alive, pids)), text
    assert_within(seconds, time.monotonic() - begin, text)


@pytest.mark.parametrize("name", MPIRUNS)
@pytest.mark.parametrize(
    ("servers", "trainers", "options"),
    [
        (1, 1, ["--steps", "5"]),
        (2, 3, ["--steps", "30", "--uneven", "7", "--rows", "20000"]),
        (3, 2, ["--steps", "10", "--operators", "1"]),
        (2, 2, ["--steps", "10", "--operators", "2", "--rows", "5000"]),
        (2, 2, ["--steps", "0"]),
    ],
)
@pytest.mark.turns(2)
def test_every_parameter_comes_back_as_expected(name: str, servers: int, trainers: int, options: list[str]) -> None:
    job = Job(MPIRUNS[name], servers, trainers, *options)
    assert job.end() == 0, job.text
    assert job.text.count("done ") == trainers, job.text
    assert job.lines() == []


@pytest.mark.parametrize("name", list(MPIRUNS)[:1])
def test_messages_are_traced_with_their_fields(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIREME_TRACE", "messages")
    job = Job(MPIRUNS[name], 1, 1, "--steps", "2")
    assert job.end() == 0, job.text
    traced = [line.split(",", 5) for line in job.text.splitlines() if line.startswith("trace,")]
    assert ["0", "received from", "1"] in [line[2:5] for line in traced if line[5].startswith("STEP_END ")], job.text
    ends = {(line[3], re.search(r" step=\d+ everywhere=\d+ is_idle=0$", line[5]) is not None)
            for line in traced if line[5].startswith("STEP_END ")}
    assert ends == {("sent to", True), ("received from", True)}


@pytest.mark.parametrize("name", list(MPIRUNS)[:1])
def test_an_event_that_cannot_be_traced_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIREME_TRACE", "messages,rpc")
    job = Job(MPIRUNS[name], 1, 1)
    assert job.end() != 0
    assert "TRIREME_TRACE has 'rpc' in the environment; 'messages' and 'members' are possible" in job.text


@pytest.mark.parametrize("name", MPIRUNS)
def test_trainers_that_disagree_are_refused_with_one_diff(name: str) -> None:
    job = Job(MPIRUNS[name], 2, 2, "--steps", "3", "--seed-of-1", "91")
    assert job.end() != 0 or name in ("4-recovery", "5-ulfm")
    assert len(job.lines()) == 1, job.text
    assert 'seed: "90" here, "91" there' in job.text


# Rank 1 is a server, rank 3 a trainer.
@pytest.mark.parametrize("victim", [1, 3])
@pytest.mark.parametrize("name", MPIRUNS)
@pytest.mark.turns(2)
def test_a_killed_rank_ends_its_job_with_one_line(name: str, victim: int) -> None:
    dice = random.Random(f"{name} {victim}")
    for _ in range(5):
        job = Job(MPIRUNS[name], 2, 2, "--steps", "1000000", "--rows", "3000", "--sleep-ms", str(dice.choice([0, 5])))
        pids = job.pids(4)
        time.sleep(dice.random() * 0.3)
        job.kill(pids[victim], signal.SIGKILL)
        others = [pid for rank, pid in pids.items() if rank != victim]
        assert_end_within(5 if name.startswith("4") else 2, others, job.text)
        code = job.end()
        assert code != 0 or name in ("4-recovery", "5-ulfm"), job.text     # there mpirun's code says nothing
        role = "server" if victim < 2 else "trainer"
        if name == "5":                            # mpirun kills all ranks at once; they may not get to speak
            assert len(job.lines()) <= 1, job.text
        else:
            assert len(job.lines()) == 1, job.text
            assert re.match(rf"trireme: rank {victim} \({role} 1, host .*, pid {pids[victim]}\) died; rank \d \(",
                            job.lines()[0])
            assert " was waiting for " in job.lines()[0] or " had ended step " in job.lines()[0]


@pytest.mark.parametrize("name", MPIRUNS)
def test_a_stopped_rank_is_dead_after_the_timeout(name: str) -> None:
    job = Job(MPIRUNS[name], 1, 2, "--steps", "1000000", "--timeout", "2", "--heartbeat", "0.2")
    pids = job.pids(3)
    time.sleep(0.2)
    job.kill(pids[0], signal.SIGSTOP)
    try:
        assert_end_within(5, [pids[1], pids[2]], job.text)
    finally:
        with contextlib.suppress(ProcessLookupError):         # mpirun may have done it
            os.kill(pids[0], signal.SIGKILL)
    job.end()
    assert len(job.lines()) == 1, job.text
    assert "rank 0 (server 0," in job.lines()[0] and "was silent for 2.0 s" in job.lines()[0]


@pytest.mark.parametrize("name", MPIRUNS)
def test_a_rank_that_computes_for_long_is_alive(name: str) -> None:
    job = Job(MPIRUNS[name], 1, 2, "--steps", "1", "--sleep-ms", "4000", "--timeout", "1.5", "--heartbeat", "0.1")
    assert job.end() == 0, job.text
    assert job.text.count("done 1") == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--nonsense"], "there is no option '--nonsense'"),
        (["--timeout", "soon"], "not a number of seconds above 0: 'soon'"),
        (["--timeout"], "a value is missing after '--timeout'"),
        (["somewhere"], "not an option: 'somewhere'"),
        ([], "was not started by mpirun"),
    ],
)
def test_a_wrong_command_line_is_explained(arguments: list[str], text: str) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_"))}
    ran = subprocess.run([BUILD / "bin" / "trireme-pserver", *arguments], check=False, env=env, capture_output=True, text=True, timeout=20)
    assert ran.returncode != 0
    assert text in ran.stderr
