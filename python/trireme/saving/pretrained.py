"""Rows of sparse tables that come from elsewhere: by key from arrays, and from or into a dense embedding of the same name."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .._core import ffi, lib
from ..native.dtypes import VarType
from ..native.errors import DTypeError, InvalidArgumentError, NotFoundError, ShapeError, check, user_line
from ..native.files import path_inside
from ..native.names import name_chars
from ..native.scope import Scope
from ..parameters.sparse_table import LOOKUP
from ..parameters.table_files import declare, describe, load_table, row_dtype, set_rows
from ..program import Program, Variable
from ..run.runner import Runner
from ..run.scopes import global_scope


def set_table_rows(name: str, keys: Any, values: Any, scope: Scope | None = None) -> None:
    """Give keys of the sparse table ``name`` these values: row ``i`` of ``values`` is the row of ``keys[i]``.

    Call it after the startup program. ``keys`` are any int64, each once; ``values`` has a row for each. The rows have the optimizer's first
    state, also where the table had such a row before. Other keys keep what they have. In a job all trainers make this call, with the same
    rows, before the same step. Modes in which trainers train copies, and ``sync(backups)``, allow it before the first step alone:
    UnsupportedError. ``scope`` defaults to the global one.

    >>> ids = fluid.layers.data("ids", [1], dtype="int64")
    >>> words = fluid.layers.embedding(ids, [100000, 2], is_distributed=True, param_attr="words")
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> fluid.io.set_table_rows("words", [7, -3], [[1.0, 2.0], [3.0, 4.0]])
    >>> exe.run(feed={"ids": np.array([[-3], [7]])}, fetch_list=[words])
    [array([[3., 4.],
           [1., 2.]], dtype=float32)]
    """
    scope = global_scope() if scope is None else scope
    var = scope.find_var(name)
    if var is None or var.kind() != VarType.RAW:
        raise NotFoundError(f"set_table_rows: the scope has no sparse table {name!r}: run the startup program of an embedding with "
                            f"is_distributed=True first\n  your line: {user_line()}")
    about = describe(scope, name)
    key, row = np.asarray(keys), np.asarray(values)
    if key.dtype.kind not in "iu" or key.ndim != 1 or len(np.unique(key)) != len(key):
        raise InvalidArgumentError(f"set_table_rows: keys must be different integers in one dimension, got {key.dtype}{list(key.shape)}\n  "
                                   f"your line: {user_line()}")
    if row.dtype.kind not in "fiu" or row.shape != (len(key), about["width"]):
        raise ShapeError(f"set_table_rows: {len(key)} rows of {about['width']} numbers are wanted for {name!r}, got "
                         f"{row.dtype}{list(row.shape)}\n  your line: {user_line()}")
    _write(scope, name, key.astype(np.int64), row.astype(np.float32))


def _write(scope: Scope, name: str, keys: np.ndarray, values: np.ndarray) -> None:
    from zlib import crc32                         # here: `import trireme` stays light

    digest = crc32(values.tobytes(), crc32(keys.tobytes()))
    set_rows(scope, name, f"setting of {len(keys)} rows of the table {name!r} (CRC-32 of keys and values: {digest:08x})",
             lambda target: _fill(target, name, describe(scope, name), keys, values), clear=False)


def _fill(target: Scope, name: str, about: dict[str, Any], keys: np.ndarray, values: np.ndarray) -> None:
    packed = np.zeros(len(keys), row_dtype(about))
    packed["key"], packed["touches"], packed["last"] = keys, 1, about["updates"]
    kind = VarType(about["dtype"])
    packed["values"] = _bf16_bits(values) if kind == VarType.BF16 else values
    if about["states"]:
        packed["states"] = np.asarray(about["state_value"], np.float32)[None, :, None]
    if target.find_var(name) is None:
        declare(target, name, about)
    data = ffi.from_buffer(packed.view(np.uint8))
    check(lib.tr_table_write_rows(target._native.ptr, name_chars(name), data, packed.nbytes, False))


def _bf16_bits(values: np.ndarray) -> np.ndarray:
    """Round to nearest even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def load_rows(scope: Scope, name: str, path: str) -> None:
    """Read a table, from the folder of a table or from the file of a dense embedding, whose row ``i`` becomes the row of key ``i``."""
    if not os.path.isfile(path):
        load_table(scope, name, path)
        return
    dense = _read_dense(path)
    about = describe(scope, name)
    if dense.ndim != 2 or dense.shape[1] != about["width"]:
        raise ShapeError(f"{path!r} is a dense tensor {list(dense.shape)}, the sparse table {name!r} wants rows of {about['width']}")
    if dense.dtype != np.float32:
        raise DTypeError(f"{path!r} is a dense tensor of {dense.dtype}; rows of a sparse table are read from float32")
    _write(scope, name, np.arange(len(dense)), dense)


def _read_dense(path: str) -> np.ndarray:
    program, loaded = Program(), Scope()
    block = program.global_block()
    block.create_var(name="dense", persistable=True, dtype=VarType.FP32, shape=[-1, -1])
    block.append_op(type="load", outputs={"Out": ["dense"]}, attrs={"file_path": path})
    Runner().run(program, scope=loaded)
    return np.array(loaded.var("dense").get_tensor())


def load_from_tables(scope: Scope, dirname: str, wanted: list[Variable]) -> list[Variable]:
    """Load the dense embeddings that were saved as sparse tables. Return the other variables."""
    others = []
    for var in wanted:
        folder, shape = path_inside(dirname, var.name), list(var.desc.shape())
        if not os.path.exists(os.path.join(folder, "about.json")):
            others.append(var)
            continue
        rows = _dense_of(folder, var.name, shape[0])
        if list(rows.shape) != shape:
            raise ShapeError(f"the sparse table {var.name} in {dirname!r} has rows of {rows.shape[1]}, the program wants {shape}")
        scope.var(var.name).get_tensor().set(rows)
    return others


def _dense_of(folder: str, name: str, height: int) -> np.ndarray:
    """Return the rows of the keys 0 .. ``height`` - 1 of a saved table. A key without a row has its first value."""
    program, scope = Program(), Scope()
    load_table(scope, name, folder)
    block = program.global_block()
    block.create_var(name=name, type=VarType.RAW, persistable=True)
    block.create_var(name="@KEYS", shape=[-1, 1], dtype=VarType.INT64)
    block.create_var(name="@ROWS", shape=[-1, describe(scope, name)["width"]], dtype=VarType.FP32)
    block.append_op(type=LOOKUP, inputs={"W": name, "Ids": "@KEYS"}, outputs={"Out": "@ROWS"},
                    attrs={"width": describe(scope, name)["width"]})
    rows, = Runner().run(program, {"@KEYS": np.arange(height).reshape(-1, 1)}, ["@ROWS"], scope=scope)
    return np.array(rows)
