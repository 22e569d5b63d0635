"""Saving in a job: all trainers make the call, trainer 0 writes, and all return when the files are complete.

Trainer 0 never waits for the others: it writes, and then posts a notice on server 0's board. The n-th save of a trainer to a path waits for
trainer 0's notice of its n-th save to that path. So a script may also save on trainer 0 alone. Notices outlive their processes: when
trainer 0's script runs again, it finds the notices of complete saves and does not write them again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..errors import FileError, user_line
from . import board, job as jobs
from .job import Job

_saves: dict[str, int] = {}                            # to each path, by this trainer
_is_saving = False


def once(call: str, path: Any, write: Callable[[], None]) -> None:
    """Let trainer 0 of the job ``write`` to ``path``, and return when the file is complete. ``call`` is the script's call, for
    messages.

    Saves inside ``write`` are parts of this save. In one process the call runs ``write``.
    """
    global _is_saving
    job = None if _is_saving else jobs.current()
    if job is None:
        write()
        return
    path = os.path.normpath(os.fspath(path) or ".")
    _saves[path] = _saves.get(path, 0) + 1
    name, label = f"save {_saves[path]} of {path}"[-4096:], f"{call}({path!r})"
    if job.index > 0:
        _await(job, name, label)
        return
    known = board.post(job, name=name, call=label)
    if known:
        _raise_failure(label, known[0])
    elif jobs.is_replaying():                          # the save was complete before the job went on from a checkpoint, or so long ago
        board.post(job, name=name, call=label, data=b"")   # that its notice is gone: the others wait for one
    else:
        _is_saving = True
        try:
            _write(job, name, label, write)
        finally:
            _is_saving = False


def _write(job: Job, name: str, label: str, write: Callable[[], None]) -> None:
    try:
        write()
    except Exception as error:
        board.post(job, name=name, call=label, data=f"{type(error).__name__}: {error}".encode()[:4096])
        raise
    board.post(job, name=name, call=label, data=b"")


def _await(job: Job, name: str, label: str) -> None:
    posted = board.post(job, name=name, call=label, until=board.ONE, of=0)
    if not posted:
        raise FileError(f"{label}: trainer 0, which writes for all, has left without this save: let trainer 0 make this call, too\n"
                        f"  your line: {user_line()}")
    _raise_failure(label, posted[0])


def _raise_failure(label: str, notice: bytes) -> None:
    if notice:
        raise FileError(f"{label}: trainer 0 could not write it: {notice.decode(errors='replace')}\n  your line: {user_line()}")


__all__ = ["once"]
