"""How a process has ended that is a child of another process: mpirun, not the launcher, waits for ranks. This file imports nothing of
the package, because the agent of another host uses it too.

The kernel shows a process's status until its parent has waited for it. From Linux 6.15 on the kernel also shows it to each holder of a
pidfd, without a time limit. Otherwise the status is unknown.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import signal
import struct
from pathlib import Path

_INFO = struct.Struct("=QQ11Ii")       # struct pidfd_info: mask, cgroup, ids, status
_EXIT = 1 << 3                         # PIDFD_INFO_EXIT: the status is known
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11        # PIDFD_GET_INFO


def status_of(pid: int, fd: int) -> int | None:
    """Return the status, as ``os.wait`` gives it, of an ended process with this pidfd; None: the kernel no longer tells it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if state == "Z":
            return int(fields[48])
    with contextlib.suppress(OSError):
        info = array.array("b", _INFO.pack(_EXIT, *[0] * 13))
        fcntl.ioctl(fd, _GET_INFO, info)
        mask, *_, status = _INFO.unpack(info)
        if mask & _EXIT:
            return int(status)
    return None


def describe(status: int | None) -> str:
    """Describe the end of a process with this status: "killed by SIGKILL", "ended with exit code 3" or "ended"."""
    if status is None:
        return "ended"
    if os.WIFSIGNALED(status):
        return f"killed by {name_of(os.WTERMSIG(status))}"
    return f"ended with exit code {os.waitstatus_to_exitcode(status)}"


def name_of(number: int) -> str:
    """Return the name of a signal; a real-time signal is called by its number.

    >>> from trireme.launch.ends import name_of
    >>> name_of(15), name_of(40)
    ('SIGTERM', 'signal 40')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exit_code(status: int | None) -> int:
    """Return the exit code of a process; 0 if a signal killed it, or the status is unknown."""
    return os.waitstatus_to_exitcode(status) if status is not None and os.WIFEXITED(status) else 0


def is_signal(status: int | None) -> bool:
    return status is not None and os.WIFSIGNALED(status)
