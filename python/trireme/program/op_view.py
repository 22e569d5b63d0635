"""What the operators of a block say, read from the core in one piece.

A reader of whole programs (the transpiler, the pruning of programs) looks at each operator many times. Each question to the core has
a price: ``OpView`` has asked all of them. It does not change when its operator does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..native.gc_pause import gc_paused
from .op_desc import OpDesc
from .op_protos import BLOCK, BLOCKS, BOOL, BOOLS, FLOAT, FLOATS, INTS, LONGS, STRING, STRINGS

if TYPE_CHECKING:
    from .block import Block

_EVERYWHERE = frozenset({"op_role", "op_role_var", "op_namescope", "op_callstack"})
_LISTS = frozenset({INTS, FLOATS, STRINGS, BOOLS, BLOCKS, LONGS})


class OpView:
    """An operator as it was when it was read: number ``index`` of ``block``.

    ``inputs`` and ``outputs`` map slots to names, ``attrs`` maps attributes to values; ``block_attrs`` are the names of those that are
    blocks. ``op_callstack`` is left out. All of these are for reading only.
    """

    __slots__ = ("block", "index", "type", "inputs", "outputs", "input_arg_names", "output_arg_names", "attrs", "block_attrs", "role")

    def __init__(self, block: Block, index: int, words: Iterator[str]) -> None:
        self.block, self.index, self.type = block, index, next(words)
        self.inputs, self.input_arg_names = _slots(words)
        self.outputs, self.output_arg_names = _slots(words)
        self.attrs: dict[str, Any] = {}
        self.block_attrs: list[str] = []
        for _ in range(int(next(words))):
            self._read_attr(words)
        self.role: int = self.attrs.get("op_role", 0)

    def _read_attr(self, words: Iterator[str]) -> None:
        name, kind, count = next(words), int(next(words)), int(next(words))
        if count < 0:                                  # a string with a zero byte is no word
            self.attrs[name] = self.desc.attr(name)
            return
        read = _READERS[kind]
        if kind in _LISTS:
            self.attrs[name] = [read(next(words)) for _ in range(count)]
        else:
            self.attrs[name] = read(next(words))
        if kind == BLOCK:
            self.block_attrs.append(name)

    def at(self, block: Block, index: int) -> OpView:
        """Return the view of the same operator elsewhere: it was moved, or the block was copied."""
        view = OpView.__new__(OpView)
        view.block, view.index, view.type, view.inputs, view.outputs = block, index, self.type, self.inputs, self.outputs
        view.input_arg_names, view.output_arg_names = self.input_arg_names, self.output_arg_names
        view.attrs, view.block_attrs, view.role = self.attrs, self.block_attrs, self.role
        return view

    @property
    def desc(self) -> OpDesc:
        """The operator itself."""
        return self.block.desc.op(self.index)

    def input(self, slot: str) -> list[str]:
        """Return the names of the variables in an input slot; none where there is no such slot."""
        return self.inputs.get(slot, [])

    def output(self, slot: str) -> list[str]:
        return self.outputs.get(slot, [])

    def has_attr(self, name: str) -> bool:
        return name in self.attrs

    def attr(self, name: str) -> Any:
        """Return an attribute's value; a block is its index."""
        if name not in self.attrs:
            raise KeyError(f"{self.type} has no attribute {name!r}; it has {', '.join(self.attrs)}")
        return self.attrs[name]

    def __repr__(self) -> str:
        return text_of(self.type, self.inputs, self.outputs, self.attrs)


def _slots(words: Iterator[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the names by slot, and all of them."""
    count = int(next(words))
    if count == 1:
        slot = next(words)
        names = [next(words) for _ in range(int(next(words)))]
        return {slot: names}, names
    slots = {next(words): [next(words) for _ in range(int(next(words)))] for _ in range(count)}
    return slots, [name for names in slots.values() for name in names]


def _bool(word: str) -> bool:
    return word != "0"


_READERS: list[Any] = [int] * 12
for _kind in (FLOAT, FLOATS):
    _READERS[_kind] = float
for _kind in (STRING, STRINGS):
    _READERS[_kind] = str
for _kind in (BOOL, BOOLS):
    _READERS[_kind] = _bool


def read_ops(block: Block, begin: int = 0) -> list[OpView]:
    """Return what the operators of a block say now, from number ``begin`` on."""
    words = iter(block.desc.read_ops(begin).decode("utf-8", "surrogateescape").split("\0"))
    with gc_paused():
        return [OpView(block, index, words) for index in range(begin, block.desc.op_size())]


def text_of(type: str, inputs: dict[str, list[str]], outputs: dict[str, list[str]], attrs: dict[str, Any],
            hidden: Sequence[str] = ()) -> str:
    """Return an operator as text: outputs, type, inputs and attributes, but for those of everywhere and the ``hidden`` ones."""
    shown = {name: value for name, value in attrs.items() if name not in _EVERYWHERE and name not in hidden}
    return f"{{{_slots_text(outputs)}}} = {type}({_slots_text(inputs)}){f' {shown}' if shown else ''}"


def _slots_text(slots: dict[str, list[str]]) -> str:
    return ", ".join([f"{slot}={names[0] if len(names) == 1 else names}" for slot, names in slots.items() if names])
