"""What a job finds around it: variables of another job, a working folder that is gone, little shared memory, hosts without the script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from job_support import LIMIT, SCRIPT, Launched, environment, needs_mpi

from trireme.errors import InvalidArgumentError, NotFoundError
from trireme.launch import hosts, limits
from trireme.job import surroundings

LEFT = {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1", "PMIX_NAMESPACE": "gone",
        "PMIX_SERVER_URI2": "gone.0;tcp4://127.0.0.1:1",
        "OMPI_MCA_btl_sm_backing_directory": "/nowhere", "TRIREME_JOB_FOLDER": "/nowhere"}


def test_variables_of_a_rank_are_told_from_settings() -> None:
    env = {**LEFT, "OMPI_MCA_btl": "self,tcp", "TRIREME_NUM_THREADS": "2", "PATH": "/bin"}
    assert set(surroundings.forget_rank(env)) == LEFT.keys()
    assert env == {"OMPI_MCA_btl": "self,tcp", "TRIREME_NUM_THREADS": "2", "PATH": "/bin"}


def test_a_launcher_among_the_parents_is_found(tmp_path: Path) -> None:
    for pid, (name, parent) in {os.getpid(): ("python (x) y", 70), 70: ("sh", 60), 60: ("prted", 1)}.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 0 0\n")
    assert surroundings.has_launcher(tmp_path)
    (tmp_path / "60" / "stat").write_text("60 (bash) S 1 0 0\n")
    assert not surroundings.has_launcher(tmp_path)


@needs_mpi
@pytest.mark.mpi
def test_variables_that_are_left_over_do_not_keep_a_job_from_its_start() -> None:
    if surroundings.has_launcher():
        pytest.skip("these tests run within a job")
    script = ("import os, sys; os.environ.update(eval(sys.argv[1])); sys.argv[1:] = sys.argv[2:]\n"
              "from trireme.launch.cli import main; sys.exit(main())")
    done = subprocess.run([sys.executable, "-c", script, repr(LEFT), "launch", "--servers", "1", "--trainers", "1", SCRIPT, "--steps", "2"],
                          env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "variables of another job are left over in the environment, and ignored: OMPI_COMM_WORLD_SIZE=3, PMIX_RANK=1" in done.stderr


@needs_mpi
def test_a_working_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && exec {sys.executable} -m trireme launch --dry-run {SCRIPT}"
    done = subprocess.run(["sh", "-c", script], env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 2 and "the working folder of this shell is gone" in done.stderr


def test_little_shared_memory_is_named_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    size = SimpleNamespace(f_bavail=1024, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda path: size)
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    with pytest.raises(InvalidArgumentError, match=r"2 ranks on this host, which can hold 0 at most, by its free space in /dev/shm, 4 MB "
                                                   r"of .*shm-size"):
        limits.check(2)
    size.f_bavail = 1 << 20
    limits.check(2)


class Quiet:
    """A console that nobody reads."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None


def test_a_host_without_the_script_is_named(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    ssh.chmod(0o755)
    agents = hosts.Hosts({"far": "far"}, str(ssh), f"trireme-test-{os.getpid()}", Quiet())       # type: ignore[arg-type]
    try:
        agents.start()
        agents.check([str(ssh)])
        with pytest.raises(NotFoundError, match=r"host far has no '/nowhere/train.py'. Is the folder shared between the hosts\?"):
            agents.check([str(ssh), "/nowhere/train.py"])
    finally:
        agents.close()


CLOSES = """
import os
import numpy as np
import trireme as fluid
x = fluid.layers.data("x", [4])
loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(x, 1)))
fluid.optimizer.SGD(0.01).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
for step in range(1000000):
    exe.run(feed={"x": np.ones((8, 4), "float32")}, fetch_list=[loss])
    if step == 3:
        os.closerange(3, 1000)
        again = [open("/dev/null") for _ in range(40)]     # other files get the numbers
"""


@needs_mpi
@pytest.mark.mpi
def test_a_trainer_that_closes_all_descriptors_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "closes.py"
    script.write_text(CLOSES)
    code, text = Launched(1, 1, script=script).end()
    assert code == 1 and "(trainer 0, " in text
    assert "has lost the descriptors of the job's runtime: the script, or a library, closes descriptors that it has not opened" in text
    assert " died" not in text and "starting the job again" not in text
