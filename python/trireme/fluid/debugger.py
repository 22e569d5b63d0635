"""Programs as text and as drawings, under the names by which Fluid's scripts know this module."""

from __future__ import annotations

from ..program import Block, Program
from ..program.drawing import draw_block_graphviz
from ..program.roles import OpRole


def pprint_program_codes(program: Program) -> None:
    """Print a program.

    >>> _ = fluid.layers.scale(fluid.layers.data("x", [2]), 2.0)
    >>> fluid.debugger.pprint_program_codes(fluid.default_main_program())
    x : float32[?, 2]
    scale_0.tmp_0 : float32[?, 2] = scale(x) {scale=2.0}
    <BLANKLINE>
    """
    print(program)


def pprint_block_codes(block: Block, show_backward: bool = False) -> None:
    """Print the operators of a block. ``show_backward`` says whether gradient operators and optimizers are among them.

    >>> _ = fluid.layers.scale(fluid.layers.data("x", [2]), 2.0)
    >>> fluid.debugger.pprint_block_codes(fluid.default_main_program().global_block())
    {Out=scale_0.tmp_0} = scale(...
    """
    for op in block.ops:
        if show_backward or not op.role & (OpRole.Backward | OpRole.Optimize):
            print(op)


__all__ = ["pprint_program_codes", "pprint_block_codes", "draw_block_graphviz"]
