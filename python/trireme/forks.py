"""Locks that are free in a child made by fork.

A child has a copy of each lock, but only the thread that forked: a lock that another thread held would stay locked for ever. The core has
``framework/fork_lock.h`` for the same.
"""

from __future__ import annotations

import os
from _thread import RLock, _local             # threading takes a millisecond to load
from typing import Any

_PATIENCE = 10.0                       # seconds that a fork waits for other threads' imports
_locks: list[Any] = []


def new_lock() -> Any:
    """Return an RLock of the process, which lives as long as it. It guards counts and lists for a few instructions, so a child has it anew."""
    lock = RLock()
    _locks.append(lock)
    return lock


# Held while this package loads its modules. Python has a lock for each module, and a child would wait for ever for one that another thread held:
# so a fork waits for that thread first.
loading = new_lock()
_fork = _local()


def _wait_for_modules() -> None:
    _fork.has_waited = loading.acquire(timeout=_PATIENCE)


def _go_on() -> None:
    if getattr(_fork, "has_waited", False):
        loading.release()


def _renew() -> None:
    for lock in _locks:
        lock._at_fork_reinit()         # as the standard library renews its own


os.register_at_fork(before=_wait_for_modules, after_in_parent=_go_on, after_in_child=_renew)

__all__ = ["loading", "new_lock"]
