"""Arrays in the format safetensors, in and out; no library is needed.

A file is the size of its header (u64), the header (JSON: type, shape and bytes of each array), and the arrays one after the other.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from io import BufferedReader
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..native.checks import path_text
from ..native.dtypes import NUMPY_DTYPES
from ..native.errors import DTypeError, FormatError, InvalidArgumentError, NotFoundError, ShapeError
from ..native.files import damage_of, each_name_once, new_file, open_regular
from ..native.suggest import did_you_mean
from ..native.scope import Scope
from ..program import Program, default_main_program
from ..run.scopes import global_scope

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}
_NAMES = {np.dtype(dtype): name for name, dtype in _TYPES.items()}
_MOST_HEADER = 100 << 20
_MOST_RANK = 9


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return the arrays of a file by their names. bfloat16 becomes float32.

    FormatError: the file is damaged, or has a type that no variable can have; the text names the array.
    """
    with damage_of(path), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _MOST_HEADER):
            raise FormatError(f"{path_text(path)!r} is no file of safetensors: its header would have {length} bytes")
        places = _places_in(path, file.read(length), size - 8 - length)
        return {place.name: _read_array(path, file, 8 + length, place) for place in places}


class _Place(NamedTuple):
    """Where an array lies in the bytes after the header."""

    name: str
    kind: str
    shape: list[int]
    begin: int
    end: int


def _places_in(path: Any, text: bytes, size: int) -> list[_Place]:
    """Return what a header says, in its order. Arrays follow each other in the file without overlaps and gaps."""
    places = [_place_of(path, name, facts) for name, facts in _read_header(path, text).items() if name != "__metadata__"]
    at, before = 0, "the header"
    for place in sorted(places, key=lambda place: (place.begin, place.end)):
        if place.begin != at:
            what = "overlaps" if place.begin < at else "leaves a gap after"
            _refuse(path, place.name, f"it lies in bytes {place.begin} to {place.end}, and {what} {before}, which ends at byte {at}")
        at, before = place.end, f"array {place.name!r}"
    if at != size:
        raise FormatError(f"{path_text(path)!r} is damaged: its arrays end at byte {at} of {size} after the header")
    return places


def _read_header(path: Any, text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode(), object_pairs_hook=each_name_once)
    except FormatError as error:
        raise FormatError(f"{path_text(path)!r} is damaged: its header {error}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path_text(path)!r} is no file of safetensors: its header is no JSON ({str(error) or 'too deep'})") from None
    if not isinstance(header, dict):
        raise FormatError(f"{path_text(path)!r} is no file of safetensors: its header must be an object, got {header!r:.40}")
    about = header.get("__metadata__", {})
    if not isinstance(about, dict) or not all(isinstance(value, str) for value in about.values()):
        raise FormatError(f"{path_text(path)!r} is damaged: '__metadata__' must be an object of texts")
    return header


def _refuse(path: Any, name: str, why: str) -> NoReturn:
    raise FormatError(f"{path_text(path)!r} is damaged: array {name!r}: {why}")


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _place_of(path: Any, name: str, facts: Any) -> _Place:
    if not isinstance(facts, dict) or set(facts) != {"dtype", "shape", "data_offsets"}:
        _refuse(path, name, f"an object with dtype, shape and data_offsets is expected, got {facts!r:.80}")
    kind, shape, offsets = facts["dtype"], facts["shape"], facts["data_offsets"]
    if not isinstance(kind, str) or kind != "BF16" and kind not in _TYPES:
        raise FormatError(f"{path_text(path)!r}: array {name!r} has the type {kind!r:.40}; {', '.join(_TYPES)} and BF16 are possible")
    if not isinstance(shape, list) or len(shape) > _MOST_RANK or not all(map(_is_size, shape)):
        _refuse(path, name, f"its shape must be a list of at most {_MOST_RANK} whole numbers from 0, got {shape!r:.80}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        _refuse(path, name, f"its data_offsets must be two whole numbers from 0, got {offsets!r:.80}")
    size = math.prod(shape) * _dtype_of(kind).itemsize
    if offsets[1] - offsets[0] != size:
        _refuse(path, name, f"{kind} {shape} has {size} bytes, and its data_offsets are {offsets[0]} and {offsets[1]}")
    return _Place(name, kind, shape, *offsets)


def _dtype_of(kind: str) -> np.dtype:
    return np.dtype("<u2" if kind == "BF16" else _TYPES[kind])


def _read_array(path: Any, file: BufferedReader, begin: int, place: _Place) -> np.ndarray:
    file.seek(begin + place.begin)
    raw = np.empty(place.shape, _dtype_of(place.kind))
    if raw.nbytes and file.readinto(raw.reshape(-1).view(np.uint8).data) != raw.nbytes:
        _refuse(path, place.name, "the file was cut while it was read")
    return (raw.astype(np.uint32) << 16).view(np.float32) if place.kind == "BF16" else raw


def load_safetensors(path: str | os.PathLike[str], main_program: Program | None = None, *, names: Mapping[str, str] | None = None,
                     scope: Scope | None = None, strict: bool = True) -> list[str]:
    """Read a file's arrays into variables of the program that persist; return the names of these.

    ``names`` maps names of the file to those of variables; others are taken as they are. ``strict`` (default True): each array has a
    variable, and each parameter an array (NotFoundError). Shapes must fit (ShapeError), and types (DTypeError), but that floats are
    converted. Nothing changes where one does not fit.

    >>> import tempfile, os
    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line")
    >>> _ = fluid.Executor().run(fluid.default_startup_program())
    >>> path = os.path.join(tempfile.mkdtemp(), "m.safetensors")
    >>> fluid.formats.save_safetensors(path)
    ['line.b_0', 'line.w_0']
    >>> fluid.formats.load_safetensors(path)
    ['line.b_0', 'line.w_0']
    """
    program, scope = main_program or default_main_program(), scope or global_scope()
    arrays: dict[str, np.ndarray] = {}
    for name, array in read_safetensors(path).items():
        name = (names or {}).get(name, name)
        if name in arrays:
            raise InvalidArgumentError(f"load_safetensors: names= leads two arrays of {path_text(path)!r} to the variable {name!r}")
        arrays[name] = array
    known = {var.name: var for var in program.list_vars() if var.persistable}
    ready = {}
    for name, array in arrays.items():
        if name in known:
            ready[name] = _fitted(path, name, array, known[name])
        elif strict:
            raise NotFoundError(f"load_safetensors: the program has no variable {name!r} for an array of "
                                f"{path_text(path)!r}{did_you_mean(name, known)}; names= maps names, strict=False passes over it")
    missing = [param.name for param in program.all_parameters() if param.name not in ready]
    if strict and missing:
        raise NotFoundError(f"load_safetensors: {path_text(path)!r} has no array for parameter "
                            f"{missing[0]!r}{did_you_mean(missing[0], arrays)}")
    for name, array in ready.items():
        scope.var(name).get_tensor().set(array)
    return sorted(ready)


def _fitted(path: Any, name: str, array: np.ndarray, var: Any) -> np.ndarray:
    want = var.desc.shape()
    if len(want) != array.ndim or any(a >= 0 and a != b for a, b in zip(want, array.shape)):
        raise ShapeError(f"load_safetensors: {name!r} in {path_text(path)!r} has the shape {list(array.shape)}, the program wants {want}")
    dtype = NUMPY_DTYPES[int(var.dtype)]
    if array.dtype == dtype:
        return array
    if array.dtype.kind == dtype.kind == "f":
        return array.astype(dtype)
    raise DTypeError(f"load_safetensors: {name!r} in {path_text(path)!r} is {array.dtype}, the program wants {dtype}")


def save_safetensors(path: str | os.PathLike[str], main_program: Program | None = None, *, scope: Scope | None = None,
                     all_persistables: bool = False) -> list[str]:
    """Write the program's parameters, or with ``all_persistables`` all that persists, to a file; return their names.

    NotFoundError: one of them has no value yet.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line")
    >>> _ = fluid.Executor().run(fluid.default_startup_program())
    >>> fluid.formats.save_safetensors("line.safetensors")
    ['line.b_0', 'line.w_0']
    >>> fluid.formats.safetensors.read_safetensors("line.safetensors")["line.w_0"].shape
    (2, 1)
    """
    program, scope = main_program or default_main_program(), scope or global_scope()
    chosen = [var.name
              for var in program.list_vars() if var.persistable] if all_persistables else [param.name for param in program.all_parameters()]
    arrays = {}
    for name in sorted(dict.fromkeys(chosen)):
        found = scope.find_var(name)
        if found is None or found.kind() is None:
            raise NotFoundError(f"save_safetensors: {name!r} has no value yet: run the startup program first")
        arrays[name] = np.ascontiguousarray(np.array(found.get_tensor()))
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with new_file(path_text(path)) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(array.tobytes())
    return list(arrays)
