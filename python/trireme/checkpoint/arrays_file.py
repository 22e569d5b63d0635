"""A checkpoint's arrays for others to read: NumPy's .npz, .safetensors."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from ..native.dtypes import VarType
from ..native.errors import InvalidArgumentError, UnsupportedError
from ..native.files import new_file
from .kinds import KINDS
from .opened import Array, Checkpoint, Table

# What safetensors calls the types that it has (https://github.com/huggingface/safetensors, "Format").
_SAFE = {VarType.BOOL: "BOOL", VarType.INT16: "I16", VarType.INT32: "I32", VarType.INT64: "I64", VarType.FP16: "F16",
         VarType.FP32: "F32", VarType.FP64: "F64", VarType.UINT8: "U8", VarType.INT8: "I8", VarType.BF16: "BF16",
         VarType.SIZE_T: "U64"}


@dataclass(frozen=True)
class _Column:
    """One field of a table's rows, as an array of its own: ``table.key``, ``table.values``, ..."""

    table: Table
    field: str

    @property
    def name(self) -> str:
        return f"{self.table.name}.{self.field}"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.table.rows, *self.table.row_dtype[self.field].shape

    @property
    def dtype(self) -> VarType:
        return {"key": VarType.INT64, "values": self.table.dtype, "states": VarType.FP32}.get(self.field, VarType.INT32)

    @property
    def nbytes(self) -> int:
        return self.table.rows * self.table.row_dtype[self.field].itemsize


def _columns(checkpoint: Checkpoint) -> list[_Column]:
    return [_Column(table, field) for table in checkpoint.tables.values() for field in table.row_dtype.names or ()]


class _Values:
    """The arrays of a checkpoint, and the columns of the one table that is in memory."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self._table = ""
        self._rows: np.ndarray = np.empty(0)

    def of(self, item: Array | _Column) -> np.ndarray:
        if isinstance(item, Array):
            return self.checkpoint[item.name]
        if item.table.name != self._table:
            self._rows, self._table = self.checkpoint.table_rows(item.table.name), item.table.name
        column = np.ascontiguousarray(self._rows[item.field])
        return column.view(np.int32) if column.dtype == np.uint32 else column


def export(checkpoint: Checkpoint, path: str, kinds: Iterable[str] = KINDS) -> list[Array | _Column]:
    """Write the arrays of these kinds to ``path``, a NumPy .npz or a .safetensors by its name; return them.

    A sparse table becomes the arrays ``name.key`` [rows], sorted, ``name.touches``, ``name.last``, ``name.values`` [rows, width]
    and ``name.states`` [rows, states, width]; without "table" but with "parameter" its key and values. One array or table is in memory at a
    time. NumPy has no bfloat16: .npz holds such arrays as uint16.
    """
    kinds = set(kinds)
    chosen: list[Array | _Column] = [array for array in checkpoint.arrays.values() if array.kind in kinds]
    chosen += [column for column in _columns(checkpoint)
               if "table" in kinds or ("parameter" in kinds and column.field in ("key", "values"))]
    writers = {".npz": _write_npz, ".safetensors": _write_safetensors}
    write = writers.get(os.path.splitext(path)[1])
    if write is None:
        raise InvalidArgumentError(f"export: {path!r} must end with .npz or .safetensors")
    for array in chosen:
        if array.name != shown(array.name):
            raise UnsupportedError(f"export: the name {array.name!r} is no text, which a file of arrays needs")
    with new_file(path) as file:
        write(file, checkpoint, chosen)
    return chosen


def _write_npz(file: BinaryIO, checkpoint: Checkpoint, arrays: Iterable[Array | _Column]) -> None:
    values = _Values(checkpoint)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for array in arrays:
            with archive.open(f"{array.name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, values.of(array), allow_pickle=False)


def _write_safetensors(file: BinaryIO, checkpoint: Checkpoint, arrays: Iterable[Array | _Column]) -> None:
    import json  # here: `import trireme` stays light

    arrays, values = list(arrays), _Values(checkpoint)
    header: dict[str, Any] = {"__metadata__": {"step": str(checkpoint.step), "mode": checkpoint.mode,
                                               "program": checkpoint.digest}}
    at = 0
    for array in arrays:
        header[array.name] = {"dtype": _SAFE[array.dtype], "shape": list(array.shape),
                              "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)                    # so that the data is aligned
    file.write(len(text).to_bytes(8, "little") + text)
    for array in arrays:
        file.write(values.of(array).reshape(-1).view(np.uint8).data)


def shown(text: str) -> str:
    """As it can be printed: names and modes may hold bytes that are no text."""
    return text.encode("utf-8", "replace").decode()
