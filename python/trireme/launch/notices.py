"""The notices of ranks for the launcher: the names of their files, before the dot and the rank. docs/launcher.md lists the writer, the text
and the effect of each.

Ranks write notices by ``tr_notice_tell`` in C. This file is copied to other hosts, so it imports nothing of the package.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

ASKED_BY = "asked_by"                  # the launcher's own file, for the ranks: the name of the signal that asked for the job's end


class Notice(Enum):
    BEGAN = "began"
    JOINS = "joins"
    LATE = "late"
    JOINED = "joined"
    BEGINS = "begins"
    LISTENS = "listens"
    ASKED = "asked"
    PROGRESS = "progress"
    FOLLOWS = "follows"
    REPLACEMENT = "replacement"
    SILENT = "silent"
    LOST = "lost"
    DIED = "died"
    STARVED = "starved"
    LEFT = "left"
    DONE = "done"
    FAILED = "failed"
    TOLD = "told"

    def path(self, folder: Path, rank: int) -> Path:
        """Return the place of the file about this rank, in the job's folder."""
        return folder / f"{self.value}.{rank}"
