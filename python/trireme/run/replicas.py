"""A program cut into what each replica computes on its slice of a batch, and what is done once for all of them.

    before    what replicas need but only one may do: waiting for servers, lookups in sparse tables, counters that schedules raise
    replica   forward and backward, for each slice; it reads what persists and writes nothing of it
    update    gradients are summed in the order of the replicas, then optimizers (or the exchange with servers) run as ever, and what reads
              parameters behind them

What a replica hands over has a name of its own, ``w@GRAD@REPLICA@1``, and lives in a scope that all of them see. The gradient of
the loss is scaled by the replica's share of the samples, so a sum of gradients is that of the whole batch.

A variable that persists and that the forward part writes (statistics of batch_norm, counts of a metric) is copied into each
replica first. Afterwards it becomes the mean over samples, or the sum of what each replica added, or that of replica 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..native.dtypes import VarType
from ..native.errors import UnsupportedError
from ..parameters.sparse_table import LOOKUP, PULL
from ..program import Block, Program, Variable
from ..program.op_view import OpView
from ..program.roles import OpRole

SUFFIX = "@REPLICA@"
WEIGHT = "@REPLICA_WEIGHT@"
_ONCE = OpRole.Optimize | OpRole.RPC | OpRole.Dist | OpRole.LRSched
_UPDATES = OpRole.Optimize | OpRole.RPC
_FIRST = frozenset({"prefetch", "recv_wait"})
_LOOKUPS = (LOOKUP, PULL)
_LOOKUP_GRAD = LOOKUP + "_grad"
_FLOATS = (VarType.FP32, VarType.FP64)
_STATISTICS = frozenset({"batch_norm", "sync_batch_norm", "data_norm", "spectral_norm", "assign"})    # their states are means already
# every replica makes the same; the last steps of auc cannot be added up
_COUNTERS = frozenset({"increment", "fill_constant", "a window"})
_Op = tuple[str, dict[str, list[str]], dict[str, list[str]], dict[str, object]]
_SEEDS = 15_485_863                    # between the random numbers of two replicas


class Parts:
    """The parts of ``program``. ``scale`` is whether gradients are scaled by the share of samples, ``own_gradient`` whether the
    script feeds the gradient of the loss itself, ``sync_batch_norm`` whether batch_norm has the statistics of all replicas."""

    def __init__(self, program: Program, scale: bool, own_gradient: bool, sync_batch_norm: bool = False) -> None:
        self.program, self._scale, self._own_gradient, self._sync_batch_norm = program, scale, own_gradient, sync_batch_norm
        block = program.global_block()
        self._block, self._ops = block, block.read_ops()
        self._reads = [_read_by(op) for op in self._ops]
        self.persistable = frozenset(var.name() for var in block.desc.persistable_vars())
        self._find_parts()
        self._find_handed()
        self._refuse_arrays()
        self.lookups = [name for place in sorted(self._early) if self._ops[place].type in _LOOKUPS
                        for name in self._ops[place].output_arg_names]
        self._shared = self._find_shared()
        once = {name for place in self._late | self._early for name in self._ops[place].output_arg_names}
        self.known_once = (once | set(self.handed) | set(self.states)) - set(self.lookups)

    # -- which operator belongs to which part ---------------------------------------------------------------

    def _find_parts(self) -> None:
        ops = self._ops
        self._late = {op.index for op in ops if op.role & _ONCE or op.type == _LOOKUP_GRAD}
        self._early: set[int] = set()
        self._copied_early: set[int] = set()          # of the replicas' operators: they are done in that part, too
        self._copied_late: set[int] = set()
        self._writer: list[dict[str, int]] = []        # before each operator: who wrote a name last, of what it reads
        last: dict[str, int] = {}
        for op, reads in zip(ops, self._reads):
            self._writer.append({name: last[name] for name in reads if name in last})
            last.update(dict.fromkeys(op.output_arg_names, op.index))
        for op in ops:
            if op.type in _LOOKUPS or op.type in _FIRST:
                self._move_ahead(op.index)
        # Operators that read what an update has written, and their readers; and what becomes of the gradients of look-ups.
        behind = {op.index for op in ops if op.type == _LOOKUP_GRAD}
        for op in ops:
            if op.index not in self._late and op.index not in self._early:
                writers = [place for place in self._writer[op.index].values() if place in self._late]
                if any(place in behind or (ops[place].role & _UPDATES and not ops[place].role & OpRole.LRSched) for place in writers):
                    behind.add(op.index)
                    self._late.add(op.index)
                    continue
                for place in writers:
                    self._move_ahead(place)
        for op in ops:
            if op.type == _LOOKUP_GRAD:
                self._copy(self._writer[op.index].get(op.input("Ids")[0]), self._copied_late)
        self._own = [op.index for op in ops if op.index not in self._late and op.index not in self._early]

    def _move_ahead(self, place: int) -> None:
        self._late.discard(place)
        self._early.add(place)
        for writer in self._writer[place].values():
            if writer in self._late:
                self._move_ahead(writer)
            elif writer not in self._early:
                self._copy(writer, self._copied_early)

    def _copy(self, place: int | None, copied: set[int]) -> None:
        """Let the operator, and what it needs of the replicas', be done in another part, too."""
        if place is None or place in copied or place in self._early or place in self._late:
            return
        copied.add(place)
        for writer in self._writer[place].values():
            self._copy(writer, copied)

    # -- what goes from one part to another ---------------------------------------------------------------

    def _find_handed(self) -> None:
        """``handed``: what replicas make and the update reads, and what becomes of it: sum, mean, concat, first. ``states``: what
        persists and is written by replicas: mean, changes, first."""
        own = set(self._own)
        self.states = self._find_states(own)
        self.handed: dict[str, str] = {}
        for place in sorted(self._late):
            op = self._ops[place]
            for name, writer in self._writer[place].items():
                if writer in own and writer not in self._copied_late and name not in self.states:
                    self.handed.setdefault(name, self._what_becomes(op, name, self._ops[writer]))

    def _find_states(self, own: set[int]) -> dict[str, str]:
        writers: dict[str, set[str]] = {}
        readers: dict[str, bool] = {}
        for place in sorted(own):
            op = self._ops[place]
            for name in op.output_arg_names:
                var = self._block._find(name)
                if var is not None and var.persistable and not op.role & OpRole.Backward:      # a gradient is none
                    writers.setdefault(name, set()).add("a window" if op.attrs.get("slide_steps") else op.type)
                    readers[name] = readers.get(name, False) or name in self._reads[place]
        return {name: self._what_state(name, types, readers[name]) for name, types in writers.items()}

    def _what_state(self, name: str, types: set[str], is_read: bool) -> str:
        if types <= _COUNTERS:
            return "first"
        if is_read and not types <= _STATISTICS:
            return "changes"
        return "mean" if self._block.var(name).dtype in _FLOATS else "first"

    def _what_becomes(self, reader: OpView, name: str, writer: OpView) -> str:
        if reader.type == _LOOKUP_GRAD:
            return "concat"
        if writer.role & OpRole.Backward:
            return "sum"
        return "mean" if self._block.var(name).dtype in _FLOATS else "first"

    def _refuse_arrays(self) -> None:
        for name in (*self.handed, *self.states):
            type = self._block.var(name).type
            if type not in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS):
                raise UnsupportedError(f"data parallel: {name!r} goes from the replicas to the update, but is a {type.name}; only tensors "
                                       "and selected rows can be put together. Run this program by Executor.run without with_data_parallel")

    def _find_shared(self) -> list[str]:
        """What is made before and read later, by name: it must persist, so that the other parts see it."""
        made = {name for place in self._early for name in self._ops[place].output_arg_names} - set(self.lookups)
        read = {name for place in (*self._own, *self._late) for name in self._reads[place]}
        return sorted(made & read)

    # -- the programs -------------------------------------------------------------------------------------

    def _part(self, places: Iterable[int]) -> Program:
        part = self.program.clone()
        part.global_block()._arrange(sorted(places))
        for name in self._shared:
            part.global_block().var(name).persistable = True
        return part

    def nothing(self) -> Program:
        """Return the program without operators: a run of it keeps what it is fed of variables that persist."""
        return self._part(())

    def before(self) -> Program | None:
        return self._part(self._early | self._copied_early) if self._early else None

    def replica(self, number: int) -> Program:
        """Return what replica ``number`` runs; it is fed its share of the samples as WEIGHT, float64 [1], and the lookups."""
        program = self._part(self._own)
        program.random_seed = program.random_seed + _SEEDS * number
        block = program.global_block()
        block.create_var(name=WEIGHT, shape=[1], dtype="float64", is_data=True)
        for name in self.lookups:
            block.var(name).is_data = True
        count, order = len(self._own), list(range(len(self._own)))
        added: list[_Op] = []
        for place in [i for i, old in enumerate(self._own) if self._is_loss_gradient(self._ops[old])]:
            self._seed_gradient(block, block.read_ops()[place], place, order, added, count)
        weighted = [name for name, kind in (*self.handed.items(), *self.states.items()) if kind == "mean"]
        for name in weighted:
            order += range(count + len(added), count + len(added) + 2)
            added += _times_weight(block, name)
        block._append_ops(added)
        block._arrange(order)
        self._rename(block, number)
        if self._sync_batch_norm:
            for one in program.blocks:
                _synchronize_norms(one)
        return program

    def _is_loss_gradient(self, op: OpView) -> bool:
        return op.type == "fill_constant" and op.role == OpRole.Backward | OpRole.Loss

    def _seed_gradient(self, block: Block, op: OpView, place: int, order: list[int], added: list[_Op], count: int) -> None:
        at = order.index(place)
        if self._own_gradient:
            del order[at]
        elif self._scale:
            order[at + 1:at + 1] = range(count + len(added), count + len(added) + 2)
            added += _times_weight(block, op.output("Out")[0], OpRole.Backward)

    def _rename(self, block: Block, number: int) -> None:
        """Give what each replica has for itself a name of its own; states begin with the values that all share."""
        mine = {name: f"{name}{SUFFIX}{number}" for name in (*self.handed, *self.states)}
        block._rename_vars(mine)
        for name, own in mine.items():
            var = block.var(own)
            var.persistable = True
            if name in self.states:
                block.create_var(name=name, type=var.type, dtype=var.dtype, shape=var.desc.shape(), lod_level=var.lod_level,
                                 persistable=True)
                block._insert_op(0, "assign", {"X": [name]}, {"Out": [own]}, {"op_role": OpRole.Forward})

    def update(self, count: int) -> Program:
        """Return what is done once when ``count`` replicas have run."""
        program = self._part(self._late | self._copied_late)
        block = program.global_block()
        reader: dict[str, int] = {}                    # of each name: the first operator that reads it
        for op in block.read_ops():
            for name in _read_by(op):
                reader.setdefault(name, op.index)
        before: list[list[int]] = [[] for _ in range(block.desc.op_size() + 1)]
        made: list[_Op] = []
        for name, kind in (*self.handed.items(), *self.states.items()):
            parts = [_declare_like(block, name, f"{name}{SUFFIX}{i}").name for i in range(count)]
            ops = _put_together(block, name, kind, parts)
            at = reader.get(name, 0) if name in self.handed else 0
            before[at] += range(len(before) - 1 + len(made), len(before) - 1 + len(made) + len(ops))
            made += ops
        block._append_ops(made)
        block._arrange([index for at, ops in enumerate(before) for index in (*ops, at)][:-1])
        return program

    def feeds_of(self, program: Program, names: Iterable[str]) -> list[str]:
        """Return those of the fed variables that a part reads."""
        used = program._used_names()
        return [name for name in names if name in used]


def _synchronize_norms(block: Block) -> None:
    """Let each batch_norm of the block, and its gradient, be a sync_batch_norm."""
    ops = block.read_ops()
    norms = [op for op in ops if op.type in ("batch_norm", "batch_norm_grad")]
    if norms:
        order = list(range(len(ops)))
        for number, op in enumerate(norms):
            order[op.index] = len(ops) + number
        block._append_ops([("sync_" + op.type, op.inputs, op.outputs, op.attrs) for op in norms])
        block._arrange(order)


def _read_by(op: OpView) -> list[str]:
    """The names that an operator reads, by the blocks inside it as well."""
    names = dict.fromkeys(op.input_arg_names)
    for inner in op.block.program._sub_blocks(op):
        for one in inner.read_ops():
            names.update(dict.fromkeys(_read_by(one)))
    return list(names)


def _declare_like(block: Block, name: str, new: str) -> Variable:
    old = block.var(name)
    return block.create_var(name=new, type=old.type, dtype=old.dtype, shape=old.desc.shape(), lod_level=old.lod_level, persistable=True)


def _times_weight(block: Block, name: str, role: int = OpRole.Forward) -> list[_Op]:
    """The operators by which a variable is multiplied by the replica's share."""
    weight = f"{WEIGHT}{name}"
    dtype = block.var(name).dtype
    block.create_var(name=weight, shape=[1], dtype=dtype)
    return [("cast", {"X": [WEIGHT]}, {"Out": [weight]}, {"in_dtype": int(VarType.FP64), "out_dtype": dtype, "op_role": role}),
            ("elementwise_mul", {"X": [name], "Y": [weight]}, {"Out": [name]}, {"axis": -1, "op_role": role})]


def _put_together(block: Block, name: str, kind: str, parts: list[str]) -> list[_Op]:
    """The operators that make one variable of what the replicas have handed over."""
    role: dict[str, Any] = {"op_role": OpRole.Backward if kind in ("sum", "concat") else OpRole.Forward}
    if kind == "first":
        return [("assign", {"X": parts[:1]}, {"Out": [name]}, role)]
    if kind == "concat":
        return [("concat", {"X": parts}, {"Out": [name]}, {"axis": 0, **role})]
    if kind != "changes":
        return [("sum", {"X": parts}, {"Out": [name]}, role)]
    if len(parts) == 1:
        return [("assign", {"X": parts}, {"Out": [name]}, role)]
    dtype, shape = block.var(name).dtype, block.var(name).desc.shape()
    total, before = (block.create_var(name=name + SUFFIX + word, dtype=dtype, shape=shape).name for word in ("TOTAL", "BEFORE"))
    return [("sum", {"X": parts}, {"Out": [total]}, role),                 # each has what was there before
            ("scale", {"X": [name]}, {"Out": [before]}, {"scale": float(len(parts) - 1), **role}),
            ("elementwise_sub", {"X": [total], "Y": [before]}, {"Out": [name]}, {"axis": -1, **role})]
