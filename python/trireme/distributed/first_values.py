"""The operators that gave variables their first values: the operators of startup programs that ran before the first training step.

The servers begin with trainer 0's values, such as loaded parameters that only trainer 0 has. So values cannot be compared between
trainers. The scripts' operators can be compared. If a trainer's script has another learning rate, or other random numbers, than
trainer 0's script, that trainer is reported.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Iterable

from ..native.scope import Scope
from ..program import Program
from ..program.op_view import OpView
from .optimize_part import is_optimize
from .transpiled import Transpiled

_TEXT_MAX = 240

_noted: weakref.WeakKeyDictionary[Scope, dict[str, str]] = weakref.WeakKeyDictionary()


def _said(op: OpView, program: Program) -> str:
    """Return the operator without its output, and the seed of its random numbers; a long text becomes a checksum."""
    text = repr(op).partition(" = ")[2]
    if len(text) > _TEXT_MAX:
        text = f"{text[:_TEXT_MAX]}... (checksum {zlib.crc32(text.encode()):08x})"
    return f"{text}, random seed {program.random_seed}" if op.has_attr("seed") else text


def first_values(program: Program) -> dict[str, str]:
    """Return, for each variable that outlives ``program``, the operator there that writes it first."""
    block = program.global_block()
    found: dict[str, str] = {}
    for op in block.read_ops():
        for name in op.output_arg_names:
            if name not in found and block.has_var(name) and block.var(name).persistable:
                found[name] = _said(op, program)
    return found


def note(program: Program, scope: Scope) -> None:
    """Note the operators of ``program``, which is about to run in ``scope`` before the first training step. Notes of other variables
    stay.
    """
    known = _noted.setdefault(scope, {})
    for name, text in first_values(program).items():
        known.setdefault(name, text)


def noted(scope: Scope) -> dict[str, str]:
    return _noted.get(scope, {})


def facts_of_first_values(result: Transpiled, first: dict[str, str], own: Iterable[str]) -> list[tuple[str, str]]:
    """Return the operators that gave first values to variables that servers begin with and updates read, and to those of the trainers'
    ``own``. In mode geo the trainers' updates count.
    """
    block = result.original.global_block()
    names = [value.source for value in result.values] + result.tables
    names += [name for op in block.read_ops() if is_optimize(op) for name in op.input_arg_names]
    names += own
    return [(f"first value of {name}", first[name]) for name in dict.fromkeys(names) if name in first]
