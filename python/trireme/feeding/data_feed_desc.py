"""Fluid's description of multislot text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..native.checks import path_text
from ..native.errors import FormatError, InvalidArgumentError, check_whole
from ..native.files import open_regular
from ..native.suggest import did_you_mean
from ..program import Program
from .slots import Slot

_TOKEN = re.compile(r'\s+|#[^\n]*|(?P<word>[A-Za-z_]\w*)|(?P<number>-?\d+)|(?P<text>"[^"\n]*")|(?P<mark>[{}:])')
_TYPES = {"uint64": "int64", "int64": "int64", "float": "float32", "float32": "float32"}
_MOST_BYTES = 1 << 20


def _tokens(text: str, where: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise FormatError(f"{where}, line {text.count(chr(10), 0, at) + 1}: {text[at:at + 20]!r} is not understood")
        at = match.end()
        if match.lastgroup:
            yield match[0]


def _fields(tokens: Iterator[str], where: str, inside: bool) -> list[tuple[str, Any]]:
    """Read ``name: value`` and ``name { ... }`` up to the end of a block."""
    found: list[tuple[str, Any]] = []
    for name in tokens:
        if name == "}" and inside:
            return found
        mark = next(tokens, "")
        if mark == ":":
            mark = next(tokens, "")
            if mark != "{":
                found.append((name, mark))
                continue
        if mark != "{":
            raise FormatError(f"{where}: after {name!r} comes ':' or '{{', got {mark!r}")
        found.append((name, _fields(tokens, where, True)))
    if inside:
        raise FormatError(f"{where}: a '}}' is missing at the end")
    return found


class _SlotDesc:
    def __init__(self, fields: Sequence[tuple[str, Any]], where: str) -> None:
        given = dict(fields)
        self.name, self.type = str(given.get("name", "")).strip('"'), str(given.get("type", "")).strip('"')
        if not self.name or self.type not in _TYPES:
            raise FormatError(f"{where}: a slot has a name and a type, one of {', '.join(_TYPES)}; got {given}")
        self.is_dense, self.is_used = (str(given.get(name, "false")) == "true" for name in ("is_dense", "is_used"))
        self.dim = int(given.get("dim", 1))


class DataFeedDesc:
    """What lines of multislot text hold, read from a file in protobuf's text format (``data_feed.proto``).

    ``proto_file`` is that file's path.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "feed.proto")
    >>> _ = open(path, "w").write('''name: "MultiSlotDataFeed" batch_size: 2
    ... multi_slot_desc { slots { name: "words" type: "uint64" is_dense: false is_used: false }
    ...                   slots { name: "label" type: "uint64" is_dense: false is_used: false } }''')
    >>> desc = fluid.DataFeedDesc(path)
    >>> desc.set_batch_size(32)
    >>> desc.set_use_slots(["words", "label"])
    >>> desc.set_dense_slots(["label"])
    >>> print(desc.desc().splitlines()[1])
    batch_size: 32
    """

    def __init__(self, proto_file: str) -> None:
        with open_regular(proto_file) as file:
            data = file.read(_MOST_BYTES + 1)
        where = path_text(proto_file)
        if len(data) > _MOST_BYTES:
            raise FormatError(f"{where}: it has more than {_MOST_BYTES} bytes: no description of a data feed")
        try:
            fields = _fields(_tokens(data.decode(), where), where, False)
        except (UnicodeDecodeError, RecursionError):
            raise FormatError(f"{where}: it is no text of a DataFeedDesc") from None
        given = dict(fields)
        self.name = str(given.get("name", '"MultiSlotDataFeed"')).strip('"')
        if self.name not in ("MultiSlotDataFeed", "MultiSlotInMemoryDataFeed"):
            raise FormatError(f"{where}: name is {self.name!r}; MultiSlotDataFeed is possible")
        self.set_batch_size(int(given["batch_size"]) if str(given.get("batch_size", "1")).isdigit() and "batch_size" in given else 1)
        slots = given.get("multi_slot_desc", [])
        self.slots = [_SlotDesc(value, where) for name, value in slots if name == "slots"] if isinstance(slots, list) else []
        if not self.slots:
            raise FormatError(f"{where}: multi_slot_desc has no slots")
        self.pipe_command = str(given.get("pipe_command", '"cat"')).strip('"')

    def set_batch_size(self, batch_size: int) -> None:
        """Set the number of samples in a batch."""
        batch_size = check_whole("DataFeedDesc: batch_size", batch_size, 1)
        self.batch_size = batch_size

    def _find(self, names: Sequence[str]) -> list[_SlotDesc]:
        known = {slot.name: slot for slot in self.slots}
        for name in names:
            if name not in known:
                raise InvalidArgumentError(f"DataFeedDesc: there is no slot {name!r}{did_you_mean(name, known)}")
        return [known[name] for name in names]

    def set_dense_slots(self, dense_slots_name: Sequence[str]) -> None:
        """Let these slots have one number of values in every line; the others are sequences. ``dense_slots_name`` is a list of their
        names."""
        for slot in self._find(dense_slots_name):
            slot.is_dense = True

    def set_use_slots(self, use_slots_name: Sequence[str]) -> None:
        """Let these slots be fed; the others are skipped. ``use_slots_name`` is a list of their names."""
        for slot in self._find(use_slots_name):
            slot.is_used = True

    def desc(self) -> str:
        """Return the description as text."""
        lines = [f'name: "{self.name}"', f"batch_size: {self.batch_size}", "multi_slot_desc {"]
        for slot in self.slots:
            lines += ["  slots {", f'    name: "{slot.name}"', f'    type: "{slot.type}"', f"    is_dense: {str(slot.is_dense).lower()}",
                      f"    is_used: {str(slot.is_used).lower()}", "  }"]
        return "\n".join([*lines, "}"]) + "\n"

    def slots_for(self, program: Program) -> list[Slot | None]:
        """Return the slots of a dataset for a program, whose variables have the slots' names; None for one that is not used."""
        block = program.global_block()
        slots: list[Slot | None] = []
        for slot in self.slots:
            if not slot.is_used:
                slots.append(None)
                continue
            shape = block.var(slot.name).desc.shape() if slot.is_dense and block.has_var(slot.name) else [-1, slot.dim]
            slots.append(Slot(slot.name, dtype=_TYPES[slot.type], shape=shape, lod_level=0 if slot.is_dense else 1))
        return slots


__all__ = ["DataFeedDesc"]
