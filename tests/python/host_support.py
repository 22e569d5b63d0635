"""Three hosts, and a job on them, however it is started: what it says, its ranks, and what is left of it."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np
import pytest
from cluster import ROOT, Cluster

import trireme

SLACK = 10.0                                           # seconds, for a machine that is busy with other things
SHARED = (ROOT, *map(Path, (sys.prefix, sys.base_prefix, Path(trireme.__file__).parent)))


@contextlib.contextmanager
def three_hosts(missing: str | None) -> Iterator[Cluster]:
    """``missing``: what this machine lacks for the test."""
    if missing:
        pytest.skip(missing)
    with Cluster(3, SHARED) as hosts:
        yield hosts


def fresh_mark(hosts: Cluster) -> Path:
    """Return the file that a job makes when it has begun to train; all hosts see it."""
    path = hosts.folder / "trains"
    path.unlink(missing_ok=True)
    return path


def assert_same(got: Path, want: Path, besides: Collection[str] = ()) -> None:
    """Of two jobs: the same arrays, bit by bit."""
    with np.load(got) as ours, np.load(want) as others:
        assert ours.files == others.files
        for name in set(others.files) - set(besides):
            np.testing.assert_array_equal(ours[name], others[name], err_msg=name)


class OnHosts:
    """A job on the hosts of a cluster. Who starts it says whether it runs; what it says is in `output`."""

    LOOK = 0.02                                        # seconds between two looks at it

    def __init__(self, hosts: Cluster) -> None:
        self.cluster, self.output = hosts, hosts.folder / "output"
        self.output.unlink(missing_ok=True)

    def is_running(self) -> bool:
        raise NotImplementedError

    def text(self) -> str:
        return self.output.read_text() if self.output.exists() else ""

    def wait_for(self, has_come: Callable[[], bool], what: str, seconds: float = 60) -> None:
        """Wait for something that comes while the job runs."""
        deadline = time.monotonic() + seconds
        while not has_come():
            assert self.is_running(), f"the job ended without {what}:\n{self.text()}"
            assert time.monotonic() < deadline, f"the job runs without {what} for {seconds} s:\n{self.text()}"
            time.sleep(self.LOOK)

    def await_training(self, mark: Path) -> None:
        self.wait_for(mark.exists, "a step")

    def await_steps(self, count: Path, steps: int) -> None:
        """``count``: of ``train.py --count``."""
        self.wait_for(lambda: count.exists() and count.stat().st_size >= steps, f"{steps} steps")

    def await_line(self, words: str) -> None:
        self.wait_for(lambda: words in self.text(), repr(words))

    def await_end(self, seconds: float) -> str:
        """Return the output."""
        deadline = time.monotonic() + seconds
        while self.is_running():
            assert time.monotonic() < deadline, f"the job did not end within {seconds} s:\n{self.text()}"
            time.sleep(self.LOOK)
        return self.text()

    def ranks_on(self, host: str) -> dict[int, int]:
        """Those that mpirun's daemons, or mpirun itself, have started there: rank -> pid there."""
        script = ("for p in /proc/[0-9]*; do r=$(tr '\\0' '\\n' < $p/environ 2>/dev/null | sed -n 's/^OMPI_COMM_WORLD_RANK=//p'); "
                  "[ -z \"$r\" ] || echo $r ${p#/proc/}; done")
        return {int(rank): int(pid) for rank, pid in
                (line.split() for line in self.cluster.run(["sh", "-c", script], host).stdout.splitlines())}

    def assert_nothing_left(self, hosts: tuple[str, ...] = ("h1", "h2", "h3"), seconds: float = SLACK) -> None:
        """No process and no file of the job, on any of these hosts."""
        deadline = time.monotonic() + seconds
        while any(left := {host: self.left_on(host) for host in hosts}.values()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(left), {host: self.left_on(host) for host in hosts}

    def left_on(self, host: str) -> list[str]:
        processes = [text for text in self.cluster.processes(host).values()
                     if re.search(r"prted|orted|mpirun|srun|trireme|train\.py", text)]
        return processes + sorted(self.cluster.files(host))
