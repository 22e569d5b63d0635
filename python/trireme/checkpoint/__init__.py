"""Checkpoints: all that a training needs to go on, in one folder (docs/checkpoints.md).

    fluid.io.save_checkpoint(exe, "checkpoints")                # in one process
    fluid.io.load_checkpoint(exe, "checkpoints")                # the newest valid one, whoever wrote it

A job writes and resumes them by itself: ``distributed.checkpoint``. ``trireme checkpoint list|verify|export`` looks at
them from a command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..native.lazy import load_later

if TYPE_CHECKING:
    from .arrays_file import export
    from .folder import steps
    from .opened import Array, Checkpoint, Table, find, newest
    from .state import digest_of as digest_of, state_variables as state_variables

__getattr__, __dir__ = load_later(__name__, {
    "arrays_file": ("export",),
    "folder": ("steps",),
    "opened": ("Array", "Checkpoint", "Table", "find", "newest"),
    "state": ("digest_of", "state_variables"),
})

__all__ = ["Checkpoint", "Array", "Table", "export", "newest", "find", "steps"]
