"""A run that is prepared once and repeated at little cost, and how small results are copied out of the core."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from . import calls, interrupt
from ._core import ffi, lib
from .errors import InvalidArgumentError, user_line
from .native import Uncopied
from .tensor import view_of_memory

if TYPE_CHECKING:
    from .executor import Executor, Prepared
    from .program import Program
    from .tensor import Scope

_data = lib.tr_tensor_data
_bytes = lib.tr_tensor_bytes
_revision = lib.tr_program_revision
_MAX_COPIED = 4096                   # bytes; the memory of a larger result is handed out


def is_small(tensor: Any) -> bool:
    """Whether a result is an array of a few bytes, whose tensor can stay for the next run."""
    return (0 < _bytes(tensor) <= _MAX_COPIED and not lib.tr_tensor_has_rows(tensor) and not lib.tr_tensor_lod_levels(tensor)
            and view_of_memory(tensor, None) is not None)


class SmallResult(Uncopied):
    """One small result of a run, whose tensor stays from run to run.

    The core writes a result into one of a few buffers in turn, so an array over each is kept. It is used only while the tensor
    has that very memory and size. A run whose feeds have other shapes begins with new tensors.
    """

    __slots__ = ("tensor", "_size", "_rank", "_dims", "_views")

    def __init__(self, tensor: Any) -> None:
        self.tensor: Any = tensor
        self._size = _bytes(tensor)
        self._rank = lib.tr_tensor_rank(tensor)
        self._dims = ffi.unpack(lib.tr_tensor_dims(tensor), self._rank) if self._rank else []
        self._views: dict[Any, np.ndarray] = {}

    def __del__(self) -> None:
        if getattr(self, "tensor", None) is not None:  # it is made, and not given away
            lib.tr_tensor_free(self.tensor)

    def value(self) -> np.ndarray | None:
        """Return a copy of the result, or None where it has another shape than before."""
        tensor = self.tensor
        if _bytes(tensor) != self._size or (self._rank != 1 and self._has_other_dims()):
            return None
        data = _data(tensor)
        view = self._views.get(data)
        if view is None:
            if len(self._views) > 8:                   # memory of layouts that are gone
                self._views.clear()
            view = self._views[data] = view_of_memory(tensor, ffi.buffer(ffi.cast("char *", data), self._size))
        return view.copy()

    def _has_other_dims(self) -> bool:
        return bool(self._rank) and ffi.unpack(lib.tr_tensor_dims(self.tensor), self._rank) != self._dims


class PreparedRun(Uncopied):
    """A run of one program with the same feeds and fetches again and again, by ``Executor.prepare``.

    ``run`` costs less than ``Executor.run`` does beyond the operators. Threads may share it, and take turns. The handle keeps its executor,
    program and scope alive. Where the program or the scope has changed, the next run prepares itself anew.
    """

    _instead = "Prepare another run: Executor.prepare"
    __slots__ = ("_executor", "_program", "_scope", "_feed", "_names", "_prepared")

    def __init__(self, executor: Executor, program: Program, scope: Scope, feed: list[str], names: tuple[str, ...]) -> None:
        self._executor = executor
        self._program = program
        self._scope = scope
        self._feed = feed
        self._names = names
        self._prepared: Prepared | None = None
        if executor._before_run is None:               # a trainer of a job prepares its part of the program in its first step
            self._prepare()

    def _prepare(self) -> Prepared:
        from .executor import Prepared
        self._prepared = Prepared(self._executor._native, self._program, self._scope, self._feed, self._names)
        return self._prepared

    def run(self, feed: dict[str, Any] | None = None, return_numpy: bool = True) -> list[Any]:
        """Run once and return the values of the prepared ``fetch_list``.

        ``feed`` maps exactly the prepared names to arrays or LoDTensors. Shapes may differ from run to run as the program allows.
        Raises InvalidArgumentError for other names, and what ``Executor.run`` raises.
        """
        executor, scope, program = self._executor, self._scope, self._program
        if feed is None:
            feed = {}
        if calls.running:
            calls.check()
        with scope._turn, program._turn, executor._turn:
            prepared = self._prepared
            if not isinstance(feed, dict) or len(feed) != len(self._feed):
                self._refuse(feed)
            if prepared is None:
                self._check_names(feed)
                return executor._run(program, feed, list(self._names), scope, return_numpy)
            if monotonic() >= interrupt.due:
                interrupt.look()
            if prepared.revision != _revision(program.desc._native.ptr) or prepared.erased != scope._erased:
                prepared = self._prepare()
            try:
                return prepared.run(feed, return_numpy, self._names)
            except KeyError:
                self._check_names(feed)
                raise
            except InvalidArgumentError:
                if prepared.executor is executor._native:
                    raise
                return self._prepare().run(feed, return_numpy, self._names)        # the executor was closed in between

    def _check_names(self, feed: dict[str, Any]) -> None:
        if set(feed) != set(self._feed):
            self._refuse(feed)

    def _refuse(self, feed: Any) -> None:
        """Raise for a feed that is no dict of the prepared names."""
        if not isinstance(feed, dict):
            raise TypeError(f"PreparedRun.run: feed must be a dict of names to arrays, got {feed!r}")
        raise InvalidArgumentError(f"PreparedRun.run: it was prepared with the feeds {sorted(self._feed)}, got {sorted(map(str, feed))}: "
                                   f"give these, or prepare another run\n  your line: {user_line()}")

    def __repr__(self) -> str:
        return f"<PreparedRun of {self._feed} to {list(self._names)}>"


__all__ = ["PreparedRun"]
