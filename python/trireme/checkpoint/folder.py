"""Which checkpoints there are in a folder: what the launcher asks, who loads neither NumPy nor what makes programs."""

from __future__ import annotations

import os

from .._core import ffi, lib
from ..names import path_chars


def steps(folder: str | os.PathLike[str]) -> list[int]:
    """Return the steps of the checkpoints in a folder, the newest first, whether they are valid or not."""
    path = path_chars(folder)
    count = lib.tr_checkpoint_list(ffi.NULL, 0, path)
    out = ffi.new("int64_t[]", count)
    there = lib.tr_checkpoint_list(out, count, path)
    return list(out)[:there]


__all__ = ["steps"]
