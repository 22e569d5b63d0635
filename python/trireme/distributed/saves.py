"""Saving in a job: all trainers make the call, one of them writes, and all return when the files are complete.

The writer is trainer 0. If trainer 0 is lost (it has died, and nobody replaces it), the writer is the next trainer that is not lost.
Trainer 0 never waits for the others: it writes, and then posts a notice on server 0's board. The n-th save of a trainer to a path waits for
the writer's notice of its n-th save to that path. So a script may also save on trainer 0 alone. Notices outlive their processes: when
the writer's script runs again, it finds the notices of complete saves and does not write them again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..job import job as jobs
from ..job.job import Job
from ..job.session import session
from ..native.checks import path_text
from ..native.errors import FileError, user_line
from ..stores.names import is_uri
from . import board
from .reached import is_replaying


def once(call: str, path: Any, write: Callable[[], None]) -> None:
    """Let one trainer of the job ``write`` to ``path``, and return when the file is complete. ``call`` is the script's call, for
    messages.

    Saves inside ``write`` are parts of this save. In one process the call runs ``write``.
    """
    job = None if session.is_saving else jobs.current()
    if job is None:
        write()
        return
    path = path_text(path) if is_uri(path) else os.path.normpath(path_text(path) or ".")
    session.saves[path] = session.saves.get(path, 0) + 1
    name, label = f"save {session.saves[path]} of {path}"[-4096:], f"{call}({path!r})"
    known = _notice_of_writer(job, name, label)
    if known is not None:
        _raise_failure(label, known)
    elif is_replaying():                          # the save was complete before the job went on from a checkpoint, or so long ago
        board.post(job, name=name, call=label, data=b"")   # that its notice is gone: the others wait for one
    else:
        session.is_saving = True
        try:
            _write(job, name, label, write)
        finally:
            session.is_saving = False


def _write(job: Job, name: str, label: str, write: Callable[[], None]) -> None:
    try:
        write()
    except Exception as error:
        board.post(job, name=name, call=label, data=f"{type(error).__name__}: {error}".encode()[:4096])
        raise
    board.post(job, name=name, call=label, data=b"")


def _notice_of_writer(job: Job, name: str, label: str) -> board.Posts | None:
    """Wait for the notice of the trainer that writes, and return it with others. None: this trainer writes."""
    for writer in range(job.index):
        posted = board.post(job, name=name, call=label, until=board.ONE, of=writer)
        if posted:
            return posted
        if posted is None or not posted.is_lost:
            raise FileError(f"{label}: trainer {writer}, which writes for all, has left without this save: let trainer {writer} make this "
                            f"call, too\n  your line: {user_line()}")
    posted = board.post(job, name=name, call=label)
    # before this start of the job another trainer was the writer; now others wait for this one
    if posted and job.index not in posted:
        board.post(job, name=name, call=label, data=next(iter(posted.values())))
    return posted or None


def _raise_failure(label: str, posted: board.Posts) -> None:
    writer, notice = next(iter(posted.items()))
    if notice:
        raise FileError(f"{label}: trainer {writer} could not write it: {notice.decode(errors='replace')}\n  your line: {user_line()}")
