"""How many ranks a host can hold, by the least that each rank needs of each limited resource. The launcher checks it before it starts
anything.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

from ..native.errors import InvalidArgumentError
from .memory import cgroup_of

# What a rank needs: the main thread, the communication thread, and two of MPI's; mpirun's ends of the rank's pipes, and its connections;
# bytes of memory.
_SHM = "/dev/shm"
_THREADS, _FILES, _BYTES = 4, 5, 4 << 20
_SHARED = 6 << 20                      # bytes in /dev/shm: Open MPI's segment of a rank takes 4 MiB and some
_OWN_FILES = 20                        # files that mpirun needs itself


def check(ranks: int) -> None:
    """Refuse a job with more ranks on this host than it can hold; the message names the scarce resource."""
    most, what = min(_limits())
    if ranks > most:
        raise InvalidArgumentError(f"trireme launch: {ranks} ranks on this host, which can hold {most} at most, by its {what}")


def _limits() -> list[tuple[int, str]]:
    files, threads = resource.getrlimit(resource.RLIMIT_NOFILE)[0], resource.getrlimit(resource.RLIMIT_NPROC)[0]
    limits = [(_whole("/proc/sys/kernel/threads-max") // _THREADS, "kernel.threads-max"),
              (_whole("/proc/sys/kernel/pid_max") // _THREADS, "kernel.pid_max"),
              (_whole(cgroup_of("self", "pids") / "pids.max") // _THREADS, "cgroup's pids.max"),
              (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _BYTES, "memory")]
    if os.access(_SHM, os.W_OK):                       # otherwise Open MPI uses another folder
        about = os.statvfs(_SHM)
        free = about.f_bavail * about.f_frsize
        limits.append((free // _SHARED,
                       (f"free space in {_SHM}, {free / 1e6:.0f} MB of the {_SHARED / 1e6:.0f} MB for each rank and what servers hold "
                        "(docker run --shm-size=1g; in Kubernetes an emptyDir of medium Memory)")))
    if files != resource.RLIM_INFINITY:
        limits.append((max(0, files - _OWN_FILES) // _FILES, f"limit of open files (ulimit -n {files})"))
    size = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if size != resource.RLIM_INFINITY and size < _SHARED:
        limits.append((0, (f"limit of a file's size (ulimit -f, {size / 1e6:.1f} MB): a rank shares a file of {_SHARED / 1e6:.0f} MB in "
                           "memory with others")))
    if threads != resource.RLIM_INFINITY and os.geteuid() != 0:        # root has no such limit
        limits.append((threads // _THREADS, f"limit of processes (ulimit -u {threads})"))
    return limits


def _whole(path: str | Path) -> int:
    """Return a number of the kernel; a very large one if it cannot be read, because then no limit is known."""
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return 1 << 60
