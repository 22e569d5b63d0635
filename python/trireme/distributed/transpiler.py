"""From one training program: the programs of each trainer and each server.

A trainer keeps the forward and backward part. It sends each gradient as soon as the gradient exists. When the servers have all of them
(``send_barrier``), the trainer asks for the new parameters, and its run returns. The next run waits for each parameter where it first
reads it (``recv_wait``). Rows of sparse tables are looked up at the servers (``pull_sparse``), and their gradients go there
(``push_sparse``). A server runs the optimizers' operators on the rows that it holds: the same operators, in the same order, as one process
would.

The loss, and the variables of ``all_mean``, travel like a gradient whose update is "take the mean". So a trainer that fetches such a
variable gets the mean over the samples of all trainers.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from math import prod
from typing import Any

from ..job.mode import Mode, current
from ..native.dtypes import VarType, convert_dtype
from ..native.errors import InvalidArgumentError, UnsupportedError
from ..native.gc_pause import gc_paused
from ..parameters.sparse_table import LOOKUP, PULL, PUSH, copy_update, is_table_update, take_pushed
from ..program import Block, Program
from ..program.op_desc import OpDesc
from ..program.op_protos import STRING
from ..program.op_view import OpView
from ..program.roles import OpRole
from .around_updates import read_by, written_by
from .geo import transpile_geo
from .optimize_part import COPIES, EXCHANGED, POINTWISE_ON, OptimizePart, is_training
from .own import append_keep, own_variables
from .placement import Item, Part, by_server, place
from .transpiled import ParamBlock, Transpiled, Value, trainer_copy

MEAN = "@MEAN"
ROWS = "@ROWS"
_OF_PARTS = frozenset({"op_role_var", "shape"})       # attributes whose value may differ on a server


def transpile(program: Program, servers: int, *, min_block_bytes: int = 32768, slice_params: bool = True,
              trainer: int = 0, mode: Mode | None = None) -> Transpiled:
    """Return the programs of ``trainer`` and of each of the ``servers`` for a training program."""
    mode = mode or current()
    if servers < 1:
        raise InvalidArgumentError(
            "this job has no server: start some beside the trainers, "
            "`trireme launch --servers 1 ...` or `mpirun -np 1 trireme-pserver : -np 2 python train.py`; "
            "TRIREME_LOCAL=1 in the environment trains each process by itself")
    if not is_training(program):
        raise InvalidArgumentError("there is nothing to distribute: the program has no optimizer (call minimize first)")
    with gc_paused():
        return _cut(program, servers, min_block_bytes, slice_params, trainer, mode)


def _cut(program: Program, servers: int, min_block_bytes: int, slice_params: bool, trainer: int, mode: Mode) -> Transpiled:
    part = OptimizePart(program, joint_on_trainers=mode.trains_copies or not mode.is_lockstep, trains_copies=mode.trains_copies)
    if not mode.trains_copies:
        part.require_separate(servers)
    items = [item_of(part, name, slice_params) for name in part.params]
    parts = place(items, servers, min_block_bytes)
    if mode.trains_copies:
        result = transpile_geo(program, parts, servers, trainer, mode, list(part.tables))
        for own in filter(None, (result.trainer, result.idle)):
            if prefetch := _prefetch_of(own.global_block(), part.tables):
                own.global_block()._insert_op(0, *prefetch)
            _pull_rows(own, part.tables)
        return result
    means = averaged(program) if mode.is_lockstep else []
    result = Transpiled(program, [], [], [], {name: name + MEAN for name in means}, mode, list(part.tables),
                        original=program)
    result.read_alone = set(means).difference(losses(program))
    for server, mine in enumerate(by_server(parts, servers)):
        result.servers.append(_ServerProgram(part, mine, server, servers, result).build(means if server == 0 else ()))
    order = {name: i for i, name in enumerate(part.params)}
    result.blocks.sort(key=lambda block: (order.get(block.source, len(order)), block.begin))
    result.trainer = _trainer_program(program, part, result, trainer)
    _divide_values(part, result)
    return result


def _divide_values(part: OptimizePart, result: Transpiled) -> None:
    """Find which of the servers' variables a trainer gets when it reads them, and which it cannot get."""
    used, written = set[str](), set[str]()
    for op in result.trainer.global_block().read_ops():
        used.update(read_by(op))
        written.update(written_by(op))
    updated = {name for op in part.ops if part.is_update(op) for name in op.output_arg_names}
    params = {block.source for block in result.blocks}
    result.remote = {value.source for value in result.values if value.source in updated
                     or value.source not in used} - written - params - result.fed
    result.on_servers = updated - used - written - result.remote


def item_of(part: OptimizePart, name: str, slice_params: bool) -> Item:
    shape, dtype = part.shape(name), part.var(name).dtype
    if dtype not in (VarType.FP32, VarType.FP64):
        raise UnsupportedError(f"parameter {name!r} is {dtype}; the servers sum gradients of float32 and float64")
    row = dtype.dtype.itemsize * prod(shape[1:])
    return Item(name, shape[0], row, is_whole=not (slice_params and part.can_be_cut(name)), arrays=part.arrays_of(name))


def losses(program: Program) -> list[str]:
    """Return the names of the losses: the variables that the program minimizes."""
    return [name for op in program.global_block().read_ops() if op.role & OpRole.Loss and not op.role & OpRole.Backward
            for name in op.output_arg_names]


def averaged(program: Program) -> list[str]:
    """Return the losses and the variables of all_mean: numbers that are averaged over the trainers."""
    block = program.global_block()
    names = losses(program)
    names += getattr(program, "_means", [])

    def fits(name: str) -> bool:
        var = block._find(name)
        return (var is not None and var.type == VarType.LOD_TENSOR and var.dtype in (VarType.FP32, VarType.FP64)
                and all(dim > 0 for dim in var.desc.shape()))
    return [name for name in dict.fromkeys(names) if fits(name)]


# -- a server's program -------------------------------------------------------------------------------------


class _ServerProgram:
    """Builds the program of one server, and adds its blocks and first values to the result."""

    def __init__(self, part: OptimizePart, mine: dict[str, Part], server: int, servers: int, result: Transpiled) -> None:
        self.part, self.server, self.result, self.is_shared = part, server, result, servers > 1
        self.mine = mine
        self.program = Program()
        self.program.random_seed = part.block.program.random_seed
        self.block = self.program.global_block()
        self._names: dict[tuple[str, str | None], str] = {}    # by variable and parameter: the name in this program

    def build(self, means: Iterable[str]) -> Program:
        for name, one in self.mine.items():
            here, grad = self._var(name, one), self._var(self.part.grad_of[name], one)
            self.result.add_block(here, grad, self.server, self.part.var(name), one.begin, one.end)
        for table, grad in self.part.tables.items():
            if self.part.is_clipped(table):
                take_pushed(table, self._var(grad, None), self.part.var(grad).desc.shape()[1], self.program)
        for op, owner in self.part.ops_of(self.mine):
            if is_table_update(op):
                copy_update(op, self.program, lambda name: self._var(name, None), self.part.is_clipped(op.input("W")[0]))
            elif op.type in EXCHANGED and self.is_shared:
                self._exchange(op)
            else:
                self._copy(op, self.mine.get(owner or ""))
        for name in means:
            self._add_mean(name)
        return self.program

    def _add_mean(self, name: str) -> None:
        var = self.part.var(name)
        mean = self.block.create_var(name=name + MEAN, shape=var.desc.shape(), dtype=var.dtype, persistable=True)
        self.block.create_var(name=name, shape=var.desc.shape(), dtype=var.dtype)
        self.block._append_anywhere("assign", {"X": name}, {"Out": mean}, {"op_role": OpRole.Optimize})
        self.result.add_block(mean.name, name, self.server, var)
        self.result.values.append(Value(self.server, mean.name, name + MEAN))

    def _var(self, name: str, one: Part | None) -> str:
        """Return the name of a variable in this program; declare a new one."""
        key = name, one.name if one is not None else None
        here = self._names.get(key)
        if here is None:
            here = self._names[key] = self._declare(name, one)
        return here

    def _declare(self, name: str, one: Part | None) -> str:
        part = self.part
        owner = part.owner.get(name)
        mine = self.mine.get(owner or "") if one is None else one
        if mine is not None and mine.name != owner:
            mine = None
        here = name if mine is None else name + mine.suffix
        if self.block.desc.has_var_recursive(here):
            return here
        var = part.var(name)
        shape = list(part.shape(name))
        cut = mine if mine is not None and mine.count > 1 and part.is_cut_like(name, mine.name) else None
        if cut is not None:
            shape[0] = cut.rows
        is_fed = var.is_data                           # such as a learning rate that is fed: each step sets it
        if is_fed:
            shape = [dim if dim > 0 else 1 for dim in shape]
            self.result.fed.add(name)
        is_kept = var.persistable or is_fed
        type = var.type if part.is_of_table(name) else VarType.LOD_TENSOR
        self.block.desc.declare_var(here, type, var.dtype, shape, is_kept)
        if is_kept:
            rows = (-1, -1) if cut is None else (cut.begin, cut.end)
            self.result.values.append(Value(self.server, here, name, *rows))
        return here

    def _copy(self, op: OpView, one: Part | None) -> None:
        is_copy = self._is_copy(op)
        desc = OpDesc("assign") if is_copy else op.desc.copy()
        for slot, names in op.inputs.items():
            here = [self._var(name, one) for name in names]
            if is_copy or here != names:
                desc.set_input(slot, here)
        if self.part.is_lazy(op):
            desc.set_input("Grad", [self._rows_of(self._var(name, one), op) for name in op.input("Grad")])
        for slot, names in op.outputs.items():
            here = [self._var(name, one) for name in names]
            if is_copy or here != names:
                desc.set_output(slot, here)
        for name in () if is_copy else _OF_PARTS.intersection(op.attrs):
            value = self._attr(op, name, one)
            if value != op.attr(name):
                desc.set_attr(name, value, desc.attr_type(name))
        if is_copy or not op.has_attr("op_role"):
            desc.set_attr("op_role", op.role)
        if one is not None and self.part.is_pointwise_on(op, one.name):
            desc.set_attr(POINTWISE_ON, self._var(one.name, one), STRING)
        self.block.desc.insert_op(-1, desc)

    def _rows_of(self, grad: str, op: OpView) -> str:
        """Append the operator that makes a sparse gradient of a gradient that has travelled dense. Return the sparse gradient's name."""
        var = self.block.var(grad)
        rows = self.block.create_var(name=grad + ROWS, type=VarType.SELECTED_ROWS, shape=[-1, *var.desc.shape()[1:]], dtype=var.dtype)
        self.block._append_anywhere("nonzero_rows", {"X": grad}, {"Out": rows}, {"op_role": op.role})
        return rows.name

    def _is_copy(self, op: OpView) -> bool:
        """Return whether an operator that merges rows only copies here. Gradients travel dense, and the rows that trainers push to a
        table come merged.
        """
        if op.type not in COPIES:
            return False
        source, = op.input("X")
        is_pushed = op.type == "merge_selected_rows" and source in self.part.tables.values()
        return is_pushed or not self.part.is_of_table(source)

    def _exchange(self, op: OpView) -> None:
        """Compute the operator from the blocks and rows of all servers. Every server takes part, even one that has none."""
        desc = OpDesc(EXCHANGED[op.type])
        out, = op.output("Out")
        desc.set_input("X", [self._var(name, None) for name in op.input("X")
                             if self.part.owner.get(name) in self.mine or self.part.is_of_table(name)])
        desc.set_output("Out", [self._var(out, None)])
        desc.set_attr("dtype", int(convert_dtype(self.part.var(out).dtype)))
        desc.set_attr("op_role", op.role)
        self.block.desc.insert_op(-1, desc)

    def _attr(self, op: OpView, name: str, one: Part | None) -> Any:
        value = op.attr(name)
        if name == "op_role_var":
            return [self._var(var, one) if self.part.owner.get(var) in self.mine else var for var in value]
        if one is not None and one.count > 1 and name == "shape" and tuple(value) == self.part.shape(one.name):
            return [one.rows, *value[1:]]
        return value


# -- a trainer's program ------------------------------------------------------------------------------------


class Edit:
    """Changes of a block's operators, which ``finish`` makes all at once. A single change takes a time that grows with the block."""

    def __init__(self, block: Block) -> None:
        self.block, self.count = block, block.desc.op_size()
        self.removed: set[int] = set()
        self._made: list[tuple[Any, ...]] = []
        self._ahead: dict[int, list[int]] = {}         # by place: the operators in front of it, the first last
        self._behind: dict[int, list[int]] = {}        # by place: the operators after it, the last first

    def _place_of(self, op: tuple[Any, ...]) -> int:
        self._made.append(op)
        return self.count + len(self._made) - 1

    def insert_ahead(self, place: int, *op: Any) -> None:
        """Put an operator (type, inputs, outputs, attributes) before the one at ``place``, and before operators that were put there
        earlier.
        """
        self._ahead.setdefault(place, []).append(self._place_of(op))

    def insert_behind(self, place: int, *op: Any) -> None:
        """Put an operator directly after the one at ``place``, before operators that were put there earlier."""
        self._behind.setdefault(place, []).append(self._place_of(op))

    def finish(self) -> None:
        order: list[int] = []
        for at in range(self.count):
            order += reversed(self._ahead.get(at, ()))
            if at not in self.removed:
                order.append(at)
            order += reversed(self._behind.get(at, ()))
        self.block._append_ops(self._made)
        self.block._arrange(order)


def _trainer_program(program: Program, part: OptimizePart, result: Transpiled, trainer: int) -> Program:
    copy = trainer_copy(program, trainer)
    block = copy.global_block()
    mine = [op.index for op in block.read_ops() if part.runs_on_trainers(op)]
    after = [i for i in mine if i in part.around.after]      # they come last, behind the new parameters
    block._arrange([i for i in mine if i not in part.around.after] + after)
    make_dense(copy, part)
    by_source: dict[str, list[ParamBlock]] = {}
    for one in result.blocks:
        by_source.setdefault(one.source, []).append(one)
    writers = writers_of(block)
    lasting = {name for name in part.grads if make_lasting(block, name, writers.get(name, []))}
    pulled = [*result.means, *_insert_exchange(block, part, result, by_source, writers, lasting, len(mine) - len(after))]
    first_after = block.desc.op_size() - len(after)
    for name, mean in result.means.items():
        var = block.var(name)
        block.create_var(name=mean, shape=var.desc.shape(), dtype=var.dtype, persistable=True)
    append_keep(block, own_variables(copy, [*part.params, *result.means.values(), *lasting]))
    outs = [result.means.get(name, name) for name in pulled]
    # Ask for the parameters before the step is settled: the servers answer when it is. This saves one round trip.
    barrier: dict[str, Any] = {"waits": False, "op_role": OpRole.RPC}
    arrived = {**barrier, "waits": bool(after)}
    block._append_ops([
        ("send_barrier", {"X": [*part.grads, *result.means]}, {}, barrier),
        *[("recv", {}, {"Out": [out]}, {"recv_varnames": [one.param for one in by_source[name]], "op_role": OpRole.RPC})
          for name, out in zip(pulled, outs)],
        ("fetch_barrier", {}, {"Out": outs}, arrived)])
    if after:
        end = first_after + len(after)
        block._arrange([*range(first_after), *range(end, block.desc.op_size()), *range(first_after, end)])
        result.after = _alone(program, trainer, part.around.repeatable())
    used = copy._used_names()
    for name in dict.fromkeys(name for op in part.ops for name in op.output_arg_names):
        unused = None if name in used else block._find(name)
        if unused is not None and not unused.persistable and not unused.is_data:
            block._remove_var(name)
    return copy


def writers_of(block: Block) -> dict[str, list[int]]:
    """Return, for each variable, the places of the operators that write it, in order, each operator once."""
    writers: dict[str, list[int]] = {}
    for op in block.read_ops():
        for name in dict.fromkeys(op.output_arg_names):
            writers.setdefault(name, []).append(op.index)
    return writers


def _insert_exchange(block: Block, part: OptimizePart, result: Transpiled, pieces: dict[str, list[ParamBlock]],
                     writers: dict[str, list[int]], lasting: set[str], count: int) -> list[str]:
    """Send each gradient after its last writer, and wait for each parameter before its first reader among the first ``count`` operators.
    Return the parameters in the order of the waits.
    """
    waits, waited = first_readers(block, part.params, count)
    edit = Edit(block)
    for name in sorted([*part.grads, *result.means], key=lambda name: writers[name][-1], reverse=True):
        edit.insert_behind(writers[name][-1], "send", {"X": [name]}, {},
                           {"send_varnames": [one.grad for one in pieces[part.grads.get(name, name)]],
                            "zero_copy": name in lasting, "op_role": OpRole.RPC})
    for table, grad in part.tables.items():
        edit.insert_behind(writers[grad][-1], PUSH, {"Grad": [grad]}, {}, {"table": table, "op_role": OpRole.RPC})
    for index, names in waits:
        edit.insert_ahead(index, "recv_wait", {"X": names}, {},
                          {"recv_varnames": [one.param for name in names for one in pieces[name]], "op_role": OpRole.RPC})
    prefetch = _prefetch_of(block, part.tables)
    if prefetch:
        edit.insert_ahead(0, *prefetch)
    edit.insert_ahead(0, "send_sets", {}, {}, {"op_role": OpRole.RPC})
    edit.finish()
    _pull_rows(block.program, part.tables)
    return waited


def _alone(program: Program, trainer: int, places: Sequence[int]) -> Program | None:
    """Return a program of the operators at these places."""
    if not places:
        return None
    copy = trainer_copy(program, trainer)
    block = copy.global_block()
    block._arrange(list(places))
    for i in range(block.desc.op_size()):
        block.desc.op(i).set_attr("op_role", OpRole.RPC)         # it trains nothing by itself
    return copy


def make_lasting(block: Block, grad: str, writers: Sequence[int]) -> bool:
    """Give a gradient memory of its own, which does not change until the next run writes it. The gradient is sent from there, perhaps
    again when a server has died. Return False where that is impossible: an operator with a block may write at any time.
    """
    if len(writers) != 1 or block.read_ops()[writers[0]].block_attrs:
        return False
    block.var(grad).persistable = True
    return True


def first_readers(block: Block, params: Iterable[str], count: int) -> tuple[list[tuple[int, list[str]]], list[str]]:
    """Return the places of the operators, of the first ``count``, that first read parameters, each with these parameters; and all
    parameters in that order.
    """
    left = dict.fromkeys(params)
    waits: list[tuple[int, list[str]]] = []
    for op in block.read_ops()[:count]:
        names = [name for name in read_by(op) if name in left]
        if names:
            waits.append((op.index, names))
        for name in names:
            del left[name]
    return waits, [name for _, names in waits for name in names] + list(left)


def _prefetch_of(block: Block, tables: Iterable[str]) -> tuple[Any, ...] | None:
    """Return the operator that asks for the rows that lookups of these tables need, where their keys are fed."""
    wanted = [(op.input("W")[0], op.input("Ids")[0]) for op in block.read_ops() if op.type == LOOKUP and op.input("W")[0] in tables]
    wanted = [(table, ids) for table, ids in wanted if block.has_var(ids) and block.var(ids).is_data]
    if not wanted:
        return None
    return ("prefetch", {"X": [ids for _, ids in wanted]}, {}, {"table_names": [table for table, _ in wanted], "op_role": OpRole.RPC})


def _pull_rows(program: Program, tables: Container[str]) -> None:
    """Replace the lookups in these tables, whose rows the servers have."""
    for block in program.blocks:
        edit = Edit(block)
        for op in block.read_ops():
            if op.type == LOOKUP and op.input("W")[0] in tables:
                kept = {name: op.desc.attr(name) for name in ("padding_idx", "width", "op_role", "op_callstack") if op.desc.has_attr(name)}
                edit.removed.add(op.index)
                edit.insert_behind(op.index, PULL, {"Ids": op.input("Ids")}, {"Out": op.output("Out")}, {"table": op.input("W")[0], **kept})
        if edit.removed:
            edit.finish()


def make_dense(program: Program, part: OptimizePart) -> None:
    """Make the gradients of embeddings dense: a block of memory travels."""
    for block in program.blocks:
        for op in block.read_ops():
            if op.attrs.get("is_sparse"):
                block.desc.op(op.index).set_attr("is_sparse", False)
        for desc in block.desc.vars_of_type(VarType.SELECTED_ROWS):
            param = part.all_owners.get(desc.name(), desc.name().split("@GRAD")[0])
            if param not in part.tables:
                shape = part.var(param).desc.shape() if part.block.has_var(param) else desc.shape()
                desc.set_type(VarType.LOD_TENSOR)
                desc.set_shape(shape)
    if part.kept:
        _copy_instead_of_merging(program.global_block(), part)


def _copy_instead_of_merging(block: Block, part: OptimizePart) -> None:
    """Replace operators that merge the rows of a gradient by copies, where the gradient is dense."""
    edit = Edit(block)
    for op in block.read_ops():
        if op.type in COPIES and not part.is_of_table(op.output("Out")[0]):
            edit.removed.add(op.index)
            edit.insert_behind(op.index, "assign", {"X": op.input("X")}, {"Out": op.output("Out")}, {"op_role": OpRole.Optimize})
    edit.finish()
