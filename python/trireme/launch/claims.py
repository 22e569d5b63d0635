"""Folders that a job reserves while it runs: two jobs in one folder would mix up their files.

The launcher reserves the folders that its options name. The trainer that makes checkpoints reserves the folder that a script names.
The kernel drops a claim with the process, however the process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from ..native.errors import InvalidArgumentError


def claim(folder: str | os.PathLike[str]) -> int | None:
    """Make this folder and reserve it. Return the open file that holds the claim. BlockingIOError: another process has reserved it.
    None: it cannot be made; the rank that writes there reports that.
    """
    try:
        os.makedirs(folder, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise
    except OSError:
        pass                                           # a file system without locks: no claim is possible
    return fd


def is_stored(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder is in a store. The core reserves such a folder (storage/checkpoint/claim.c)."""
    from ..stores.names import is_uri  # here: most jobs name no folder

    return is_uri(folder)


@contextlib.contextmanager
def claimed(**options: str | os.PathLike[str] | None) -> Iterator[None]:
    """Reserve these folders. Their names are the launcher's options, for messages."""
    with contextlib.ExitStack() as held:
        folders = {os.path.realpath(folder): (option, folder) for option, folder in options.items()
                   if folder is not None and not is_stored(folder)}
        for path, (option, folder) in folders.items():
            if os.path.exists(path) and not os.path.isdir(path):
                raise InvalidArgumentError(f"trireme launch: --{option} {folder}: this is no folder")
            try:
                fd = claim(path)
            except BlockingIOError:
                raise InvalidArgumentError(f"trireme launch: --{option} {folder}: another job that runs keeps its own there") from None
            if fd is not None:
                held.callback(os.close, fd)
        yield
