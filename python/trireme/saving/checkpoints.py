"""Checkpoints of one process, between two runs of a program."""

from __future__ import annotations

from typing import Any

from .._core import lib
from ..checkpoint.folder import claim, say
from ..checkpoint.opened import Checkpoint, find, path_of
from ..checkpoint.state import kinds_of, restore, say_rates
from ..distributed.core_manager import CoreManager
from ..job import job as jobs
from ..job.checkpoint_settings import Settings
from ..job.compression import sends_largest
from ..job.session import session
from ..native.errors import check, check_whole
from ..native.scope import Scope
from ..parameters.sparse_table import table_names
from ..program import Program, default_main_program
from ..run.runner import Runner
from ..run.scopes import global_scope
from .io import _once


def scope_of(one: Any, what: str) -> Scope:
    """Return the scope of an executor (the global one), or the scope itself."""
    if isinstance(one, Runner):
        return global_scope()
    if isinstance(one, Scope):
        return one
    raise TypeError(f"{what}: expected an Executor or a Scope, got {one!r}")


def program_of(program: Program | None, what: str) -> Program:
    program = default_main_program() if program is None else program
    if not isinstance(program, Program):
        raise TypeError(f"{what}: main_program must be a Program, got {program!r}")
    return program


def save_checkpoint(executor: Runner, checkpoint_dir: str, main_program: Program | None = None, *,
                    step: int | None = None, keep: int = 3, position: bytes | None = None) -> str:
    """Write all that persists in ``main_program`` as a checkpoint; return its folder.

    ``step`` (default: how often the executor has run the program) names it, ``position`` is whatever the script needs to
    find its place in the data again. All but the newest ``keep`` checkpoints of the folder are removed. In a job trainer 0
    writes for all, with what the servers have; ``distributed.checkpoint`` does so without stopping the training.

    The folder belongs to this run. A process that has loaded one of its checkpoints goes on with their run. Otherwise the first
    call moves checkpoints of an earlier run into ``checkpoint_dir/aside-DATE``, and a line says so.

    ``checkpoint_dir`` is the folder of all checkpoints; each is a folder in it.

    >>> import tempfile
    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1))
    >>> _ = fluid.optimizer.Adam(0.1).minimize(loss)
    >>> exe = fluid.Executor(fluid.CPUPlace())
    >>> _ = exe.run(fluid.default_startup_program())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = fluid.io.save_checkpoint(exe, folder, step=7)
    ...     fluid.io.load_checkpoint(exe, folder).step
    7
    """
    if not isinstance(executor, Runner):
        raise TypeError(f"save_checkpoint: expected an Executor, got {executor!r}")
    program, scope = program_of(main_program, "save_checkpoint"), global_scope()
    runs = lib.tr_executor_runs(executor._native.ptr, program.desc._native.ptr, scope._native.ptr)
    step = runs if step is None else step
    step = check_whole("save_checkpoint: step", step, 0, (1 << 63) - 1)
    keep = check_whole("save_checkpoint: keep", keep)
    tables = table_names(program)

    def write() -> None:
        _enter(checkpoint_dir)
        if (tables or _trainers_differ(program)) and _save_by_servers(checkpoint_dir, step, keep, position):
            return
        manager = CoreManager(Settings(), None)
        manager.begin(program, scope, kinds_of(program), tables)
        manager.take_whole(checkpoint_dir, keep, position, step, runs)

    _once("save_checkpoint", path_of(checkpoint_dir, step), write)
    return path_of(checkpoint_dir, step)


def _enter(folder: str) -> None:
    """Make the folder this run's: checkpoints of another run there are moved into a folder beside."""
    job = jobs.current()
    if line := claim(folder, lib.TR_ENTRY_JOIN if job is not None and job.is_replacement else lib.TR_ENTRY_ANEW):
        say(line)


def _trainers_differ(program: Program) -> bool:
    """Whether each of several trainers accumulates values of its own, which a checkpoint must have."""
    return jobs.trainer_count() > 1 and sends_largest(program)


def _save_by_servers(folder: str, step: int, keep: int, position: bytes | None) -> bool:
    """In a job whose servers have the rows of tables, or whose trainers differ: let them write. Return whether this is such a job."""
    training = session.training
    if training is None:
        return False
    training.save_by_servers(folder, step, keep, position)
    return True


def load_checkpoint(executor: Runner | Scope, checkpoint_dir: str, main_program: Program | None = None, *,
                    step: int | None = None) -> Checkpoint:
    """Read a checkpoint into the executor's scope, or into a scope; return it.

    It is the newest valid one (``refused`` of what is returned says what was wrong with newer ones), or that of ``step``.
    All that persists in ``main_program`` must be in it, with the program's shapes and types; what is read then is all of
    it, or nothing where one does not fit. A program without optimizers, for inference, takes the parameters alone. An
    executor goes on to draw the random numbers (dropout) that the training would have drawn.

    ``checkpoint_dir`` is the folder that ``save_checkpoint`` was given.

    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1))
    >>> _ = fluid.optimizer.Adam(0.1).minimize(loss)
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> _ = fluid.io.save_checkpoint(exe, "checkpoints", step=7, position=b"epoch 1")
    >>> checkpoint = fluid.io.load_checkpoint(exe, "checkpoints")
    >>> steps, runs, position = checkpoint.trainer()
    >>> checkpoint.step, position
    (7, b'epoch 1')
    """
    scope = scope_of(executor, "load_checkpoint")
    program = program_of(main_program, "load_checkpoint")
    checkpoint = find(checkpoint_dir, step)
    lib.tr_checkpoint_follow(checkpoint._native.ptr)
    say_rates(checkpoint, program, scope)
    restore(checkpoint, scope, program, table_names(program), jobs.trainer_index(), jobs.trainer_count())
    if isinstance(executor, Runner):
        runs = checkpoint.trainer()[1]
        check(lib.tr_executor_set_runs(executor._native.ptr, program.desc._native.ptr, scope._native.ptr, runs))
    return checkpoint
