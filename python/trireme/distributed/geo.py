"""Mode geo: trainers keep their whole program and exchange their changes, which the servers add up.

A trainer's program is that of one process with one more operator, which counts the runs. In every k-th run this operator sends the
trainer's changes of the last k runs, divided by the number of trainers, and takes the sum of all trainers' changes. The same operator
sends changed rows of sparse tables; a lookup takes rows that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core import OpRole, VarType
from ..framework import Program
from ..sparse_table import add_update, is_table_update
from .optimize_part import is_optimize
from .own import append_keep, own_variables
from .placement import Part, by_server
from .transpiled import ParamBlock, Transpiled, Value

BASE = "@BASE"
COUNT = "exchange_deltas@COUNT"
_DELTA = "@DELTA"


def transpile_geo(program: Program, shapes: dict[str, tuple[int, ...]], dtypes: dict[str, VarType],
                  parts: dict[str, list[Part]], servers: int, trainer: int, period: int) -> Transpiled:
    """Return the programs of a job in which trainers exchange changes every ``period`` steps."""
    result = Transpiled(program, [], [], [], {})
    for server, mine in enumerate(by_server(parts, servers)):
        result.servers.append(_server(program, shapes, dtypes, mine, server, result))
    order = {name: i for i, name in enumerate(parts)}
    result.blocks.sort(key=lambda block: (order[block.source], block.begin))
    own = own_variables(program, parts)
    result.trainer = _trainer(program, parts, shapes, dtypes, result, period, trainer, own)
    result.idle = _trainer(program, parts, shapes, dtypes, result, period, trainer, own, is_idle=True)
    result.flush = Program()
    for name in own:
        var = program.global_block().var(name)
        result.flush.global_block().create_var(name=name, shape=var.desc.shape(), dtype=var.dtype, persistable=True)
    _append_exchange(result.flush, list(parts), shapes, dtypes, result, 0, own)
    return result


def _trainer(program: Program, parts: dict[str, list[Part]], shapes: dict[str, tuple[int, ...]],
             dtypes: dict[str, VarType], result: Transpiled, period: int, trainer: int, own: Sequence[str],
             is_idle: bool = False) -> Program:
    """Return the whole program with the exchange. The idle program, for a batch without samples, updates nothing."""
    copy = program.clone()
    copy.random_seed = program.random_seed + 1_000_003 * trainer
    block = copy.global_block()
    if is_idle:
        block._arrange([op.index for op in block.read_ops() if not is_optimize(op)])
    _append_exchange(copy, list(parts), shapes, dtypes, result, period, own)
    return copy


def _server(program: Program, shapes: dict[str, tuple[int, ...]], dtypes: dict[str, VarType],
            parts: dict[str, Part], server: int, result: Transpiled) -> Program:
    mine = Program()
    mine.random_seed = program.random_seed
    block = mine.global_block()
    for name, one in parts.items():
        shape = [one.rows, *shapes[name][1:]]
        here, delta = name + one.suffix, name + one.suffix + _DELTA
        block.create_var(name=here, shape=shape, dtype=dtypes[name], persistable=True)
        block.create_var(name=delta, shape=shape, dtype=dtypes[name])
        made = block.append_op(type="elementwise_add", inputs={"X": here, "Y": delta}, outputs={"Out": here},
                               attrs={"op_role": OpRole.Optimize})
        made.desc.remove_attr("op_callstack")
        size = dtypes[name].dtype.itemsize
        for dim in shape:
            size *= dim
        result.blocks.append(ParamBlock(here, delta, server, dtypes[name], size, name, one.begin, one.end))
        result.values.append(Value(server, here, name, one.begin, one.end))
    for op in program.global_block().read_ops():
        if is_table_update(op):
            add_update(op, mine)
    return mine


def _append_exchange(program: Program, params: Sequence[str], shapes: dict[str, tuple[int, ...]],
                     dtypes: dict[str, VarType], result: Transpiled, period: int, own: Sequence[str]) -> None:
    block = program.global_block()
    bases = []
    for name in params:
        if not block.has_var(name):
            block.create_var(name=name, shape=shapes[name], dtype=dtypes[name], persistable=True)
        block.create_var(name=name + BASE, shape=shapes[name], dtype=dtypes[name], persistable=True)
        bases.append(name + BASE)
    block.create_var(name=COUNT, shape=[1], dtype=VarType.INT64, persistable=True)
    append_keep(block, own, COUNT, period)
    names: dict[str, list[str]] = {name: [] for name in params}
    for one in result.blocks:
        names[one.source].append(one.param)
    with program._role_guard(OpRole.RPC):
        block.append_op(type="exchange_deltas", inputs={"Param": list(params), "Base": bases, "Count": COUNT},
                        outputs={"ParamOut": list(params), "BaseOut": bases, "CountOut": COUNT},
                        attrs={"period": period, "blocks": [name for part in names.values() for name in part],
                               "parts": [len(part) for part in names.values()]})


__all__ = ["transpile_geo", "BASE", "COUNT"]
