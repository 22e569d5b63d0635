"""Variables that a trainer alone has: they persist, its program writes them, and no server sends them.

Examples are moving averages, statistics of metrics, counters of schedules, and in mode geo the optimizers' states. ``keep_variables`` lets
them outlive the process (storage/memory/trainer_vars.h).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..native.dtypes import VarType
from ..program import Program
from ..program.block import Block
from ..program.roles import OpRole


def own_variables(program: Program, received: Iterable[str]) -> list[str]:
    """Return the names of these variables of a trainer's program, without those that it receives."""
    written = {name for block in program.blocks for op in block.read_ops() for name in op.output_arg_names}
    others = set(received)
    return sorted(name for var in program.global_block().desc.persistable_vars()
                  if (name := var.name()) in written and name not in others and var.type() == VarType.LOD_TENSOR
                  and all(dim > 0 for dim in var.shape()))


def append_keep(block: Block, names: Sequence[str], count: str | None = None, period: int = 1) -> None:
    """Add the operator that keeps these variables to the block. With ``count`` it keeps them before every exchange, as exchange_deltas
    counts.
    """
    if names:
        block.append_op(type="keep_variables", inputs={"X": list(names), **({"Count": count} if count else {})},
                        attrs={"period": period, "op_role": OpRole.RPC})
