"""Casts in a program: its forward operators compute in 16 bits where the lists say so.

This happens before gradients are appended, so that casts have gradients like any operator. A parameter stays float32. Products read it as
it is, and round it as they round every factor: a stored copy would save nothing. Other operators read a cast of it, whose gradient is
float32 again.
"""

from __future__ import annotations

from typing import Any

from ...native import unique_name
from ...native.dtypes import VarType, convert_dtype
from ...program import Block, Program
from ...program.op_view import OpView
from ...program.op_words import joined, op_words
from ...program.roles import OpRole
from .lists import AutoMixedPrecisionLists

# Inputs that stay float32 beside others of 16 bits: of norms whatever they are,
_NORMS = {"batch_norm": {"Scale", "Bias", "Mean", "Variance"}, "layer_norm": {"Scale", "Bias"}}
# and of these operators if they are parameters.
_WEIGHTS = {type: slots.split() for types, slots in (
    ("conv2d conv3d depthwise_conv2d conv2d_transpose conv3d_transpose", "Filter Bias"), ("fc", "W Bias"), ("mul", "Y"),
    ("elementwise_add elementwise_sub elementwise_mul elementwise_div", "Y"), ("lstm lstmp gru", "Weight ProjWeight Bias"),
) for type in types.split()}


class _Rewriter:
    """Writes the operators of the global block anew, after the old ones, with casts where a type changes."""

    def __init__(self, program: Program, lists: AutoMixedPrecisionLists, half: VarType) -> None:
        self.block, self.lists, self.half = program.global_block(), lists, half
        self.casts: dict[tuple[str, VarType], str] = {}
        self.ops = list(self.block.read_ops())
        self.kept = _kept(program, self.ops)

    def run(self) -> None:
        count = len(self.ops)
        for op in self.ops:
            self._write(op, self._type_of(op))
        self.block._arrange(list(range(count, self.block.desc.op_size())))
        _point_at_makers(self.block)

    def _dtype(self, name: str) -> VarType | None:
        var = self.block._find(name)
        return var.dtype if var is not None and var.type in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS) else None

    def _type_of(self, op: OpView) -> VarType:
        """Return the type in which an operator computes: 16 bits or float32."""
        if op.block_attrs or op.role & ~int(OpRole.Loss) or any(name in self.kept for name in op.output_arg_names):
            return VarType.FP32
        if op.type in self.lists.white_list:
            return self.half
        if op.type in self.lists.gray_list and any(self._dtype(name) == self.half for name in op.input_arg_names):
            return self.half
        return VarType.FP32

    def _write(self, op: OpView, wanted: VarType) -> None:
        inputs = {slot: [self._cast(op, slot, name, wanted) for name in names] for slot, names in op.inputs.items()}
        self._append(op.type, inputs, op.outputs, op.attrs)
        for name in op.output_arg_names:
            for key in [key for key in self.casts if key[0] == name]:      # of the value before
                del self.casts[key]

    def _cast(self, op: OpView, slot: str, name: str, wanted: VarType) -> str:
        """Return the name of an input in the wanted type; a cast is shared by all who read the same value."""
        have = self._dtype(name)
        is_changed = have in (VarType.FP32, self.half) and have != wanted and op.type != "cast"
        if have is None or not is_changed or (wanted == self.half and self._stays_wide(op.type, slot, name)):
            return name
        made = self.casts.get((name, wanted))
        if made is None:
            made = self.casts[name, wanted] = unique_name.generate(f"{name}.cast_{wanted}")
            var = self.block.var(name)
            self.block.create_var(name=made, dtype=wanted, stop_gradient=var.stop_gradient)
            self._append("cast", {"X": [name]}, {"Out": [made]},
                         {"in_dtype": int(have), "out_dtype": int(wanted), "op_role": op.role & ~int(OpRole.Loss),
                          "op_callstack": op.attrs.get("op_callstack", [])})
        return made

    def _stays_wide(self, type: str, slot: str, name: str) -> bool:
        return slot in _NORMS.get(type, ()) or (slot in _WEIGHTS.get(type, ()) and self.block.var(name).persistable)

    def _append(self, type: str, inputs: Any, outputs: Any, attrs: dict[str, Any]) -> None:
        self.block.desc.append_ops(joined(op_words(type, inputs, outputs, attrs)))


def _kept(program: Program, ops: list[OpView]) -> set[str]:
    """Return the variables that keep their type: those that live on, that a sub-block names, or that are written more than once."""
    kept: set[str] = set()
    seen: set[str] = set()
    block = program.global_block()
    for op in ops:
        for name in op.output_arg_names:
            var = block._find(name)
            updates = name in op.input_arg_names and op.type in _NORMS
            if not updates and (name in seen or (var is not None and (var.persistable or var.is_data))):
                kept.add(name)
            seen.add(name)
    for other in program.blocks[1:]:
        for op in other.read_ops():
            kept.update(op.input_arg_names, op.output_arg_names)
    return kept


def _point_at_makers(block: Block) -> None:
    """Let each variable know the operator that makes it."""
    for op in block.ops:
        for name in op.output_arg_names:
            var = block._find(name)
            if var is not None:
                var.op = op


def rewrite_program(program: Program, amp_lists: AutoMixedPrecisionLists, dtype: Any = "bfloat16") -> None:
    """Put casts into the forward operators of ``program``, which must not have gradients yet."""
    _Rewriter(program, amp_lists, convert_dtype(dtype)).run()
