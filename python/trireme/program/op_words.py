"""Operators as words, which the core appends to a block in one call: the other way round of ``op_view``.

A program that is written by the thousand operators (the transpiler) pays for each call to the core. Here an operator costs a list of
words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..native.errors import InvalidArgumentError
from .op_desc import attr_kind, whole_number
from .op_protos import BLOCKS, BOOLS, FLOAT, FLOATS, INTS, LONGS, STRING, STRINGS

_LISTS = frozenset({INTS, FLOATS, STRINGS, BOOLS, BLOCKS, LONGS})
_FLOATS = frozenset({FLOAT, FLOATS})
_STRINGS = frozenset({STRING, STRINGS})

Slots = Mapping[str, Sequence[str]]


def op_words(type: str, inputs: Slots, outputs: Slots, attrs: Mapping[str, Any]) -> list[str]:
    """Return the words of an operator. Slots hold names; attributes have the types that the operator's proto says."""
    words = [type]
    for slots in (inputs, outputs):
        words.append(str(len(slots)))
        for slot, names in slots.items():
            words += (slot, str(len(names)), *names)
    words.append(str(len(attrs)))
    for name, value in attrs.items():
        words += _attr_words(type, name, value)
    return words


def _attr_words(type: str, name: str, value: Any) -> Iterable[str]:
    kind = attr_kind(type, name, value)
    values = value if kind in _LISTS else (value,)
    if kind in _STRINGS:
        return name, str(int(kind)), str(len(values)), *values
    as_word = _float_word if kind in _FLOATS else lambda number: str(whole_number(number, kind))
    return name, str(int(kind)), str(len(values)), *[as_word(one) for one in values]


def _float_word(value: Any) -> str:
    return repr(float(value))


def joined(words: Sequence[str]) -> bytes:
    """Return words as the core reads them: each ends with a zero byte, so none may have one inside."""
    text = "\0".join(words) + "\0"
    if text.count("\0") != len(words):
        bad = next(word for word in words if "\0" in word)
        raise InvalidArgumentError(f"{bad!r} is no possible name or string of an operator here: it has a zero byte")
    return text.encode("utf-8", "surrogateescape")
