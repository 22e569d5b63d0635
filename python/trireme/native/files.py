"""Files that are read and written: only regular ones, only below their folder, whole or not at all.

What is written goes to a *part* beside its place, ``PATH.0123456789abcdef.part``, a file or a folder, and takes the place
when it is complete. Its process holds a lock (flock) on it. A part that nobody has locked was left by a process that died,
on whichever host: the next one that writes to the same place removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

from .._core import ffi, lib
from .checks import path_text
from .errors import FileError, FormatError, TriremeError, check
from .names import name_chars, path_chars
from .regular import open_regular

_PART = re.compile(r"\.(?:[0-9a-f]{16}|\d+)\.part")    # after the name; it was once the number of the process
_LOCK = "about.json"                   # of a part that is a folder: the file that is locked


def path_inside(folder: str | os.PathLike[str], name: str) -> str:
    """Return the path of the file ``name`` in ``folder``; raise InvalidArgumentError where it would lead out of it.

    ``a/b`` is a file in the folder ``a`` of it. A part ``..`` leads out, so does a symbolic link to something outside.

    >>> path_inside("model", "encoder/w")
    'model/encoder/w'
    """
    out = ffi.new("char **")
    check(lib.tr_path_inside(out, path_chars(folder), name_chars(name)))
    try:
        return os.fsdecode(ffi.string(out[0]))
    finally:
        lib.tr_free(out[0])


@contextlib.contextmanager
def damage_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what Python and NumPy raise over the contents of a damaged file into FormatError, which names the file."""
    try:
        yield
    except TriremeError:
        raise
    except MemoryError:
        raise FormatError(f"{path_text(path)!r} is damaged: it asks for more memory than there is") from None
    except OSError as error:
        raise FileError(f"cannot read {path_text(path)!r}: {error.strerror or error}") from None
    except Exception as error:
        raise FormatError(f"{path_text(path)!r} is damaged: {type(error).__name__}: {error}") from None


# -- writing ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def new_file(path: str) -> Iterator[BinaryIO]:
    """Give a file to write, which is at ``path`` when the block has ended well, and nowhere when it has not."""
    remove_left(path)
    part, file = _locked_part(path, is_folder=False)
    try:
        with _cannot_write(path), file:
            yield file
            file.flush()
            os.replace(part, path)                     # while it is locked
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise


@contextlib.contextmanager
def new_folder(path: str) -> Iterator[tuple[str, BinaryIO]]:
    """Give a folder to fill, and its file ``about.json``; it is at ``path``, in the place of what was there, as ``new_file``."""
    remove_left(path)
    part, about = _locked_part(path, is_folder=True)
    try:
        with _cannot_write(path), about:
            yield part, about
            about.flush()
            _remove_folder(path)
            os.replace(part, path)
    except BaseException:
        _remove_folder(part)
        raise


def _remove_folder(path: str) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _cannot_write(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, TriremeError):
            raise
        raise FileError(f"cannot write {path!r}: {error.strerror or error}{_room(error, path)}") from None


def _room(error: OSError, path: str) -> str:
    """Of a full disk: how full it is."""
    import errno                                       # here: only when it is needed

    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return ""
    disk = os.statvfs(os.path.dirname(path) or ".")
    return f": {disk.f_bavail * disk.f_frsize} of its file system's {disk.f_blocks * disk.f_frsize} bytes are free"


def _locked_part(path: str, is_folder: bool) -> tuple[str, BinaryIO]:
    """Make a part and lock it. One that another process has taken for a left one, before it was locked, is made again."""
    with _cannot_write(path):
        while True:
            part = f"{path}.{os.urandom(8).hex()}.part"
            if is_folder:
                os.makedirs(part)
            try:
                file = open(os.path.join(part, _LOCK) if is_folder else part, "wb")
            except FileNotFoundError:
                if is_folder:
                    continue
                raise
            _lock(file, fcntl.LOCK_EX)
            if os.path.exists(file.name):
                return part, file
            file.close()


def _lock(file: Any, how: int) -> bool:
    """Lock a file; False: another process has it. Where the file system has no locks, nothing is taken for left."""
    try:
        fcntl.flock(file, how)
    except OSError:
        return False
    return True


def remove_left(path: str) -> None:
    """Remove the parts that processes which died have left where ``path`` was to be written."""
    folder, name = os.path.split(path)
    try:
        entries = os.listdir(folder or ".")
    except OSError:
        return
    for entry in entries:
        if entry.startswith(name) and _PART.fullmatch(entry, len(name)):
            _remove_if_left(os.path.join(folder, entry))


def _remove_if_left(part: str) -> None:
    is_folder = os.path.isdir(part) and not os.path.islink(part)
    try:
        fd = os.open(os.path.join(part, _LOCK) if is_folder else part,
                     os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_CREAT if is_folder else 0), 0o666)
    except OSError:
        return
    try:
        if _lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB):
            if is_folder:
                _remove_folder(part)
            else:
                os.unlink(part)
    except OSError:
        pass                                           # it is gone, or stays: the next one tries again
    finally:
        os.close(fd)


__all__ = ["path_inside", "open_regular", "damage_of", "new_file", "new_folder", "remove_left"]


def each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return what an object of JSON holds, for ``object_pairs_hook``: of two equal names Python takes the last without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise FormatError(f"has the name {next(name for name, count in counts.items() if count > 1)!r} twice")
    return found
