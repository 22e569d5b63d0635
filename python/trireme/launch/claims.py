"""Folders that a launch has for itself while it runs: two jobs that wrote there would take what the other has written for their own."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from ..errors import InvalidArgumentError


@contextlib.contextmanager
def claimed(**options: str | os.PathLike[str] | None) -> Iterator[None]:
    """Make these folders and hold them; the names are those of the launcher's options. One that cannot be made is for who writes there
    to report. The system drops a claim with the process, however that ends."""
    with contextlib.ExitStack() as held:
        folders = {os.path.realpath(folder): (option, folder) for option, folder in options.items() if folder is not None}
        for path, (option, folder) in folders.items():
            if os.path.exists(path) and not os.path.isdir(path):
                raise InvalidArgumentError(f"trireme launch: --{option} {folder}: this is no folder")
            with contextlib.suppress(OSError):
                os.makedirs(path, exist_ok=True)
                fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
                held.callback(os.close, fd)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise InvalidArgumentError(f"trireme launch: --{option} {folder}: another job that runs keeps its own there") from None
        yield


__all__ = ["claimed"]
