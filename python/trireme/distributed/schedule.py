"""When a checkpoint is due: so many steps or seconds behind the last one, or by a signal, which asks for the end as well."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ..errors import FileError
from .job import tell_launcher

STOPPED = os.EX_TEMPFAIL               # start it again
asked: list[int] = []                  # signals


def listen() -> None:
    """Note the signals by which schedulers ask for an end; who makes checkpoints acts on them, the others leave it to that one."""
    if threading.current_thread() is not threading.main_thread():
        return

    def note(number: int, _frame: object) -> None:
        asked.append(number)
        tell_launcher("asked")                         # so that who takes this trainer's place hears of it

    for number in (signal.SIGTERM, signal.SIGUSR1):
        if signal.getsignal(number) in (signal.SIG_DFL, None):
            signal.signal(number, note)
    tell_launcher("listens")


def name_of(number: int) -> str:
    """Return the name of the signal that asked for the end. The launcher passes all on as SIGUSR1, and leaves the name of its own."""
    from ..launch.ends import name_of

    folder = os.environ.get("TRIREME_JOB_FOLDER")
    if folder and number == signal.SIGUSR1:
        with contextlib.suppress(OSError):
            return Path(folder, "asked_by").read_text()
    return name_of(number)


def is_due(keeper: Any) -> bool:
    """Whether it is time for a checkpoint; ``keeper`` counts ``steps``, ``first`` of them before this process, ``last`` at the newest."""
    settings = keeper.settings
    return keeper.steps > keeper.last and (
        settings.every_steps is not None
        and keeper.steps // settings.every_steps > max(keeper.last, keeper.first) // settings.every_steps
        or settings.every_seconds is not None and time.monotonic() - keeper.begun_at >= settings.every_seconds)


def steps_to_pause(keeper: Any) -> int:
    """Steps that a loop makes before the next look for the sake of their number; 0: that does not matter."""
    every = keeper.settings.every_steps
    if is_due(keeper):
        return 1                                       # it could not be taken here: between two exchanges, or another is being written
    return every - keeper.steps % every if every is not None else 0


class Fate:
    """What became of the last checkpoint: ``error`` is why it was not written, None where it was.

    Training goes on without one. The first of several in a row is said; a training that should have ended with one raises.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None

    def note(self, error: Exception | None) -> None:
        if error is not None and self.error is None:
            say(f"a checkpoint was not written: {error}")
        self.error = error

    def check_last(self) -> None:
        """Raise FileError where the last checkpoint of a training was not written."""
        if self.error is not None:
            raise FileError(f"the last checkpoint was not written: {self.error}")


def say(text: str) -> None:
    sys.stderr.write(f"trireme: {text}\n")


__all__ = ["STOPPED", "asked", "listen", "name_of", "is_due", "steps_to_pause", "Fate", "say"]
