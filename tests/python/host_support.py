"""What a job has on the hosts of a cluster: its ranks, and what is left of it."""

from __future__ import annotations

import re
import time

from cluster import Cluster

SLACK = 10.0                                           # seconds, for a machine that is busy with other things


class OnHosts:
    def __init__(self, hosts: Cluster) -> None:
        self.cluster = hosts

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
