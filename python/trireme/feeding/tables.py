"""Parquet and Arrow files as the core reads them: pyarrow decodes a few rows at a time, and the core's threads take them over.

``feeds.Dataset`` makes a TableReader. The core opens one piece of a file after the other through it, and asks for the next rows. Each
column that a slot wants is cast to the slot's own type, and handed over by Arrow's C data interface: no value is copied on the way. What
rows mean, nulls and lists too, is decided in ``trainer/formats/parse_table.c``.
"""

from __future__ import annotations

import atexit
import functools
import math
import os
import stat
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .._core import ffi, lib
from ..native.dtypes import NUMPY_DTYPES, VarType
from ..native.errors import FileError, FormatError, NotFoundError, TriremeError
from ..native.handles import Uncopied
from ..native.optional import load
from ..stores.names import is_uri
from ..stores.reading import Seekable

if TYPE_CHECKING:
    from .slots import Slot

TABLE_FORMATS = {"parquet": "Parquet", "arrow": "Arrow"}
_MOST_ROWS = 1 << 20                  # of a block
_ARROW_FILE = b"ARROW1"               # the first bytes of a file; a stream has none


class _Column(NamedTuple):
    """A column that a slot wants."""

    name: str
    target: Any                       # the type to cast it to
    inner: int                        # values in each element of its lists


class _Rows(NamedTuple):
    """Some rows of a row group."""

    batch: Any
    group: int
    first: int


class TableReader(Uncopied):
    """The rows of one piece of a file after the other, for the core."""

    def __init__(self, format: str, slots: Sequence[Slot], block_bytes: int) -> None:
        self._pa = load("pyarrow", f"Dataset(format={format!r})")
        self._what = TABLE_FORMATS[format]
        self._groups_of: Callable[[str, int, int], Iterator[_Rows]] = self._parquet if format == "parquet" else self._ipc
        self._slots = slots
        self._block_bytes = block_bytes
        self._columns: list[_Column] = []
        self._rows: Iterator[_Rows] | None = None
        self._path = ""
        self._handle = ffi.new_handle(self)
        self.dataset: Any = None      # whose threads call this reader
        _readers.add(self)

    def fill(self, native: Any) -> None:
        """Let a tr_table_reader call this reader."""
        native.open, native.next, native.close = lib.tr_py_table_open, lib.tr_py_table_next, lib.tr_py_table_close
        native.payload = self._handle

    # -- what the core asks for -----------------------------------------------------------------------------

    def open(self, path: str, begin: int, end: int) -> None:
        """Go to a piece: the row groups that begin at bytes from ``begin`` to ``end``."""
        self._path = path
        if not is_uri(path) and not stat.S_ISREG(os.stat(path).st_mode):
            raise FileError(f"data: {path!r} is no regular file")
        self._rows = self._groups_of(path, begin, end)

    def next(self, out: Any) -> None:
        """Fill a tr_table_block; without rows it is the last one."""
        rows = next(self._rows, None) if self._rows is not None else None
        out.is_last = rows is None
        if rows is None:
            return
        rows.batch.validate(full=True)             # offsets of a damaged file may point anywhere
        arrays = [self._fed(column, rows.batch.column(column.name)) for column in self._columns]
        out.group, out.first, out.bytes = rows.group, rows.first, rows.batch.nbytes
        whole = self._pa.RecordBatch.from_arrays(arrays, [str(i) for i in range(len(arrays))])
        whole._export_to_c(int(ffi.cast("uintptr_t", ffi.addressof(out, "rows"))))

    def close(self) -> None:
        self._rows = None

    # -- files ----------------------------------------------------------------------------------------------

    def _parquet(self, path: str, begin: int, end: int) -> Iterator[_Rows]:
        parquet = load("pyarrow.parquet", "Dataset(format='parquet')")
        with self._source(path) as source, \
                parquet.ParquetFile(source, buffer_size=1 << 20, pre_buffer=is_uri(path), page_checksum_verification=True) as file:
            names = self._bind(file.schema_arrow)
            for group in _of_piece(source.size(), file.num_row_groups, begin, end):
                about = file.metadata.row_group(group)
                first = 0
                for batch in file.iter_batches(self._rows_of_block(about.num_rows, about.total_byte_size), [group], names,
                                               use_threads=False):
                    yield _Rows(batch, group, first)
                    first += batch.num_rows

    def _source(self, path: str) -> Any:
        """Open a file of this machine, or of a store."""
        return self._pa.PythonFile(Seekable(path), mode="r") if is_uri(path) else self._pa.OSFile(path)

    def _ipc(self, path: str, begin: int, end: int) -> Iterator[_Rows]:
        ipc = load("pyarrow.ipc", "Dataset(format='arrow')")
        with self._source(path) as source:
            is_file = source.read(len(_ARROW_FILE)) == _ARROW_FILE
            source.seek(0)
            for group, batch in (self._batches_of_file if is_file else self._batches_of_stream)(ipc, source, begin, end):
                batch.validate()                   # before it is sliced
                step = self._rows_of_block(batch.num_rows, batch.nbytes)
                for first in range(0, batch.num_rows, step):
                    yield _Rows(batch.slice(first, step), group, first)

    def _batches_of_file(self, ipc: Any, source: Any, begin: int, end: int) -> Iterator[tuple[int, Any]]:
        schema = ipc.open_file(source).schema
        file = ipc.open_file(source, options=self._options(ipc, schema))
        for group in _of_piece(source.size(), file.num_record_batches, begin, end):
            yield group, file.get_batch(group)

    def _batches_of_stream(self, ipc: Any, source: Any, begin: int, end: int) -> Iterator[tuple[int, Any]]:
        """Yield the record batches that begin in a piece. A stream has no list of them, so those before are read, too."""
        schema = ipc.open_stream(source).schema
        source.seek(0)
        stream, group, at = ipc.open_stream(source, options=self._options(ipc, schema)), 0, 0
        while at < end:
            try:
                batch = stream.read_next_batch()
            except StopIteration:
                return
            if begin <= at:
                yield group, batch
            group, at = group + 1, source.tell()

    def _options(self, ipc: Any, schema: Any) -> Any:
        fields = sorted({schema.get_field_index(name) for name in self._bind(schema)})
        return ipc.IpcReadOptions(included_fields=fields, use_threads=False)

    def _rows_of_block(self, rows: int, size: int) -> int:
        return max(1, min(_MOST_ROWS, rows * self._block_bytes // max(1, size)))

    # -- columns --------------------------------------------------------------------------------------------

    def _bind(self, schema: Any) -> list[str]:
        """Find the slots' columns in a file, check their types, and return the names of them all."""
        self._columns = []
        for slot in self._slots:
            width = math.prod(slot.shape[1:])
            if len(slot.columns) > 1 and (slot.lod_level or len(slot.columns) != width):
                rows = "a sequence, which stands in one" if slot.lod_level else f"rows of {width} elements"
                raise FormatError(f"{self._path}: slot {slot.name!r} has {len(slot.columns)} columns; it is {rows}")
            for name in slot.columns or [slot.name]:
                field = self._field(schema, slot, name)
                self._columns.append(self._column(field, slot, 1 if len(slot.columns) > 1 else width))
        return list(dict.fromkeys(column.name for column in self._columns))

    def _field(self, schema: Any, slot: Slot, name: str | int) -> Any:
        found = [name] if isinstance(name, int) and 0 <= name < len(schema) else schema.get_all_field_indices(str(name))
        if len(found) != 1:
            names = ", ".join(schema.names)
            count = "no column" if not found else f"{len(found)} columns"
            raise NotFoundError(f"{self._path}: slot {slot.name!r}: there is {count} {name!r}; there are {names}")
        return schema.field(found[0])

    def _column(self, field: Any, slot: Slot, width: int) -> _Column:
        """Choose what to cast a column to; FormatError when its type does not fit the slot."""
        types, kind, sizes = self._pa.types, _storage(self._pa, field.type), []
        outer = kind if _is_list(types, kind) or types.is_fixed_size_list(kind) else None
        if outer is not None:
            kind = kind.value_type
        while types.is_fixed_size_list(kind):
            sizes.append(kind.list_size)
            kind = kind.value_type
        inner = math.prod(sizes)
        if not self._takes(kind, slot) or not _fits(types, outer, inner, width, slot.lod_level):
            raise FormatError(f"{self._path}: slot {slot.name!r}: column {field.name!r}: expected {_expected(slot, width)}, "
                              f"got {field.type}{_hint(types, kind, slot)}")
        target = self._leaf(slot)
        for size in reversed(sizes):
            target = self._pa.list_(target, size)
        return _Column(field.name, self._pa.large_list(target) if outer is not None else target, inner)

    def _takes(self, kind: Any, slot: Slot) -> bool:
        types = self._pa.types
        if types.is_dictionary(kind):
            kind = kind.value_type
        if types.is_null(kind) or types.is_integer(kind):
            return True
        if slot.hash:
            return _is_text(types, kind)
        is_float = types.is_floating(kind) or types.is_decimal(kind)
        return types.is_boolean(kind) or (is_float and slot.dtype != VarType.INT64)

    def _leaf(self, slot: Slot) -> Any:
        return self._pa.large_binary() if slot.hash else self._pa.from_numpy_dtype(NUMPY_DTYPES[int(slot.dtype)])

    def _fed(self, column: _Column, array: Any) -> Any:
        """Return a column as the core takes it: values, or large lists of values."""
        pa = self._pa
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if _wants_digits(pa, array.type, column.target):
            array = array.cast(_with_leaf(pa, column.target, pa.large_string()))
        array = array.cast(column.target, safe=False)          # an id from 2^63 on keeps its bits, a float is rounded
        if not pa.types.is_large_list(column.target) or not pa.types.is_fixed_size_list(column.target.value_type):
            return array
        offsets = pa.compute.multiply(array.offsets, column.inner)
        is_null = pa.concat_arrays([array.is_null(), pa.array([False])])
        return pa.LargeListArray.from_arrays(pa.compute.if_else(is_null, None, offsets), _flat(pa, array.values))


# == types ====================================================================================================


def _storage(pa: Any, kind: Any) -> Any:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _is_list(types: Any, kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))


def _is_text(types: Any, kind: Any) -> bool:
    return any(is_one(kind)
               for is_one in (types.is_string, types.is_large_string, types.is_string_view, types.is_binary, types.is_large_binary,
                                           types.is_binary_view, types.is_fixed_size_binary))


def _fits(types: Any, outer: Any, inner: int, width: int, lod_level: int) -> bool:
    """Do lists ``outer`` of ``inner`` values each fit rows, or sequences of rows, of ``width`` elements?"""
    if outer is None:
        return width == 1
    if types.is_fixed_size_list(outer):
        count = outer.list_size * inner
        return bool(count % width == 0 if lod_level else count == width)
    return inner in (1, width) if lod_level else width % max(1, inner) == 0


def _expected(slot: Slot, width: int) -> str:
    values = "texts or integers" if slot.hash else "integers" if slot.dtype == VarType.INT64 else "numbers"
    if slot.lod_level:
        return f"lists of {values}" if width == 1 else f"lists of rows of {width} {values}"
    return values if width == 1 else f"lists of {width} {values}"


def _hint(types: Any, kind: Any, slot: Slot) -> str:
    if types.is_dictionary(kind):
        kind = kind.value_type
    return "; a slot with hash= makes ids of texts" if _is_text(types, kind) and not slot.hash else ""


def _with_leaf(pa: Any, kind: Any, leaf: Any) -> Any:
    if pa.types.is_large_list(kind):
        return pa.large_list(_with_leaf(pa, kind.value_type, leaf))
    return pa.list_(_with_leaf(pa, kind.value_type, leaf), kind.list_size) if pa.types.is_fixed_size_list(kind) else leaf


def _wants_digits(pa: Any, kind: Any, target: Any) -> bool:
    """Are these integers that are hashed? Their digits are, as CSV has them."""
    while pa.types.is_nested(target):
        kind, target = kind.value_type, target.value_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_large_binary(target) and pa.types.is_integer(kind))


def _flat(pa: Any, array: Any) -> Any:
    """Return the values of fixed-size lists, one list after the other. Of a null they are nulls."""
    while pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        values = array.values.slice(array.offset * size, len(array) * size)
        if array.null_count:
            is_null = array.is_null().to_numpy(zero_copy_only=False).repeat(size)
            values = pa.compute.if_else(pa.array(is_null), None, values)
        array = values
    return array


def _of_piece(size: int, groups: int, begin: int, end: int) -> Iterator[int]:
    """Yield the row groups that begin in a piece of a file. They count as equally long, so all processes cut alike."""
    return (group for group in range(groups) if begin <= group * size // groups < end)


# == the core's side ==========================================================================================

_readers: weakref.WeakSet[TableReader] = weakref.WeakSet()


@atexit.register
def _end_passes() -> None:
    """End passes that are under way: their threads call Python, which is about to end."""
    for reader in list(_readers):
        if reader.dataset is not None:
            lib.tr_dataset_end(reader.dataset)


def _failure(reader: TableReader, error: Exception) -> tuple[int, str]:
    """Return the status and the text of what went wrong."""
    if isinstance(error, TriremeError):
        return getattr(lib, f"TR_{error.status}"), str(error)
    if isinstance(error, MemoryError):
        return lib.TR_ENOMEM, f"data: no memory for rows of {reader._path!r}"
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.errno:
        return lib.TR_EIO, f"data: {reader._path!r} cannot be read: {text}"
    return lib.TR_EFORMAT, f"data: {reader._path!r} cannot be read as {reader._what}; it is damaged, or of another format: {text}"


def _reported(call: Callable[..., None]) -> Callable[..., int]:
    """Make what the core calls: a status, and the text of a failure."""
    @functools.wraps(call)
    def wrapper(payload: Any, *arguments: Any) -> int:
        reader = ffi.from_handle(payload)
        try:
            call(reader, *arguments[:-1])
        except Exception as error:
            status, text = _failure(reader, error)
            chars = text.encode("utf-8", "replace")[:lib.TR_TABLE_ERROR_SIZE - 1]
            ffi.memmove(arguments[-1], chars + b"\0", len(chars) + 1)
            return status
        return int(lib.TR_OK)

    return wrapper


@ffi.def_extern(name="tr_py_table_open", error=lib.TR_EINTERNAL)    # type: ignore[untyped-decorator]
@_reported
def _open(reader: TableReader, path: Any, begin: int, end: int) -> None:
    reader.open(os.fsdecode(ffi.string(path)), begin, end)


@ffi.def_extern(name="tr_py_table_next", error=lib.TR_EINTERNAL)    # type: ignore[untyped-decorator]
@_reported
def _next(reader: TableReader, out: Any) -> None:
    reader.next(out)


@ffi.def_extern(name="tr_py_table_close")    # type: ignore[untyped-decorator]
def _close(payload: Any) -> None:
    ffi.from_handle(payload).close()
