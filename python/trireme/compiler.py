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

import enum
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .checks import plain
from .errors import InvalidArgumentError, NotFoundError, UnsupportedError, check_whole, user_line
from .framework import Program, Variable, cpu_places
from .native import Uncopied
from .places import CUDAPlace
from .suggest import did_you_mean
from .tensor import CPUPlace, Scope, samples_of

if TYPE_CHECKING:
    from .executor import Executor
    from .replica_feeds import Feed
    from .replica_runs import Replicas

_MOST_PLACES = 256


class _Strategy:
    """Named options, each with its default; one of another name is refused, and so is a change after the first run."""

    _defaults: dict[str, Any] = {}
    _is_used = False

    def __init__(self) -> None:
        self.__dict__.update(self._defaults)

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(self).__name__
        if name == "_is_used":
            self.__dict__[name] = value
            return
        if name not in self._defaults:
            raise AttributeError(f"{kind} has no option {name!r}{did_you_mean(name, self._defaults)}\n  your line: {user_line()}")
        if self._is_used:
            raise InvalidArgumentError(f"{kind}.{name} is set after the first run, which has used this {kind}; set it before, or make "
                                       f"another CompiledProgram\n  your line: {user_line()}")
        self.__dict__[name] = self._checked(name, value)

    def _checked(self, name: str, value: Any) -> Any:
        return value

    def __repr__(self) -> str:
        changed = [f"{name}={getattr(self, name)!r}" for name, value in self._defaults.items() if getattr(self, name) != value]
        return f"{type(self).__name__}({', '.join(changed)})"


class ExecutionStrategy(_Strategy):
    """How replicas are run.

    ``num_iteration_per_drop_scope`` (100; 0: never) is after how many runs the memory in which replicas hand over gradients is
    given back. ``num_threads`` (0) is accepted: replicas run on the threads of the process (``TRIREME_NUM_THREADS``). ``num_iteration_per_run`` must be 1.
    ``allow_op_delay``, ``use_experimental_executor`` and ``use_thread_barrier`` are accepted and change nothing.

    AttributeError: there is no option of a name. InvalidArgumentError: it is set after the first run.

    >>> strategy = fluid.ExecutionStrategy()
    >>> strategy.num_iteration_per_drop_scope = 10
    >>> strategy
    ExecutionStrategy(num_iteration_per_drop_scope=10)
    """

    _defaults = {"num_threads": 0, "num_iteration_per_drop_scope": 100, "num_iteration_per_run": 1, "allow_op_delay": False,
                 "use_experimental_executor": False, "use_thread_barrier": False, "use_cuda": False}

    def _checked(self, name: str, value: Any) -> Any:
        if name in ("num_threads", "num_iteration_per_drop_scope"):
            value = check_whole(f"ExecutionStrategy.{name}", value)
        elif name == "num_iteration_per_run":
            value = check_whole(f"ExecutionStrategy.{name}", value, 1, 1)
        elif name == "use_cuda" and value:
            CUDAPlace(0)
        return value


class ReduceStrategy(enum.IntEnum):
    """AllReduce or Reduce: in Fluid, whether each place updates all parameters or its share of them. Replicas here share the parameters'
    memory, so each is updated once, by all threads, with either."""

    AllReduce = 0
    Reduce = 1


class GradientScaleStrategy(enum.IntEnum):
    """CoeffNumDevice: the mean over the samples of the batch. One: the sum over the replicas of each one's mean. Customized: the
    script feeds the gradient of the loss, ``LOSS@GRAD``."""

    CoeffNumDevice = 0
    One = 1
    Customized = 2


class BuildStrategy(_Strategy):
    """How a program becomes replicas: ``reduce_strategy`` and ``gradient_scale_strategy``, see there.

    ``is_distribution`` is set from the program: whether it talks to parameter servers. ``sync_batch_norm`` (False) lets
    ``batch_norm`` normalize by the samples of all replicas instead of each replica's own (``layers.sync_batch_norm``). In a job these are the
    replicas of one trainer. ``num_trainers`` must be 1 and ``trainer_id`` 0: more processes are trainers of a job (``trireme launch``). ``debug_graphviz_path`` names a
    file for a drawing of the update's program, for Graphviz. The switches ``fuse_*``, ``memory_optimize``, ``enable_inplace`` and their kin are accepted: plans do what pays.

    AttributeError: there is no option of a name. InvalidArgumentError: it is set after the first run.

    >>> strategy = fluid.BuildStrategy()
    >>> strategy.gradient_scale_strategy = fluid.BuildStrategy.GradientScaleStrategy.One
    >>> strategy.sync_batch_norm = True
    >>> [name for name in ("sync_batch_norm", "fuse_bn_act_ops") if getattr(strategy, name)]
    ['sync_batch_norm']
    """

    ReduceStrategy = ReduceStrategy
    GradientScaleStrategy = GradientScaleStrategy
    _defaults = {"reduce_strategy": ReduceStrategy.AllReduce, "gradient_scale_strategy": GradientScaleStrategy.CoeffNumDevice,
                 "is_distribution": False, "sync_batch_norm": False, "num_trainers": 1, "trainer_id": 0, "trainers_endpoints": (),
                 "debug_graphviz_path": "", "fuse_elewise_add_act_ops": False, "fuse_bn_act_ops": False, "fuse_relu_depthwise_conv": False,
                 "fuse_broadcast_ops": False, "fuse_all_reduce_ops": False, "fuse_all_optimizer_ops": False, "enable_sequential_execution": False,
                 "remove_unnecessary_lock": True, "memory_optimize": None, "memory_early_delete": False, "enable_inplace": True,
                 "enable_parallel_graph": False, "enable_backward_optimizer_op_deps": True, "cache_runtime_context": False, "async_mode": False,
                 "mkldnn_enabled_op_types": frozenset(), "nccl_comm_num": 1, "use_hierarchical_allreduce": False,
                 "hierarchical_allreduce_inter_nranks": 0, "hierarchical_allreduce_exter_nranks": 0}

    def _checked(self, name: str, value: Any) -> Any:
        if name in ("reduce_strategy", "gradient_scale_strategy"):
            try:
                return type(self._defaults[name])(value)
            except ValueError:
                names = ", ".join(str(one) for one in type(self._defaults[name]))
                raise InvalidArgumentError(f"BuildStrategy.{name}={value!r}; possible are {names}") from None
        value = plain(value)
        if name == "sync_batch_norm" and not isinstance(value, bool):
            raise TypeError(f"BuildStrategy.sync_batch_norm must be True or False, got {value!r}")
        if (name == "num_trainers" and value != 1) or (name == "trainer_id" and value != 0):
            raise UnsupportedError(f"BuildStrategy.{name}={value!r}: replicas are threads of one process; more processes are trainers of a job, "
                                   "which 'trireme launch --trainers N SCRIPT' starts")
        return value


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

    _is_compiled = True

    def __init__(self, program_or_graph: Program, build_strategy: BuildStrategy | None = None) -> None:
        if not isinstance(program_or_graph, Program):
            raise TypeError(f"CompiledProgram takes a Program, got {program_or_graph!r}")
        self._program = program_or_graph
        self._is_parallel = False
        self._places = 1
        self._build, self._execution = _strategies(build_strategy, None)
        self._share_from: CompiledProgram | None = None
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
        raise UnsupportedError("CompiledProgram.with_inference_optimize: there is no inference engine beside the executor; run the program itself")

    # -- runs: Executor.run calls this ----------------------------------------------------------------------

    def _run(self, executor: Executor, feed: Feed | Sequence[Feed], fetch_list: Sequence[Any] | None, scope: Scope,
             return_numpy: bool) -> list[Any]:
        slices = None
        is_list, has_readers = isinstance(feed, (list, tuple)), self._is_parallel and bool(self._program._readers)
        if is_list or has_readers:
            from .replica_feeds import check_feeds, joined_feeds
            if is_list:
                check_feeds(feed, self._places)
            feeds = self._read(executor, feed if is_list else [feed] * self._places, scope) if has_readers else feed
            slices, feed = feeds, joined_feeds(feeds)
        if not self._is_parallel:                      # not compiled for replicas: as it is
            return executor.run(self._program, feed, fetch_list, scope=scope, return_numpy=return_numpy)
        if not isinstance(feed, dict) or not isinstance(fetch_list, (list, tuple, type(None))):
            executor._explain(self._program, feed, fetch_list, scope)
        names = tuple([var if isinstance(var, str) else var.name for var in fetch_list or ()])
        with scope._turn, self._program._turn, executor._turn:
            return self._run_in_turn(executor, feed, slices, names, scope, return_numpy)

    def _read(self, executor: Executor, feeds: Sequence[Feed], scope: Scope) -> list[Feed]:
        """Add the batches of the program's readers to the feeds of the places. There are fewer feeds at the end of a pass."""
        from .py_reader import feeds_from_readers

        with scope._turn, self._program._turn, executor._turn:
            return feeds_from_readers(self._program, feeds)

    def _run_in_turn(self, executor: Executor, feed: Feed, slices: Any, names: tuple[str, ...], scope: Scope, return_numpy: bool) -> list[Any]:
        program = self._program
        if executor._before_run is not None:
            program, feed, names = executor._before_run(executor, program, scope, feed, names)
        try:
            results = self._run_slices(executor, program, feed, slices, names, scope, return_numpy)
        except BaseException as error:
            if executor._after_failure is not None:
                executor._after_failure(error, program)
            raise
        if executor._after_run is not None and names:
            executor._after_run(program, names, results)
        return results

    def _run_slices(self, executor: Executor, program: Program, feed: Feed, slices: Any, names: tuple[str, ...], scope: Scope,
                    return_numpy: bool) -> list[Any]:
        is_empty = bool(feed) and all(samples_of(value) == 0 for value in feed.values())
        if is_empty or program._is_stand_in:        # a step without samples, or one that is replayed
            return executor._run_plain(program, feed, names, scope, return_numpy)
        return self._replicas(executor, program, scope).run(feed, slices, names, return_numpy)

    def _replicas(self, executor: Executor, program: Program, scope: Scope) -> Replicas:
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
