"""How a program becomes replicas and how they run: the options of CompiledProgram."""

from __future__ import annotations

import enum
from typing import Any

from ..native.checks import plain
from ..native.errors import InvalidArgumentError, UnsupportedError, check_whole, user_line
from ..native.suggest import did_you_mean
from ..program.places import CUDAPlace


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
    given back. ``num_threads`` (0) is accepted: replicas run on the threads of the process (``TRIREME_NUM_THREADS``).
    ``num_iteration_per_run`` must be 1. ``allow_op_delay``, ``use_experimental_executor`` and ``use_thread_barrier`` are accepted and
    change nothing.

    AttributeError: there is no option of a name. InvalidArgumentError: it is set after the first run.

    >>> strategy = fluid.ExecutionStrategy()
    >>> strategy.num_iteration_per_drop_scope = 10
    >>> strategy
    ExecutionStrategy(num_iteration_per_drop_scope=10)
    """

    num_iteration_per_drop_scope: int

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
    ``batch_norm`` normalize by the samples of all replicas instead of each replica's own (``layers.sync_batch_norm``). In a job these are
    the replicas of one trainer. ``num_trainers`` must be 1 and ``trainer_id`` 0: more processes are trainers of a job (``trireme launch``).
    ``debug_graphviz_path`` names a file for a drawing of the update's program, for Graphviz. The switches ``fuse_*``, ``memory_optimize``,
    ``enable_inplace`` and their kin are accepted: plans do what pays.

    AttributeError: there is no option of a name. InvalidArgumentError: it is set after the first run.

    >>> strategy = fluid.BuildStrategy()
    >>> strategy.gradient_scale_strategy = fluid.BuildStrategy.GradientScaleStrategy.One
    >>> strategy.sync_batch_norm = True
    >>> [name for name in ("sync_batch_norm", "fuse_bn_act_ops") if getattr(strategy, name)]
    ['sync_batch_norm']
    """

    gradient_scale_strategy: int
    sync_batch_norm: bool
    debug_graphviz_path: str

    ReduceStrategy = ReduceStrategy
    GradientScaleStrategy = GradientScaleStrategy
    _defaults = {"reduce_strategy": ReduceStrategy.AllReduce, "gradient_scale_strategy": GradientScaleStrategy.CoeffNumDevice,
                 "is_distribution": False, "sync_batch_norm": False, "num_trainers": 1, "trainer_id": 0, "trainers_endpoints": (),
                 "debug_graphviz_path": "", "fuse_elewise_add_act_ops": False, "fuse_bn_act_ops": False, "fuse_relu_depthwise_conv": False,
                 "fuse_broadcast_ops": False, "fuse_all_reduce_ops": False, "fuse_all_optimizer_ops": False,
                 "enable_sequential_execution": False, "remove_unnecessary_lock": True, "memory_optimize": None,
                 "memory_early_delete": False, "enable_inplace": True, "enable_parallel_graph": False,
                 "enable_backward_optimizer_op_deps": True, "cache_runtime_context": False,
                 "async_mode": False, "mkldnn_enabled_op_types": frozenset(), "nccl_comm_num": 1, "use_hierarchical_allreduce": False,
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
            raise UnsupportedError(f"BuildStrategy.{name}={value!r}: replicas are threads of one process; more processes are trainers of a "
                                   "job, which 'trireme launch --trainers N SCRIPT' starts")
        return value
