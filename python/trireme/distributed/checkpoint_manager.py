"""A trainer's part in a job's checkpoints (docs/checkpoints.md).

One trainer asks for a checkpoint between two of its steps. The servers copy their state and write the copy while training goes on. The
trainer adds the variables that the servers do not have, such as moving averages. It is the first trainer that makes steps: trainer 0, until
its data ends or it dies without a replacement. The last checkpoint is made after the last step of all trainers. When a job resumes, trainer
0 loads everything. The servers get their first values from trainer 0, as in a new job, on any number of servers.

The core does all this (trainer/checkpoints/checkpoint_manager.h). Here stand the steps that a script makes one by one.
"""

from __future__ import annotations

from typing import Any

from .._core import ffi, lib
from ..checkpoint.state import kinds_of, say_rates
from ..job.checkpoint_settings import Settings
from ..job.job import Job
from ..job.session import session
from ..native.errors import check
from ..native.names import name_chars
from ..native.scope import Scope
from .core_manager import STOPPED, Beginning, CoreManager
from .geo import COUNT
from .transpiled import Transpiled


class CheckpointManager(CoreManager):
    """The checkpoints of a trainer of a job. Where the job keeps none, its steps are counted."""

    def __init__(self, settings: Settings, job: Job) -> None:
        super().__init__(settings, job)
        self.job = job
        self._stops = ffi.new("bool *")
        self.folder = settings.folder

    def begin_training(self, result: Transpiled, scope: Scope) -> None:
        """The training begins: give ``scope`` the values of the checkpoint that it goes on from."""
        self.result, self.scope, self.kinds = result, scope, kinds_of(result.original)
        self._on_servers = {*(value.source for value in result.values), *result.tables}
        used, params = result.trainer._used_names(), {block.source for block in result.blocks}

        def is_pulled(name: str) -> bool:
            return result.flush is None and (name not in used or name in params)

        self.begin(result.original, scope, self.kinds, result.tables, mode=result.mode.text,
                   exchange_count=COUNT if result.flush is not None else None, on_servers=self._on_servers.__contains__, pulled=is_pulled)
        found = self.beginning.checkpoint
        if found is not None and self.job.index == 0:
            say_rates(found, result.original, scope)
        check(lib.tr_checkpoint_manager_load(self.ptr))
        self.first = self.steps                        # steps before this process
        self.steps_on_servers: int = lib.tr_checkpoint_manager_steps_on_servers(self.ptr)      # those of an earlier start of this launch
        self._is_apart = lib.tr_checkpoint_manager_runs(self.ptr) > 0      # the executor has made fewer runs than there were steps

    def has_old(self, name: str) -> bool:
        """Return whether a variable has its value of a checkpoint that is older than the servers' state."""
        return bool(lib.tr_checkpoint_manager_has_old(self.ptr, name_chars(name)))

    def steps_to_replay(self) -> int:
        """Return how many runs of the script's program were made before, except those that the script leaves out itself."""
        return self.steps_on_servers if session.skips_itself else self.first

    # -- steps ----------------------------------------------------------------------------------------------------------

    def before_step(self, executor: Any, weight: float) -> None:
        """A step of this weight begins, after what is due before it."""
        self.check(lib.tr_step_begin(self._stops, self.ptr, self.job.ptr, executor._native.ptr, weight, executor.check_nan))
        if self._stops[0]:
            self.stop()
        runs = self.runs_to_tell()
        if runs is not None:                           # random numbers continue as in a run without interruption
            for program in filter(None, (self.result.trainer, self.result.idle)):
                check(lib.tr_executor_set_runs(executor._native.ptr, program.desc._native.ptr, self.scope._native.ptr, runs - 1))

    def runs_to_tell(self) -> int | None:
        """Return the number of runs that the executor is to count from. None: its own count is right."""
        is_apart, self._is_apart = self._is_apart, False
        return int(lib.tr_checkpoint_manager_runs(self.ptr)) if is_apart else None

    def make_idle(self, steps: int) -> None:
        """Count steps that were made without a run of the program."""
        lib.tr_checkpoint_manager_count_idle(self.ptr, steps)
        self._is_apart = True

    def after_failure(self, is_step: bool) -> None:
        """A run has failed. Only steps that have ended count. ``is_step``: a step had begun in `before_step`."""
        lib.tr_checkpoint_manager_retract(self.ptr, is_step)

    def _stop(self, text: str) -> None:
        self.job.stop(text, STOPPED)


def manager_of(job: Job) -> CheckpointManager:
    """Return the manager of this job's checkpoints. It knows where the training begins, also before the first step."""
    if session.manager is None:
        session.manager = CheckpointManager(session.checkpoints.from_environment(), job)
    return session.manager


def beginning_of(job: Job) -> Beginning:
    """Find the place where this job begins. If the job was started again and its servers have their state, it is the place of the
    first start.
    """
    return manager_of(job).beginning
