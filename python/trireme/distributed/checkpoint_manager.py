"""A trainer's part in a job's checkpoints: their contents, and how a training goes on from one (docs/checkpoints.md).

One trainer asks for a checkpoint between two of its steps. The servers copy their state and write the copy while training goes on. The
trainer adds the variables that the servers do not have, such as moving averages. It is the first trainer that makes steps: trainer 0, until
its data ends or it dies without a replacement. The last checkpoint is made after the last step of all trainers. When a job resumes, trainer
0 loads everything. The servers get their first values from trainer 0, as in a new job, on any number of servers.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from .._core import ffi, lib
from ..checkpoint import Checkpoint, States, digest_of, kinds_of, newest, restore, say, say_rates, say_where, state_variables, steps, value_in
from ..job.job import Job
from ..job.checkpoint_settings import Settings
from ..native.errors import NotFoundError, TimedOutError, TriremeError, check
from ..native.names import name_chars, path_chars, take_text
from ..native.scope import Scope
from .checkpoints import beginning_of, claim_folder, is_skipped_by_script, settings_now
from .geo import COUNT
from .schedule import BEGIN, LOOK, PATIENCE, REPORT, STOP, STOPPED, Schedule, newest_in
from .transpiled import Transpiled


class CheckpointManager:
    """The calls for checkpoints of a trainer whose job keeps none: they do nothing."""

    is_on = False
    folder: str | None = None

    @staticmethod
    def of(job: Job, result: Transpiled, scope: Scope) -> CheckpointManager:
        """Return the manager of this job. It has found the checkpoint that the job goes on from."""
        settings = settings_now()
        if settings.folder is None:
            return CheckpointManager(job, result, scope)
        if job.index == 0:
            claim_folder(settings.folder, lib.TR_ENTRY_JOIN if job.has_servers_state else settings.entry)
        return _WritingCheckpointManager(job, result, scope, settings)

    def __init__(self, job: Job, result: Transpiled, scope: Scope) -> None:
        self.job, self.result, self.scope = job, result, scope
        self.kinds = kinds_of(result.original)
        self.tasks: bytes | None = None                # state of leased tasks, for the servers
        self.on_servers = {value.source for value in result.values}
        beginning = beginning_of(job)
        steps_on_servers = job.resumed * result.mode.period
        self.steps_on_servers = steps_on_servers         # steps that the servers have from an earlier start
        self.first, self.runs = beginning.steps + steps_on_servers, beginning.runs + steps_on_servers
        self.old_statistics: list[str] = []            # variables with values of a checkpoint that is older than the servers' state
        self.count = self._loop_began = 0              # steps of this process; its steps when the last loop began
        self._is_apart = self.runs > 0                 # the executor has made fewer runs than there were steps

    @cached_property
    def digest(self) -> str:
        """A digest of the program. A large program takes long, so it is computed for the first checkpoint."""
        return digest_of(self.result.original)

    @property
    def steps(self) -> int:
        """Steps that are ended."""
        return int(self.first + self.count)

    def facts(self) -> list[tuple[str, str]]:
        return []

    def load(self) -> None:
        """Load the values that the job goes on from."""

    def first_position(self) -> bytes | None:
        """The position in its data that this trainer has in the checkpoint that the job goes on from."""
        found = beginning_of(self.job).checkpoint
        return found.trainer(self.job.index)[2] if found is not None and not self.steps_on_servers else None

    def steps_to_replay(self) -> int:
        """Return how many runs of the script's program were made before, except those that the script leaves out itself."""
        return self.steps_on_servers if is_skipped_by_script() else self.first

    def before_step(self, executor: Any) -> None:
        runs = self.runs_to_tell()
        if runs is not None:                           # random numbers continue as in a run without interruption
            for program in filter(None, (self.result.trainer, self.result.idle)):
                check(lib.tr_executor_set_runs(executor._native.ptr, program.desc._native.ptr, self.scope._native.ptr, runs))
        self.count += 1

    def runs_to_tell(self) -> int | None:
        """Return the number of runs that the executor is to count from. None: its own count is right."""
        is_apart, self._is_apart = self._is_apart, False
        return self.runs + self.count if is_apart else None

    def make_idle(self, steps: int) -> None:
        """Count steps that were made without a run of the program."""
        self.count += steps
        self._is_apart = True

    def after_failure(self, is_step: bool) -> None:
        """A run has failed. Only steps that have ended count. ``is_step``: a step had begun in `before_step`."""
        if self.result.flush is None:
            self._count_steps()
        elif is_step:
            self.count -= 1

    def _count_steps(self) -> None:
        if self.result.flush is None:
            self.count = lib.tr_job_step(self.job.ptr) - self.steps_on_servers

    def before_loop(self) -> None:
        self._loop_began = self.count

    def after_loop(self, steps: int) -> None:
        self.count = self._loop_began + steps

    def at_end(self) -> None:
        pass

    @property
    def label(self) -> int:
        """The step in the name of a checkpoint that is made now."""
        return self.steps

    def _is_between_exchanges(self) -> bool:
        """Mode geo: return whether there are steps that the servers do not know yet."""
        return self.result.flush is not None and int(value_in(self.scope, COUNT).numpy()[0]) != 0

    def take(self, folder: str, keep: int, position: bytes | None = None, step: int | None = None,
             without_tables: bool = False) -> None:
        """Begin a checkpoint of the steps that have ended."""
        mine = {name: kind for name, kind in self.kinds.items() if name not in self.on_servers}
        states = States(len(mine))
        for name, (kind, param) in mine.items():
            states.add(name, kind, param, value_in(self.scope, name))
        spec = ffi.new("tr_job_checkpoint_spec *", {
            "folder": (path := ffi.new("char[]", path_chars(folder))), "step": self.label if step is None else step, "without_tables": without_tables,
            "digest": states.chars(self.digest), "keep": keep, "count": states.count, "states": states.native})
        self._fill(spec.place, self.steps, position)
        check(lib.tr_job_checkpoint(self.job.ptr, spec))
        del path

    def _fill(self, place: Any, steps: int, position: bytes | None) -> None:
        place.steps, place.runs = steps, self.runs + steps - self.first
        if position is not None:
            place.position, place.position_size = ffi.from_buffer(position), len(position)

    def wait(self, seconds: float = PATIENCE) -> Any:
        """Wait for the checkpoint under way, and return its report."""
        report = ffi.new("tr_job_checkpoint_report *")
        check(lib.tr_job_checkpoint_wait(self.job.ptr, seconds, report))
        return report

    def take_whole(self, folder: str, keep: int, position: bytes | None = None, step: int | None = None, without_tables: bool = False) -> None:
        """Make a checkpoint, and wait for it. One that a rank's death costs is made again when the rank is replaced."""
        deadline = time.monotonic() + PATIENCE
        self.wait_for_last()
        while True:
            self.take(folder, keep, position, step, without_tables)
            report = ffi.new("tr_job_checkpoint_report *")
            status = lib.tr_job_checkpoint_wait(self.job.ptr, PATIENCE, report)
            if not (status and report.is_given_up and time.monotonic() < deadline):
                check(status)
                return

    def wait_for_last(self) -> None:
        """Wait until another checkpoint can be begun."""
        with contextlib.suppress(NotFoundError):       # there was none
            self.wait()

    def fetch_state(self, names: Iterable[str], folder: str) -> None:
        """Trainer 0: load these variables from the servers into the scope, through a temporary file. Those that the script has set since the
        last step stay as they are.
        """
        params = {block.source for block in self.result.blocks}
        wanted = [name for name in names if name in self.on_servers and name in self.kinds and name not in params
                  and not lib.tr_job_is_set(self.job.ptr, name_chars(name))]
        if not wanted or self.result.flush is not None:
            return
        place = os.path.join(folder, f".state-{os.getpid()}")
        try:
            self.take_whole(place, 0, without_tables=True)
            found = Checkpoint(os.path.join(place, next(name for name in os.listdir(place) if name.startswith("step-"))))
            for name in wanted:
                found.read_into(name, self.scope.var(name).get_tensor())
                lib.tr_job_unset(self.job.ptr, name_chars(name))
        finally:
            shutil.rmtree(place, ignore_errors=True)


class _WritingCheckpointManager(CheckpointManager):
    """The manager of a job that keeps checkpoints."""

    is_on = True

    def __init__(self, job: Job, result: Transpiled, scope: Scope, settings: Settings) -> None:
        super().__init__(job, result, scope)
        self.settings, self.folder = settings, settings.folder
        self._has_set = False                          # at the last look
        self.beginning = beginning_of(job)
        found = self.beginning.checkpoint
        self._schedule = Schedule(settings, first=self.beginning.steps, steps_on_servers=self.steps_on_servers, resumed=found.step if found is not None else -1,
                                  newest=newest_in(settings.folder), servers_have_state=job.has_servers_state, is_first=job.index == 0,
                                  can_lag=result.mode.snapshots_all)

    # -- going on --------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        found = self.beginning.checkpoint
        if self.job.index == 0 and not self.job.has_servers_state:
            lib.tr_beginning_write(path_chars(self.settings.folder), found._native.ptr if found is not None else ffi.NULL)
        if found is None:
            if lib.tr_checkpoint_origin_reads(self.beginning.origin, self.first, bool(steps(self.settings.folder))):
                self._load_statistics(newest(self.settings.folder))
            return
        variables, tables = state_variables(self.result.original), []
        if self.job.index == 0:
            tables = self.result.tables                # the servers get them from here
            self.tasks = found.tasks
            say_where(found, self.result.original)
            say_rates(found, self.result.original, self.scope)
        elif self.result.flush is None:                # parameters come from the servers
            used = self.result.trainer._used_names()
            params = {block.source for block in self.result.blocks}
            variables = [var for var in variables if var.name in used and var.name not in params]
        restore(found, self.scope, variables, tables, self.job.index, self.job.trainers)

    def _load_statistics(self, found: Checkpoint) -> None:
        """The servers hold their state. Take the statistics that trainers alone have from the newest checkpoint: old values are better
        than none.
        """
        taken = [var for var in state_variables(self.result.original) if var.name in found and self._takes_old(var.name)]
        restore(found, self.scope, taken)
        self.old_statistics = [var.name for var in taken]

    def _takes_old(self, name: str) -> bool:
        kind = self.kinds[name][0]
        return bool(lib.tr_checkpoint_origin_takes(self.beginning.origin, kind, name in self.on_servers))

    def facts(self) -> list[tuple[str, str]]:
        found = self.beginning.checkpoint
        if self.job.is_replacement:                           # a replacement does not know the facts, and missing facts are not compared
            return [("checkpoints", os.path.abspath(self.settings.folder))]
        text = lib.tr_checkpoint_origin_text(found._native.ptr if found is not None else ffi.NULL)
        return [("goes on from", take_text(ffi.new("char **", text))), ("checkpoints", os.path.abspath(self.settings.folder))]

    # -- who makes them --------------------------------------------------------------------------------------------------

    @property
    def label(self) -> int:
        return self._schedule.label(self.steps)

    def _makes_them(self) -> bool:
        """Return whether this trainer makes checkpoints now."""
        makes = bool(lib.tr_job_makes_checkpoints(self.job.ptr))
        self._schedule.becomes_initiator(makes, self.steps)
        return makes

    # -- each step -------------------------------------------------------------------------------------------------------

    def before_step(self, executor: Any) -> None:
        if self._makes_them():
            self._look()
        if self.result.mode.gathers_per_trainer:         # trainers may be at different steps
            place = ffi.new("tr_trainer_state *")
            position = self._position()
            self._fill(place, self.steps + 1, position)
            check(lib.tr_job_set_place(self.job.ptr, place))
        super().before_step(executor)

    def before_loop(self) -> None:
        """Prepare a loop of the core. It makes many steps, and pauses where a checkpoint is due."""
        self._count_steps()
        super().before_loop()
        check(lib.tr_job_set_place(self.job.ptr, ffi.NULL))            # the job counts
        if self._makes_them():
            self._look()

    def begin_loop(self, runs: int) -> None:
        pass

    def steps_to_pause(self) -> int:
        if not self._makes_them():
            return 0
        return self._schedule.steps_to_look(self.steps, self._is_under_way())

    def look_in_loop(self, made: int) -> None:
        self.count = self._loop_began + made
        if self._makes_them():
            self._look()

    def _position(self) -> bytes | None:
        return self.settings.position() if self.settings.position is not None else None

    def _is_under_way(self) -> bool:
        return bool(lib.tr_job_checkpoint_is_under_way(self.job.ptr))

    def _look(self) -> None:
        """Between two steps of the trainer that makes checkpoints: carry out the policy's decision."""
        is_possible = not self._is_between_exchanges() and not lib.tr_job_is_uneven(self.job.ptr) and not self._has_set_just_now()
        while (action := self._schedule.look(self.steps, is_possible, self._is_under_way())) == REPORT:
            self._report()
        if action == STOP:
            self._stop()
        elif action == BEGIN:
            self._begin()

    def _has_set_just_now(self) -> bool:
        """Return whether the script has set values that the servers get with the next step, so that a checkpoint waits for this step. A script that sets
        some before each step makes no checkpoint wait: it sets them again when it goes on.
        """
        had_set, self._has_set = self._has_set, bool(lib.tr_job_is_set(self.job.ptr, ffi.NULL))
        return self._has_set and not had_set

    def _begin(self) -> None:
        self._schedule.begun(self.steps)
        try:
            self.take(self.settings.folder, self.settings.keep, self._position())
        except TriremeError as error:
            self._note(error)

    def _report(self) -> None:
        """Learn the outcome of the last checkpoint, and print it if the user should know."""
        report = ffi.new("tr_job_checkpoint_report *")
        status = lib.tr_job_checkpoint_wait(self.job.ptr, PATIENCE, report)
        try:
            check(status)
        except TriremeError as error:
            self._note(error, bool(report.is_given_up))
            return
        self._schedule.ended(None)
        text = lib.tr_checkpoint_report_text(report)
        if text != ffi.NULL:
            say(take_text(ffi.new("char **", text)))

    def _note(self, error: TriremeError, is_given_up: bool = False) -> None:
        """Raise an error only if the job has failed. Training goes on without a checkpoint that was not written."""
        self._schedule.ended(error, is_given_up)
        if error.status == "EPEER":
            raise error

    def _finish(self, has_more: bool = False) -> None:
        """Make the last checkpoint of the training."""
        while action := self._schedule.finish(self.steps, has_more):
            if action == REPORT:
                self._report()
            else:
                self._begin()

    def _stop(self) -> None:
        self._finish()
        self.job.stop(self._schedule.stop_text(self.steps), STOPPED)
        sys.exit(STOPPED)

    def _has_stayed(self, last: Any) -> bool:
        try:
            check(lib.tr_job_stay(self.job.ptr, LOOK, last))
        except TimedOutError:
            return False
        return True

    def at_end(self) -> None:
        self._count_steps()
        if self._schedule.is_pending:
            self._report()
        self._schedule.becomes_initiator(False, self.steps)        # meanwhile another trainer may have begun to make the checkpoints
        last = ffi.new("tr_job_last *")
        while not self._has_stayed(last):
            pass                                       # a signal is noted meanwhile; a trainer that still makes steps acts on it
        if last.is_mine and self._makes_them():
            self._finish(last.has_more)
            self._schedule.check_last()
