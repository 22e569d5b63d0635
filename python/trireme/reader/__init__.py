"""Readers: functions without arguments whose call returns an iterator over samples.

    def reader():
        for line in open("data.txt"):
            yield parse(line)

The decorators here return readers. Their threads end with the iteration: at its end, when a reader or a
mapper raises (the error comes out of the iteration), and when the consumer stops early.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..native.lazy import load_later
from . import creator
from .decorator import ComposeNotAligned, batch, buffered, cache, chain, compose, firstn, map_readers, shuffle, xmap_readers

if TYPE_CHECKING:
    from .processes import Fake, PipeReader, multiprocess_reader

# Python's modules for processes take longer to load than all layers.
__getattr__, __dir__ = load_later(__name__, {"processes": ("Fake", "PipeReader", "multiprocess_reader")})

__all__ = ["Fake", "PipeReader", "multiprocess_reader", "batch", "buffered", "cache", "chain", "compose", "ComposeNotAligned", "creator",
           "firstn", "map_readers", "shuffle",
           "xmap_readers"]
