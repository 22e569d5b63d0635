"""Owning native memory from Python, whatever order Python finalises objects in, and whatever threads do meanwhile.

The collector may finalise a scope before the executor whose plans look at it. So native memory is not freed by the object that wraps it but
by its last *user*: each wrapper is one, so is each piece of native memory that needs another, and so is a thread inside ``with native as
ptr``.

Every class that has native memory is a ``Handle``. A handle lets its memory go once, whichever threads ask for it. From then on each use of
it raises an error that names the class. Copies are refused by name, unless the class says what a copy is.

Scopes, programs, executors and datasets have a lock, which a run holds. In a child made by fork a lock that another thread held stays
locked for ever, and what the run was changing stays half changed. So there such an object refuses to be used. An object that no thread was
using works as in the parent.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar, NoReturn

from .._core import Lock
from .errors import InvalidArgumentError, user_line
from .locks import new_lock

_counts = new_lock()                   # of all natives: held for a few instructions, also by a finaliser within them
_owners: weakref.WeakSet[Any] = weakref.WeakSet()      # the objects that have locks


class Native:
    """A native pointer with a count of users; the last one to let go frees it. ``owner`` is what an error calls it."""

    __slots__ = ("ptr", "_free", "_users", "_needs", "_owner", "__weakref__")

    def __init__(self, ptr: Any, free: Callable[[Any], None], needs: tuple[Native, ...] = (), owner: str = "object") -> None:
        self._owner = owner
        self._free = free
        self._users = 0
        self._needs = tuple([need.retain() for need in needs])
        self.ptr = ptr
        self._users = 1

    def retain(self) -> Native:
        """Count one more user. Raises InvalidArgumentError where the last one has let go."""
        with _counts:
            if self._users == 0:
                raise_closed(self._owner)
            self._users += 1
        return self

    def release(self) -> None:
        """Count one user less; the last one frees the memory, which nobody finds any more by then."""
        released: list[Native] = [self]
        while released:                    # a chain of natives may be longer than Python's stack is deep
            one = released.pop()
            with _counts:
                assert one._users > 0, "a native is released once for each user"
                one._users -= 1
                if one._users:
                    continue
                ptr = one.ptr
                one.__class__ = _Freed
            one._free(ptr)
            released += reversed(one._needs)

    @property
    def is_freed(self) -> bool:
        return self._users == 0

    def __enter__(self) -> Any:
        """Use the memory: it stays until the end of the block, whatever other threads let go."""
        return self.retain().ptr

    def __exit__(self, *_: object) -> None:
        self.release()


class _Freed(Native):
    """What a native becomes whose last user has let go. A class of its own, because whatever watches ``ptr`` would slow each use of a
    living one."""

    __slots__ = ()

    @property
    def ptr(self) -> NoReturn:
        raise_closed(self._owner)


def raise_closed(owner: str) -> NoReturn:
    """Raise for the use of something that has let its native memory go."""
    raise InvalidArgumentError(f"this {owner} is closed: its memory was freed. Make a new one\n  your line: {user_line()}")


class _Closed:
    """Stands in a handle for the memory that it has let go: false, and each use of it raises."""

    __slots__ = ("_owner",)

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):                      # what Python itself looks for
            raise AttributeError(name)
        raise_closed(self._owner)

    def __enter__(self) -> NoReturn:
        raise_closed(self._owner)

    def __exit__(self, *_: object) -> None:
        """Never reached: nothing enters."""


class Uncopied:
    """A class whose objects are one with something that cannot be copied by copying them; ``_instead`` says what to do."""

    __slots__ = ()
    _instead: ClassVar[str] = "Make a new one"

    def _refuse_copy(self, verb: str) -> NoReturn:
        name = type(self).__name__
        raise TypeError(f"{'an' if name[0] in 'AEIO' else 'a'} {name} cannot be {verb}: it is bound to memory of the core. {self._instead}")

    def __copy__(self) -> Any:
        self._refuse_copy("copied")

    def __deepcopy__(self, memo: Any) -> Any:
        self._refuse_copy("copied")

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._refuse_copy("pickled")


class Handle(Uncopied):
    """An object with native memory, ``_native``; most have a lock, ``_lock``. Where ``__init__`` has raised neither may be there, and the
    class must not have them instead: attributes of a class under the same names slow each look at an object's own.
    """

    __slots__ = ()
    _native: Any

    @property
    def _is_open(self) -> bool:
        return bool(self.__dict__.get("_native"))

    def _own_lock(self) -> Any:
        """Return the lock, to let the memory go."""
        return self.__dict__.get("_lock") or nullcontext()

    def _let_go(self) -> bool:
        """Let the native memory go. Return whether it was this call that did: others come too late."""
        with _counts:                                  # of several threads one gets it
            native = self.__dict__.get("_native")
            if not native:
                return False
            self._native = _Closed(type(self).__name__)
        native.release()
        return True

    def __del__(self) -> None:
        self._let_go()


class _Lost:
    """The lock of an object that a thread of the parent was using."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __enter__(self) -> NoReturn:
        raise InvalidArgumentError(
            f"this {self.kind} was in use by another thread when process {os.getpid()} was forked (os.fork, multiprocessing). That "
            "thread does not exist here, so its run never ends. Make the programs, the Scope and the Executor in the child, or start "
            f"the child by multiprocessing.get_context('spawn')\n  your line: {user_line()}")

    def __exit__(self, *error: object) -> None:
        """Never reached: nothing enters."""


def new_lock_of(owner: Any) -> Any:
    """Return the lock of an object, which keeps it as ``_lock``."""
    _owners.add(owner)
    return Lock()


def share_lock(owner: Any, of: Any) -> Any:
    """Return the lock of another object for ``owner``, too."""
    _owners.add(owner)
    return of._lock


def _lose_held_locks() -> None:
    for owner in list(_owners):
        lock = getattr(owner, "_lock", None)           # None: another thread was just making it
        if lock is None or isinstance(lock, _Lost):
            continue
        if lock.try_enter(0):                          # it is free, or this thread's own
            lock.__exit__()
        else:
            owner._lock = _Lost(type(owner).__name__)


os.register_at_fork(after_in_child=_lose_held_locks)
