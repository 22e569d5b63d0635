"""A copy, in a store, of the file of what a trainer's steps have fetched. A file of a store cannot grow, so it is copied again and again.

The job's own file is in the memory of the host (``fetched.py``). A job that is launched anew finds the copy beside the checkpoints. Steps
of the last seconds before a kill may be missing there; the script gets NaN for them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time

from ..native.errors import TriremeError
from ..stores.folders import download
from ..stores.writing import info_of, write_all

_PAUSE = 2.0                          # seconds between two copies, at least
_SHARE = 20                           # a copy that takes a second is made every so many seconds


class Copy:
    """Keeps the file ``path`` copied to ``name``, in a thread, until the process ends."""

    def __init__(self, path: str, name: str) -> None:
        self._path, self._name, self._size = path, name, -1
        self._over, self._pid = threading.Event(), os.getpid()
        threading.Thread(target=self._run, name="trireme-fetched", daemon=True).start()
        atexit.register(self._end)

    def _run(self) -> None:
        pause = _PAUSE
        while not self._over.wait(pause):
            begin = time.monotonic()
            self._copy()
            pause = max(_PAUSE, _SHARE * (time.monotonic() - begin))

    def _copy(self) -> None:
        with contextlib.suppress(OSError, TriremeError):   # what is not copied is NaN in a replay
            with open(self._path, "rb") as file:
                content = file.read()
            if len(content) != self._size:
                write_all(self._name, content)
                self._size = len(content)

    def _end(self) -> None:
        if self._pid == os.getpid() and not self._over.is_set():       # not in a forked child
            self._over.set()
            self._copy()


def fetch(path: str, name: str) -> None:
    """Take the copy of an earlier launch, if this host has no file of its own."""
    with contextlib.suppress(OSError, TriremeError):
        if not os.path.exists(path) and info_of(name) is not None:
            beside = f"{path}~{os.getpid()}"
            download(name, beside)
            os.replace(beside, path)
