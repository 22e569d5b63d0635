"""Running programs.

A run costs a few microseconds beyond its operators: what was worked out for a (program, feeds, fetches, scope)
is kept on the program. The extension finds it there, and converts feeds and results (python/core/plan_call.c).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from .._core import ffi, lib, run_kept
from ..job.session import Steps, session
from ..native import calls, interrupt
from ..native.errors import NotFoundError, UnsupportedError, check
from ..native.handles import Handle, Native, new_lock_of
from ..native.names import take_text
from ..native.precision import precision_chars, precision_name
from ..native.tensor import CPUPlace
from ..native.scope import Scope
from ..program import Program, Variable, default_main_program
from . import scopes
from .prepared import Prepared, refuse_within_call

if TYPE_CHECKING:
    from .compiler import CompiledProgram
    from .prepared_run import PreparedRun
    from .replica_feeds import Feed

_MAX_KEPT = 128                      # prepared runs of a program by one executor in one scope


def _tidy(kept: dict[Any, Prepared]) -> None:
    """Drop the prepared runs whose executor or scope is gone, and the oldest where one executor has many in one scope."""
    counts: dict[Any, int] = {}
    for key in reversed(list(kept)):
        executor, scope = key[:2]
        counts[key[:2]] = count = counts.get(key[:2], 0) + 1
        if count > _MAX_KEPT // 2 or executor.is_freed or scope.is_freed:
            del kept[key]


class Runner(Handle):
    """Runs programs: what an ``Executor`` is without loops over data sets. The package itself makes runners where it runs programs of its
    own."""

    _instead = "Make another one: fluid.Executor()"

    def __init__(self, place: Any = None, *, check_nan: bool | None = None, matmul_precision: str | None = None) -> None:
        if place is not None and not isinstance(place, CPUPlace):
            raise TypeError(f"Executor: the place must be CPUPlace(), got {place!r}")
        self.place = place or CPUPlace()
        self._check_nan = os.environ.get("TRIREME_CHECK_NAN", "0") not in ("", "0") if check_nan is None else check_nan
        self._precision = matmul_precision
        self._begin()
        self._lock = new_lock_of(self)
        # in a process of a job: they replace a training program by its trainer's part
        self._steps: Steps | None = session.steps_of_process()

    def _begin(self) -> None:
        self._native = Native(lib.tr_executor_new(), lib.tr_executor_free, owner="Executor")
        self._job: Any = None
        self.check_nan = self._check_nan
        self.matmul_precision = self._precision

    def _take_part(self, job: Any) -> None:
        """Let runs take part in the job: operators ask their run for it."""
        self._job = job
        lib.tr_executor_set_job(self._native.ptr, session.native_job)

    @property
    def check_nan(self) -> bool:
        """Whether every operator's results are checked for NaN and infinity; a run then fails at the first."""
        return self._check_nan

    @check_nan.setter
    def check_nan(self, check_nan: bool) -> None:
        self._check_nan = bool(check_nan)
        lib.tr_executor_check_finite(self._native.ptr, self._check_nan)

    @property
    def matmul_precision(self) -> str:
        """``"float32"`` or ``"bfloat16"``, how runs multiply matrices. Set it to one of them, or to None for that of the process."""
        return precision_name(lib.tr_executor_matmul_precision(self._native.ptr))

    @matmul_precision.setter
    def matmul_precision(self, precision: str | None) -> None:
        chars = ffi.NULL if precision is None else precision_chars("Executor: matmul_precision", precision)
        check(lib.tr_executor_set_matmul_precision(self._native.ptr, chars))
        self._precision = precision

    def run(self, program: Program | CompiledProgram | None = None, feed: Feed | list[Feed] | tuple[Feed, ...] | None = None,
            fetch_list: Sequence[Any] | None = None, feed_var_name: str = "feed", fetch_var_name: str = "fetch",
            scope: Scope | None = None, return_numpy: bool = True, use_program_cache: bool = False) -> list[Any]:
        """Run ``program`` once and return the values of ``fetch_list``: variables or their names. A ``CompiledProgram`` runs, too.
        ``feed_var_name``, ``fetch_var_name`` and ``use_program_cache`` change nothing.

        ``feed`` maps names to arrays; a LoDTensor brings sequence offsets. ``return_numpy=False`` returns
        LoDTensors. Variables that persist live in ``scope``. Threads that share a scope, a program or an executor take turns.

        Ctrl-C ends a run at the next boundary between two operators, also inside a loop: KeyboardInterrupt is raised, variables
        keep the values that the operators before the boundary gave them, and the next run works.
        """
        if calls.running:
            refuse_within_call()
        if program is None:
            program = default_main_program()
        if scope is None:
            scope = scopes.current
        if feed is None:
            feed = {}
        elif feed.__class__ is list and len(feed) == 1 and not getattr(program, "_is_compiled", False):      # one place
            feed = feed[0]
        try:
            if program._is_compiled:
                return program._run(self, feed, fetch_list, scope, return_numpy)
            if self._steps is None and not program._readers:
                if monotonic() >= interrupt.due:
                    interrupt.look()
                results = run_kept(scope._lock, program._lock, self._lock, program._prepared, self._native, scope._native, feed,
                                   fetch_list or (), return_numpy)
                if results is not None:
                    return results                     # type: ignore[no-any-return]
            # In this order, so that no two threads wait for each other: a job runs programs of its own inside a run.
            with scope._lock, program._lock, self._lock:
                return self._run(program, feed, fetch_list, scope, return_numpy)
        except (AttributeError, TypeError):
            if not getattr(program, "_is_compiled", False):
                self._explain(program, feed, fetch_list, scope)
            raise

    def prepare(self, program: Program | None = None, feed: Sequence[Any] = (), fetch_list: Sequence[Any] = (),
                scope: Scope | None = None) -> PreparedRun:
        """Return a handle whose ``run(feed)`` does what ``run`` here does with these feeds and fetches, at less cost.

        ``feed`` are the variables that will be fed, or their names. ``fetch_list`` and ``scope`` are those of ``run``. Names are looked up
        here, and mistakes in them are found here. It pays where a step takes microseconds. In a job a step costs what it costs by ``run``.

        >>> x = fluid.layers.data("x", [2])
        >>> step = fluid.Executor().prepare(feed=[x], fetch_list=[fluid.layers.scale(x, scale=3.0)])
        >>> step.run({"x": np.ones((1, 2), "float32")})
        [array([[3., 3.]], dtype=float32)]
        """
        from .prepared_run import PreparedRun

        program = default_main_program() if program is None else program
        scope = scopes.current if scope is None else scope
        self._explain(program, {}, list(fetch_list), scope, "prepare")
        if isinstance(feed, (str, Variable)):
            raise TypeError(f"Executor.prepare: feed must be a list of variables or names, got {feed!r}")
        feeds = [var.name if isinstance(var, Variable) else var for var in feed]
        names = tuple(var if isinstance(var, str) else var.name for var in fetch_list)
        with scope._lock, program._lock, self._lock:
            return PreparedRun(self, program, scope, feeds, names)

    def _run(self, program: Program, feed: Any, fetch_list: Sequence[Any] | None, scope: Scope,
             return_numpy: bool) -> list[Any]:
        if monotonic() >= interrupt.due:
            interrupt.look()
        names = []
        for var in fetch_list or ():                   # a loop costs less than a comprehension, which is a call
            names.append(var if isinstance(var, str) else var._name)
        if program._readers:
            feed = program._feed_from_readers(feed)
        steps = self._steps
        if steps is None:
            return self._run_plain(program, feed, names, scope, return_numpy)
        program, feed, replaced = steps.before_run(self, program, scope, feed, tuple(names))
        try:
            results = self._run_plain(program, feed, replaced, scope, return_numpy)
        except BaseException as error:
            steps.after_failure(error, program)
            raise
        steps.after_run(program, replaced, results)
        return results

    def _run_plain(self, program: Program, feed: dict[str, Any], names: Sequence[str], scope: Scope, return_numpy: bool) -> list[Any]:
        results = run_kept(scope._lock, program._lock, self._lock, program._prepared, self._native, scope._native, feed, names,
                           return_numpy)
        if results is None:
            results = self._prepare(program, scope, feed, names).run(feed, return_numpy)
        return results                                 # type: ignore[no-any-return]

    def _prepare(self, program: Program, scope: Scope, feed: dict[str, Any], names: Sequence[str]) -> Prepared:
        try:
            prepared = Prepared(self._native, program, scope, list(feed), names)
        except NotFoundError as error:
            if program._is_servers:
                raise UnsupportedError("this is a server's program (get_pserver_program): the gradients that it reads come from trainers. "
                                       "Servers are started by 'trireme launch --servers 2 --trainers 2 SCRIPT', which needs no branch for "
                                       f"them in the script\n  {error}") from None
            raise
        kept = program._prepared
        key = (self._native, scope._native, *feed, None, *names)
        kept.pop(key, None)
        if len(kept) >= program._most_prepared:
            _tidy(kept)
            program._most_prepared = max(_MAX_KEPT, 2 * len(kept))
        kept[key] = prepared
        return prepared

    @staticmethod
    def _explain(program: Any, feed: Any, fetch_list: Any, scope: Any, call: str = "run") -> None:
        """Raise for arguments that are not what they should be."""
        if not isinstance(program, Program):
            raise TypeError(f"Executor.{call}: program must be a Program, got {program!r}")
        if not isinstance(scope, Scope):
            raise TypeError(f"Executor.{call}: scope must be a Scope, got {scope!r}")
        if not isinstance(feed, dict):
            raise TypeError(f"Executor.{call}: feed must be a dict of names to arrays, got {feed!r}")
        if not isinstance(fetch_list, (list, tuple, type(None))):
            raise TypeError(f"Executor.{call}: fetch_list must be a list, got {fetch_list!r}")
        for var in fetch_list or ():
            if not isinstance(var, (Variable, str)):
                raise TypeError(f"Executor.{call}: fetch_list holds Variables or names, got {var!r}")

    def plan(self, program: Program | None = None, feed: Sequence[str] = (), fetch_list: Sequence[Any] = (),
             scope: Scope | None = None) -> str:
        """Return the plan for such a run as text: its steps, what was fused, what shares memory.
        ``feed`` is the names of what is fed, ``fetch_list`` variables or names.
        """
        program = program or default_main_program()
        names = [var if isinstance(var, str) else var.name for var in fetch_list]
        prepared = Prepared(self._native, program, scope or scopes.current, list(feed), names)
        out = ffi.new("char **")
        check(lib.tr_plan_to_string(out, ffi.cast("tr_plan *", prepared.plan)))
        return take_text(out)

    def close(self) -> None:
        """Free what the executor keeps between runs. A run after it prepares itself anew, and draws random numbers as a first run does."""
        with self._own_lock():
            if self._is_open:
                before = self._native
                self._begin()
                before.release()
