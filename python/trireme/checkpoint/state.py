"""What a checkpoint keeps of a program: which variables, of which kind, and their values, to the core and back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import ffi, lib
from ..native.dtypes import VarType
from ..native.errors import check
from ..native.names import name_array
from ..native.scope import Scope
from ..parameters.sparse_table import is_table
from ..program import Parameter, Program, Variable
from ..program.variable import is_persistable
from ..program.roles import OpRole
from .folder import say, warn
from .kinds import OPTIMIZER, PARAMETER, SCHEDULE, STATISTIC

if TYPE_CHECKING:
    from .opened import Checkpoint            # a training that begins needs none


def state_variables(program: Program) -> list[Variable]:
    """Return the dense variables that a checkpoint of the program holds."""

    persistable = [block.var(desc.name()) for block in program.blocks for desc in block.desc.persistable_vars()]
    found = [var for var in persistable if is_persistable(var) and not is_table(var)]
    return sorted({var.name: var for var in found}.values(), key=lambda var: var.name)


def kinds_of(program: Program) -> dict[str, tuple[int, str | None]]:
    """Return, for each dense variable that the program keeps, its kind and the parameter that it belongs to."""
    result: dict[str, tuple[int, str | None]] = {}
    moving: set[str] = set()                           # what the forward part writes
    for op in program.global_block().read_ops():
        role = op.role
        if role & OpRole.LRSched:
            result.update(dict.fromkeys([*op.input_arg_names, *op.output_arg_names], (SCHEDULE, None)))
        elif role & OpRole.Optimize and op.input("Param"):
            for slot, names in op.inputs.items():
                kind = SCHEDULE if slot == "LearningRate" else OPTIMIZER
                param = None if kind == SCHEDULE else op.input("Param")[0]
                result.update(dict.fromkeys(names, (kind, param)))
        elif not role & OpRole.Optimize:
            moving.update(op.output_arg_names)
    kept = state_variables(program)
    result.update({var.name: (PARAMETER, None) for var in kept if isinstance(var, Parameter) and var.name not in moving})
    return {var.name: result.get(var.name, (STATISTIC, None)) for var in kept}


def digest_of(program: Program) -> str:
    """Return what tells a program from others: of its operators and variables, not of the lines that made them."""
    return hashlib.sha256(str(program).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def say_where(checkpoint: Checkpoint, program: Program) -> None:
    """Tell the user which checkpoint a training goes on from, and what is odd about it."""
    for line in checkpoint.refused:
        warn(f"{line}: the checkpoint before it is taken")
    if checkpoint.digest and checkpoint.digest != digest_of(program):
        warn(f"the checkpoint {checkpoint.folder!r} is of another program; what it has of this one's variables is taken, and the others "
             "begin anew. If that is not meant, give --checkpoint another folder")
    say(f"going on from step {checkpoint.step}, {checkpoint.folder}")


def say_rates(checkpoint: Checkpoint, program: Program, scope: Scope) -> None:
    """Before a checkpoint is loaded: tell the user of constant learning rates that the script has changed, because those of the checkpoint
    count."""
    written = {name for op in program.global_block().read_ops() for name in op.output_arg_names}
    for name, (kind, _) in kinds_of(program).items():
        var = scope.find_var(name)
        if kind != SCHEDULE or name in written or name not in checkpoint or var is None or var.kind() != VarType.LOD_TENSOR:
            continue
        tensor = var.get_tensor()
        if not tensor._is_initialized():
            continue
        now, then = np.asarray(tensor), checkpoint[name]
        if now.shape == then.shape and now.size == 1 and now.item() != then.item():
            warn(f"{name} is {then.item():.7g} in the checkpoint and {now.item():.7g} in the script: the checkpoint's counts. "
                 f"fluid.global_scope().find_var({name!r}).get_tensor().set(...) changes it after loading")


# -- values ---------------------------------------------------------------------------------------------------------


def restore(checkpoint: Checkpoint, scope: Scope, program: Program, tables: Iterable[str] = (), trainer: int = 0,
            trainers: int = 1) -> None:
    """Give the program's variables and sparse tables their values of a checkpoint: all of them, or none when a variable does not fit.

    What each trainer of a job has values of its own of, this ``trainer`` of so many ``trainers`` gets its own of; of another number of
    trainers their mean.
    """
    count, names, keep = name_array(var.name for var in state_variables(program))
    tables = sorted(tables)                            # in a job all trainers load tables in one order

    def restore_arrays(to: Any) -> None:
        check(lib.tr_checkpoint_restore(to, checkpoint._native.ptr, program.desc._native.ptr, count, names, trainer, trainers))

    restore_arrays(ffi.NULL)                           # do they fit?
    for name in tables:
        checkpoint.find_table(name)
    for name in tables:
        checkpoint.load_table(name, scope)
    restore_arrays(scope._native.ptr)
    del keep
