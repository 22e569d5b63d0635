"""Files of stores, written: parts of a file are uploaded at a time, and the file is there when all parts are."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import uuid
from collections.abc import Iterator
from typing import Any

from ..native.errors import FileError
from .names import place
from .reading import BLOCK
from .systems import info_at, system_of
from .tries import TRIES, failure, tried

_RENAMED = ("", "hdfs")              # of these stores: a file is seen while it is written, and can be renamed
_PART = re.compile(r"\.[0-9a-f]{32}\.part$")


class Writing:
    """A new file of a store. It is there when ``close`` has returned, and not before.

    A name that no file has had before is best: then an answer that is lost at the very end changes nothing.
    """

    def __init__(self, name: str) -> None:
        self._place = place(name)
        self.name = self._place.uri
        self.size = 0
        self._what = f"{self.name} cannot be written"
        self._path = self._place.path
        self._system = system_of(self._place, TRIES)
        if self._place.scheme in _RENAMED:
            self._path += f".{uuid.uuid4().hex}.part"
            tried(self._what, lambda: self._system.create_dir(os.path.dirname(self._path), recursive=True))
        self._stream: Any = tried(self._what, lambda: self._system.open_output_stream(self._path, compression=None))

    def write(self, content: Any) -> None:
        try:
            self._stream.write(content)
        except OSError as error:
            raise failure(self._what, error, TRIES) from None
        self.size += len(content)

    def close(self) -> None:
        """Wait for all parts, and give the file its name."""
        try:
            self.complete()
        except OSError as error:
            if not self._is_there():
                raise failure(self._what, error, TRIES) from None

    def complete(self) -> None:
        """Do as ``close`` does, in one try that may raise the library's error."""
        self._stream.close()
        if self._path != self._place.path:
            self._system.move(self._path, self._place.path)

    def abandon(self) -> None:
        """Give up: there will be no such file."""
        if self._path == self._place.path:
            # The library has no call for this, and completes the file when an open stream is destroyed. So that stream stays for ever.
            if not self._stream.closed:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._stream))
            return
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(OSError):
            self._system.delete_file(self._path)

    def _is_there(self) -> bool:
        """Was the file made, and the answer lost?"""
        info = info_of(self.name)
        return info is not None and info.size == self.size


@contextlib.contextmanager
def whole(name: str) -> Iterator[Writing]:
    """Yield a new file, which is there if the block ends well."""
    writing = Writing(name)
    try:
        yield writing
        writing.complete()
    except BaseException:
        writing.abandon()
        raise


def is_part(name: str) -> bool:
    """Is this the name of a file while it is written?"""
    return _PART.search(name) is not None


def info_of(name: str) -> Any:
    """Return the library's ``FileInfo`` of a file; None: there is no such file."""
    one = place(name)
    info = tried(f"{one.uri} cannot be looked at", lambda: info_at(one))
    return info if info.is_file else None


def write_all(name: str, content: bytes) -> None:
    """Write a small file, with several tries."""
    one = place(name)

    def once() -> None:
        with whole(name) as writing:
            writing.write(content)

    tried(f"{one.uri} cannot be written", once)


def upload(path: str, name: str) -> None:
    """Copy a local file to a store."""
    one = place(name)

    def once() -> None:
        with open(path, "rb") as source, whole(name) as writing:
            while content := source.read(BLOCK):
                writing.write(content)
        info = info_of(name)
        if info is None or info.size != os.path.getsize(path):
            raise OSError(f"expected a file of {os.path.getsize(path)} bytes, found {info and info.size}")

    tried(f"{one.uri} cannot be written", once)


def remove(name: str) -> None:
    """Remove a file. One that is not there is no mistake."""
    one = place(name)
    try:
        tried(f"{one.uri} cannot be removed", lambda: system_of(one).delete_file(one.path))
    except FileError:
        if info_of(name) is not None:
            raise
    except KeyError:                                       # NotFoundError
        pass
