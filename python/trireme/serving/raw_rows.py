"""Rows of raw values, such as ``{"user": "u7", "genres": [8]}``, as feeds of a model that was saved with its slots.

The core fills the feeds (serving/raw_rows.c). Here values of Python become columns that it can read: integers, floats or texts.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from .._core import ffi, lib
from ..feeding.slots import Slot, _value_of
from ..native.dtypes import NUMPY_DTYPES
from ..native.errors import InvalidArgumentError, NotFoundError, check, user_line
from ..native.names import name_chars
from ..native.suggest import did_you_mean

_TEXT = np.dtype([("bytes", "u8"), ("size", "i8")])            # tr_raw_text
_LEAST, _MOST = -(1 << 63), 1 << 64                            # an id from 2^63 on keeps its bits


class _RawSlot:
    """What a row has for one feed."""

    def __init__(self, native: Any) -> None:
        self.name = ffi.string(native.name).decode()
        self.expected = ffi.string(native.expected).decode()
        self.shape = ffi.unpack(native.dims, native.rank)
        self.code, self.lod_level, self.hash = int(native.dtype), int(native.lod_level), int(native.hash_buckets)
        self.missing = float(native.missing) if native.has_missing else None
        self.width = int(native.width)
        self.is_int = NUMPY_DTYPES[self.code].kind == "i"

    def public(self) -> Slot:
        """Return it as scripts know it."""
        missing = int(self.missing) if self.is_int and self.missing is not None else self.missing
        return Slot(self.name, self.code, self.shape, self.lod_level, hash=self.hash, missing=missing)


def slots_of(predictor: Any) -> list[_RawSlot]:
    """Return the slots of a native predictor; none where the model was saved without them."""
    return [_RawSlot(lib.tr_predictor_slot(predictor, i)) for i in range(lib.tr_predictor_slot_count(predictor))]


@contextlib.contextmanager
def feeds_of(predictor: Any, slots: Sequence[_RawSlot], rows: Any) -> Iterator[Any]:
    """Yield the native feeds that rows make, of a native predictor with these slots."""
    out = ffi.new("tr_raw_rows **")
    check(lib.tr_raw_rows_new(out, predictor))
    try:
        rows = _checked(rows, slots)
        values = ffi.new("tr_raw_values[]", len(slots))
        keep = [_Column(slot, rows).fill(native) for native, slot in zip(values, slots)]
        check(lib.tr_raw_rows_fill(out[0], len(rows), len(slots), values))
        del keep
        yield lib.tr_raw_rows_feeds(out[0])
    finally:
        lib.tr_raw_rows_free(out[0])


def feed_of(predictor: Any, slots: Sequence[_RawSlot], rows: Any) -> dict[str, Any]:
    """Return the feed that rows make."""
    with feeds_of(predictor, slots, rows) as feeds:
        return dict(_value_of(feeds[i]) for i in range(len(slots)))


def _checked(rows: Any, slots: Sequence[_RawSlot]) -> Sequence[Mapping[str, Any]]:
    """Return rows of which each has a value for each slot and for nothing else."""
    if isinstance(rows, (Mapping, str)) or not isinstance(rows, Sequence):
        raise TypeError(f"rows are a list of dicts, such as [{{{_form(slots)}}}]; got {reprlib.repr(rows)}")
    names = {slot.name for slot in slots}
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidArgumentError(f"{_place(i, len(rows))}expected a dict, such as {{{_form(slots)}}}; got {reprlib.repr(row)}"
                                       f"\n  your line: {user_line()}")
        if row.keys() != names:
            _refuse_names(_place(i, len(rows)), row, [slot.name for slot in slots])
    return rows


def _form(slots: Sequence[_RawSlot]) -> str:
    return ", ".join(f'"{slot.name}": ...' for slot in slots)


def _place(row: int, rows: int) -> str:
    return f"row {row} (from 0), " if rows > 1 else ""


def _refuse_names(place: str, row: Mapping[str, Any], names: Sequence[str]) -> NoReturn:
    for name in row:
        if name not in names:
            raise NotFoundError(f"{place}slot {reprlib.repr(name)}: the model has no such slot; it has {', '.join(names)}"
                                f"{did_you_mean(str(name)[:60], names)}\n  your line: {user_line()}")
    name = next(name for name in names if name not in row)
    raise NotFoundError(f"{place}slot {name!r}: expected a value, got none; a row has {', '.join(names)}, and None (null) stands for a "
                        f"missing value\n  your line: {user_line()}")


def _shown(value: Any) -> str:
    """Return the beginning of a value's text."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    return reprlib.repr(value)


class _Column:
    """The values of one slot in all rows, one row after the other."""

    def __init__(self, slot: _RawSlot, rows: Sequence[Mapping[str, Any]]) -> None:
        self._slot, self._rows = slot, len(rows)
        values = [row[slot.name] for row in rows]
        self._ends: Sequence[int] = range(len(rows) + 1)       # where each row's values begin, and the last one's end
        if slot.lod_level or slot.width > 1:
            lists = [self._list_of(i, value) for i, value in enumerate(values)]
            self._ends = [0, *itertools.accumulate(map(len, lists))]
            values = list(itertools.chain.from_iterable(lists))
        self._is_null = [False] * len(values)
        usual = self._usual(values)
        self._values = [self._value(i, value) for i, value in enumerate(values)] if usual is None else usual

    def _list_of(self, row: int, value: Any) -> Sequence[Any]:
        """Return the values of a list, which may be nested as the feed is. None is an empty sequence, or a row of missing values."""
        slot, inner = self._slot, tuple(self._slot.shape[1:])
        if value is None:
            return [] if slot.lod_level else [None] * slot.width
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, (list, tuple)):
            self._refuse_list(row, value)
        if any(isinstance(one, (list, tuple, np.ndarray)) for one in value):
            try:
                array = np.array(value, object)
            except ValueError:
                self._refuse_list(row, value)
            if array.shape[1 if slot.lod_level else 0:] != inner:
                self._refuse_list(row, value)
            value = array.reshape(-1).tolist()
        flat: Sequence[Any] = value
        if len(flat) % slot.width or not slot.lod_level and len(flat) != slot.width:
            self._refuse_list(row, value)
        return flat

    def _usual(self, values: list[Any]) -> list[Any] | None:
        """Return values that are all of the type that a slot mostly has; None: look at each."""
        slot, kinds = self._slot, set(map(type, values))
        if slot.hash and kinds == {str}:
            with contextlib.suppress(UnicodeEncodeError):
                return [value.encode() for value in values]
        elif slot.is_int and not slot.hash and kinds == {int} and _LEAST <= min(values) and max(values) < -_LEAST:
            return values
        elif not slot.is_int and kinds == {float}:             # the core takes NaN for a missing value
            return values
        return None

    def _value(self, at: int, value: Any) -> Any:
        """Return a value as the core takes it, and note whether it is missing. NaN is, as in CSV."""
        if isinstance(value, np.generic):
            value = value.item()
        self._is_null[at] = value is None or isinstance(value, float) and value != value
        if self._slot.hash:
            return b"" if self._is_null[at] else self._text(at, value)
        if self._is_null[at]:
            return 0
        return self._int(at, value) if self._slot.is_int else self._float(at, value)

    def _text(self, at: int, value: Any) -> bytes:
        """Return the text of which the id is the hash. Of an integer its digits are, as CSV has them."""
        if isinstance(value, str):
            try:
                return value.encode()
            except UnicodeEncodeError:
                self._refuse(at, value, " in UTF-8")
        if isinstance(value, bytes):
            return value
        if type(value) is not int or not _LEAST <= value < _MOST:
            self._refuse(at, value)
        return str(value).encode()

    def _int(self, at: int, value: Any) -> int:
        if not isinstance(value, int) or not _LEAST <= value < _MOST:
            self._refuse(at, value)
        return int(value) if value < -_LEAST else value - _MOST

    def _float(self, at: int, value: Any) -> float:
        if isinstance(value, (int, float)):
            with contextlib.suppress(OverflowError):
                return float(value)
        self._refuse(at, value)

    def _refuse(self, at: int, value: Any, how: str = "") -> NoReturn:
        row = bisect.bisect_right(self._ends, at) - 1
        self._fail(row, self._slot.expected + how, value)

    def _refuse_list(self, row: int, value: Any) -> NoReturn:
        slot = self._slot
        count = "" if slot.width == 1 else f"rows of {slot.width} " if slot.lod_level else f"{slot.width} "
        self._fail(row, f"a list of {count}values, each {slot.expected}", value)

    def _fail(self, row: int, expected: str, value: Any) -> NoReturn:
        raise InvalidArgumentError(f"{_place(row, self._rows)}slot {self._slot.name!r}: expected {expected}, got {_shown(value)}"
                                   f"\n  your line: {user_line()}")

    def fill(self, native: Any) -> Any:
        """Let a tr_raw_values look at the column; return what must live as long."""
        slot = self._slot
        keep: list[Any] = [ffi.new("char[]", name_chars(slot.name)), np.array(self._is_null, "bool")]
        native.slot, native.is_null = keep[0], ffi.from_buffer("bool[]", keep[1])
        if slot.lod_level:
            keep.append(np.array(self._ends, "int64"))
            native.offsets = ffi.from_buffer("int64_t[]", keep[-1])
        if slot.hash:
            native.kind, native.texts = lib.TR_RAW_TEXTS, self._texts(keep)
        elif slot.is_int:
            keep.append(np.array(self._values, "int64"))
            native.kind, native.ints = lib.TR_RAW_INTS, ffi.from_buffer("int64_t[]", keep[-1])
        else:
            keep.append(np.array(self._values, "float64"))
            native.kind, native.numbers = lib.TR_RAW_NUMBERS, ffi.from_buffer("double[]", keep[-1])
        return keep

    def _texts(self, keep: list[Any]) -> Any:
        """Return the texts, which lie one after the other in one buffer."""
        joined, texts = ffi.from_buffer("char[]", b"".join(self._values)), np.zeros(len(self._values), _TEXT)
        sizes = list(map(len, self._values))
        begin = int(ffi.cast("uintptr_t", joined))
        texts["size"], texts["bytes"] = sizes, list(itertools.accumulate(sizes[:-1], initial=begin))[:len(sizes)]
        keep += [joined, texts]
        return ffi.from_buffer("tr_raw_text[]", texts)
