"""What a trainer of a job computes, as a program that needs no server: it ends with the gradients. ``trireme simulate`` measures it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..native.dtypes import VarType
from ..program import Program
from .optimize_part import OptimizePart
from .placement import Item
from .transpiled import trainer_copy
from .transpiler import Edit, averaged, first_readers, item_of, make_dense, make_lasting, writers_of


@dataclass(frozen=True)
class Mark:
    """A place where a trainer waits for these parameters, or (``is_send``) sends their gradients, or averaged variables. ``of_lookup``:
    the place in front of a look-up of a table, or (``is_send``) behind it."""

    names: tuple[str, ...]
    is_send: bool
    of_lookup: bool = False


class ComputingPart:
    """The trainers' part of a training program.

    ``items`` are the dense parameters as the transpiler places them, ``averaged`` the bytes of the variables that travel like gradients.
    ``tables`` maps sparse tables to the variables that hold the keys of their lookups.
    """

    def __init__(self, program: Program) -> None:
        self._source = program
        self.part = OptimizePart(program)
        self.items: list[Item] = [item_of(self.part, name, True) for name in self.part.params]
        block = program.global_block()
        self.averaged: dict[str, int] = {}
        for name in averaged(program):
            var = block.var(name)
            size = 8 if var.dtype == VarType.FP64 else 4
            for dim in var.desc.shape():
                size *= dim
            self.averaged[name] = size
        self.tables: dict[str, list[str]] = {name: [] for name in self.part.tables}
        for op in block.read_ops():
            if op.type == "lookup_sparse_table" and op.inputs["W"][0] in self.tables:
                self.tables[op.inputs["W"][0]] += op.inputs["Ids"]

    def program(self, call: Callable[[Mark], int] | None = None) -> Program:
        """Return the program. ``call`` gives the number of a registered function that is called at a mark; None: there are no marks."""
        copy = trainer_copy(self._source, 0)
        block = copy.global_block()
        mine = [op.index for op in block.read_ops() if self.part.runs_on_trainers(op)]
        block._arrange(mine)
        make_dense(copy, self.part)
        writers = writers_of(block)
        for name in [*self.part.grads, *self.part.tables.values()]:
            if name in writers and not make_lasting(block, name, writers[name]):
                block.var(name).persistable = True
        if call is None:
            return copy
        edit = Edit(block)
        sends = {**self.part.grads, **{name: name for name in self.averaged}, **{grad: table for table, grad in self.part.tables.items()}}
        for grad in sorted(sends, key=lambda name: writers[name][-1], reverse=True):
            edit.insert_behind(writers[grad][-1], *_called(call(Mark((sends[grad],), True))))
        waits, _ = first_readers(block, self.part.params, len(mine))
        for index, names in waits:
            edit.insert_ahead(index, *_called(call(Mark(tuple(names), False))))
        for op in block.read_ops():
            if op.type == "lookup_sparse_table" and op.inputs["W"][0] in self.tables:
                table = (op.inputs["W"][0],)
                edit.insert_ahead(op.index, *_called(call(Mark(table, False, True))))
                edit.insert_behind(op.index, *_called(call(Mark(table, True, True))))
        edit.finish()
        return copy


def _called(number: int) -> tuple[object, ...]:
    attrs = {"forward_callable_id": number, "backward_callable_id": -1, "backward_skip_vars": []}
    return ("py_func", {}, {}, attrs)
