"""Owning native memory from Python, whatever order Python finalises objects in.

The collector may finalise a scope before the executor whose plans look at it. So native memory is not
freed by the object that wraps it but by its last *user*: each wrapper is one, and so is each piece of
native memory that needs another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Native:
    """A native pointer with a count of users; the last one to let go frees it."""

    __slots__ = ("ptr", "_free", "_users", "_needs")

    def __init__(self, ptr: Any, free: Callable[[Any], None], needs: tuple[Native, ...] = ()) -> None:
        self.ptr = ptr
        self._free = free
        self._users = 1
        self._needs = needs
        for need in needs:
            need._users += 1

    def retain(self) -> Native:
        self._users += 1
        return self

    def release(self) -> None:
        self._users -= 1
        if self._users == 0:
            self._free(self.ptr)
            self.ptr = None
            for need in self._needs:
                need.release()
