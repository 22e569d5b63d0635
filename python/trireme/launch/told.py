"""What a rank tells the launcher about itself: ``progress.RANK`` in the job's folder, an object of JSON that is written anew once a second.

A rank may be killed while it writes, and the file may be another program's. So every figure has a value of its kind, whatever the file
holds.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import NamedTuple

from .numbers import number_of, numbers_of, whole_of

_BINS = 16                             # of a server's staleness


class Told(NamedTuple):
    """The newest figures of a rank. Sums are those of the process since it began."""

    rank: int
    role: str
    step: int                          # of a trainer; of a server: updates
    loss: float | None
    staleness: list[int]               # of a server
    server: int                        # a server's number
    doing: str                         # a trainer's activity
    waited: float                      # seconds: a trainer waited for servers, a server had nothing to apply
    sent: float                        # bytes
    received: float
    memory: int                        # resident bytes; 0: not known
    skipped: int
    written: int                       # changes with each write of the file


def read(path: Path) -> Told | None:
    """Return what the file tells. None: there is no such file, or it holds something else."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        with open(path, encoding="utf-8", errors="replace") as file:
            told, written = json.load(file), os.fstat(file.fileno()).st_mtime_ns
        if isinstance(told, dict):
            loss, role = told.get("loss"), str(told.get("role"))
            return Told(whole_of(told.get("rank"), -1), role, whole_of(told.get("updates" if role == "server" else "step")),
                        float(loss) if isinstance(loss, float) else number_of(loss) if isinstance(loss, int) else None,
                        [int(count) for count in numbers_of(told.get("staleness"))][:_BINS], whole_of(told.get("server")),
                        str(told.get("doing", "")), number_of(told.get("idle_ms" if role == "server" else "wait_ms")) / 1e3,
                        number_of(told.get("sent_bytes")), number_of(told.get("received_bytes")), whole_of(told.get("memory_bytes")),
                        whole_of(told.get("skipped")), written)
    return None
