"""Sparse tables: embeddings whose rows are made when they are first trained, here or on the servers.

``layers.embedding(is_distributed=True)`` makes one. Its parameter has no memory of its shape: the startup program makes an
empty table (``lookup_sparse_table_init``), rows are looked up by any int64 key (``lookup_sparse_table``), and the optimizer's
operators run on a *tile*, a parameter of some rows, into which rows are gathered: they stand in a block of their own, which
``lookup_sparse_table_update`` runs.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

from .._core import lib
from ..native.dtypes import VarType, convert_dtype
from ..native.errors import UnsupportedError, user_line
from ..program import Block, Operator, Parameter, Program, Variable, default_main_program, default_startup_program
from ..program.op_desc import OpDesc
from ..program.op_protos import op_proto
from ..program.op_view import OpView
from ..program.roles import OpRole
from .layer_helper import LayerHelper
from .param_attr import WeightNormParamAttr

INIT, LOOKUP, UPDATE, PULL, PUSH, PUSHED = ("lookup_sparse_table_init", "lookup_sparse_table", "lookup_sparse_table_update", "pull_sparse",
                                            "push_sparse", "pushed_rows")
_TILE = "@TILE"
_MOST_VALUES = 1 << 44                # TR_MAX_BYTES (framework/base/size.h), in values of 8 bytes
_INITIALIZERS = {"fill_constant": ("constant", "value", None), "uniform_random": ("uniform", "min", "max"),
                 "gaussian_random": ("normal", "mean", "std"),
                 "truncated_gaussian_random": ("truncated_normal", "mean", "std")}


# What these make of a sparse gradient has each row once; what those make does if what they read has.
_MERGING = frozenset(("merge_selected_rows", "clip", "clip_by_norm"))
_SCALING = frozenset(("elementwise_mul", "elementwise_div"))


class TableOptions(NamedTuple):
    """What ``embedding`` says of a table beside its size; see there."""

    row_dtype: Any = "float32"
    entry_count: int = 0
    entry_probability: float = 1.0
    max_age: int = 0
    keep_count: int = 0
    max_rows: int = 0
    memory: Any = 0
    spill: Any = ""

    def check(self) -> VarType:
        """Return the type of the rows."""
        try:
            dtype = convert_dtype(self.row_dtype)
        except TypeError:
            dtype = None
        if dtype not in (VarType.FP32, VarType.FP16, VarType.BF16):
            raise ValueError(f"embedding: row_dtype must be float32, float16 or bfloat16, got {self.row_dtype!r}")
        for name in ("entry_count", "max_age", "keep_count", "max_rows"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"embedding: {name} must be an int of at least 0, got {value!r}")
        if not isinstance(self.entry_probability, numbers.Real) or not 0 < self.entry_probability <= 1:
            raise ValueError(f"embedding: entry_probability must be above 0 and at most 1, got {self.entry_probability!r}")
        if self.keep_count and not self.max_age:
            raise ValueError("embedding: keep_count says which rows max_age spares; give max_age, too")
        self._check_spill()
        return dtype

    def _check_spill(self) -> None:
        if not isinstance(self.spill, (str, os.PathLike)):
            raise TypeError(f"embedding: spill must be a folder, got {self.spill!r}")
        if bool(self.memory) != bool(self.spill):
            raise ValueError("embedding: memory says how much of the table stays in memory, spill the folder for the rest; give both or "
                             f"none, got memory={self.memory!r}, spill={self.spill!r}")

    @property
    def memory_bytes(self) -> int:
        from ..native.sizes import parse_bytes             # here: few scripts have such tables

        return parse_bytes("embedding: memory", self.memory) if self.memory else 0


def is_table_update(op: Operator | OpView) -> bool:
    return op.type == UPDATE


def table_names(program: Program) -> set[str]:
    """The names of the tables that the program looks up or updates."""
    ops = [op for block in program.blocks for op in block.ops]
    return {op.input("W")[0] for op in ops if op.type in (LOOKUP, UPDATE)} | {op.attr("table") for op in ops if op.type == PULL}


# -- a table and its lookups --------------------------------------------------------------------------------


def lookup(helper: LayerHelper, ids: Variable, size: Sequence[int], dtype: Any, padding_idx: int,
           options: TableOptions) -> Variable:
    """Append a lookup in the table that ``helper.param_attr`` names, which is made when it is new."""
    row_dtype = options.check()
    if convert_dtype(dtype) != VarType.FP32:
        raise ValueError(f"embedding: what is looked up in a distributed table is float32, got dtype={dtype!r}; "
                         "row_dtype='float16' stores its rows in half the memory")
    startup = default_startup_program().global_block()
    attr = helper.param_attr
    if isinstance(attr, WeightNormParamAttr):
        refuse_table("embedding: WeightNormParamAttr needs the length", attr.name or "of this embedding")
    is_new = attr.name is None or not default_main_program().global_block().has_var(attr.name)
    # A table takes any key, whatever its first dimension is. But its variable's shape is one that a dense tensor might have.
    table = helper.create_parameter(attr, [min(size[0], _MOST_VALUES // size[1]), size[1]], VarType.FP32)
    if is_new:
        table.is_distributed = True
        table.table_options = options
        _init_in_place_of_values(startup, table, row_dtype, options)
    elif table.table_options is None:
        raise ValueError(f"embedding: {table.name!r} is shared and was made as a dense parameter: give is_distributed=True there, too")
    elif table.table_options != options:
        raise ValueError(f"embedding: {table.name!r} is shared and was made with {table.table_options}, now {options} is wanted")
    return helper.append(LOOKUP, {"W": [table], "Ids": [ids]},
                         {"padding_idx": padding_idx, "width": size[1]}, dtype=VarType.FP32)


def _init_in_place_of_values(startup: Block, table: Parameter, row_dtype: VarType, options: TableOptions) -> None:
    """Let the startup program make a table where it would make all values of a parameter."""
    index, op = next((i, op) for i, op in enumerate(startup.ops) if op.output_arg_names == [table.name])       # a new one stands first
    if op.type == INIT:
        return                                         # made for another program of the same startup program
    if op.type not in _INITIALIZERS:
        raise UnsupportedError(f"embedding: a distributed table's first values are constant, uniform, normal or truncated "
                               f"normal; {op.type} gives {table.name!r} another. Rows of your own go into it by key after the startup "
                               f"program: fluid.io.set_table_rows({table.name!r}, np.arange(len(rows)), rows)")
    kind, a, b = _INITIALIZERS[op.type]
    attrs = {"dtype": int(row_dtype), "width": table.shape[1], "init": kind, "a": op.attr(a), "b": op.attr(b) if b else 0.0,
             "seed": op.attr("seed") if op.has_attr("seed") else 0,
             **{name: getattr(options, name) for name in ("entry_count", "entry_probability", "max_age", "keep_count", "max_rows")},
             **({"memory": options.memory_bytes, "spill": os.path.abspath(options.spill)} if options.spill else {})}
    startup._remove_op(index)
    startup._insert_op(index, INIT, {}, {"Out": [table.name]}, attrs)


# -- training it ----------------------------------------------------------------------------------------------


def tile_rows(width: int) -> int:
    """Rows of a tile: what fits the nearest cache with an optimizer's state."""
    return max(16, min(256, 8192 // width))


class Tiles:
    """The tables among pairs of parameter and gradient, while an optimizer appends its operators.

    ``pairs`` has a tile and its gradient in the place of each table, whose gradient may have been clipped before; after the
    optimizer's turn ``finish`` moves its operators on tiles into blocks.
    """

    def __init__(self, pairs: Iterable[tuple[Parameter, Variable]]) -> None:
        self.program = default_main_program()
        self.block = self.program.global_block()
        self.tiles: dict[str, tuple[Parameter, Variable, Variable]] = {}       # tile's name -> table, gradient, tile's gradient
        self.pairs = [self._tile(param, grad) if is_table(param) and grad is not None else (param, grad)
                      for param, grad in pairs]
        self._begin = len(self.block.ops)

    def _tile(self, table: Parameter, grad: Variable) -> tuple[Parameter, Variable]:
        width = int(table.shape[1] or 0)
        shape = [tile_rows(width), width]
        tile = self.block.create_parameter(
            shape=shape, dtype=VarType.FP32, name=table.name + _TILE, trainable=table.trainable, optimize_attr=table.optimize_attr,
            regularizer=table.regularizer)
        tile_grad = self.block.create_var(name=grad.name + _TILE, shape=shape, dtype=VarType.FP32, persistable=True)
        self.tiles[tile.name] = table, grad, tile_grad
        return tile, tile_grad

    def finish(self, ops: Sequence[Operator]) -> list[Operator]:
        """Return ``ops``, the updates, with those of tables in the place of those of tiles."""
        if not self.tiles:
            return list(ops)
        owners = [(op.attr("op_role_var") or [""])[0] for op in ops]
        states: dict[str, list[str]] = {}              # of each table
        updates, inside = self._move(states)
        self._name_tables()
        _tell_startup(states)
        for name in inside:
            self.block._remove_var(name)
        return [updates.get(owner, op) for owner, op in zip(owners, ops)]

    def _groups(self) -> dict[str, list[OpView]]:
        """The optimizer's operators by the tile on which they work."""
        groups: dict[str, list[OpView]] = {tile: [] for tile in self.tiles}
        owner = {name: tile for tile, (_, _, grad) in self.tiles.items() for name in (tile, grad.name)}
        for op in self.block.read_ops()[self._begin:]:
            tiles = list(dict.fromkeys(owner[name] for name in op.input_arg_names if name in owner))
            if op.type == UPDATE or not tiles:
                continue
            if not _works_by_rows(op):
                raise UnsupportedError(f"{op.type} of the optimizer needs all rows of the sparse table {self.tiles[tiles[0]][0].name!r}, "
                                       "of which some at a time are there: decay weights by L1Decay or L2Decay")
            if len(tiles) > 1:
                raise _in_one_place(*(self.tiles[tile][0].name for tile in tiles[:2]))
            groups[tiles[0]].append(op)
            owner.update(dict.fromkeys(op.output_arg_names, tiles[0]))
        return groups

    def _move(self, states: dict[str, list[str]]) -> tuple[dict[str, Operator], list[str]]:
        """Move the operators of each tile into a block of their own. In the place of the last of them stands an update. Return the updates
        by tile, and the variables that moved."""
        size = self.block.desc.op_size()
        places: dict[int, int | None] = {}
        updates: dict[str, Operator] = {}
        gone: list[str] = []
        for tile, ops in self._groups().items():
            table, grad, tile_grad = self.tiles[tile]
            inside = _inside(self.block, tile, tile_grad.name, table, ops)
            updates[tile], states[table.name] = _update(self.block, tile, tile_grad.name, table, grad, ops, inside)
            places.update((op.index, None) for op in ops)
            places[ops[-1].index] = size + len(updates) - 1
            gone += inside
        order = (places.get(index, index) for index in range(size))
        self.block._arrange([index for index in order if index is not None])
        return updates, gone

    def _name_tables(self) -> None:
        """Let operators that were made for a tile name its table."""
        for view in self.block.read_ops()[self._begin:]:
            for name in view.attrs.get("op_role_var", ()):
                if name in self.tiles:
                    table, grad, _ = self.tiles[name]
                    self.block.ops[view.index]._set_attr("op_role_var", [table.name, grad.name])


def is_table(var: Variable) -> bool:
    """Return whether a parameter is a sparse table."""
    return getattr(var, "table_options", None) is not None


def refuse_table(what: str, name: str) -> NoReturn:
    """Raise for a sparse table where all values of a parameter are needed. ``what`` begins the sentence: "ModelAverage: means are kept"."""
    raise UnsupportedError(f"{what} of all values of a parameter, and of the distributed table {name!r} only rows that were trained exist. "
                           "Give its embedding is_sparse=True instead of is_distributed=True, which makes a dense table, or do without\n"
                           f"  your line: {user_line()}")


def is_tile(var: Variable) -> bool:
    """Return whether a parameter is some rows of a sparse table."""
    return var.name.endswith(_TILE)


def _has_each_row_once(grad: Variable) -> bool:
    op = grad.op
    if op is not None and op.type in _SCALING:
        return _has_each_row_once(grad.block.var(op.input("X")[0]))
    return op is not None and op.type in _MERGING


def _works_by_rows(op: OpView) -> bool:
    """Whether row i of what an operator computes depends on row i of what it reads, and on numbers."""
    proto = op_proto(op.type)
    return (proto is not None and proto.locality != lib.TR_NOT_LOCAL) or bool(op.attrs.get("per_row"))


def _in_one_place(*tables: str) -> UnsupportedError:
    return UnsupportedError(f"the optimizer needs the sparse tables {tables[0]!r} and {tables[1]!r} in one place")


def _inside(block: Block, tile: str, tile_grad: str, table: Parameter, ops: Sequence[OpView]) -> list[str]:
    """The variables that move with the operators of a tile: all that they compute, and states of the tile's shape."""
    shape = tuple(block.var(tile).shape)
    names = dict.fromkeys([tile, tile_grad, *(name for op in ops for name in op.output_arg_names)])
    for name in dict.fromkeys(name for op in ops for name in op.input_arg_names):
        if block.var(name).persistable and tuple(block.var(name).shape) == shape:
            names[name] = None
    foreign = sorted(name for name in names if name.endswith(_TILE) and name not in (tile, tile_grad))
    if foreign:
        raise _in_one_place(table.name, foreign[0].split(_TILE)[0])
    return sorted(names)


def _update(block: Block, tile: str, tile_grad: str, table: Parameter, grad: Variable, ops: Sequence[OpView],
            inside: Sequence[str]) -> tuple[Operator, list[str]]:
    """Append the update of a table; return it and the names of the states."""
    moved = set(inside)
    read = list(dict.fromkeys(name for op in ops for name in op.input_arg_names))
    states = [name for name in read if name in moved and name not in (tile, tile_grad) and block.var(name).persistable]
    sub = _sub_block(block, ops, inside)
    with block.program._optimized_guard([table, grad]):
        update = block.append_op(UPDATE, {"W": [table], "Grad": [grad], "Numbers": [name for name in read if name not in moved]}, {},
                                 {"sub_block": sub.idx, "param": tile, "grad": tile_grad, "states": states,
                                  "is_merged": _has_each_row_once(grad)})
    return update, states


def _sub_block(block: Block, ops: Sequence[OpView], inside: Sequence[str]) -> Block:
    sub = block.program._create_block(0)
    block.program._rollback()
    for name in inside:
        var = block.var(name)
        sub.create_var(name=name, shape=var.desc.shape(), dtype=var.dtype)
    for op in ops:
        sub.desc.insert_op(-1, copy_of(block.ops[op.index]))
    return sub


def copy_of(op: Operator) -> OpDesc:
    """Return the operator anew, for another block."""
    desc = OpDesc(op.type)
    for slot in op.input_names:
        desc.set_input(slot, op.input(slot))
    for slot in op.output_names:
        desc.set_output(slot, op.output(slot))
    for name in op.attr_names:
        if name != "op_callstack":
            desc.set_attr(name, op.attr(name), op.attr_type(name))
    return desc


def _tell_startup(states: dict[str, list[str]]) -> None:
    """Let each table begin with what the startup program would give its states; it gives them nothing then."""
    startup = default_startup_program().global_block()
    ops = startup.ops
    makes: dict[str, OpView] = {}
    for op in startup.read_ops():
        if len(op.output_arg_names) == 1:
            makes.setdefault(op.output_arg_names[0], op)
    gone = set()
    for table, names in states.items():
        for name in names:
            if makes[name].type != "fill_constant":
                raise UnsupportedError(f"{makes[name].type} gives {name!r} its first value; of a sparse table's optimizer that is a "
                                       "constant")
            gone.add(makes[name].index)
        if table in makes and makes[table].type == INIT:
            ops[makes[table].index]._set_attr("state_values", [makes[name].attrs["value"] for name in names])
    startup._arrange([index for index in range(len(ops)) if index not in gone])
    for names in states.values():
        for name in names:
            startup._remove_var(name)


# -- in a job: see distributed/transpiler.py --------------------------------------------------------------------


def _object(name: str, block: Block) -> str:
    """Declare a variable of a server that is no tensor, if it is new."""
    if not block.has_var(name):
        block.create_var(name=name, type=VarType.RAW, persistable=True)
    return name


def _pushed(table: str, block: Block) -> str:
    """Return the variable with what the trainers have pushed of a table's gradient: storage/table/pushed_rows.h."""
    return _object(table + "@PUSHED", block)


def take_pushed(table: str, grad: str, width: int, program: Program) -> None:
    """Let a server's program begin what it does to a table's gradient with the one that the trainers have pushed."""
    block = program.global_block()
    block._append_anywhere(PUSHED, {"X": [_pushed(table, block)]}, {"Out": [grad]}, {"width": width, "op_role": OpRole.Optimize})


def copy_update(op: Operator | OpView, program: Program, rename: Any, is_clipped: bool) -> None:
    """Append a server's part of an update to its program; ``rename`` gives the name of a variable there.

    The gradient is that of ``op`` if it was clipped on the servers, else what the trainers have pushed.
    """
    source, block = op.block.program.block(op.attr("sub_block")), program.global_block()
    table = _object(op.input("W")[0], block)
    numbers = [rename(name) for name in op.input("Numbers")]
    sub = program._create_block(0)
    program._rollback()
    for name, var in source.vars.items():
        sub.create_var(name=name, shape=var.desc.shape(), dtype=var.dtype)
    for inner in source.ops:
        sub.desc.insert_op(-1, copy_of(inner))
    grads = [rename(name) for name in op.input("Grad")] if is_clipped else [_pushed(table, block)]
    attrs = {name: op.attr(name) for name in ("param", "grad", "states", "is_merged")}
    block._append_anywhere(UPDATE, {"W": [table], "Grad": grads, "Numbers": numbers}, {},
                           {"sub_block": sub.idx, "op_role": OpRole.Optimize, **attrs})


def add_update(op: Operator | OpView, program: Program) -> None:
    """Append to a server's program what mode geo makes of an update: rows that are pushed are added to the table's.

    States stay with the trainers; the servers' rows have room for them, so that a table is the same in every mode.
    """
    tile, grad, states = op.attr("param"), op.attr("grad"), op.attr("states")
    shape = op.block.program.block(op.attr("sub_block")).var(tile).desc.shape()
    block = program.global_block()
    table = _object(op.input("W")[0], block)
    sub = program._create_block(0)
    for name in (tile, grad, *states):
        sub.create_var(name=name, shape=shape, dtype=VarType.FP32)
    sub._append_anywhere("elementwise_add", {"X": tile, "Y": grad}, {"Out": tile}, {})
    for name in states:
        sub._append_anywhere("scale", {"X": name}, {"Out": name}, {"scale": 1.0})
    program._rollback()
    block._append_anywhere(UPDATE, {"W": [table], "Grad": [_pushed(table, block)]}, {},
                           {"sub_block": sub.idx, "param": tile, "grad": grad, "states": states,
                                                       "op_role": OpRole.Optimize})
