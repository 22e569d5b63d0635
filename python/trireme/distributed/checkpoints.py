"""A job's checkpoints: when they are made, what is in them, how a training goes on from one (docs/checkpoints.md).

Trainer 0 asks for a checkpoint between two of its steps; the servers copy what they hold and write it while training
goes on. It adds what the servers do not have: moving averages and the like. A resumption is the other way round: trainer 0
loads all, and the servers get their first values from it as ever, on however many servers there are.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .._core import ffi, lib
from ..checkpoint import (STATISTIC, Checkpoint, States, digest_of, kept_variables, kinds_of, load_checkpoint, newest, path_of, restore,
                          save_checkpoint,
                          steps, value_in)
from ..core import Scope
from ..errors import InvalidArgumentError, TriremeError, check
from . import job as jobs
from .geo import COUNT
from .job import Job, tell_launcher
from .transpiled import Transpiled

STOPPED = os.EX_TEMPFAIL               # start it again
_EVERY_SECONDS = 600.0
_WAIT = 3600.0                         # seconds, for a disk


class _Settings:
    """What the launcher, else the script, has said."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.every_steps: int | None = None
        self.every_seconds: float | None = None
        self.keep = 3
        self.resume = False
        self.position: Callable[[], bytes] | None = None

    def from_environment(self) -> _Settings:
        """These settings as the launcher overrides them."""
        result = _Settings()
        result.__dict__.update(self.__dict__)
        folder = os.environ.get("TRIREME_CHECKPOINT")
        if folder:
            result.folder = folder
            steps, seconds = os.environ.get("TRIREME_CHECKPOINT_STEPS"), os.environ.get("TRIREME_CHECKPOINT_SECONDS")
            if steps or seconds:
                result.every_steps = _number("TRIREME_CHECKPOINT_STEPS", steps, int)
                result.every_seconds = _number("TRIREME_CHECKPOINT_SECONDS", seconds, float)
            result.keep = _number("TRIREME_CHECKPOINT_KEEP", os.environ.get("TRIREME_CHECKPOINT_KEEP"), int) or result.keep
        result.resume = bool(result.folder) and (result.resume or os.environ.get("TRIREME_RESUME", "0") not in ("", "0"))
        if result.every_steps is None and result.every_seconds is None:
            result.every_seconds = _EVERY_SECONDS
        return result


def _number(name: str, text: str | None, kind: Any) -> Any:
    if not text:
        return None
    try:
        value = kind(text)
    except ValueError:
        value = 0
    if value <= 0:
        raise InvalidArgumentError(f"{name}={text!r} in the environment: a number above 0 is possible")
    return value


class _Beginning:
    """Where this trainer of a job begins: its steps and runs until then, and the checkpoint that it goes on from, if it does."""

    def __init__(self, checkpoint: Checkpoint | None = None, place: Any = None) -> None:
        self.checkpoint = checkpoint
        self.steps, self.runs = (place.steps, place.runs) if place is not None else (0, 0)

    @staticmethod
    def at(found: Checkpoint, index: int) -> _Beginning:
        place = ffi.new("tr_trainer_state *")
        lib.tr_checkpoint_place(place, found._native.ptr, index)
        return _Beginning(found, place)

    @staticmethod
    def of_launch(folder: str, index: int) -> _Beginning:
        """Where the servers began to count."""
        place = ffi.new("tr_trainer_state *")
        lib.tr_beginning_read(place, os.fsencode(folder), index)
        return _Beginning(None, place)


_settings = _Settings()
_beginning: _Beginning | None = None
_skips_itself = False                  # the script leaves out what was done


def _begin(job: Job) -> _Beginning:
    """Find out where this job begins. When it was started again and its servers have their state: where it began first."""
    global _beginning
    if _beginning is None:
        settings = _settings.from_environment()
        _beginning = _Beginning()
        if settings.folder is not None and (job.resumed or job.is_heir):
            _beginning = _Beginning.of_launch(settings.folder, job.index)
        elif settings.resume and steps(settings.folder):
            _beginning = _Beginning.at(newest(settings.folder), job.index)
    return _beginning


def checkpoint(folder: str | os.PathLike[str], *, every_steps: int | None = None, every_seconds: float | None = None,
               keep: int = 3, resume: bool = False, position: Callable[[], bytes] | None = None) -> None:
    """Let this script's job keep checkpoints in ``folder``, which all its hosts see; call it before the first step.

    One is written every so many steps or seconds (default: ten minutes), in the background, and one at the end. ``resume``
    goes on from the newest valid one, if there is one. ``position`` returns what a reader needs to find its place again;
    ``resumed`` needs none. ``trireme launch --checkpoint`` goes before all this.

    In one process ``train_from_dataset`` keeps them, and goes on where it was in the data; steps by ``Executor.run`` are the
    script's own business there.

    >>> fluid.distributed.checkpoint("checkpoints", every_steps=1000, resume=True)
    """
    if (every_steps is not None and (not isinstance(every_steps, int) or every_steps < 1)
            or every_seconds is not None and not every_seconds > 0 or not isinstance(keep, int) or keep < 1):
        raise InvalidArgumentError(f"checkpoint: every_steps={every_steps!r}, every_seconds={every_seconds!r}, keep={keep!r}; "
                                   "numbers above 0 are possible")
    if position is not None and not callable(position):
        raise TypeError(f"checkpoint: position must be a function that returns bytes, got {position!r}")
    global _beginning
    _settings.__dict__.update(folder=os.fspath(folder), every_steps=every_steps, every_seconds=every_seconds, keep=keep,
                              resume=resume, position=position)
    _beginning = None


def resumed_from() -> Checkpoint | None:
    """Return the checkpoint that this job goes on from; None when it begins at the beginning.

    >>> fluid.distributed.resumed_from() is None
    True
    """
    job = jobs.current()
    return _begin(job).checkpoint if job is not None else None


def first_step() -> int:
    """Return how many steps this trainer had behind it at the checkpoint that the job goes on from.

    >>> fluid.distributed.first_step()
    0
    """
    job = jobs.current()
    return _begin(job).steps if job is not None else 0


def resumed(batch_reader: Callable[[], Any]) -> Callable[[], Iterator[Any]]:
    """Return a reader without the batches that the training had behind it, over all calls of the reader.

    A script need not use it: the first runs of a job that goes on are not computed, and fetch NaN. With it the script does
    not see these batches at all; an epoch that was done gives none.

    >>> list(fluid.distributed.resumed(lambda: iter([1, 2, 3]))())
    [1, 2, 3]
    """
    global _skips_itself
    if not callable(batch_reader):
        raise TypeError(f"resumed takes a reader (a function that returns batches), got {batch_reader!r}")
    _skips_itself = True
    left = [-1]

    def rest() -> Iterator[Any]:
        has_begun = left[0] == 0
        if left[0] < 0:
            left[0] = first_step()
        for batch in batch_reader():
            if left[0]:
                left[0] -= 1
            else:
                has_begun = True
                yield batch
        if not has_begun:
            from .training import join_without_step

            join_without_step()

    return rest


# -- asked to stop ----------------------------------------------------------------------------------------------------

_asked: list[int] = []                 # signals


def _listen() -> None:
    """Note the signals by which schedulers ask for an end; trainer 0 acts on them, the others leave it to trainer 0."""
    if threading.current_thread() is not threading.main_thread():
        return

    def note(number: int, _frame: object) -> None:
        _asked.append(number)
        tell_launcher("asked")                         # so that who takes this trainer's place hears of it

    for number in (signal.SIGTERM, signal.SIGUSR1):
        if signal.getsignal(number) in (signal.SIG_DFL, None):
            signal.signal(number, note)
    tell_launcher("listens")


# -- when ------------------------------------------------------------------------------------------------------------


def _is_due(keeper: Any) -> bool:
    """Whether it is time for a checkpoint; ``keeper`` counts ``steps``, ``first`` of them before this process, ``last`` at the newest."""
    settings = keeper.settings
    return keeper.steps > keeper.last and (
        settings.every_steps is not None
        and keeper.steps // settings.every_steps > max(keeper.last, keeper.first) // settings.every_steps
        or settings.every_seconds is not None and time.monotonic() - keeper.begun_at >= settings.every_seconds)


def _steps_to_pause(keeper: Any) -> int:
    """Steps that a loop makes before the next look for the sake of their number; 0: that does not matter."""
    every = keeper.settings.every_steps
    if _is_due(keeper):
        return 1                                       # it could not be taken here: between two exchanges, or another is being written
    return every - keeper.steps % every if every is not None else 0


# -- one process: loops of the core -----------------------------------------------------------------------------------


class _Alone:
    """Checkpoints of ``train_from_dataset`` in one process."""

    def __init__(self, executor: Any, program: Any, scope: Scope, settings: _Settings) -> None:
        self.program, self.settings = program, settings
        self.first = 0
        if settings.resume and steps(settings.folder):
            from ..executor import scope_guard

            with scope_guard(scope):
                found = load_checkpoint(executor, settings.folder, program)
            for line in found.refused:
                _say(f"{line}: the checkpoint before it is taken")
            _say(f"going on from step {found.step}, {found.folder}")
            self.first = found.step
        self.left = self.first                         # batches to be left out
        self.last, self.begun_at = self.first, time.monotonic()
        self.is_kept = True                            # what was made until `last` is in a checkpoint
        self.count = self._loop_began = self._runs = 0
        _listen()

    @property
    def steps(self) -> int:
        return self.first + self.count

    def place(self, executor: Any, scope: Scope) -> None:
        self.executor, self.scope = executor, scope

    def begin_loop(self, runs: int) -> None:
        self._loop_began, self._runs = self.count, runs

    def steps_to_pause(self) -> int:
        return _steps_to_pause(self)

    def look_in_loop(self, made: int) -> None:
        self.count = self._loop_began + made
        if _asked:
            self._take()
            there = f"the checkpoint is {path_of(self.settings.folder, self.steps)}" if self.is_kept else "it is in no checkpoint"
            _say(f"stopped by {signal.Signals(_asked[0]).name} after step {self.steps}; {there}")
            sys.exit(STOPPED)
        if _is_due(self):
            self._take()

    def after_loop(self, skipped: int, made: int) -> None:
        self.left -= skipped
        self.count = self._loop_began + made
        self._take()

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
        except (TriremeError, OSError) as error:
            _say(f"a checkpoint was not written: {error}")


_alone: _Alone | None = None


def in_one_process(executor: Any, program: Any, scope: Scope) -> tuple[_Alone | None, int]:
    """Return what keeps checkpoints of a loop of this process, and how many batches it leaves out; None: nobody asked for any."""
    global _alone
    settings = _settings.from_environment()
    if settings.folder is None or jobs.is_launched():
        return None, 0
    if _alone is None or _alone.program is not program or _alone.settings.__dict__ != settings.__dict__:
        _alone = _Alone(executor, program, scope, settings)
    _alone.place(executor, scope)
    return _alone, _alone.left


# -- a trainer's part ----------------------------------------------------------------------------------------------------


class Keeper:
    """What a trainer does for checkpoints: nothing, when the job keeps none."""

    is_on = False
    folder: str | None = None

    @staticmethod
    def of(job: Job, result: Transpiled, scope: Scope) -> Keeper:
        """Return the one of this job, and load what it goes on from."""
        settings = _settings.from_environment()
        return _Keeper(job, result, scope, settings) if settings.folder else Keeper(job, result, scope)

    def __init__(self, job: Job, result: Transpiled, scope: Scope) -> None:
        self.job, self.result, self.scope = job, result, scope
        self.kinds = kinds_of(result.original)
        self.digest = digest_of(result.original)
        self.tasks: bytes | None = None                # state of leased tasks, for the servers
        self.on_servers = {value.source for value in result.values}
        beginning = _begin(job)
        kept = job.resumed * (result.mode.count if result.mode.kind == "geo" else 1)
        self.kept = kept                               # steps that the servers have from an earlier start
        self.first, self.runs = beginning.steps + kept, beginning.runs + kept
        self.count = self._loop_began = 0              # steps of this process; when the last loop began

    @property
    def steps(self) -> int:
        """Steps that are ended."""
        return self.first + self.count

    def facts(self) -> list[tuple[str, str]]:
        return []

    def load(self) -> None:
        """Take over what the job goes on from."""

    def steps_to_replay(self) -> int:
        """How many runs of the script's program were made before, and not left out by the script."""
        return self.kept if _skips_itself else self.first

    def before_step(self, executor: Any) -> None:
        if self.count == 0 and self.runs:              # random numbers are those of a run that was not interrupted
            for program in filter(None, (self.result.trainer, self.result.idle)):
                check(lib.tr_executor_set_runs(executor._native.ptr, program.desc._native.ptr, self.scope._native.ptr,
                                               self.runs))
        self.count += 1

    def before_loop(self) -> None:
        self._loop_began = self.count

    def after_loop(self, steps: int) -> None:
        self.count = self._loop_began + steps

    def at_end(self) -> None:
        pass

    def _is_between_exchanges(self) -> bool:
        """Mode geo: whether there are steps that only this trainer knows of."""
        return self.result.flush is not None and int(value_in(self.scope, COUNT).numpy()[0]) != 0

    def take(self, folder: str, keep: int, position: bytes | None = None, step: int | None = None,
             without_tables: bool = False) -> None:
        """Trainer 0: begin a checkpoint of the steps that are ended."""
        mine = {name: kind for name, kind in self.kinds.items() if name not in self.on_servers}
        states = States(len(mine))
        for name, (kind, param) in mine.items():
            states.add(name, kind, param, value_in(self.scope, name))
        spec = ffi.new("tr_job_checkpoint_spec *", {
            "folder": (path := ffi.new("char[]", os.fsencode(folder))), "step": self.steps if step is None else step, "without_tables": without_tables,
            "digest": states.chars(self.digest), "keep": keep, "count": states.count, "states": states.native})
        self._fill(spec.place, self.steps, position)
        check(lib.tr_job_checkpoint(self.job.ptr, spec))
        del path

    def _fill(self, place: Any, steps: int, position: bytes | None) -> None:
        place.steps, place.runs = steps, self.runs + steps - self.first
        if position is not None:
            place.position, place.position_size = ffi.from_buffer(position), len(position)

    def wait(self, seconds: float = _WAIT) -> Any:
        """Wait for the checkpoint under way; return what is known of it."""
        report = ffi.new("tr_job_checkpoint_report *")
        check(lib.tr_job_checkpoint_wait(self.job.ptr, seconds, report))
        return report

    def fetch_state(self, names: Iterable[str], folder: str) -> None:
        """Trainer 0: take what the servers have of these variables into the scope, by way of a file of theirs."""
        params = {block.source for block in self.result.blocks}
        wanted = [name for name in names if name in self.on_servers and name in self.kinds and name not in params]
        if not wanted or self.result.flush is not None:
            return
        place = os.path.join(folder, f".state-{os.getpid()}")
        try:
            if lib.tr_job_checkpoint_is_under_way(self.job.ptr):
                self.wait()
            self.take(place, 0, without_tables=True)
            self.wait()
            found = Checkpoint(os.path.join(place, os.listdir(place)[0]))
            for name in wanted:
                found.read_into(name, self.scope.var(name).get_tensor())
        finally:
            shutil.rmtree(place, ignore_errors=True)


class _Keeper(Keeper):
    """The same in a job that keeps checkpoints."""

    is_on = True

    def __init__(self, job: Job, result: Transpiled, scope: Scope, settings: _Settings) -> None:
        super().__init__(job, result, scope)
        self.settings, self.folder = settings, settings.folder
        self.beginning = _begin(job)
        self.last = self.first - self.kept             # step of the newest checkpoint, as far as is known
        self.begun_at = time.monotonic()
        self._is_reported = self._is_good = True
        _listen()

    # -- going on --------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        found = self.beginning.checkpoint
        if self.job.index == 0 and not self.kept and not self.job.is_heir:
            lib.tr_beginning_write(os.fsencode(self.settings.folder), found._native.ptr if found is not None else ffi.NULL)
        if found is None and self.first and steps(self.settings.folder):
            self._load_statistics(newest(self.settings.folder))
        if found is None:
            return
        variables, tables = kept_variables(self.result.original), []
        if self.job.index == 0:
            tables = self.result.tables                # the servers get them from here
            self.tasks = found.tasks
            self._say_where(found)
        elif self.result.flush is None:                # parameters come from the servers
            used = self.result.trainer._used_names()
            params = {block.source for block in self.result.blocks}
            variables = [var for var in variables if var.name in used and var.name not in params]
        restore(found, self.scope, variables, tables)

    def _say_where(self, found: Checkpoint) -> None:
        for line in found.refused:
            _say(f"{line}: the checkpoint before it is taken")
        if found.digest and found.digest != self.digest:
            _say(f"the checkpoint {found.folder!r} is of another program; what it has of this one's variables is taken")
        _say(f"going on from step {found.step}, {found.folder}")

    def _load_statistics(self, found: Checkpoint) -> None:
        """The servers have their state; what trainers alone have is better old than new."""
        restore(found, self.scope, [var for var in kept_variables(self.result.original)
                                    if self.kinds[var.name][0] == STATISTIC and var.name not in self.on_servers
                                    and var.name in found])

    def facts(self) -> list[tuple[str, str]]:
        found = self.beginning.checkpoint
        if self.job.is_heir:                           # it does not know, and what it does not say is not compared
            return [("checkpoints", os.path.abspath(self.settings.folder))]
        return [("goes on from", f"step {found.step}, cut {found.cut:016x}" if found is not None else "the beginning"),
                ("checkpoints", os.path.abspath(self.settings.folder))]

    # -- each step -------------------------------------------------------------------------------------------------------

    def before_step(self, executor: Any) -> None:
        if self.job.index == 0:
            self._look()
        if self.result.mode.text != "sync":            # where every trainer cuts by itself
            place = ffi.new("tr_trainer_state *")
            position = self._position()
            self._fill(place, self.steps + 1, position)
            check(lib.tr_job_set_place(self.job.ptr, place))
        super().before_step(executor)

    def before_loop(self) -> None:
        """A loop of the core makes many steps, and pauses where a checkpoint is due."""
        self._count_steps()
        super().before_loop()
        if self.job.index == 0:
            self._look()
        else:
            check(lib.tr_job_set_place(self.job.ptr, ffi.NULL))        # the job counts

    def begin_loop(self, runs: int) -> None:
        pass

    def steps_to_pause(self) -> int:
        return _steps_to_pause(self) if self.job.index == 0 else 0

    def look_in_loop(self, made: int) -> None:
        self.count = self._loop_began + made
        if self.job.index == 0:
            self._look()

    def _count_steps(self) -> None:
        if self.result.flush is None:
            self.count = lib.tr_job_step(self.job.ptr) - self.kept

    def _position(self) -> bytes | None:
        return self.settings.position() if self.settings.position is not None else None

    def _look(self) -> None:
        """Trainer 0, between two steps: begin a checkpoint when it is time."""
        if self._is_between_exchanges() or lib.tr_job_is_uneven(self.job.ptr):
            return                                     # after the next step, or one soon after
        if _asked:
            self._stop(_asked[0])
        if _is_due(self) and not lib.tr_job_checkpoint_is_under_way(self.job.ptr):
            self._report()
            self._begin()

    def _begin(self) -> None:
        self.begun_at = time.monotonic()
        self.take(self.settings.folder, self.settings.keep, self._position())
        self.last = self.steps
        self._is_reported = False

    def _report(self) -> None:
        """Say once what became of the last one, if that is worth saying."""
        if self._is_reported:
            return
        self._is_reported, self._is_good = True, False
        try:
            report = self.wait()
        except TriremeError as error:
            if error.status == "EPEER":
                raise
            _say(f"a checkpoint was not written: {error}")
            return
        self._is_good = True
        if os.environ.get("TRIREME_CHECKPOINT_REPORT", "0") not in ("", "0"):
            _say(f"checkpoint of step {report.step}: {report.bytes} bytes in {report.seconds:.3f} s, "
                 f"trainers waited {1000 * report.pause:.2f} ms")

    def _is_lacking(self) -> bool:
        """Whether the newest checkpoint may lack something: where trainers are apart, others may have made steps when this one made none."""
        mode = self.result.mode
        return self.steps > self.last or not self._is_good or mode.is_alone or mode.count > 0

    def _finish(self) -> None:
        """The last one. It is tried again once: a server that dies takes its part with it."""
        self._report()
        for _ in range(2):
            if self._is_lacking():
                self._begin()
                self._report()
            if self._is_good:
                return

    def _stop(self, number: int) -> None:
        name = signal.Signals(number).name
        self._finish()
        self.job.stop(f"stopped by {name} after step {self.steps}"
                      + (f"; the checkpoint is {path_of(self.settings.folder, self.steps)}" if self.last == self.steps else ""), STOPPED)
        sys.exit(STOPPED)

    def at_end(self) -> None:
        self._count_steps()
        if self.job.index == 0:
            self._finish()


def _say(text: str) -> None:
    sys.stderr.write(f"trireme: {text}\n")


__all__ = ["checkpoint", "resumed", "resumed_from", "first_step", "Keeper", "STOPPED"]
