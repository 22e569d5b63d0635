"""Programs and operators as text."""

from __future__ import annotations

from typing import Any

from ..program import Block, Operator, Program, Variable
from ..program.op_view import text_of


def op_to_code(op: Operator, skip_op_callstack: bool = True) -> str:
    """Return an operator as a line of text."""
    attrs = {name: op.attr(name) for name in op.attr_names if not (skip_op_callstack and name == "op_callstack")}
    return text_of(op.type, op.desc.inputs(), op.desc.outputs(), attrs)


def variable_to_code(var: Variable) -> str:
    return f"{'persist ' if var.persistable else ''}{var.to_string()}"


def block_to_code(block: Block, block_idx: int | None = None, fout: Any = None, skip_op_callstack: bool = True) -> None:
    """Print a block: its variables, then its operators; to ``fout`` where that is given."""
    lines = [f"{{ // block {block.idx if block_idx is None else block_idx}"]
    lines += [f"    {variable_to_code(var)}" for _, var in sorted(block.vars.items())]
    lines += [f"    {op_to_code(op, skip_op_callstack)}" for op in block.ops]
    print("\n".join([*lines, "}"]), file=fout)


def program_to_code(prog: Program, fout: Any = None, skip_op_callstack: bool = True) -> None:
    """Print a program as text; to ``fout`` where that is given.

    >>> y = fluid.layers.scale(fluid.layers.data("x", [2]), 3.0)
    >>> fluid.transpiler.details.program_to_code(fluid.default_main_program())
    { // block 0
        Variable('scale_0.tmp_0', float32[?, 2])
        Variable('x', float32[?, 2])
        {Out=scale_0.tmp_0} = scale(X=x) {'scale': 3.0, 'bias': 0.0, 'bias_after_scale': True}
    }
    """
    for block in prog.blocks:
        block_to_code(block, fout=fout, skip_op_callstack=skip_op_callstack)


__all__ = ["program_to_code", "block_to_code", "op_to_code", "variable_to_code"]
