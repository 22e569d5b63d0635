"""Sparse tables on the disk: a folder with ``about.json`` and parts for NumPy; and their rows as arrays."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core import ffi, lib
from ..job.session import session
from ..native.dtypes import VarType
from ..native.errors import NotFoundError, ShapeError, check
from ..native.files import damage_of, new_folder, open_regular, path_inside
from ..native.names import name_chars, path_chars
from ..native.scope import Scope

SHARDS = 1024                          # virtual shards of a table
_PARTS, _COUNT_DIGITS = 16, 20
_MOST_BYTES = 64 << 20                # of a part: a server has room for one
_NUMBERS = ("dtype", "width", "states", "init", "a", "b", "random_key", "entry_count", "entry_probability", "max_age",
            "keep_count", "max_rows", "updates")
_ROW_TYPES = {VarType.FP32: "<f4", VarType.FP16: "<f2", VarType.BF16: "<u2"}


def describe(scope: Scope, name: str) -> dict[str, Any]:
    table, text = ffi.new("tr_job_table *"), ffi.new("char[]", name_chars(name))
    check(lib.tr_job_describe_table(table, scope._native.ptr, text))
    return {**{key: getattr(table, key) for key in _NUMBERS}, "state_value": list(table.state_value)[:table.states]}


def row_dtype(about: dict[str, Any]) -> np.dtype:
    """How a packed row lies in memory: see tr_table_read_rows."""
    width, states, values = about["width"], about["states"], np.dtype(_ROW_TYPES[VarType(about["dtype"])])
    behind = 16 + -(-width * values.itemsize // 4) * 4
    names = ["key", "touches", "last", "values"] + ["states"] * bool(states)
    formats = ["<i8", "<u4", "<u4", (values, (width,))] + [("<f4", (states, width))] * bool(states)
    size = -(-(behind + 4 * states * width) // 8) * 8
    return np.dtype({"names": names, "formats": formats, "offsets": [0, 8, 12, 16, behind][:len(names)], "itemsize": size})


def save_table(scope: Scope, name: str, folder: str) -> None:
    """Write a table into ``folder``, which is there whole or not at all: ``about.json`` and parts for NumPy.

    In a job the servers write the parts. If the folder is a copy of a store's, the parts go to the store at once.
    """
    import json                                    # here: `import trireme` stays light

    from ..stores.copies import original

    about = describe(scope, name)
    head, count_at = _head_of(row_dtype(about))
    with new_folder(folder) as (part, about_file):
        place, first = original(folder) or os.path.abspath(part), cuts(scope, name, _MOST_BYTES, _PARTS)
        files = [File(f"{place}/rows-{one:04d}.npy", one, end - one) for one, end in zip(first, first[1:])]
        save_files(scope, name, files, head, count_at)
        parts = [{"file": os.path.basename(file.path), "shard": file.shard, "shards": file.shards, "rows": file.rows, "crc32c": file.crc}
                 for file in files]
        whole = {"format": 2, "name": name, "rows": sum(file.rows for file in files), **about, "head": len(head), "parts": parts}
        about_file.write(json.dumps(whole, indent=1).encode())


def _head_of(dtype: np.dtype) -> tuple[bytes, int]:
    """Return the header of NumPy's file of records, with room for their number, and where that room is."""
    import io

    head, shape = io.BytesIO(), 10 ** (_COUNT_DIGITS - 1)
    np.lib.format.write_array_header_1_0(head, {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (shape,)})
    return head.getvalue(), head.getvalue().index(str(shape).encode())


class File:
    """A file with rows of some shards of a table. ``path`` is absolute, or a URI."""

    __slots__ = ("crc", "last", "path", "rows", "shard", "shards", "since")

    def __init__(self, path: str, shard: int, shards: int, since: int = 0, rows: int = 0, crc: int = -1) -> None:
        self.path, self.shard, self.shards, self.since, self.rows = path, shard, shards, since, rows
        self.crc = crc                                 # CRC-32C of the packed rows; -1: not known
        self.last = 0                                  # the newest update that has touched one of them


def cuts(scope: Scope, name: str, most: int, least: int) -> list[int]:
    """Return the first shards of files of about ``most`` bytes of rows each, at least ``least`` files, and the number of shards."""
    first, count = ffi.new("int[]", SHARDS + 1), ffi.new("int *")
    check(lib.tr_table_cut_files(first, count, scope._native.ptr, name_chars(name), most, least))
    return list(first[0:count[0] + 1])


def save_files(scope: Scope, name: str, files: list[File], head: bytes | None = None, count_at: int = 0) -> None:
    """Write these files, and note how many rows each has. In a job the servers write them. Without ``head`` they are files for serving."""
    native, _kept = _native_files(files, head, count_at)
    check(lib.tr_table_save_files(scope._native.ptr, name_chars(name), len(files), native))
    for file, done in zip(files, native):
        file.rows, file.crc, file.last = done.rows, done.crc, done.last


def _native_files(files: list[File], head: bytes | None, count_at: int) -> tuple[Any, list[Any]]:
    text = ffi.NULL if head is None else ffi.new("char[]", head)
    kept = [text, *(ffi.new("char[]", path_chars(file.path)) for file in files)]
    native = ffi.new("tr_table_file[]", [
        {"path": path, "head": text, "head_bytes": len(head or b""), "count_at": count_at, "shard": file.shard, "shards": file.shards,
         "since": file.since, "rows": file.rows, "crc": file.crc} for file, path in zip(files, kept[1:])])
    return native, kept


def load_table(scope: Scope, name: str, folder: str) -> None:
    """Read what ``save_table`` wrote into a table, which is made when the scope has none of this name.

    A damaged file raises FormatError, a table that the program does not fit ShapeError; then the table has no rows or some. In a job whose
    servers have the rows it is unchanged.
    """
    about, files, head = _read_about(name, folder)
    var = scope.find_var(name)
    if var is None or var.kind() != VarType.RAW:
        declare(scope, name, about)
    here = describe(scope, name)
    for key in ("dtype", "width", "states"):
        if here[key] != about[key]:
            raise ShapeError(f"sparse table {name!r} in {folder!r} has {key} {about[key]}, the program wants {here[key]}")
    wanted = {**here, "updates": about["updates"]}         # ages of rows go on
    set_rows(scope, name, f"loading of the table {name!r}, which had {about['updates']} updates",
             lambda target: _load_rows(target, name, files, head, wanted), clear=True)


def _load_rows(scope: Scope, name: str, files: list[File], head: int, about: dict[str, Any]) -> None:
    declare(scope, name, about)
    from ..job.job import current

    native, _kept = _native_files(files, b" " * head, 0)
    check(lib.tr_table_load_files(scope._native.ptr, name_chars(name), len(files), native, current() is not None))


def set_rows(scope: Scope, name: str, call: str, fill: Callable[[Scope], None], *, clear: bool) -> None:
    """Let ``fill`` write rows into a table of the scope that it is handed: this one. In a job whose servers have the rows it is another
    scope, on one trainer, and the servers get those rows; all trainers make this call."""
    if not lib.tr_job_has_rows(scope._native.ptr, name_chars(name)):
        fill(scope)
        return
    steps = session.steps_of_process()
    assert steps is not None                           # only a rank has such a table
    steps.set_rows(scope, name, call, fill, clear=clear)


def _read_about(name: str, folder: str) -> tuple[dict[str, Any], list[File], int]:
    """Return what ``about.json`` says of a table, its parts, and the bytes of their headers."""
    import json                                    # here: `import trireme` stays light

    from ..stores.copies import original

    path = path_inside(folder, "about.json")
    if not os.path.exists(path):
        raise NotFoundError(f"there is no saved sparse table in {folder!r}")
    with damage_of(path), open_regular(path) as file:
        read = json.load(file)
        about = {**{key: read[key] for key in _NUMBERS}, "state_value": list(read["state_value"])}
        dtype = row_dtype(about)
        _native_of(name, about)
        files = _files_of(read["parts"], folder)
        head = _number(read["head"], 1 << 20)
    for one in () if original(path) else files:
        _check_head(one, dtype, head)
    return about, files, head


def _files_of(parts: list[dict[str, Any]], folder: str) -> list[File]:
    files = [File(_path_of(folder, part["file"]), _number(part["shard"], SHARDS), _number(part["shards"], SHARDS),
                  rows=_number(part["rows"], 1 << 62), crc=_number(part["crc32c"], (1 << 32) - 1)) for part in parts]
    ends = [0, *(file.shard + file.shards for file in files)]
    if ends[-1] != SHARDS or ends[:-1] != [file.shard for file in files]:
        raise ValueError("its parts are not those of a whole table")
    return files


def _number(value: Any, most: int) -> int:
    if not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(f"{value!r:.80} is no number from 0 to {most}")
    return value


def _path_of(folder: str, name: str) -> str:
    from ..stores.copies import original

    path = path_inside(folder, name)
    return original(path) or os.path.abspath(path)


def _check_head(file: File, dtype: np.dtype, head: int) -> None:
    with damage_of(file.path), open_regular(file.path) as opened:
        if np.lib.format.read_magic(opened) != (1, 0):
            raise ValueError("it is no file of NumPy's version 1.0")
        shape, _, found = np.lib.format.read_array_header_1_0(opened)
        if found != dtype or shape != (file.rows,) or opened.tell() != head:
            raise ShapeError(f"{file.path!r} holds {found} {list(shape)}, expected {file.rows} rows of {dtype}")


def _native_of(name: str, about: dict[str, Any]) -> tuple[Any, Any]:
    """Return a tr_job_table, and the name that it points at."""
    text = ffi.new("char[]", name_chars(name))
    table = ffi.new("tr_job_table *", {"name": text, **{key: about[key] for key in _NUMBERS}})
    for i, value in enumerate(about["state_value"]):
        table.state_value[i] = value
    return table, text


def declare(scope: Scope, name: str, about: dict[str, Any]) -> None:
    table, _text = _native_of(name, about)
    check(lib.tr_table_declare(scope._native.ptr, table))
