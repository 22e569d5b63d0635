"""The launcher's own part of a job's log, ``launcher.jsonl``: docs/logs.md describes it, and the files of the ranks beside it."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

from ..native.errors import InvalidArgumentError
from .console import Console

LAUNCHER = "launcher.jsonl"
_FILES = re.compile(r"(?:(?:trainer|server|standby|replica)-\d+|launcher)\.jsonl")


class RunLog:
    """``folder``: where the log is written. Without a folder nothing is written."""

    def __init__(self, folder: str | None, console: Console) -> None:
        self.console = console
        self.folder = Path(os.path.abspath(folder)) if folder is not None else None

    def environment(self) -> dict[str, str]:
        return {} if self.folder is None else {"TRIREME_LOG": str(self.folder)}

    def begin(self, **fields: Any) -> None:
        """Make the folder, and remove the logs of an earlier job."""
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in self.folder.iterdir():
                if _FILES.fullmatch(path.name):
                    path.unlink()
            self._write("start", schema=1, **fields)
        except OSError as error:
            raise InvalidArgumentError(f"trireme launch: logs cannot be written to {str(self.folder)!r}: {error.strerror}") from None

    def note(self, event: str, **fields: Any) -> None:
        """Write a line. A log that cannot be written does not end the job."""
        try:
            self._write(event, **fields)
        except OSError as error:
            self.console.say(f"the log {str(self.folder)!r} cannot be written and ends here: {error.strerror}")
            self.folder = None

    def _write(self, event: str, **fields: Any) -> None:
        if self.folder is not None:
            with open(self.folder / LAUNCHER, "a", encoding="utf-8") as out:
                out.write(json.dumps({"t_s": round(time.time(), 3), "event": event, **fields}) + "\n")
