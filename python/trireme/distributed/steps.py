"""A trainer's steps: how an executor runs a program in a job.

The first run of a training program begins the training (training.py). From then on the trainer's part of the program runs in its place. All
other programs run unchanged.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._core import lib
from ..job import job as jobs
from ..job.session import Steps, session
from ..native.errors import InvalidArgumentError, PeerError
from ..native.gc_pause import gc_paused
from ..native.precision import precision_name
from ..native.scope import Scope
from ..program import Program, default_main_program
from ..run.loop_part import LoopPart
from ..run.runner import Runner
from ..run.scopes import global_scope
from .failed_steps import after_failure
from .first_values import note
from .optimize_part import is_training
from .training import Training


@dataclass(kw_only=True)
class TrainersPart(LoopPart):
    """A trainer's part of a program, in a loop of the core."""

    training: Training

    def end(self, steps: int, leased: bool) -> None:
        self.training.after_loop(min(steps, self.skip), leased)

    def fail(self, error: BaseException) -> None:
        after_failure(error)


class JobSteps(Steps):
    """How this trainer makes its steps: ``job.session.Steps``."""

    def __init__(self) -> None:
        self.training = None
        self._trained: Program | None = None
        self._latest: weakref.ref[Any] | None = None       # the executor of the latest run

    def after_failure(self, error: BaseException, program: Program | None = None) -> None:
        after_failure(error, program)

    def _find(self, executor: Any, program: Program, scope: Scope) -> Training | None:
        """Return the training of this program; it begins with the program's first step. None: the program is no training program."""
        training = self.training
        if program is not self._trained or training is None:
            training = self._first_run(executor, program, scope)
            if training is None:
                return None
        elif program.desc.revision != training.revision:
            raise InvalidArgumentError("the program was changed after its first step in this job; the servers have their "
                                       "work already")
        if scope is not training.scope:
            raise InvalidArgumentError("a job trains in one scope: the one of its first step")
        if lib.tr_executor_matmul_precision(executor._native.ptr) != training.precision:
            raise InvalidArgumentError(f"this step multiplies matrices in {executor.matmul_precision}, the steps before it did so in "
                                       f"{precision_name(training.precision)}: a job trains in one precision. Choose it before the first "
                                       "step (fluid.set_matmul_precision, Executor(matmul_precision=...))")
        if training.job.failure is not None:
            raise PeerError(training.job.failure)
        if training.job.pid != os.getpid():
            raise InvalidArgumentError("this process is a copy (os.fork) of a trainer, which alone is a rank of the job: it cannot make "
                                       "its steps")
        return training

    def before_run(self, executor: Any, program: Program, scope: Scope, feed: dict[str, Any],
                   names: tuple[str, ...]) -> tuple[Program, dict[str, Any], tuple[str, ...]]:
        """Called by ``Executor.run`` before a run: return what to run instead of ``program``, ``feed`` and ``names``."""
        training = self._find(executor, program, scope)
        if executor._job is not session.job:
            executor._take_part(session.job)
        if training is None:
            return program, feed, names
        if training.replay is not None:
            replayed = training.replay.next(tuple(feed), names)
            if replayed is not None:
                training.forget_sets(training.replay)
                if training.replay.is_over:                # values that the script itself has written by now are replaced by the kept ones
                    training.load_own()
                return replayed, feed, names
            training.end_replay()
        if training.first_feeds is not None and not training.first_feeds.look(feed):
            training.first_feeds = None
        training.begin_step(executor, feed)
        return training.next_program(), training.take_fed(feed), training.fetched(names)

    def after_run(self, program: Program, names: tuple[str, ...], results: list[Any]) -> None:
        """Called by ``Executor.run`` with the results of a run of ``program``. In a replay the results are replaced."""
        training = self.training
        if training is None:
            return
        if program is training.program or program is training.result.idle:
            if names:
                training.see(names, results)
        elif training.replay is None:
            lib.tr_job_other_run_ended(session.native_job)
        elif names and program is training.replay.now:
            training.put_in(training.replay, names, results)

    def before_loop(self, executor: Any, program: Program, scope: Scope, names: tuple[str, ...]) -> Any:
        """Return the LoopPart of a loop over ``program``: the program to run instead, and its settings."""
        training = self._find(executor, program, scope)
        if training is None:
            return LoopPart(program, None, names, None, False)
        manager, replay = training.manager, training.replay
        if replay is not None:                             # the runs of skipped batches do not write to these variables
            training.load_own()
        fetched = training.fetched(names)
        return TrainersPart(training.program, training.result.idle, fetched, session.batch_weight,
                            not training.result.mode.is_lockstep, replay.steps - replay.made if replay else 0,
                            manager.runs_to_tell(), manager,
                            training.result.flush, training.index_of_loss(fetched) + 1, training=training)

    def _first_run(self, executor: Any, program: Program, scope: Scope) -> Training | None:
        self._latest = weakref.ref(executor)
        seen = program._seen_by_job
        revision = program.desc.revision
        if seen != revision and (is_training(program) or program._transpiled is not None):
            with jobs.starting:                          # a second thread, in another scope, gets the error below
                if self.training is not None:
                    raise InvalidArgumentError("a job trains one program, and this is a second one: minimize the sum of both "
                                               "losses, or train each in a job of its own")
                job = jobs.current()
                if job is not None:
                    with gc_paused():
                        self.training, self._trained = Training(job, program, scope, executor), program
                    return self.training
        elif seen != revision and "TRIREME_JOB" in os.environ:
            jobs.current()                                 # the launcher waits for this rank: join early
        if seen != revision and self.training is None:
            note(program, scope)
        program._seen_by_job = revision
        return None

    def set_rows(self, scope: Scope, name: str, call: str, fill: Callable[[Scope], None], *, clear: bool) -> None:
        """Give the servers rows of a table of theirs: see ``set_rows_of_servers``."""
        from .set_rows import set_rows_of_servers  # most scripts set none

        set_rows_of_servers(scope, name, call, fill, clear=clear)

    def join_without_step(self) -> None:
        """Agree to the setup without a step. The other trainers wait for this one, even if its script has no step to make."""
        program, scope = default_main_program(), global_scope()
        job = jobs.current()
        if self.training is not None or not is_training(program) or job is None or job.has_work:
            return                                         # a job that has work but no training has failed in its first step
        found = [scope.find_var(param.name) for param in program.all_parameters()]
        if all(var is not None and var.kind() is not None for var in found):       # otherwise the startup program has not been run
            self._first_run((self._latest and self._latest()) or Runner(), program, scope)

    def stop_daemons(self, seconds: float) -> None:
        """At the end of the script: wait for a daemon thread that is within a step, and let no thread begin another one: the job ends
        now."""
        if self._trained is not None:
            self._trained._lock.try_enter(seconds)

    def before_goodbye(self) -> None:
        """At a good end of the script: send the remaining updates. A trainer without any step says so, because the other trainers wait for
        it.
        """
        self.join_without_step()
        if self.training is not None:
            self.training.flush()
            self.training.manager.at_end()
