"""Files of stores, read: by ranges, or from one byte to another with blocks that threads fetch ahead."""

from __future__ import annotations

import collections
import concurrent.futures
import io
import os
from collections.abc import Iterator
from typing import Any

from ..native.errors import FileError
from ..native.optional import load
from .names import place
from .systems import info_at, system_of
from .tries import TRIES, failure, limit, pool, tried

BLOCK = 8 << 20
_SMALL = 1 << 20
_AHEAD = 4                            # blocks
_FAR = (1 << 63) - 1
_HAS_NO_ROOM = "Failed to flush response stream"    # where the answer that a file is gone is longer than what is read of it
_PACKED = {".zst": "zstd", ".bz2": "bz2", ".gz": "gzip"}


class Reading:
    """An open file of a store. Threads may read at a time."""

    def __init__(self, name: str) -> None:
        self._place = place(name)
        self.name = self._place.uri
        self._file = tried(f"{self.name} cannot be opened", lambda: system_of(self._place).open_input_file(self._place.path))
        self.size = int(tried(f"{self.name} cannot be read", self._file.size))

    def read(self, begin: int, size: int) -> bytes:
        """Return ``size`` bytes from ``begin`` on, or up to the end of the file."""
        size = max(0, min(size, self.size - begin))
        what = f"{self.name}, bytes {begin} to {begin + size}, cannot be read"

        def once() -> bytes:
            try:
                content: bytes = self._file.read_at(size, begin)
            except OSError as error:
                if _HAS_NO_ROOM in str(error) and not info_at(self._place).is_file:
                    raise FileNotFoundError("it was removed") from None
                raise
            if len(content) != size:
                raise OSError(f"expected {size} bytes, got {len(content)}")
            return content

        return tried(what, once) if size else b""

    def blocks(self, begin: int, end: int, soon: int = _FAR) -> Iterator[bytes]:
        """Yield the bytes from ``begin`` to ``end``, block by block. Up to ``soon`` the next blocks are fetched meanwhile."""
        end, soon = min(end, self.size), min(soon, end, self.size)
        yield from self._fetched_ahead(begin, soon)
        for at in range(max(begin, soon), end, _SMALL):
            yield self.read(at, min(_SMALL, end - at))

    def _fetched_ahead(self, begin: int, end: int) -> Iterator[bytes]:
        waiting: collections.deque[concurrent.futures.Future[bytes]] = collections.deque()
        try:
            while begin < end or waiting:
                while begin < end and len(waiting) < _AHEAD:
                    waiting.append(pool().submit(self.read, begin, min(BLOCK, end - begin)))
                    begin += BLOCK
                yield self._await(waiting.popleft())
        finally:
            for one in waiting:
                one.cancel()

    def _await(self, one: concurrent.futures.Future[bytes]) -> bytes:
        try:
            return one.result(TRIES * limit())
        except concurrent.futures.TimeoutError as error:
            raise failure(f"{self.name} cannot be read", error, TRIES) from None

    def close(self) -> None:
        self._file.close()


class Seekable(io.RawIOBase):
    """A file of a store as Python's files are, for libraries that read here and there."""

    def __init__(self, name: str) -> None:
        self._reading = Reading(name)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._reading.size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._reading.size

    def read(self, size: int | None = -1) -> bytes:
        content = self._reading.read(self._at, self._reading.size if size is None or size < 0 else size)
        self._at += len(content)
        return content

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, to: Any) -> int:
        content = self.read(len(to))
        to[:len(content)] = content
        return len(content)


def packing(name: str) -> str | None:
    """Return how a file is packed, by its name: "zstd", "bz2" or "gzip"; None: it is not."""
    return next((kind for end, kind in _PACKED.items() if name.endswith(end)), None)


def stream(name: str, begin: int = 0, end: int = _FAR, soon: int = _FAR,
           kind: str | None = None) -> Iterator[bytes]:
    """Yield the bytes of a file from ``begin`` to ``end``, fetched ahead up to ``soon``; unpacked, if ``kind`` says how."""
    reading = Reading(name)
    try:
        blocks = reading.blocks(begin, end, soon)
        yield from _unpacked(reading.name, blocks, kind) if kind else blocks
    finally:
        reading.close()


def _unpacked(name: str, blocks: Iterator[bytes], kind: str) -> Iterator[bytes]:
    pa = load("pyarrow", f"a file packed by {kind}")
    source = _Joined(blocks)
    with pa.CompressedInputStream(pa.PythonFile(source, mode="r"), kind) as unpacked:
        while True:
            try:
                content = unpacked.read(1 << 20)
            except OSError as error:
                raise FileError(f"{name} cannot be unpacked, before byte {source.at}: {' '.join(str(error).split())}") from None
            if not content:
                return
            yield content


class _Joined:
    """Blocks as a file that is read from its begin to its end."""

    closed = False

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._rest, self.at = blocks, memoryview(b""), 0

    def read(self, size: int = -1) -> bytes:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return b""
            self._rest = memoryview(block)
        content, self._rest = bytes(self._rest[:size]), self._rest[size:]
        self.at += len(content)
        return content

    def close(self) -> None:
        self.closed = True


def read_all(name: str) -> bytes:
    """Return a file's content."""
    reading = Reading(name)
    try:
        return b"".join(reading.blocks(0, reading.size))
    finally:
        reading.close()


def read_end(name: str, size: int) -> bytes:
    """Return the last ``size`` bytes of a file, or all of a shorter one."""
    reading = Reading(name)
    try:
        return reading.read(max(0, reading.size - size), size)
    finally:
        reading.close()
