"""Checkpoints of one process: ``train_from_dataset`` pauses for them, and a resumed loop goes on in the middle of its data."""

from __future__ import annotations

from typing import Any

from .._core import lib
from ..checkpoint.state import kinds_of, say_rates
from ..distributed.checkpoints import settings_now
from ..distributed.core_manager import CoreManager
from ..job import job as jobs
from ..job.checkpoint_settings import Settings
from ..job.session import session
from ..native.errors import check
from ..native.scope import Scope
from ..parameters.sparse_table import table_names


class LocalCheckpointManager(CoreManager):
    """Checkpoints of ``train_from_dataset`` in one process."""

    def __init__(self, executor: Any, program: Any, scope: Scope, settings: Settings) -> None:
        super().__init__(settings, None)
        self.begin(program, scope, kinds_of(program), table_names(program))
        found = self.beginning.checkpoint
        if found is not None:
            say_rates(found, program, scope)
            check(lib.tr_checkpoint_manager_load(self.ptr))
            check(lib.tr_executor_set_runs(executor._native.ptr, program.desc._native.ptr, scope._native.ptr, self.beginning.runs))
        self.first = self.left = self.steps            # steps before this process; batches to be left out

    def end(self, skipped: int) -> None:
        """A loop is over, which has left out ``skipped`` batches."""
        self.left -= skipped
        self.at_end()


def in_one_process(executor: Any, program: Any, scope: Scope) -> LocalCheckpointManager | None:
    """Return the manager of checkpoints for loops of this process. None: the script keeps no checkpoints."""
    settings = settings_now()
    if settings.folder is None or jobs.is_launched():
        return None
    known = session.local_manager
    if known is None or known.program is not program or known.settings.__dict__ != settings.__dict__:
        session.local_manager = known = LocalCheckpointManager(executor, program, scope, settings)
    return known
