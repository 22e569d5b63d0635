"""Checkpoints of one process: ``train_from_dataset`` pauses for them, and a resumed loop goes on in the middle of its data."""

from __future__ import annotations

import sys
from typing import Any

from .._core import lib
from ..checkpoint import load_checkpoint, save_checkpoint, say, say_where, steps
from ..core import Scope
from ..errors import TriremeError, check
from . import job as jobs
from .checkpoints import Settings, claim_folder, settings_now
from .schedule import BEGIN, STOP, STOPPED, Schedule, newest_in


class _LocalCheckpointManager:
    """Checkpoints of ``train_from_dataset`` in one process."""

    def __init__(self, executor: Any, program: Any, scope: Scope, settings: Settings) -> None:
        self.program, self.settings = program, settings
        claim_folder(settings.folder, settings.entry)
        self.first, resumed = 0, -1
        if lib.tr_checkpoint_origin_of(False, settings.resume, bool(steps(settings.folder))) == lib.TR_ORIGIN_CHECKPOINT:
            from ..executor import scope_guard

            with scope_guard(scope):
                found = load_checkpoint(executor, settings.folder, program)
            say_where(found, program)
            self.first = resumed = found.step
        self.left = self.first                         # batches to be left out
        self.count = self._loop_began = self._runs = 0
        self._schedule = Schedule(settings, first=self.first, resumed=resumed, newest=newest_in(settings.folder), is_first=True)

    @property
    def steps(self) -> int:
        return self.first + self.count

    def place(self, executor: Any, scope: Scope) -> None:
        self.executor, self.scope = executor, scope

    def begin_loop(self, runs: int) -> None:
        self._loop_began, self._runs = self.count, runs

    def steps_to_pause(self) -> int:
        return self._schedule.steps_to_look(self.steps)

    def look_in_loop(self, made: int) -> None:
        self.count = self._loop_began + made
        action = self._schedule.look(self.steps)
        if action == STOP:
            self._finish()
            say(self._schedule.stop_text(self.steps))
            sys.exit(STOPPED)
        if action == BEGIN:
            self._take()

    def after_loop(self, skipped: int, made: int) -> None:
        self.left -= skipped
        self.count = self._loop_began + made
        self._finish()
        self._schedule.check_last()

    def _finish(self) -> None:
        while self._schedule.finish(self.steps) == BEGIN:
            self._take()

    def _take(self) -> None:
        from ..executor import scope_guard

        self._schedule.begun(self.steps)
        position = self.settings.position() if self.settings.position is not None else None
        check(lib.tr_executor_set_runs(self.executor._native.ptr, self.program.desc._native.ptr, self.scope._native.ptr,
                                       self._runs + self.count - self._loop_began))
        error: Exception | None = None
        try:
            with scope_guard(self.scope):
                save_checkpoint(self.executor, self.settings.folder, self.program, step=self.steps, keep=self.settings.keep,
                                position=position)
        except (TriremeError, OSError) as failure:
            error = failure
        self._schedule.ended(error)


_manager: _LocalCheckpointManager | None = None


def in_one_process(executor: Any, program: Any, scope: Scope) -> tuple[_LocalCheckpointManager | None, int]:
    """Return the manager of checkpoints for a loop of this process, and how many batches the loop skips. None: the script keeps no
    checkpoints.
    """
    global _manager
    settings = settings_now()
    if settings.folder is None or jobs.is_launched():
        return None, 0
    if _manager is None or _manager.program is not program or _manager.settings.__dict__ != settings.__dict__:
        _manager = _LocalCheckpointManager(executor, program, scope, settings)
    _manager.place(executor, scope)
    return _manager, _manager.left


__all__ = ["in_one_process"]
