"""Files of stores, written: parts of a file are uploaded at a time, and the file is there when all parts are."""

from __future__ import annotations

import os
from typing import Any

from ..native.errors import FileError
from .names import place
from .reading import BLOCK
from .systems import system_of
from .tries import TRIES, failure, tried


class Writing:
    """A new file of a store. It is there when ``close`` has returned.

    A name that no file has had before is best: then an answer that is lost at the very end changes nothing.
    """

    def __init__(self, name: str) -> None:
        self._place = place(name)
        self.name = self._place.uri
        self.size = 0
        self._what = f"{self.name} cannot be written"
        system = system_of(self._place, TRIES)
        if self._place.scheme in ("", "hdfs"):
            tried(self._what, lambda: system.create_dir(os.path.dirname(self._place.path), recursive=True))
        self._stream: Any = tried(self._what, lambda: system.open_output_stream(self._place.path, compression=None))

    def write(self, content: Any) -> None:
        try:
            self._stream.write(content)
        except OSError as error:
            raise failure(self._what, error, TRIES) from None
        self.size += len(content)

    def close(self) -> None:
        """Wait for all parts, and give the file its name."""
        try:
            self._stream.close()
        except OSError as error:
            if not self._is_there():
                raise failure(self._what, error, TRIES) from None

    def _is_there(self) -> bool:
        """Was the file made, and the answer lost?"""
        info = info_of(self.name)
        return info is not None and info.size == self.size


def info_of(name: str) -> Any:
    """Return the library's ``FileInfo`` of a file; None: there is no such file."""
    one = place(name)
    info = tried(f"{one.uri} cannot be looked at", lambda: system_of(one).get_file_info(one.path))
    return info if info.is_file else None


def write_all(name: str, content: bytes) -> None:
    """Write a small file, with several tries."""
    one = place(name)

    def once() -> None:
        writing = Writing(name)
        writing.write(content)
        writing._stream.close()

    tried(f"{one.uri} cannot be written", once)


def upload(path: str, name: str) -> None:
    """Copy a local file to a store."""
    one = place(name)

    def once() -> None:
        writing = Writing(name)
        with open(path, "rb") as source:
            while content := source.read(BLOCK):
                writing.write(content)
        writing._stream.close()
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
