"""What a host cannot give: memory that a cgroup does not have, more ranks than it can hold, small limits of a shell."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from job_support import LIMIT, environment, launch_command, needs_mpi

from trireme.launch import cli
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
def test_a_rank_ended_for_memory_is_known_by_the_count_of_its_cgroup(version, tmp_path):
    kills = Kills(tmp_path / "proc", tmp_path / "root")
    folder = cgroup_of(tmp_path, version, 3)
    for rank in range(3):
        kills.watch(rank, 7)
    assert kills.why_gone(0) is None
    cgroup_of(tmp_path, version, 4)
    assert kills.why_gone(1) == f"the kernel ended it for want of memory; the limit of its cgroup, {folder}, is 105 MB"
    assert kills.why_gone(2) is None               # it counted one


def test_a_silent_kernel_gives_no_advice(tmp_path):
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
    assert (f"rank 2 (trainer 1): the kernel ended it for want of memory; the limit of its cgroup, {folder}, is 419 "
            "MB") in done.stderr, done.stderr


def test_more_ranks_than_a_host_can_hold_are_refused(capsys):
    assert cli.main(["launch", "--servers", "1000000", __file__]) == 2
    said = capsys.readouterr().err
    assert said.startswith("trireme launch: 1000002 ranks on this host, which can hold ") and "at most, by its " in said


def test_the_scarcest_resource_is_named(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda what: (40 if what == resource.RLIMIT_NOFILE else resource.RLIM_INFINITY,) * 2)
    limits.check(4)
    with pytest.raises(ValueError, match=r"5 ranks on this host, which can hold 4 at most, by its limit of open files \(ulimit -n 40\)"):
        limits.check(5)
    monkeypatch.setattr(resource, "getrlimit", lambda what: (8192 if what == resource.RLIMIT_FSIZE else resource.RLIM_INFINITY,) * 2)
    with pytest.raises(ValueError, match=r"can hold 0 at most, by its limit of a file's size \(ulimit -f, 0.0 MB\)"):
        limits.check(1)


def test_an_option_has_its_whole_name_and_an_error_one_prefix(capsys):
    with pytest.raises(SystemExit):
        cli.main(["launch", "--server", "2", "--dry-run", __file__])
    assert "unrecognized arguments: --server" in capsys.readouterr().err
    assert cli.main(["launch", "--resume", "--dry-run", __file__]) == 2
    assert capsys.readouterr().err.startswith("trireme launch: --resume, --resume=auto, --anew and --checkpoint-... need --checkpoint "
                                              "DIR")


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("limit", ["-n 64", "-v 16000000"])
def test_a_job_runs_under_limits_that_suffice(limit):
    line = ["bash", "-c", f"ulimit {limit} && exec \"$@\"", "bash", *launch_command(2, 2, "--steps", 3)]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr


ADDRESSES = '''
import resource, sys
import numpy as np, trireme as fluid
L, folder, size = fluid.layers, sys.argv[1], 20_000_000
def refused(what, words, room=20):
    """Of few addresses more than now; the text has the bytes, the limit and the words."""
    now = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize")) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (now + (room << 20), resource.RLIM_INFINITY))
    try:
        what()
        said = "nothing"
    except fluid.errors.EnforceNotMet as error:
        said = str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    for word in ("no memory for", "0000000", f"of the {(now + (room << 20)) // 1024} KiB that this process may have in all (ulimit -v)", *words):
        assert word in said, (word, said)
big = L.create_parameter([1, size], "float32", "big")
twice = L.scale(big, 2.0)
served = L.elementwise_add(L.data("x", [1]), L.mean(big))
mean = L.mean(L.elementwise_mul(twice, L.sqrt(L.abs(twice))))
exe = fluid.Executor()
def load(scope, what):
    with fluid.scope_guard(scope):
        what()
refused(lambda: exe.run(fluid.default_startup_program()), ["for variable 'big'", "(80000000 bytes)"])
exe.run(fluid.default_startup_program())
refused(lambda: exe.run(fetch_list=[twice]), ["for variable 'scale_0.tmp_0'"])
refused(lambda: exe.run(fetch_list=[mean]), ["for a run's temporaries, the largest of which is", "float32[1, 20000000]"])
fluid.io.save_persistables(exe, folder + "/apart")
fluid.io.save_persistables(exe, folder + "/whole", filename="all")
fluid.io.save_checkpoint(exe, folder + "/kept")
fluid.io.save_inference_model(folder + "/exported", ["x"], [served], exe)
scope = fluid.core.Scope()
refused(lambda: load(scope, lambda: fluid.io.load_persistables(exe, folder + "/apart")), ["apart/big'", "variable 'big'"])
refused(lambda: load(scope, lambda: fluid.io.load_persistables(exe, folder + "/whole", filename="all")), ["whole/all'", "variable 'big'"])
refused(lambda: load(scope, lambda: fluid.io.load_checkpoint(exe, folder + "/kept")), ["kept/step-", "variable 'big'"])
refused(lambda: fluid.serving.Predictor(folder + "/exported"), ["exported/big'"])
'''


def test_a_variable_without_memory_is_named_with_its_bytes_and_the_limit(tmp_path):
    done = subprocess.run([sys.executable, "-c", ADDRESSES, tmp_path], env=environment(), capture_output=True, text=True, timeout=LIMIT,
                          check=False)
    assert done.returncode == 0, done.stderr


FIRST_PRODUCT = ("import numpy as np, trireme as fluid; L = fluid.layers; y = L.fc(L.data('x', [3]), 2); exe = fluid.Executor(); "
                 "exe.run(fluid.default_startup_program()); exe.run(feed={'x': np.ones((2, 3), 'float32')}, fetch_list=[y])")


def test_a_library_that_would_end_the_process_for_want_of_addresses_is_not_loaded():
    line = ["bash", "-c", "ulimit -v 200000 && exec \"$@\"", "bash", sys.executable, "-c", FIRST_PRODUCT]
    done = subprocess.run(line, env=environment() | {"OPENBLAS_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=LIMIT,
                          check=False)
    assert done.returncode == 1 and ("OpenBLAS takes about 128 MiB of "
                                     "addresses") in done.stderr and "may have 200000 KiB" in done.stderr, done.stderr


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize(("limit", "words"), [(200000, "Open MPI takes about 320 MiB of addresses"),
                                              (1000000, "of the 1000000 KiB that this process may have")])
def test_a_job_under_a_limit_of_addresses_that_is_too_low_names_it(limit, words):
    line = ["bash", "-c", f"ulimit -v {limit} && exec \"$@\"", "bash",
            *launch_command(1, 1, "--steps", 3, options=("--standbys", 0, "--restarts", 0))]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 1 and words in done.stderr and "signal" not in done.stderr, done.stderr
