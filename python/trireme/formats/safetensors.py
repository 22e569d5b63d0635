"""Arrays in the format safetensors, in and out; no library is needed.

A file is the size of its header (u64), the header (JSON: type, shape and bytes of each array), and the arrays one after the other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..checks import path_text
from ..dtypes import NUMPY_DTYPES
from ..errors import DTypeError, FormatError, NotFoundError, ShapeError
from ..files import damage_of, new_file, open_regular
from ..framework import Program, default_main_program
from ..executor import global_scope
from ..suggest import did_you_mean
from ..tensor import Scope

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}
_NAMES = {np.dtype(dtype): name for name, dtype in _TYPES.items()}
_MOST_HEADER = 100 << 20


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return the arrays of a file by their names; they are looked at where they lie in the mapped file. bfloat16 becomes float32.

    FormatError: the file is damaged, or has a type that no variable can have.
    """
    with damage_of(path), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _MOST_HEADER):
            raise FormatError(f"{path_text(path)!r} is no file of safetensors: its header would have {length} bytes")
        header = json.loads(file.read(length))
        data = np.memmap(file, np.uint8, "r", offset=8 + length) if size > 8 + length else np.empty(0, np.uint8)
    return {name: _array_of(path, name, facts, data) for name, facts in header.items() if name != "__metadata__"}


def _array_of(path: Any, name: str, facts: Any, data: np.ndarray) -> np.ndarray:
    with damage_of(path):
        begin, end = facts["data_offsets"]
        shape, kind = [int(dim) for dim in facts["shape"]], facts["dtype"]
        is_brain = kind == "BF16"
        if not is_brain and kind not in _TYPES:
            raise FormatError(f"{path_text(path)!r}: array {name!r} has the type {kind!r}; {', '.join(_TYPES)} and BF16 are possible")
        dtype = np.dtype("<u2" if is_brain else _TYPES[kind])
        if not 0 <= begin <= end <= len(data) or end - begin != dtype.itemsize * int(np.prod(shape, dtype=np.int64)) or any(dim < 0 for dim in shape):
            raise FormatError(f"{path_text(path)!r} is damaged: array {name!r} of {kind} {shape} lies in bytes {begin} to {end} of {len(data)}")
        raw = np.frombuffer(data[begin:end].tobytes(), dtype) if begin % dtype.itemsize else data[begin:end].view(dtype)
        return ((raw.astype(np.uint32) << 16).view(np.float32) if is_brain else raw).reshape(shape)


def load_safetensors(path: str | os.PathLike[str], main_program: Program | None = None, *, names: Mapping[str, str] | None = None,
                     scope: Scope | None = None, strict: bool = True) -> list[str]:
    """Read a file's arrays into variables of the program that persist; return the names of these.

    ``names`` maps names of the file to those of variables; others are taken as they are. ``strict`` (default True): each array has a variable, and each
    parameter an array (NotFoundError). Shapes must fit (ShapeError), and types (DTypeError), but that floats are converted. Nothing changes where one does not fit.

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
    arrays = {(names or {}).get(name, name): array for name, array in read_safetensors(path).items()}
    known = {var.name: var for var in program.list_vars() if var.persistable}
    ready = {}
    for name, array in arrays.items():
        if name in known:
            ready[name] = _fitted(path, name, array, known[name])
        elif strict:
            raise NotFoundError(f"load_safetensors: the program has no variable {name!r} for an array of {path_text(path)!r}{did_you_mean(name, known)}; names= maps "
                                "names, strict=False passes over it")
    missing = [param.name for param in program.all_parameters() if param.name not in ready]
    if strict and missing:
        raise NotFoundError(f"load_safetensors: {path_text(path)!r} has no array for parameter {missing[0]!r}{did_you_mean(missing[0], arrays)}")
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


def save_safetensors(path: str | os.PathLike[str], main_program: Program | None = None, *, scope: Scope | None = None, all_persistables: bool = False) -> list[str]:
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
    chosen = [var.name for var in program.list_vars() if var.persistable] if all_persistables else [param.name for param in program.all_parameters()]
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


__all__ = ["load_safetensors", "read_safetensors", "save_safetensors"]
