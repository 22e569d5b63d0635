"""Operators outside the optimizers that write what the servers own, or that read a parameter after its update.

In one process an operator before or after ``minimize`` may write a parameter, a learning rate or an optimizer's state: clipping of weights,
a schedule by hand, weights that are normalized before each step. In a job the servers have these variables, so they run such operators,
too:

- An operator that comes before the updates runs on both sides. The trainer computes the step with its result, as one process does.
- One that comes after an update that it reads, or writes again, runs on the servers alone: ``late``.

What such an operator reads must not depend on the data of the step, because the servers do not have them.

An operator that reads a parameter after its update and writes only what is the trainer's own (a moving average, a norm that is printed) is
in ``after``: trainers run it when the new parameters have come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ..native.errors import UnsupportedError
from ..parameters.sparse_table import is_table_update
from ..program import Block, Parameter
from ..program.op_protos import op_proto
from ..program.op_view import OpView


class AroundUpdates:
    """``adopted`` are the places of the operators that the servers run, too; ``late`` are those of them that trainers do not run. ``after``
    are the places of the trainers' operators that need the new parameters, and ``awaited`` maps these to the parameters.
    """

    def __init__(self, block: Block, ops: Sequence[OpView], is_update: Callable[[OpView], bool],
                 is_schedule: Callable[[OpView], bool]) -> None:
        self._block, self._ops = block, ops
        self._is_update, self._is_schedule = is_update, is_schedule
        self.adopted: set[int] = set()
        self.late: set[int] = set()
        self.after: set[int] = set()
        self.awaited: dict[int, list[str]] = {}
        self._on_trainers = [op for op in ops if not (is_update(op) or is_schedule(op))]
        self._of_data: set[str] | None = None          # what the trainers' operators compute from data
        self._tables = {op.input("W")[0] for op in ops if is_table_update(op)}
        self._owned = self._owned_by_servers()
        self._adopt()
        self._find_after()

    def _is_persistable(self, name: str) -> bool:
        var = self._block._find(name)
        return var is not None and var.persistable

    def _owned_by_servers(self) -> set[str]:
        scheduled = {name for op in self._ops if self._is_schedule(op) for name in op.output_arg_names}
        names = {name for op in self._ops if self._is_update(op) for name in (*op.input_arg_names, *op.output_arg_names)}
        return {name for name in names if name not in scheduled and name not in self._tables and self._is_persistable(name)}

    # -- what the servers run, too ------------------------------------------------------------------------

    def _adopt(self) -> None:
        """Adopt the operators that write what the servers own, and those that compute what these read."""
        wanted, before = set(self._owned), -1
        while before != len(wanted):
            before = len(wanted)
            for op in reversed(self._on_trainers):
                if op.index not in self.adopted and wanted.intersection(written_by(op)):
                    self._check(op, wanted)
                    self.adopted.add(op.index)
                    wanted.update(op.input_arg_names)
        self._owned.update(name for name in wanted if self._is_persistable(name))

    def _check(self, op: OpView, wanted: set[str]) -> None:
        written = list(written_by(op))
        what = next((name for name in written if name in self._owned), next(name for name in written if name in wanted))
        proto = op_proto(op.type)
        reason = None
        if op.block_attrs:
            reason = "has a block of its own"
        elif proto is not None and proto.io:
            reason = "reaches beyond the program"
        elif op.has_attr("seed"):
            reason = "draws random numbers, which differ on each rank"
        elif given := next((name for name in op.input_arg_names if self._depends_on_data(name)), None):
            reason = f"reads {given!r}, which depends on the data of the step"
        if reason:
            raise UnsupportedError(f"{op.type} writes {what!r}, which the parameter servers have, so they must run it, too; but it "
                                   f"{reason}. Set the variable between two steps instead, by its tensor's `set` or by a program of its "
                                   "own")

    def _is_data(self, name: str) -> bool:
        var = self._block._find(name)
        return var is not None and var.is_data

    def _depends_on_data(self, name: str) -> bool:
        if self._of_data is None:
            self._of_data = set()
            for op in self._on_trainers:
                if any(name in self._of_data or self._is_data(name) for name in read_by(op)):
                    self._of_data.update(written_by(op))
        return name in self._of_data or self._is_data(name)

    # -- what needs the new parameters ----------------------------------------------------------------------

    def _find_after(self) -> None:
        updated: set[str] = set()                      # what the servers have updated, up to this operator
        made: set[str] = set()                         # what operators in ``after`` write
        own: set[str] = set()                          # what they read and write
        for op in self._ops:
            if self._is_schedule(op):
                continue
            reads, writes = set(read_by(op)), set(written_by(op))
            is_late = op.index in self.adopted and bool(updated.intersection(reads | writes))
            if is_late:
                self.late.add(op.index)
            if is_late or self._is_update(op):
                self._require_first(op, made.intersection(reads))
                self._require_last(op, own.intersection(writes))
                updated.update(writes)
            elif op.index not in self.adopted and (updated.intersection(reads) or own.intersection(reads | writes)):
                self.after.add(op.index)
                self.awaited[op.index] = sorted(updated.intersection(reads))
                made.update(writes)
                own.update(reads | writes)

    def _require_first(self, op: OpView, given: set[str]) -> None:
        if given:
            raise UnsupportedError(f"{op.type} reads {min(given)!r}, which operators before it compute from parameters that an optimizer "
                                   "has updated; in a job all gradients of a step are of the same parameters. Minimize the sum of the "
                                   "losses")

    def _require_last(self, op: OpView, seen: set[str]) -> None:
        if seen:
            raise UnsupportedError(f"{op.type} updates {min(seen)!r}, which an operator before it reads between two updates; in a job "
                                   "trainers see a parameter after all updates of a step. Put that operator behind the last update")

    def repeatable(self) -> list[int]:
        """Return the places of the operators in ``after`` that depend on no data of the step, and of those that make what these read."""
        places = {i for i in self.after if not any(self._depends_on_data(name) for name in read_by(self._ops[i]))}
        wanted = {name for i in places for name in read_by(self._ops[i])}
        for op in reversed(self._on_trainers):
            made = {name for name in written_by(op) if not self._is_persistable(name)}
            if op.index not in self.after and made.intersection(wanted):
                places.add(op.index)
                wanted.update(read_by(op))
        return sorted(places)

    def require(self, params: Iterable[str]) -> None:
        """Refuse operators in ``after`` that read what does not come back from the servers."""
        known = set(params)
        for op in self._ops:
            if op.index not in self.after:
                continue
            for name in self.awaited[op.index]:
                if name not in known:
                    raise UnsupportedError(f"{op.type} reads {name!r} after the optimizers have changed it; it is on the parameter "
                                           "servers, and only parameters come back from there")


def find_observers(ops: Iterable[OpView]) -> set[int]:
    """Return the places of those of the optimizers' operators that no update needs, and that read nothing but parameters of what updates
    write: moving averages of parameters.
    """
    left, wanted, params, before = list(ops), set[str](), set[str](), -1
    updates: list[OpView] = []
    while before != len(left):
        before, rest = len(left), []
        for op in reversed(left):
            trained = [name for name in op.output_arg_names if isinstance(op.block._find(name), Parameter)]
            is_named = bool(op.attrs.get("op_role_var")) or bool(op.input("Param"))          # as one of a parameter
            if trained or is_named or is_table_update(op) or wanted.intersection(op.output_arg_names):
                params.update(trained)
                wanted.update(op.input_arg_names)
                updates.append(op)
            else:
                rest.append(op)
        left = rest[::-1]
    hidden = {name for op in updates for name in op.output_arg_names} - params
    places: set[int] = set()
    for op in left:
        if hidden.intersection(op.input_arg_names):
            hidden.update(op.output_arg_names)
        else:
            places.add(op.index)
    return places


def _with_blocks(op: OpView) -> Iterator[OpView]:
    yield op
    for inner in op.block.program._sub_blocks(op):
        for one in inner.read_ops():
            yield from _with_blocks(one)


def read_by(op: OpView) -> list[str]:
    """Return the names that an operator reads, also those that its blocks read."""
    if not op.block_attrs:
        return list(dict.fromkeys(op.input_arg_names))
    return list(dict.fromkeys(name for one in _with_blocks(op) for name in one.input_arg_names))


def written_by(op: OpView) -> list[str]:
    """Return the names that an operator writes, also those that its blocks write."""
    if not op.block_attrs:
        return list(dict.fromkeys(op.output_arg_names))
    return list(dict.fromkeys(name for one in _with_blocks(op) for name in one.output_arg_names))
