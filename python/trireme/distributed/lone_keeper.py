"""Checkpoints of loops of the core in one process: ``train_from_dataset`` pauses for them, and goes on in the middle of its data."""

from __future__ import annotations

import sys
import time
from typing import Any

from .._core import lib
from ..checkpoint import load_checkpoint, path_of, save_checkpoint, steps
from ..core import Scope
from ..errors import TriremeError, check
from . import job as jobs
from .checkpoints import Settings, claim_folder, settings_now
from .schedule import STOPPED, Fate, asked, is_due, listen, name_of, say, steps_to_pause


class _Alone:
    """Checkpoints of ``train_from_dataset`` in one process."""

    def __init__(self, executor: Any, program: Any, scope: Scope, settings: Settings) -> None:
        self.program, self.settings = program, settings
        claim_folder(settings.folder, is_first=True)
        self.first = 0
        if settings.resume and steps(settings.folder):
            from ..executor import scope_guard

            with scope_guard(scope):
                found = load_checkpoint(executor, settings.folder, program)
            for line in found.refused:
                say(f"{line}: the checkpoint before it is taken")
            say(f"going on from step {found.step}, {found.folder}")
            self.first = found.step
        self.left = self.first                         # batches to be left out
        self.last, self.begun_at = self.first, time.monotonic()
        self.is_kept = True                            # what was made until `last` is in a checkpoint
        self._fate = Fate()
        self.count = self._loop_began = self._runs = 0
        listen()

    @property
    def steps(self) -> int:
        return self.first + self.count

    def place(self, executor: Any, scope: Scope) -> None:
        self.executor, self.scope = executor, scope

    def begin_loop(self, runs: int) -> None:
        self._loop_began, self._runs = self.count, runs

    def steps_to_pause(self) -> int:
        return steps_to_pause(self)

    def look_in_loop(self, made: int) -> None:
        self.count = self._loop_began + made
        if asked:
            self._take()
            there = f"the checkpoint is {path_of(self.settings.folder, self.steps)}" if self.is_kept else "it is in no checkpoint"
            say(f"stopped by {name_of(asked[0])} after step {self.steps}; {there}")
            sys.exit(STOPPED)
        if is_due(self):
            self._take()

    def after_loop(self, skipped: int, made: int) -> None:
        self.left -= skipped
        self.count = self._loop_began + made
        for _ in range(2):                             # the last one is tried again once
            self._take()
        self._fate.check_last()

    def _take(self) -> None:
        from ..executor import scope_guard

        if self.steps == self.last and self.is_kept:
            return
        self.begun_at, self.last, self.is_kept = time.monotonic(), self.steps, False
        position = self.settings.position() if self.settings.position is not None else None
        check(lib.tr_executor_set_runs(self.executor._native.ptr, self.program.desc._native.ptr, self.scope._native.ptr,
                                       self._runs + self.count - self._loop_began))
        try:
            with scope_guard(self.scope):
                save_checkpoint(self.executor, self.settings.folder, self.program, step=self.steps, keep=self.settings.keep,
                                position=position)
            self.is_kept = True
            self._fate.note(None)
        except (TriremeError, OSError) as error:
            self._fate.note(error)


_alone: _Alone | None = None


def in_one_process(executor: Any, program: Any, scope: Scope) -> tuple[_Alone | None, int]:
    """Return what keeps checkpoints of a loop of this process, and how many batches it leaves out; None: nobody asked for any."""
    global _alone
    settings = settings_now()
    if settings.folder is None or jobs.is_launched():
        return None, 0
    if _alone is None or _alone.program is not program or _alone.settings.__dict__ != settings.__dict__:
        _alone = _Alone(executor, program, scope, settings)
    _alone.place(executor, scope)
    return _alone, _alone.left


__all__ = ["in_one_process"]
