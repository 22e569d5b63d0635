"""The pipes for the ranks' output: two for each rank, in the job's folder on the rank's host.

This file imports nothing of the package, because the agent of another host uses it too. mpirun could forward the output. But mpirun
does not notice when its own connections hang; then it ends the job well although output is lost. So rank.sh replaces a rank's
descriptors 1 and 2 by the pipes, and then runs the rank's program.

What must stay true: the reader opens each pipe before mpirun starts, so no rank waits for its reader.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

NAMES = {1: "stdout", 2: "stderr"}
MOST = 1 << 16                         # bytes that are read at a time: the size of a pipe

WRAPPER = ("/bin/sh", str(Path(__file__).with_name("rank.sh")))      # the shell script that starts a rank's program


def make(folder: Path, ranks: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Make the pipes of these ranks of this host. Return the descriptors to read from, each with its rank and 1 or 2; reading never
    waits."""
    opened: dict[int, tuple[int, int]] = {}
    for rank in ranks:
        for target, name in NAMES.items():
            path = folder / f"{name}.{rank}"
            os.mkfifo(path, 0o600)
            # Open it for writing, too: a pipe without writers would be readable for ever.
            opened[os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)] = rank, target
    return opened


def read(fd: int, most: int = MOST) -> bytes | None:
    """Return the bytes in the pipe: b"" at the end, None for none yet."""
    try:
        return os.read(fd, most)
    except BlockingIOError:
        return None
