"""Mode geo: trainers keep their whole program and exchange their changes, which the servers add up.

A trainer's program is that of one process with one more operator, which counts the runs. In every k-th run this operator sends the
trainer's changes of the last k runs, divided by the number of trainers, and takes the sum of all trainers' changes. The same operator
sends changed rows of sparse tables; a lookup takes rows that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..job.mode import Mode
from ..native.dtypes import VarType
from ..parameters.sparse_table import add_update, is_table_update
from ..program import Block, Program, Variable
from ..program.roles import OpRole
from .optimize_part import POINTWISE_ON, is_optimize
from .own import append_keep, own_variables
from .placement import Part, by_server
from .transpiled import Transpiled, Value, trainer_copy

BASE = "@BASE"
COUNT = "exchange_deltas@COUNT"
_DELTA = "@DELTA"


def transpile_geo(program: Program, parts: dict[str, list[Part]], servers: int, trainer: int, mode: Mode, tables: list[str]) -> Transpiled:
    """Return the programs of a job in which trainers exchange changes every ``mode.period`` steps."""
    result = Transpiled(program, [], [], [], {}, mode, tables, original=program)
    for server, mine in enumerate(by_server(parts, servers)):
        result.servers.append(_server(program, mine, server, result))
    order = {name: i for i, name in enumerate(parts)}
    result.blocks.sort(key=lambda block: (order[block.source], block.begin))
    own = own_variables(program, parts)
    result.trainer = _trainer(program, parts, result, trainer, own)
    result.idle = _trainer(program, parts, result, trainer, own, is_idle=True)
    result.flush = Program()
    for name in own:
        _declare_like(result.flush.global_block(), name, program.global_block().var(name))
    _append_exchange(result.flush, list(parts), result, 0, own)
    return result


def _declare_like(block: Block, name: str, var: Variable, rows: int | None = None, is_kept: bool = True) -> None:
    shape = var.desc.shape() if rows is None else [rows, *var.desc.shape()[1:]]
    block.create_var(name=name, shape=shape, dtype=var.dtype, persistable=is_kept)


def _trainer(program: Program, parts: dict[str, list[Part]], result: Transpiled, trainer: int, own: Sequence[str],
             is_idle: bool = False) -> Program:
    """Return the whole program with the exchange. The idle program, for a batch without samples, updates nothing."""
    copy = trainer_copy(program, trainer)
    block = copy.global_block()
    if is_idle:
        block._arrange([op.index for op in block.read_ops() if not is_optimize(op)])
    _append_exchange(copy, list(parts), result, result.mode.period, own)
    return copy


def _server(program: Program, parts: dict[str, Part], server: int, result: Transpiled) -> Program:
    mine = Program()
    mine.random_seed = program.random_seed
    block = mine.global_block()
    for name, one in parts.items():
        var, here, delta = program.global_block().var(name), name + one.suffix, name + one.suffix + _DELTA
        _declare_like(block, here, var, one.rows)
        _declare_like(block, delta, var, one.rows, is_kept=False)
        block._append_anywhere("elementwise_add", {"X": here, "Y": delta}, {"Out": here}, {"op_role": OpRole.Optimize, POINTWISE_ON: here})
        result.add_block(here, delta, server, var, one.begin, one.end)
        result.values.append(Value(server, here, name, one.begin, one.end))
    for op in program.global_block().read_ops():
        if is_table_update(op):
            add_update(op, mine)
    return mine


def _append_exchange(program: Program, params: Sequence[str], result: Transpiled, period: int, own: Sequence[str]) -> None:
    block = program.global_block()
    bases = [name + BASE for name in params]
    for name, base in zip(params, bases):
        var = result.original.global_block().var(name)
        if not block.has_var(name):
            _declare_like(block, name, var)
        _declare_like(block, base, var)
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
