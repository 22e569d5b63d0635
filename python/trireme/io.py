"""Saving and loading, under Fluid's name: ``trireme.saving``, and readers that Fluid has here, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .native.lazy import load_later
from .program.variable import is_persistable
from .saving.io import *  # noqa: F403
from .saving.io import __all__ as _of_files
from .saving.pretrained import set_table_rows

if TYPE_CHECKING:
    from .feeding.py_reader import DataLoader, PyReader
    from .reader import (ComposeNotAligned, batch, buffered, cache, chain, compose, firstn, map_readers, multiprocess_reader, shuffle,
                         xmap_readers)
    from .saving.checkpoints import load_checkpoint, save_checkpoint
    from .train.saved_job import save_job
else:
    __getattr__, __dir__ = load_later(__name__, {
        "..feeding.py_reader": ("DataLoader", "PyReader"),
        "..reader": ("ComposeNotAligned", "batch", "buffered", "cache", "chain", "compose", "firstn", "map_readers", "multiprocess_reader",
                     "shuffle", "xmap_readers"),
        "..saving.checkpoints": ("load_checkpoint", "save_checkpoint"),
        "..train.saved_job": ("save_job",),
    })

__all__ = [*_of_files, "is_persistable", "set_table_rows", "save_checkpoint", "load_checkpoint", "save_job", "PyReader", "DataLoader",
           "ComposeNotAligned", "batch", "buffered", "cache", "chain", "compose", "firstn", "map_readers", "multiprocess_reader", "shuffle",
           "xmap_readers"]
