"""Checkpoints of one process: ``train_from_dataset`` pauses for them, and a resumed loop goes on in the middle of its data."""

from __future__ import annotations

import sys
from typing import Any

from .._core import lib
from ..checkpoint.folder import say, steps
from ..checkpoint.state import say_where
from ..distributed.checkpoints import claim_folder, settings_now
from ..distributed.schedule import BEGIN, STOP, STOPPED, Schedule, newest_in
from ..job import job as jobs
from ..job.checkpoint_settings import Settings
from ..job.session import session
from ..native.errors import TriremeError, check
from ..native.scope import Scope
from ..run.scopes import scope_guard
from ..saving.checkpoints import load_checkpoint, save_checkpoint


class LocalCheckpointManager:
    """Checkpoints of ``train_from_dataset`` in one process."""

    def __init__(self, executor: Any, program: Any, scope: Scope, settings: Settings) -> None:
        self.program, self.settings = program, settings
        assert settings.folder is not None             # else there are no checkpoints
        claim_folder(settings.folder, settings.entry)
        self.first, resumed = 0, -1
        if lib.tr_checkpoint_origin_of(False, settings.resume, bool(steps(settings.folder))) == lib.TR_ORIGIN_CHECKPOINT:
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
        self._schedule.begun(self.steps)
        position = self.settings.position() if self.settings.position is not None else None
        check(lib.tr_executor_set_runs(self.executor._native.ptr, self.program.desc._native.ptr, self.scope._native.ptr,
                                       self._runs + self.count - self._loop_began))
        error: Exception | None = None
        assert self.settings.folder is not None
        try:
            with scope_guard(self.scope):
                save_checkpoint(self.executor, self.settings.folder, self.program, step=self.steps, keep=self.settings.keep,
                                position=position)
        except (TriremeError, OSError) as failure:
            error = failure
        self._schedule.ended(error)


def in_one_process(executor: Any, program: Any, scope: Scope) -> tuple[LocalCheckpointManager | None, int]:
    """Return the manager of checkpoints for a loop of this process, and how many batches the loop skips. None: the script keeps no
    checkpoints.
    """
    settings = settings_now()
    if settings.folder is None or jobs.is_launched():
        return None, 0
    if session.local_manager is None or session.local_manager.program is not program or session.local_manager.settings.__dict__ != settings.__dict__:
        session.local_manager = LocalCheckpointManager(executor, program, scope, settings)
    session.local_manager.place(executor, scope)
    return session.local_manager, session.local_manager.left
