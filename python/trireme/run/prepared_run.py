"""A run that is prepared once and repeated at little cost."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from .._core import run_prepared
from ..native import calls, interrupt
from ..native.errors import InvalidArgumentError, user_line
from ..native.handles import Uncopied
from .prepared import Prepared, refuse_within_call

if TYPE_CHECKING:
    from ..native.scope import Scope
    from ..program.program import Program
    from .runner import Runner


class PreparedRun(Uncopied):
    """A run of one program with the same feeds and fetches again and again, by ``Executor.prepare``.

    ``run`` costs less than ``Executor.run`` does beyond the operators. Threads may share it, and take turns. The handle keeps its executor,
    program and scope alive. Where the program or the scope has changed, the next run prepares itself anew.
    """

    _instead = "Prepare another run: Executor.prepare"
    __slots__ = ("_executor", "_program", "_scope", "_feed", "_names", "_prepared")

    def __init__(self, executor: Runner, program: Program, scope: Scope, feed: list[str], names: tuple[str, ...]) -> None:
        self._executor = executor
        self._program = program
        self._scope = scope
        self._feed = feed
        self._names = names
        self._prepared: Prepared | None = None
        if executor._steps is None:               # a trainer of a job prepares its part of the program in its first step
            self._prepare()

    def _prepare(self) -> Prepared:
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
            refuse_within_call()
        if monotonic() >= interrupt.due:
            interrupt.look()
        try:
            results = run_prepared(scope._lock, program._lock, executor._lock, self._prepared, feed, return_numpy)
            if results is None:
                with scope._lock, program._lock, executor._lock:
                    results = self._run(feed, return_numpy)
            return results                             # type: ignore[no-any-return]
        except KeyError:
            self._check_names(feed)
            raise

    def _run(self, feed: dict[str, Any], return_numpy: bool) -> list[Any]:
        """Run for the first time, or after a change of the program."""
        self._check_names(feed)
        if self._prepared is None:                     # a step of a job
            return self._executor._run(self._program, feed, list(self._names), self._scope, return_numpy)
        return self._prepare().run(feed, return_numpy)  # type: ignore[no-any-return]

    def _check_names(self, feed: dict[str, Any]) -> None:
        if not isinstance(feed, dict) or set(feed) != set(self._feed):
            self._refuse(feed)

    def _refuse(self, feed: Any) -> None:
        """Raise for a feed that is no dict of the prepared names."""
        if not isinstance(feed, dict):
            raise TypeError(f"PreparedRun.run: feed must be a dict of names to arrays, got {feed!r}")
        raise InvalidArgumentError(f"PreparedRun.run: it was prepared with the feeds {sorted(self._feed)}, got {sorted(map(str, feed))}: "
                                   f"give these, or prepare another run\n  your line: {user_line()}")

    def __repr__(self) -> str:
        return f"<PreparedRun of {self._feed} to {list(self._names)}>"
