"""Slots: the columns of the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core import ffi, lib
from ..native.checks import plain
from ..native.dtypes import NUMPY_DTYPES, convert_dtype
from ..native.errors import InvalidArgumentError
from ..native.tensor import LoDTensor
from ..program import Variable, default_main_program


class Slot:
    """A variable to feed, and where a line has its values.

    ``var`` is a data variable, or a name with ``dtype``, ``shape`` (first the batch, -1) and ``lod_level``. For CSV and tables:
    ``columns`` are the names or numbers (from 0) of its columns; ``hash`` makes an id below that number of any text
    (dtype int64); ``missing`` (finite; whole where dtype is int64) is the value of an empty field, of NA, N/A, NaN, null
    (in any case) and ?, and of a table's null. Without it such a field is a mistake.

    >>> fluid.Slot("city", dtype="int64", shape=[-1, 1], columns=["city"], hash=1000)
    Slot('city', int64[-1, 1], columns=['city'], hash=1000)
    """

    def __init__(self, var: Variable | str, dtype: Any = None, shape: Sequence[int] | None = None,
                 lod_level: int | None = None, *, columns: Sequence[str | int] | str | int | None = None, hash: int = 0,
                 missing: float | None = None) -> None:
        if isinstance(var, str) and dtype is None and default_main_program().global_block().has_var(var):
            var = default_main_program().global_block().var(var)
        if isinstance(var, Variable):
            dtype = var.dtype if dtype is None else dtype
            shape = var.desc.shape() if shape is None else shape
            lod_level = var.lod_level if lod_level is None else lod_level
        elif not isinstance(var, str):
            raise TypeError(f"Slot: a Variable or a name is possible, got {var!r}")
        elif dtype is None:
            raise InvalidArgumentError(f"Slot({var!r}): the program has no such variable; give dtype and shape")
        self.name: str = var.name if isinstance(var, Variable) else var
        self.dtype = convert_dtype(dtype)
        self.shape = [int(dim) for dim in (shape if shape is not None else [-1, 1])]
        self.lod_level = int(lod_level or 0)
        columns, missing = plain(columns), plain(missing)
        self.columns = [] if columns is None else [columns] if isinstance(columns, (str, int)) else list(columns)
        self.hash = int(hash)
        if missing is not None and missing != float(missing):
            raise InvalidArgumentError(f"Slot({self.name!r}): missing={missing!r}; a finite number that a float holds is possible")
        self.missing = missing

    def __repr__(self) -> str:
        more = [f"{name}={value!r}" for name, value in [("lod_level", self.lod_level), ("columns", self.columns),
                                                       ("hash", self.hash)] if value]
        more += [f"missing={self.missing!r}"] if self.missing is not None else []
        dtype = NUMPY_DTYPES.get(int(self.dtype), self.dtype)
        return f"Slot({', '.join([repr(self.name), f'{dtype}{self.shape}', *more])})"


def _value_of(feed: Any) -> tuple[str, Any]:
    """Return name and value of a feed, copied."""
    shape = tuple(ffi.unpack(feed.dims, feed.rank))
    dtype = NUMPY_DTYPES[feed.dtype]
    size = int(np.prod(shape)) * dtype.itemsize
    array = np.frombuffer(bytes(ffi.buffer(ffi.cast("char *", feed.data), size)), dtype).reshape(shape).copy()
    name = ffi.string(feed.name).decode()
    if not feed.lod_levels:
        return name, array
    tensor = LoDTensor()
    tensor.set(array)
    tensor.set_lod([list(ffi.unpack(feed.lod_offsets[0], feed.lod_counts[0]))])
    return name, tensor


def hash_id(text: str | bytes, buckets: int) -> int:
    """Return the id that a Slot with ``hash=buckets`` gives a text.

    >>> fluid.feeds.hash_id("Oslo", 1000)
    394
    """
    data = text.encode() if isinstance(text, str) else bytes(text)
    if buckets < 1:
        raise InvalidArgumentError(f"hash_id: buckets={buckets!r}; a positive int is possible")
    return int(lib.tr_data_hash(data, len(data), buckets))


__all__ = ["Slot", "hash_id"]
