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
from ..native.names import name_chars
from ..native.scope import Scope

SHARDS, _PARTS = 1024, 16
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
    """Write a table into ``folder``, which is there whole or not at all: ``about.json`` and parts for NumPy."""
    import json                                    # here: `import trireme` stays light

    about = describe(scope, name)
    dtype, rows = row_dtype(about), 0
    with new_folder(folder) as (part, about_file):
        for number in range(_PARTS):
            array = np.frombuffer(_packed_rows(scope, name, number), dtype)
            with open(os.path.join(part, f"rows-{number:02d}.npy"), "wb") as file:
                np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
                file.write(array.data)             # np.save does not say why it has written less
            rows += len(array)
        about_file.write(json.dumps({"format": 1, "name": name, "rows": rows, **about}, indent=1).encode())


def _packed_rows(scope: Scope, name: str, number: int) -> bytes:
    """The rows of one of the parts that a table is written in."""
    out, size, first = ffi.new("void **"), ffi.new("int64_t *"), number * SHARDS // _PARTS
    check(lib.tr_table_read_rows(out, size, scope._native.ptr, name_chars(name), first, (number + 1) * SHARDS // _PARTS - first, 0))
    rows: bytes = ffi.buffer(out[0], size[0])[:]
    lib.tr_free(out[0])
    return rows


def load_table(scope: Scope, name: str, folder: str) -> None:
    """Read what ``save_table`` wrote into a table, which is made when the scope has none of this name.

    A damaged file raises FormatError, a table that the program does not fit ShapeError; then the table has no rows or some. In a job whose
    servers have the rows it is unchanged.
    """
    about = _read_about(name, folder)
    var = scope.find_var(name)
    if var is None or var.kind() != VarType.RAW:
        declare(scope, name, about)
    here = describe(scope, name)
    for key in ("dtype", "width", "states"):
        if here[key] != about[key]:
            raise ShapeError(f"sparse table {name!r} in {folder!r} has {key} {about[key]}, the program wants {here[key]}")
    set_rows(scope, name, f"loading of the table {name!r}, which had {about['updates']} updates",
             lambda target: _load_rows(target, name, folder, {**here, "updates": about["updates"]}), clear=True)       # ages of rows go on


def _load_rows(scope: Scope, name: str, folder: str, about: dict[str, Any]) -> None:
    declare(scope, name, about)
    dtype = row_dtype(about)
    for number in range(_PARTS):
        array = _read_rows(path_inside(folder, f"rows-{number:02d}.npy"), dtype)
        rows = ffi.from_buffer(np.ascontiguousarray(array).view(np.uint8))
        check(lib.tr_table_write_rows(scope._native.ptr, name_chars(name), rows, array.nbytes, number == 0))


def set_rows(scope: Scope, name: str, call: str, fill: Callable[[Scope], None], *, clear: bool) -> None:
    """Let ``fill`` write rows into a table of the scope that it is handed: this one. In a job whose servers have the rows it is another
    scope, on one trainer, and the servers get those rows; all trainers make this call."""
    if not lib.tr_job_has_rows(scope._native.ptr, name_chars(name)):
        fill(scope)
        return
    steps = session.steps_of_process()
    assert steps is not None                           # only a rank has such a table
    steps.set_rows(scope, name, call, fill, clear=clear)


def _read_about(name: str, folder: str) -> dict[str, Any]:
    import json                                    # here: `import trireme` stays light

    path = path_inside(folder, "about.json")
    if not os.path.exists(path):
        raise NotFoundError(f"there is no saved sparse table in {folder!r}")
    with damage_of(path), open_regular(path) as file:
        read = json.load(file)
        about = {**{key: read[key] for key in _NUMBERS if key != "updates"}, "updates": read.get("updates", 0),
                 "state_value": list(read["state_value"])}
        row_dtype(about)
        _native_of(name, about)
    return about


def _read_rows(path: str, dtype: np.dtype) -> np.ndarray:
    with damage_of(path), open_regular(path) as file:
        array: np.ndarray = np.load(file, allow_pickle=False)
        if array.dtype != dtype or array.ndim != 1:
            raise ShapeError(f"{path!r} holds {array.dtype} {list(array.shape)}, expected rows of {dtype}")
    return array


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
