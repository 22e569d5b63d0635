"""Programs that run as replicas on the threads of one process, each with a slice of the batch.

>>> x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
>>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, size=1), y))
>>> _ = fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
>>> exe = fluid.Executor(fluid.CPUPlace())
>>> _ = exe.run(fluid.default_startup_program())
>>> compiled = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss_name=loss.name, places=fluid.cpu_places(2))
>>> a = np.array([[0.0], [1.0], [2.0], [3.0]], "float32")
>>> losses, = exe.run(compiled, feed={"x": a, "y": 3 * a}, fetch_list=[loss])
>>> losses.shape
(2,)
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..native.errors import EOFException, InvalidArgumentError, NotFoundError, UnsupportedError, check_whole, user_line
from ..native.handles import Uncopied
from ..native.suggest import did_you_mean
from ..native.tensor import CPUPlace, samples_of
from ..native.scope import Scope
from ..program import Program, Variable
from ..program.places import cpu_places
from .replica_feeds import Feed, check_feeds, joined_feeds
from .strategies import BuildStrategy, ExecutionStrategy

if TYPE_CHECKING:
    from .replica_runs import Replicas
    from .runner import Runner

_MOST_PLACES = 256


def is_distributed(program: Program) -> bool:
    """Return whether the program talks to parameter servers."""
    return program._is_distributed or any(op.type in ("send", "recv") for op in program.global_block().read_ops())


class CompiledProgram(Uncopied):
    """A program and how it runs: as it is, or ``with_data_parallel`` as replicas. ``Executor.run`` takes it for a program.

    A loss that each replica computes is fetched as one array of all replicas' values, as ``np.mean(loss)`` expects. In a job each
    trainer has its replicas, and servers get one gradient from each trainer.

    ``program_or_graph`` is the Program; ``build_strategy`` is as in ``with_data_parallel``.

    >>> x, y = fluid.layers.data("x", [2]), fluid.layers.data("y", [1])
    >>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    >>> _ = fluid.optimizer.SGD(0.1).minimize(loss)
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> replicas = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss_name=loss.name, places=fluid.cpu_places(2))
    >>> exe.run(replicas, feed={"x": np.ones((4, 2), "float32"), "y": np.ones((4, 1), "float32")}, fetch_list=[loss])[0].shape
    (2,)
    """

    _is_compiled: Literal[True] = True

    def __init__(self, program_or_graph: Program, build_strategy: BuildStrategy | None = None) -> None:
        if not isinstance(program_or_graph, Program):
            raise TypeError(f"CompiledProgram takes a Program, got {program_or_graph!r}")
        self._program = program_or_graph
        self._is_parallel = False
        self._places = 1
        self._build, self._execution = _strategies(build_strategy, None)
        self._kept: weakref.WeakKeyDictionary[Scope, dict[Program, Replicas]] = weakref.WeakKeyDictionary()

    def with_data_parallel(self, loss_name: str | None = None, build_strategy: BuildStrategy | None = None,
                           exec_strategy: ExecutionStrategy | None = None, share_vars_from: CompiledProgram | None = None,
                           places: Sequence[CPUPlace] | int | None = None) -> CompiledProgram:
        """Let it run as one replica for each of ``places`` (``fluid.cpu_places()``: as many as ``CPU_NUM`` or the threads of the process).
        ``build_strategy`` and ``exec_strategy`` are a BuildStrategy and an ExecutionStrategy, or None.

        ``loss_name`` names the loss of a program that trains. Parameters are those of the scope: ``share_vars_from``, another program with
        data parallelism, need not be given. The results have the same bits for the same number of places, whatever the number of threads.
        """
        if self._is_parallel:
            raise InvalidArgumentError("CompiledProgram.with_data_parallel was called already")
        if loss_name is not None:
            _check_loss(self._program, loss_name)
        if share_vars_from is not None and not (isinstance(share_vars_from, CompiledProgram) and share_vars_from._is_parallel):
            raise InvalidArgumentError("with_data_parallel: share_vars_from must be a CompiledProgram with data parallelism, "
                                       f"got {share_vars_from!r}")
        self._build, self._execution = _strategies(build_strategy or self._build, exec_strategy)
        self._build.__dict__["is_distribution"] = is_distributed(self._program)
        self._places = _count_places(places)
        self._is_parallel = True
        return self

    def with_inference_optimize(self, config: Any) -> CompiledProgram:
        """Refuse: there is no inference engine. Run the program itself. ``config`` is not looked at."""
        raise UnsupportedError("CompiledProgram.with_inference_optimize: there is no inference engine beside the executor; run the program "
                               "itself")

    # -- runs: Executor.run calls this ----------------------------------------------------------------------

    def _run(self, executor: Runner, feed: Feed | list[Feed] | tuple[Feed, ...], fetch_list: Sequence[Any] | None, scope: Scope,
             return_numpy: bool) -> list[Any]:
        slices: Sequence[Feed] | None = None
        has_readers = self._is_parallel and bool(self._program._readers)
        if isinstance(feed, (list, tuple)):
            check_feeds(feed, self._places)
            slices = feed
        elif has_readers:
            slices = [feed] * self._places
        if slices is not None:
            if has_readers:
                slices = self._read(executor, slices, scope)
            feed = joined_feeds(slices)
        if not self._is_parallel:                      # not compiled for replicas: as it is
            return executor.run(self._program, feed, fetch_list, scope=scope, return_numpy=return_numpy)
        if not isinstance(feed, dict) or not isinstance(fetch_list, (list, tuple, type(None))):
            executor._explain(self._program, feed, fetch_list, scope)
        assert isinstance(feed, dict)
        names = tuple([var if isinstance(var, str) else var.name for var in fetch_list or ()])
        with scope._lock, self._program._lock, executor._lock:
            return self._run_locked(executor, feed, slices, names, scope, return_numpy)

    def _read(self, executor: Runner, feeds: Sequence[Feed], scope: Scope) -> list[Feed]:
        """Add the batches of the program's readers to the feeds of the places. There are fewer feeds at the end of a pass."""
        with scope._lock, self._program._lock, executor._lock:
            return _feeds_from_readers(self._program, feeds)

    def _run_locked(self, executor: Runner, feed: Feed, slices: Any, names: tuple[str, ...], scope: Scope, return_numpy: bool) -> list[Any]:
        program = self._program
        steps = executor._steps
        if steps is not None:
            program, feed, names = steps.before_run(executor, program, scope, feed, names)
        try:
            results = self._run_slices(executor, program, feed, slices, names, scope, return_numpy)
        except BaseException as error:
            if steps is not None:
                steps.after_failure(error, program)
            raise
        if steps is not None:
            steps.after_run(program, names, results)
        return results

    def _run_slices(self, executor: Runner, program: Program, feed: Feed, slices: Any, names: tuple[str, ...], scope: Scope,
                    return_numpy: bool) -> list[Any]:
        is_empty = bool(feed) and all(samples_of(value) == 0 for value in feed.values())
        if is_empty or program._is_stand_in:        # a step without samples, or one that is replayed
            return executor._run_plain(program, feed, names, scope, return_numpy)
        return self._replicas(executor, program, scope).run(feed, slices, names, return_numpy)

    def _replicas(self, executor: Runner, program: Program, scope: Scope) -> Replicas:
        kept = self._kept.setdefault(scope, {})
        found = kept.get(program)
        if found is None or found.revision != program.desc.revision or found.native is not executor._native:
            from .replica_runs import Replicas

            self._build._is_used = self._execution._is_used = True
            found = kept[program] = Replicas(executor, program, scope, self._places, self._build, self._execution)
        return found

    def _drop(self) -> None:
        for kept in list(self._kept.values()):
            for replicas in kept.values():
                replicas.drop()

    def __repr__(self) -> str:
        how = f", {self._places} places" if self._is_parallel else ""
        return f"<CompiledProgram of {self._program!r}{how}>"


def _strategies(build: BuildStrategy | None, execution: ExecutionStrategy | None) -> tuple[BuildStrategy, ExecutionStrategy]:
    for value, kind in ((build, BuildStrategy), (execution, ExecutionStrategy)):
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"a {kind.__name__} is possible, got {value!r}")
    return build or BuildStrategy(), execution or ExecutionStrategy()


def _check_loss(program: Program, loss_name: str | Variable) -> None:
    name = loss_name.name if isinstance(loss_name, Variable) else loss_name
    if not isinstance(name, str):
        raise TypeError(f"with_data_parallel: loss_name must be the name of a variable, got {loss_name!r}")
    block = program.global_block()
    if not block.has_var(name):
        raise NotFoundError(f"with_data_parallel: loss_name={name!r} is no variable of the program{did_you_mean(name, block.vars)}\n"
                            f"  your line: {user_line()}")


def _feeds_from_readers(program: Program, feeds: Sequence[Feed | None]) -> list[Feed]:
    """Return the feeds of the places with the next batches of the program's readers. At the end of a pass there are fewer of them, at least
    one, or EOFException."""
    found = [program._feed_from_readers(feeds[0])]
    for feed in feeds[1:]:
        try:
            found.append(program._feed_from_readers(feed))
        except EOFException:
            break
    return found


def _count_places(places: Sequence[CPUPlace] | int | None) -> int:
    if places is None:
        places = cpu_places()
    count = len(places) if isinstance(places, (list, tuple)) else places
    count = check_whole("with_data_parallel: the number of places", count, 1, _MOST_PLACES)
    for place in places if isinstance(places, (list, tuple)) else ():
        if not isinstance(place, CPUPlace):
            raise TypeError(f"with_data_parallel: the places must be CPUPlace(), got {place!r}")
    return count


__all__ = ["CompiledProgram", "ExecutionStrategy", "BuildStrategy"]
