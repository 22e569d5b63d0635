"""Some rows of a tall tensor, by their numbers: what gradients of look-ups are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._core import ffi, lib
from .errors import check
from .handles import Native
from .tensor import CPUPlace, LoDTensor, _lod_tensor_of, _Tensor


class SelectedRows(_Tensor):
    """Some rows of a tensor ``height`` rows high; a row that stands twice adds up.

    >>> rows = fluid.core.SelectedRows([4, 7], 10)
    >>> rows.set(np.ones((2, 3), "float32"))
    >>> rows
    SelectedRows(float32[2, 3], rows=[4, 7], height=10)
    """

    def __init__(self, rows: Iterable[int] = (), height: int = 0, *, _native: Native | None = None,
                 _ptr: Any = None) -> None:
        super().__init__(_native, _ptr)
        self._pending: tuple[list[int], int] | None = ([int(row) for row in rows], int(height)) if _native is None else None

    def __copy__(self) -> SelectedRows:
        copied: SelectedRows = super().__copy__()
        copied._pending = self._pending
        return copied

    def __deepcopy__(self, memo: Any) -> SelectedRows:
        copied: SelectedRows = super().__deepcopy__(memo)
        copied._pending = self._pending
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _selected_rows_of, (self._bits(), self.rows(), self.height())

    def set(self, array: Any, rows: Iterable[int] | None = None, height: int | None = None) -> None:
        """Copy ``array`` (one line per row) in; ``rows`` and ``height`` default to those there are."""
        keep = self._pending or (self.rows(), self.height())
        rows = [int(row) for row in rows] if rows is not None else keep[0]
        height = int(height) if height is not None else keep[1]
        self._set(array)
        check(lib.tr_tensor_set_rows(self._ptr, height, len(rows), rows))
        self._pending = None

    def set_rows(self, rows: Iterable[int]) -> None:
        """Say which rows these are. Values, rows and height may come in any order; they count once they fit each other."""
        self._plan([int(row) for row in rows], self.height())

    def set_height(self, height: int) -> None:
        """Say how high the whole tensor is, as ``set_rows`` does. ``height`` is that number of rows."""
        self._plan(self.rows(), int(height))

    def _plan(self, rows: list[int], height: int) -> None:
        if height > 0 and self._is_initialized() and self.shape()[:1] == [len(rows)]:
            check(lib.tr_tensor_set_rows(self._ptr, height, len(rows), rows))
            self._pending = None
        else:
            self._pending = rows, height

    def sync_index(self) -> None:
        """Do nothing: rows are found without an index."""

    def numel(self) -> int:
        """Return the number of values of the rows that are there."""
        return lib.tr_tensor_numel(self._ptr) if self._is_initialized() else 0

    def rows(self) -> list[int]:
        """Return the numbers of the rows that are there."""
        if self._pending:
            return list(self._pending[0])
        if not lib.tr_tensor_has_rows(self._ptr):
            return []
        return list(ffi.unpack(lib.tr_tensor_rows(self._ptr), lib.tr_tensor_dims(self._ptr)[0]))

    def height(self) -> int:
        """Return how many rows the whole tensor has."""
        return self._pending[1] if self._pending else lib.tr_tensor_height(self._ptr)

    def get_tensor(self) -> LoDTensor:
        """Return the rows' values, sharing the memory; its ``set`` is that of the rows."""
        return _RowsValues(self)

    def to_dense(self) -> np.ndarray:
        """Return the whole tensor: rows that were not selected are zero."""
        values = self.numpy()
        dense = np.zeros((self.height(), *values.shape[1:]), values.dtype)
        np.add.at(dense, self.rows(), values)
        return dense

    def __repr__(self) -> str:
        what = f"{self._dtype()}{self.shape()}" if self._is_initialized() else "not set"
        return f"SelectedRows({what}, rows={self.rows()}, height={self.height()})"


def _selected_rows_of(values: np.ndarray | None, rows: list[int], height: int) -> SelectedRows:
    """Return SelectedRows that were pickled."""
    tensor = SelectedRows(rows, height)
    if values is not None:
        tensor.set(values)
    return tensor


class _RowsValues(LoDTensor):
    """The values of SelectedRows."""

    def __init__(self, rows: SelectedRows) -> None:
        super().__init__(_native=rows._native, _ptr=rows._ptr)
        self._rows = rows
        rows._called(self)

    def __copy__(self) -> LoDTensor:
        return _RowsValues(self._rows)

    def __deepcopy__(self, memo: Any) -> LoDTensor:
        return _lod_tensor_of(self._bits(), [])

    def set(self, array: Any, place: CPUPlace | None = None) -> None:
        rows, height = self._rows.rows(), self._rows.height()
        self._set(array)
        self._rows._plan(rows, height)
