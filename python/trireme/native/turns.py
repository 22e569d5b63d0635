"""Turns of threads, and what a fork makes of them.

Scopes, programs and executors each have a lock, which a run holds. A child made by fork has copies of the locks, but not the other
threads of its parent: a lock that one of those held stays locked for ever, and what the run was changing stays half changed. So in
the child such an object refuses to be used. What no thread was using at that moment works as in the parent.
"""

from __future__ import annotations

import os
import weakref
from threading import RLock
from typing import Any, NoReturn

_owners: weakref.WeakSet[Any] = weakref.WeakSet()      # what has a turn


class _Lost:
    """The turn of an object that a thread of the parent was using."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __enter__(self) -> NoReturn:
        from .errors import InvalidArgumentError, user_line

        raise InvalidArgumentError(
            f"this {self.kind} was in use by another thread when process {os.getpid()} was forked (os.fork, multiprocessing). That "
            "thread does not exist here, so its run never ends. Make the programs, the Scope and the Executor in the child, or start "
            f"the child by multiprocessing.get_context('spawn')\n  your line: {user_line()}")

    def __exit__(self, *error: object) -> None:
        """Never reached: nothing enters."""


def new_turn(owner: Any) -> Any:
    """Return the lock of ``owner``, which keeps it as ``_turn``."""
    _owners.add(owner)
    return RLock()


def share_turn(owner: Any, of: Any) -> Any:
    """Return the lock of another object for ``owner``, too."""
    _owners.add(owner)
    return of._turn


def _look_in_child() -> None:
    for owner in list(_owners):
        turn = getattr(owner, "_turn", None)           # None: another thread was just making it
        if turn is None or isinstance(turn, _Lost):
            continue
        if turn.acquire(blocking=False):               # it is free, or this thread's own
            turn.release()
        else:
            owner._turn = _Lost(type(owner).__name__)


os.register_at_fork(after_in_child=_look_in_child)
