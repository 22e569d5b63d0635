"""What a host cannot give: memory that a cgroup does not have, more ranks than it can hold, small limits of a shell."""

import os
import resource
import subprocess
import time
from pathlib import Path

import pytest
from job_support import LIMIT, environment, launch_command, needs_mpi

from trireme import cli
from trireme.launch import limits
from trireme.launch.memory import Kills

CGROUPS = Path("/sys/fs/cgroup/memory")


def cgroup_of(folder, version, count=0, limit=100 << 20):
    """Files as the kernel's, of a process 7 in a cgroup."""
    line, place = ("0::/a/b", "root/a/b") if version == 2 else ("4:memory:/a/b", "root/memory/a/b")
    (folder / "proc" / "7").mkdir(parents=True, exist_ok=True)
    (folder / "proc" / "7" / "cgroup").write_text(f"9:pids:/\n{line}\n")
    (folder / place).mkdir(parents=True, exist_ok=True)
    events, most = ("memory.events", "memory.max") if version == 2 else ("memory.oom_control", "memory.limit_in_bytes")
    (folder / place / events).write_text(f"oom 4\nunder_oom 0\noom_kill {count}\n")
    (folder / place / most).write_text(f"{limit}\n")
    return folder / place


@pytest.mark.parametrize("version", [1, 2])
def test_who_was_ended_for_memory_is_known_by_the_count_of_its_cgroup(version, tmp_path):
    kills = Kills(tmp_path / "proc", tmp_path / "root")
    folder = cgroup_of(tmp_path, version, 3)
    for rank in range(3):
        kills.watch(rank, 7)
    assert kills.why_gone(0) is None
    cgroup_of(tmp_path, version, 4)
    assert kills.why_gone(1) == f"the kernel ended it for want of memory; the limit of its cgroup, {folder}, is 105 MB"
    assert kills.why_gone(2) is None               # it counted one


def test_where_the_kernel_says_nothing_nothing_is_said(tmp_path):
    kills = Kills(tmp_path / "proc", tmp_path / "root")
    kills.watch(0, 7)
    assert kills.why_gone(0) is None and kills.why_gone(1) is None


@needs_mpi
@pytest.mark.mpi
@pytest.mark.skipif(not os.access(CGROUPS / "cgroup.procs", os.W_OK), reason="no cgroup can be made here")
def test_a_trainer_that_its_cgroup_has_no_memory_for_is_named():
    folder = CGROUPS / f"trireme-test-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / "memory.limit_in_bytes").write_text(str(400 << 20))
        line = launch_command(1, 2, "--fault", "memory", "--fault-trainer", 1, options=("--restarts", 0, "--standbys", 0))
        done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False,
                              preexec_fn=lambda: (folder / "cgroup.procs").write_text(str(os.getpid())))
    finally:
        end = time.monotonic() + 10
        while (folder / "cgroup.procs").read_text() and time.monotonic() < end:
            time.sleep(0.05)
        folder.rmdir()
    assert done.returncode == 1, done.stderr
    assert f"rank 2 (trainer 1): the kernel ended it for want of memory; the limit of its cgroup, {folder}, is 419 MB" in done.stderr, done.stderr


def test_more_ranks_than_a_host_can_hold_are_refused(capsys):
    assert cli.main(["launch", "--servers", "1000000", __file__]) == 2
    said = capsys.readouterr().err
    assert said.startswith("trireme launch: 1000002 ranks on this host, which can hold ") and "at most, by its " in said


def test_what_there_is_least_of_is_named(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda what: (40 if what == resource.RLIMIT_NOFILE else resource.RLIM_INFINITY,) * 2)
    limits.check(4)
    with pytest.raises(ValueError, match=r"5 ranks on this host, which can hold 4 at most, by its limit of open files \(ulimit -n 40\)"):
        limits.check(5)


def test_an_option_has_its_whole_name_and_an_error_one_prefix(capsys):
    with pytest.raises(SystemExit):
        cli.main(["launch", "--server", "2", "--dry-run", __file__])
    assert "unrecognized arguments: --server" in capsys.readouterr().err
    assert cli.main(["launch", "--resume", "--dry-run", __file__]) == 2
    assert capsys.readouterr().err.startswith("trireme launch: --resume, --resume-or-begin, --anew and --checkpoint-... need --checkpoint DIR")


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("limit", ["-n 64", "-v 16000000"])
def test_a_job_runs_under_limits_that_suffice(limit):
    line = ["bash", "-c", f"ulimit {limit} && exec \"$@\"", "bash", *launch_command(2, 2, "--steps", 3)]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
