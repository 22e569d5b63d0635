"""A script's settings of checkpoints, and the place where its training begins (docs/checkpoints.md).

The core makes the checkpoints (core_manager.py): checkpoint_manager.py has those of a job's trainer, train/local_checkpoints.py those of a
single process.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterator
from typing import Any

from ..checkpoint.folder import claim, say
from ..checkpoint.opened import Checkpoint
from ..job import job as jobs
from ..job.checkpoint_settings import Settings, rows_named
from ..job.session import session
from ..native.checks import path_text, plain
from ..native.errors import InvalidArgumentError, check_whole
from ..stores.names import absolute
from .checkpoint_manager import beginning_of


def settings_now() -> Settings:
    """Return the settings of this process: the launcher's take precedence over the script's."""
    return session.checkpoints.from_environment()


def claim_folder(folder: str, entry: int) -> None:
    """Reserve this folder for the checkpoints of this process while it lives, and for its run: see tr_checkpoint_claim."""
    if line := claim(folder, entry):
        say(line)


def checkpoint(folder: str | os.PathLike[str], *, every_steps: int | None = None, every_seconds: float | None = None,
               keep: int = 3, full_every: int = 1, rows: str = "exact", resume: bool | str = False, anew: bool = False,
               position: Callable[[], bytes] | None = None) -> None:
    """Let this script's job keep checkpoints in ``folder``, which all its hosts must see. Call it before the first step.

    A checkpoint is written in the background every ``every_steps`` steps or ``every_seconds`` seconds (default: ten minutes), and once at
    the end. The newest ``keep`` stay. Of ``full_every`` checkpoints in a row one is full; the others have, of sparse tables, the rows that
    have changed since the one before, and a checkpoint that others build on stays as long as they do. ``rows="int8"`` writes rows of sparse
    tables, full ones and changes, in 8 bits a number: a third to a quarter of the bytes, and the training goes on from rounded rows. With
    ``resume`` (True or ``"auto"``) the training goes on from the newest valid checkpoint; if there is none it begins, and a line says so.
    ``position`` returns the bytes that a reader needs to
    find its place again; ``resumed`` needs no position. ``trireme launch --checkpoint`` takes precedence over all this.

    A folder belongs to one run. A training that begins refuses a folder with checkpoints of another run; with ``anew`` it moves them into
    ``folder/aside-DATE``. With ``resume`` it refuses those of another script.

    In one process ``train_from_dataset`` keeps checkpoints, and goes on at its place in the data. A script that makes its steps by
    ``Executor.run`` in one process saves by itself.

    >>> fluid.distributed.checkpoint("checkpoints", every_steps=1000, resume=True)
    """
    if every_steps is not None:
        every_steps = check_whole("checkpoint: every_steps", every_steps, 1, (1 << 63) - 1)
    every_seconds = plain(every_seconds)
    if every_seconds is not None and (isinstance(every_seconds, bool) or not isinstance(every_seconds, numbers.Real)
                                      or not 0 < float(every_seconds) < float("inf")):
        raise InvalidArgumentError(f"checkpoint: every_seconds={every_seconds!r}; a number above 0 is possible")
    keep, full_every = check_whole("checkpoint: keep", keep, 1), check_whole("checkpoint: full_every", full_every, 1)
    rows = rows_named("checkpoint: rows", rows)
    if isinstance(resume, str) and resume != "auto":
        raise InvalidArgumentError(f"checkpoint: resume={resume!r}; True, False and 'auto' are possible")
    if resume and anew:
        raise InvalidArgumentError("checkpoint: resume=True goes on from the folder's checkpoints, anew=True moves them away: choose one")
    if not isinstance(folder, (str, bytes, os.PathLike)) or not path_text(folder):
        raise InvalidArgumentError(f"checkpoint: {folder!r} is no folder")
    if position is not None and not callable(position):
        raise TypeError(f"checkpoint: position must be a function that returns bytes, got {position!r}")
    jobs.say_in_time(f"checkpoint({path_text(folder)!r})")
    there = absolute(path_text(folder))                # also when the script moves to another folder
    session.checkpoints.__dict__.update(folder=there, every_steps=every_steps, every_seconds=every_seconds, keep=keep,
                              full_every=full_every, rows=rows, resume=bool(resume), anew=anew, position=position)
    session.manager = None


def resumed_from() -> Checkpoint | None:
    """Return the checkpoint that this job goes on from; None: it begins at the beginning.

    >>> fluid.distributed.resumed_from() is None
    True
    """
    job = jobs.current()
    return beginning_of(job).checkpoint if job is not None else None


def first_step() -> int:
    """Return how many steps this trainer had made at the checkpoint that the job goes on from.

    >>> fluid.distributed.first_step()
    0
    """
    job = jobs.current()
    return beginning_of(job).steps if job is not None else 0


def resumed(batch_reader: Callable[[], Any]) -> Callable[[], Iterator[Any]]:
    """Return a reader without the batches that the training has used already, over all calls of the reader.

    A script need not use it: a resumed job does not compute its first runs, and returns the values that they fetched. With it the script
    does not see these batches at all; a complete epoch gives no batches.

    ``batch_reader`` is a function that returns an iterable of batches.

    >>> list(fluid.distributed.resumed(lambda: iter([1, 2, 3]))())
    [1, 2, 3]
    """
    if not callable(batch_reader):
        raise TypeError(f"resumed takes a reader (a function that returns batches), got {batch_reader!r}")
    session.skips_itself = True
    left = [-1]

    def rest() -> Iterator[Any]:
        has_begun = left[0] == 0
        if left[0] < 0:
            left[0] = first_step()
        for batch in batch_reader():
            if left[0]:
                left[0] -= 1
            else:
                has_begun = True
                yield batch
        if not has_begun:
            if steps_of_job := session.steps_of_process():
                steps_of_job.join_without_step()

    return rest
