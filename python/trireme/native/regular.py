"""Regular files, opened for reading: nothing that could block for ever, or never end."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader

from .checks import path_text
from .errors import FileError

_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
          stat.S_IFSOCK: "a socket"}


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading. What is something else, such as a FIFO, or cannot be opened raises FileError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        why = "it is no regular file" if error.errno == errno.ENXIO else error.strerror
        raise FileError(f"cannot open {path_text(path)!r}: {why}") from None
    kind = stat.S_IFMT(os.fstat(fd).st_mode)
    if kind != stat.S_IFREG:
        os.close(fd)
        raise FileError(f"{path_text(path)!r} is no regular file, but {_KINDS.get(kind, 'something else')}")
    return os.fdopen(fd, "rb")


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """Return a file's bytes, as many as it has when it is opened. FileError: it is no regular file, cannot be read, or has more than
    ``most`` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise FileError(f"{path_text(path)!r} has {size} bytes, more than the {most} that are read")
        try:
            return file.read(size)
        except OSError as error:
            raise FileError(f"cannot read {path_text(path)!r}: {error.strerror}") from None
