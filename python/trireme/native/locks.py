"""Locks of the process, which are free in a child made by fork.

A child has a copy of each lock, but only the thread that forked: a lock that another thread held would stay locked for ever. Those here
guard counts and lists for a few instructions, so a child has them anew. Objects have locks of their own (handles.py). The core has
``framework/base/fork_lock.h`` for the same.
"""

from __future__ import annotations

import _frozen_importlib
import _imp
import os
import time
from _thread import RLock, get_ident  # threading takes a millisecond to load
from typing import Any

_PATIENCE = 10.0                       # seconds that a fork waits for other threads' imports
_locks: list[Any] = []


def new_lock() -> Any:
    """Return an RLock of the process, which lives as long as it."""
    lock = RLock()
    _locks.append(lock)
    return lock


def _others_load() -> bool:
    """Return whether another thread holds the lock that Python has for each module which is being imported."""
    mine = get_ident()
    locks = [of() for of in list(_frozen_importlib._module_locks.values())]        # type: ignore[attr-defined]
    return any(lock is not None and lock.owner not in (None, mine) for lock in locks)


def _wait_for_modules() -> None:
    """Hold Python's lock of all imports while no other thread is in the middle of one: a child would wait for it for ever."""
    deadline = time.monotonic() + _PATIENCE
    _imp.acquire_lock()
    while _others_load() and time.monotonic() < deadline:
        _imp.release_lock()
        time.sleep(0.001)
        _imp.acquire_lock()


def _renew() -> None:
    _imp.release_lock()                # Python has renewed it
    for lock in _locks:
        lock._at_fork_reinit()         # as the standard library renews its own


os.register_at_fork(before=_wait_for_modules, after_in_parent=_imp.release_lock, after_in_child=_renew)
