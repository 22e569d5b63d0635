"""Fluid's RecordIO files: chunks of records, each record the tensors of one batch or sample.

    chunk    u32 magic 0x01020304, u32 records, u32 CRC-32 of the body, u32 compression (0: none), u32 bytes of the body, body
    body     for each record: u32 bytes, record
    record   u32 tensors, then each as in a tensor file (docs/formats.md)

Numbers are little-endian. A file may end after any chunk. Bodies are written as they are; Snappy, which Fluid uses unless told
otherwise, is refused by name. Every size is compared with what the file still holds before memory is taken for it.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NoReturn

import numpy as np

from ..native.checks import path_text
from ..native.dtypes import FROM_NUMPY, NUMPY_DTYPES
from ..native.errors import DTypeError, FormatError, TriremeError, UnsupportedError
from ..native.files import damage_of, open_regular
from ..native.tensor import LoDTensor

_MAGIC = 0x01020304
_HEADER = struct.Struct("<5I")
_MOST_RANK = 9
_COMPRESSIONS = {1: "Snappy", 2: "gzip"}


# -- a tensor ---------------------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def tensor_to_bytes(value: Any) -> bytes:
    """Return a LoDTensor or an array as it stands in a tensor file."""
    array = np.ascontiguousarray(value.numpy() if isinstance(value, LoDTensor) else value)
    shape = np.shape(value.numpy() if isinstance(value, LoDTensor) else value)
    if array.dtype not in FROM_NUMPY:
        raise DTypeError(f"recordio: no tensor can hold an array of {array.dtype}")
    lod = value.lod() if isinstance(value, LoDTensor) else []
    levels = b"".join(struct.pack(f"<Q{len(level)}Q", 8 * len(level), *level) for level in lod)
    description = b"\x08" + _varint(int(FROM_NUMPY[array.dtype])) + b"".join(b"\x10" + _varint(dim) for dim in shape)
    return struct.pack("<IQ", 0, len(lod)) + levels + struct.pack("<Ii", 0, len(description)) + description + array.tobytes()


class _Bytes:
    """Bytes that are read from the front."""

    def __init__(self, data: bytes, where: str) -> None:
        self._data, self._at, self._where = memoryview(data), 0, where

    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int, what: str) -> memoryview:
        if not 0 <= count <= self.left():
            raise FormatError(f"{self._where}: {what} needs {count} bytes, {self.left()} are left: the file is damaged, or of another "
                              "format")
        self._at += count
        return self._data[self._at - count:self._at]

    def number(self, form: str, what: str) -> int:
        return int(struct.unpack("<" + form, self.take(struct.calcsize("<" + form), what))[0])

    def varint(self, what: str) -> int:
        value = shift = 0
        while True:
            byte = self.take(1, what)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                self.fail(f"{what} is no number")

    def fail(self, why: str) -> NoReturn:
        raise FormatError(f"{self._where}: {why}: the file is damaged, or of another format")


def _read_description(data: _Bytes) -> tuple[np.dtype, list[int]]:
    code, dims = -1, []
    while data.left():
        tag = data.varint("the description of a tensor")
        if tag == 0x08:
            code = data.varint("the type of a tensor")
        elif tag == 0x10:
            dims.append(data.varint("a dimension"))
        elif tag == 0x12:                              # packed
            packed = _Bytes(bytes(data.take(data.varint("the dimensions"), "the dimensions")), data._where)
            while packed.left():
                dims.append(packed.varint("a dimension"))
        else:
            data.fail(f"the description of a tensor has the field {tag >> 3}")
    dtype = NUMPY_DTYPES.get(code)
    if dtype is None or len(dims) > _MOST_RANK or any(dim >= 1 << 62 for dim in dims):
        data.fail(f"a tensor has type {code} and dimensions {dims}")
    return dtype, dims


def _read_tensor(data: _Bytes) -> Any:
    if data.number("I", "a tensor's version") != 0:
        data.fail("a tensor's version is not 0")
    levels = data.number("Q", "the number of levels")
    lod = []
    for _ in range(levels if levels <= _MOST_RANK else data.fail(f"a tensor has {levels} levels of sequences")):
        size = data.number("Q", "the size of a level")
        lod.append([int(offset) for offset in np.frombuffer(data.take(size, "the offsets of sequences"), "<i8")] if size % 8 == 0
                   else data.fail("offsets are 8 bytes each"))
    if data.number("I", "an array's version") != 0:
        data.fail("an array's version is not 0")
    size = data.number("i", "the size of a description")
    dtype, dims = _read_description(_Bytes(bytes(data.take(size, "the description of a tensor")), data._where))
    count = 1
    for dim in dims:
        count *= dim
    array = np.frombuffer(bytes(data.take(count * dtype.itemsize, f"an array of {dtype}{dims}")), dtype).reshape(dims)
    if not lod:
        return array
    tensor = LoDTensor()
    tensor.set(array)
    try:
        tensor.set_lod(lod)
    except TriremeError as error:
        data.fail(f"the sequences of a tensor do not fit it: {error}")
    return tensor


# -- files ------------------------------------------------------------------------------------------------------


class Writer:
    """Writes records to a file that is open; each chunk has up to ``records`` of them."""

    def __init__(self, out: BinaryIO, records: int = 1000) -> None:
        self._out, self._most = out, records
        self._records: list[bytes] = []
        self.written = 0

    def write(self, tensors: Sequence[Any]) -> None:
        """Append a record."""
        self._records.append(struct.pack("<I", len(tensors)) + b"".join(map(tensor_to_bytes, tensors)))
        self.written += 1
        if len(self._records) >= self._most:
            self.flush()

    def flush(self) -> None:
        """Write what was appended as a chunk."""
        if not self._records:
            return
        body = b"".join(struct.pack("<I", len(record)) + record for record in self._records)
        self._out.write(_HEADER.pack(_MAGIC, len(self._records), zlib.crc32(body), 0, len(body)) + body)
        self._records = []


def read(path: Any) -> Iterator[list[Any]]:
    """Iterate over the records of a file: lists of arrays, LoDTensors where there are sequences."""
    path = path_text(path)
    with open_regular(path) as file:
        left = os.fstat(file.fileno()).st_size
        while left:
            begin = os.fstat(file.fileno()).st_size - left
            where = f"{path}, chunk at byte {begin}"
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size:
                raise FormatError(f"{where}: its header has {len(header)} bytes of {_HEADER.size}: the file is cut off")
            magic, records, crc, compression, size = _HEADER.unpack(header)
            left -= _HEADER.size + size
            if magic != _MAGIC or left < 0:
                raise FormatError(f"{where}: no chunk of a RecordIO file begins here, or the file is cut off")
            if compression:
                raise UnsupportedError(f"{where}: it is compressed by {_COMPRESSIONS.get(compression, compression)}; only chunks that are "
                                       "not compressed are read. Write the file again with recordio_writer of Trireme")
            body = file.read(size)
            if zlib.crc32(body) != crc:
                raise FormatError(f"{where}: its checksum does not fit: the file is damaged")
            records_of = _records(_Bytes(body, where), records)
            while (record := _next_of(where, records_of)) is not None:
                yield record


def _next_of(where: str, records: Iterator[list[Any]]) -> list[Any] | None:
    with damage_of(where):
        return next(records, None)


def _records(body: _Bytes, count: int) -> Iterator[list[Any]]:
    for _ in range(count):
        record = _Bytes(bytes(body.take(body.number("I", "the size of a record"), "a record")), body._where)
        tensors = record.number("I", "the number of tensors")
        yield [_read_tensor(record) for _ in range(tensors if tensors <= record.left() else record.fail(f"a record has {tensors} tensors"))]
        if record.left():
            record.fail("a record has more bytes than its tensors")
    if body.left():
        body.fail("a chunk has more bytes than its records")


def read_all(paths: Iterable[Any]) -> Iterator[list[Any]]:
    """Iterate over the records of files, one file after the other."""
    for path in paths:
        yield from read(path)


__all__ = ["Writer", "read", "read_all", "tensor_to_bytes"]
