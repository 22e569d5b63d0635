"""Python's garbage collector, paused while many lasting objects are made.

Each new object counts towards the next collection, and a collection looks at all objects alive. Making the programs of a large job
creates hundreds of thousands of objects and no garbage: the collections took 40 % of the time.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the collector, unless it is off. Nested pauses end with the outermost one."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
