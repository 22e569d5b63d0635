"""The training of a job, as one of its trainers sees it.

The first step sends the servers their setup and makes all parameters equal. From then on the trainer's part of the program runs in the
program's place (steps.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from time import monotonic
from typing import Any

import numpy as np

from .._core import ffi, lib
from ..checkpoint.folder import say, warn
from ..job.compression import sends_largest
from ..job.job import Job
from ..job.session import session
from ..native.dtypes import FROM_NUMPY
from ..native.errors import InvalidArgumentError, NotFoundError, UnsupportedError, check
from ..native.names import name_chars
from ..native.precision import precision_name
from ..native.tensor import samples_of_batch
from ..native.scope import Scope
from ..program import Program
from ..program.op_view import text_of
from ..run.runner import Runner
from .announced import Announcer
from .checkpoint_manager import manager_of
from .fetched import Fetched, hand_out
from .first_feeds import FirstFeeds
from .first_values import facts_of_first_values, noted
from .geo import BASE, COUNT
from .own_values import OwnValues
from .partition import Keep, fill_partition
from .replay import Replay
from .transpiled import Transpiled
from .transpiler import losses, transpile


def _say_idle(result: Transpiled, servers: int) -> None:
    """Report servers that hold nothing. A sparse table spreads over all servers."""
    used = {block.server for block in result.blocks}
    idle = servers - len(used)
    if idle and used and not result.tables:
        say(f"{idle} of {servers} servers {'have' if idle > 1 else 'has'} nothing to hold: --servers {len(used)} is enough for all "
            "parameters")


class Training:
    """The program that a job trains."""

    def __init__(self, job: Job, program: Program, scope: Scope, executor: Any) -> None:
        self.job, self.scope = job, scope
        self.precision = lib.tr_executor_matmul_precision(executor._native.ptr)        # of products, the same in all trainers and all steps
        self.result: Transpiled = program._transpiled or transpile(
            program, job.servers, trainer=job.index, min_block_bytes=session.min_block_bytes, slice_params=session.slice_params)
        if len(self.result.servers) != job.servers:
            raise InvalidArgumentError(f"the program was transpiled for {len(self.result.servers)} servers, "
                                       f"the job has {job.servers}")
        self.program = self.result.trainer
        self._announcer = Announcer(self.program, scope)
        self._executor: Any = None
        self.revision = program.desc.revision
        self.is_behind = False                         # steps were made without a gradient, and their parameters are not here
        self._lead = 0                                 # steps that others were ahead when this trainer last waited for them
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._weight = 0.0                             # of the last step
        self._kept = frozenset(var.name() for var in program.global_block().desc.persistable_vars())
        loss = next(iter(losses(program)), "")
        self._loss = self.result.means.get(loss, loss)
        self._loss_due = 0.0
        self._loss_at: dict[tuple[str, ...], int] = {}  # of the loss among the fetches; -1: it is not fetched
        for name in self.result.means.values():
            _set_zeros(scope, self.program, name)
        for name in self.result.fed:
            _set_zeros(scope, program, name)
        self._kept |= self.result.fed
        self._taken = frozenset(value.source for value in self.result.values) if not self.result.mode.trains_copies else frozenset()
        self.manager = manager_of(job)
        self.manager.begin_training(self.result, scope)
        self._own = OwnValues(self.result, scope, self.manager.kinds, job.servers)
        self._partition = self._join()
        if job.index == 0 and not job.resumes:
            _say_idle(self.result, job.servers)
        self._pull()
        if job.index > 0 or job.resumes or job.is_replacement:
            self._own.pull(job, self.manager.has_old)
        if self.result.flush is not None:
            self._keep_bases()
        steps = self.manager.steps_to_replay()
        self.replay: Replay | None = Replay(program, steps) if steps else None
        self._has_set = False                          # the script has set a value for a replayed step
        if not self.result.mode.trains_copies:
            check(lib.tr_job_watch(job.ptr, scope._native.ptr, self._partition.remote_count, self._partition.remote))
        self._is_watched = is_watched()
        self.fetched_before = Fetched.of(self.manager.folder, job, self.manager.first, self.result.means.values())
        if self.fetched_before is not None:
            check(lib.tr_job_keep_fetched(job.ptr, os.fsencode(self.fetched_before.last_path)))
        begins = not (steps or job.resumes or job.is_replacement)
        self.first_feeds: FirstFeeds | None = FirstFeeds(job) if begins and job.trainers > 1 else None

    # -- the servers' work ----------------------------------------------------------------------------------

    def _array(self, name: str) -> np.ndarray:
        var = self.scope.find_var(name)
        if var is None or var.kind() is None or not var.get_tensor()._is_initialized():
            raise NotFoundError(f"{name!r} has no value yet: run the startup program before the first step")
        return np.ascontiguousarray(var.get_tensor().numpy())

    def _join(self) -> Any:
        """Agree on the setup with the servers and the other trainers, and get the parameters of trainer 0. Return the ``tr_partition``."""
        partition, keep = ffi.new("tr_partition *"), Keep()
        fill_partition(partition, keep, self.result, [*facts_of(self.result, noted(self.scope), self._own.names()), *self._own.facts(),
                                                      ("matmul precision", precision_name(self.precision))], self._own.values)
        self._keep = keep                              # the partition points into it
        check(lib.tr_partition_join(partition, self.job.ptr, self.manager.ptr, self.scope._native.ptr, self.program.desc._native.ptr))
        self.job.has_work = True
        return partition

    def _pull(self, keeps_set: bool = False) -> None:
        """Get the servers' parameters: before the first step, trainer 0's. With ``keeps_set`` what the script has set stays as it is."""
        check(lib.tr_partition_pull(self._partition, self.job.ptr, self.scope._native.ptr, keeps_set))

    def refresh(self, lead: int) -> None:
        """Take the parameters that the servers have, if this trainer has made steps without a gradient, or where others make updates
        without a trainer that waits. They are ``lead`` steps ahead of this trainer.
        """
        mode = self.result.mode
        is_left_out = mode.is_lockstep and mode.gathers_per_trainer and self.replay is None
        if self.is_behind or is_left_out:
            if is_left_out and not mode.snapshots_all and lead > self._lead:       # sync(backups) refuses such values
                self._leave_sets()
            self._lead = max(lead, self._lead)
            self._pull(keeps_set=True)                 # what the script has set travels with the next step
            if self.result.flush is not None:
                self._keep_bases()
        self.is_behind = False

    def _leave_sets(self) -> None:
        """Others have made the step that the script has set values for, with theirs. The servers would drop this trainer's."""
        if name := self.name_of_set():
            say(f"trainer {self.job.index}: {name!r} was set after step {self.steps_made()}. In mode {self.result.mode.text} the other "
                "trainers made their next step without this trainer, which waited: what they have set counts")
        lib.tr_job_unset(self.job.ptr, ffi.NULL)

    def name_of_set(self) -> str | None:
        """Return the name of a variable that the script has set since the last step, if there is one."""
        return next((value.source for value in self.result.values if lib.tr_job_is_set(self.job.ptr, name_chars(value.source))), None)

    def _keep_bases(self) -> None:
        """Mode geo: remember the servers' parameters."""
        for name in dict.fromkeys(block.source for block in self.result.blocks):
            self.scope.var(name + BASE).get_tensor().set(self._array(name))
        self.scope.var(COUNT).get_tensor().set(np.zeros(1, np.int64))

    def forget_sets(self, replay: Replay) -> None:
        """In a replay: what the script has set for the step that is replayed now is in the servers' values already."""
        self._has_set |= lib.tr_job_is_set(self.job.ptr, ffi.NULL)
        if self._has_set and replay.is_over:
            self._pull()
        lib.tr_job_unset(self.job.ptr, ffi.NULL)

    def load_own(self) -> None:
        """Restore the variables that this trainer alone has, as they were after the last step that was made before."""
        count = ffi.new("int *")
        check(lib.tr_job_load_own(self.job.ptr, self.scope._native.ptr, count))
        if count[0] == 0 and sends_largest(self.result.original):
            warn(f"trainer {self.job.index}: the accumulators of DGCMomentumOptimizer were in the memory of another host; they begin with "
                 "zeros. --replicas or checkpoints keep them")
        lib.tr_job_unset(self.job.ptr, ffi.NULL)
        if count[0] and self.result.after is not None:  # what was kept was kept before the step's new parameters came
            self._run(self.result.after, {})

    def flush(self) -> None:
        """Mode geo: send the changes of the last steps."""
        if self.result.flush is not None:
            self._run(self.result.flush, {})

    def _run(self, program: Program, feed: dict[str, Any]) -> None:
        if self._executor is None:
            self._executor = Runner()
        self._executor.run(program, feed, scope=self.scope)

    # -- each step ------------------------------------------------------------------------------------------------

    def prefetch(self, feed: dict[str, Any]) -> None:
        if self.replay is not None:
            return
        for name in self._announcer.names:
            if name not in feed:
                raise NotFoundError(f"prefetch: the feed has no {name!r}, the keys of a sparse table")
        self._announcer.announce(feed)

    def take_fed(self, feed: dict[str, Any]) -> dict[str, Any]:
        """Set what is fed into variables of the servers, as a script sets them. Return the rest of the feed."""
        found = self._taken.intersection(feed)
        if not found:
            return feed
        for name in found:
            tensor, value = self.scope.var(name).get_tensor(), np.asarray(feed[name])
            if not tensor._is_initialized() or not np.array_equal(tensor.numpy(), value):
                tensor.set(value)
        return {name: value for name, value in feed.items() if name not in found}

    def begin_step(self, executor: Any, feed: dict[str, Any]) -> None:
        """A step begins; it counts as many samples as the feed has, or as the script says."""
        self._weight = samples_of_batch(feed, self._kept) if session.batch_weight is None else session.batch_weight
        self.manager.before_step(executor, self._weight)

    def index_of_loss(self, names: tuple[str, ...]) -> int:
        """Return the index of the loss among the fetches; -1: it is not fetched."""
        at = self._loss_at.get(names)
        if at is None:
            at = self._loss_at[names] = names.index(self._loss) if self._loss in names else -1
        return at

    def note_loss(self, names: tuple[str, ...], results: list[Any]) -> None:
        """Give the loss to the launcher's progress line and the log, if the script has fetched it, at most ten times a second."""
        now = monotonic()
        if now < self._loss_due:
            return
        self._loss_due = now + 0.1
        at = self.index_of_loss(names)
        loss = results[at] if at >= 0 else None
        if isinstance(loss, np.ndarray) and loss.flags.c_contiguous:
            lib.tr_step_end(self.job.ptr, FROM_NUMPY.get(loss.dtype, -1), loss.size, ffi.from_buffer(loss))

    def see(self, names: tuple[str, ...], results: list[Any]) -> None:
        """Note the results that a step has fetched."""
        if self._is_watched:
            self.note_loss(names, results)
        if self.fetched_before is not None:
            self.fetched_before.keep(self.manager.steps, names, results)

    def put_in(self, replay: Replay, names: tuple[str, ...], results: list[Any]) -> None:
        """Replace the stand-ins by the values that the replayed step fetched."""
        step = self.manager.first - replay.steps + replay.made
        for i, name in enumerate(self.fetched(names)):
            found = self.fetched_before.find(step, name) if self.fetched_before is not None else None
            if found is None and step == self.manager.first and self.manager.steps_on_servers and name in self.result.means.values():
                found = self._array(name), []          # a shared number is a parameter, which came from the servers
            if found is not None:
                results[i] = hand_out(found, results[i])
            elif self.fetched_before is not None:
                self.fetched_before.say_unknown(step, names[i])

    def end_replay(self) -> None:
        self.replay = None
        if self.fetched_before is not None:
            self.fetched_before.end_replay()

    def next_program(self) -> Program:
        return self.result.idle if self._weight == 0 and self.result.idle is not None else self.program

    def fetched(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names to fetch instead of these."""
        known = self._names.get(names)
        if known is None:
            for name in names:
                if name in self.result.on_servers:
                    raise NotFoundError(f"{name!r} is computed on the parameter servers: a trainer cannot fetch it")
            known = self._names[names] = tuple([self.result.means.get(name, name) for name in names])
        return known

    def is_replaying(self) -> bool:
        """Return whether the next run is a replayed step."""
        return self.replay is not None and self.replay.made < self.replay.steps

    def steps_made(self) -> int:
        """Return the number of steps that this trainer has made; in a replay, the number of replayed steps."""
        steps, replay = self.manager.steps, self.replay
        return steps if replay is None else steps - replay.steps + replay.made

    def after_loop(self, skipped: int, leased: bool) -> None:
        """Note that a loop has skipped ``skipped`` batches, whose steps were made before. ``leased``: its tasks were leased, so it replays
        no steps."""
        if self.replay is not None:
            self.replay.made += skipped
        if leased:
            self.end_replay()

    def save_by_servers(self, folder: str, step: int, keep: int, position: bytes | None) -> None:
        """Trainer 0: make a checkpoint with the rows of tables, which the servers write."""
        if name := self.name_of_set():
            raise UnsupportedError(f"{name!r} was set after the last step, and the servers, which write this checkpoint, get it with the "
                                   "next one: make a step before you save")
        self.manager.take_whole(folder, keep, position, step)


def _set_zeros(scope: Scope, program: Program, name: str) -> None:
    var = program.global_block().var(name)
    assert var.dtype is not None                       # the servers have such a variable, so its type is known
    scope.var(name).get_tensor().set(np.zeros([dim if dim > 0 else 1 for dim in var.desc.shape()], var.dtype.dtype))


def facts_of(result: Transpiled, first: dict[str, str], own: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return the facts that all trainers must agree on, besides the servers' programs. These are the operators of the trainers' part,
    without the seeds of their random numbers, and the operators that gave their ``first`` values to the servers' variables and to those
    that are the trainers' ``own``.
    """
    facts = [("random seed", str(result.servers[0].random_seed))]
    for i, op in enumerate(result.trainer.global_block().read_ops()):
        text = text_of(op.type, op.inputs, op.outputs, op.attrs, hidden=("seed", "fix_seed"))
        facts.append((f"operator {i} of the trainers", text))
    return facts + facts_of_first_values(result, first, own)


def is_watched() -> bool:
    """Return whether a log or the launcher shows losses."""
    return bool(os.environ.get("TRIREME_LOG")) or os.environ.get("TRIREME_PROGRESS") == "1"
