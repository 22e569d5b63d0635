"""Which threads are within a function that a program has called (py_functions.py), and what such a function has raised.

A function must not run a program. The thread that runs the outer program holds the locks of its scope, program and executor; a function
on another thread would wait for them for ever. So ``Executor.run`` asks here first.
"""

from __future__ import annotations

from _thread import _local  # threading takes a millisecond to load

from .locks import new_lock

running = 0                            # functions that run now, in all threads
cause: BaseException | None = None     # what the last one has raised, until the run's error takes it
_lock = new_lock()
_mine = _local()


def begin() -> None:
    global running
    _mine.is_running = True
    with _lock:
        running += 1


def end() -> None:
    global running
    _mine.is_running = False
    with _lock:
        running -= 1


def is_within() -> bool:
    """Return whether this thread is within such a function. To be asked only while ``running``."""
    return getattr(_mine, "is_running", False)


def take_cause() -> BaseException | None:
    """Return what a function has raised, once."""
    global cause
    taken, cause = cause, None
    return taken
