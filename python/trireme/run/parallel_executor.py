"""Fluid's executor of replicas, from before there was CompiledProgram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..native.errors import UnsupportedError
from ..native.tensor import CPUPlace
from ..native.scope import Scope
from ..program import Program, default_main_program
from ..program.places import CUDAPlace, cpu_places
from .compiler import BuildStrategy as _BuildStrategy
from .compiler import CompiledProgram
from .compiler import ExecutionStrategy as _ExecutionStrategy
from .runner import Runner
from .scopes import global_scope


class ParallelExecutor:
    """Runs a program as replicas, each with a slice of the batch: see ``CompiledProgram.with_data_parallel``.

    ``use_cuda`` must be False. There are as many replicas as ``fluid.cpu_places()``: set ``CPU_NUM``. ``share_vars_from`` is an executor
    whose scope this one uses, such as a test's that of the training. More processes are trainers of a job: ``num_trainers`` must be 1.

    ``exec_strategy`` and ``build_strategy`` are those of ``CompiledProgram``. ``trainer_id`` must be 0.

    ``loss_name`` is the name of the loss, where the program trains.

    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [4]), size=1))
    >>> _ = fluid.optimizer.SGD(0.1).minimize(loss)
    >>> _ = fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    >>> parallel = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name)
    >>> values, = parallel.run([loss.name], feed={"x": np.ones((8, 4), "float32")})
    >>> len(values) == parallel.device_count
    True
    """

    ExecutionStrategy = _ExecutionStrategy
    BuildStrategy = _BuildStrategy

    def __init__(self, use_cuda: bool = False, loss_name: str | None = None, main_program: Program | None = None,
                 share_vars_from: ParallelExecutor | None = None, exec_strategy: _ExecutionStrategy | None = None,
                 build_strategy: _BuildStrategy | None = None, num_trainers: int = 1, trainer_id: int = 0,
                 scope: Scope | None = None) -> None:
        if use_cuda:
            CUDAPlace(0)
        if num_trainers != 1 or trainer_id != 0:
            raise UnsupportedError(f"ParallelExecutor: num_trainers={num_trainers!r}, trainer_id={trainer_id!r}; its replicas are threads "
                                   "of one process. More processes are trainers of a job: 'trireme launch --trainers N SCRIPT'")
        if share_vars_from is not None and not isinstance(share_vars_from, ParallelExecutor):
            raise TypeError(f"ParallelExecutor: share_vars_from must be a ParallelExecutor, got {share_vars_from!r}")
        self._places = cpu_places()
        self._scope: Scope = scope or (share_vars_from._scope if share_vars_from is not None else global_scope())
        self._executor = Runner(CPUPlace())
        self._compiled = CompiledProgram(main_program or default_main_program()).with_data_parallel(
            loss_name=loss_name, build_strategy=build_strategy, exec_strategy=exec_strategy, places=self._places)

    @property
    def device_count(self) -> int:
        """The number of replicas."""
        return len(self._places)

    def run(self, fetch_list: Sequence[Any], feed: Any = None, feed_dict: Any = None, return_numpy: bool = True) -> list[Any]:
        """Run a batch: ``feed`` is a dict, whose arrays are cut into slices, or a list with a dict for each replica.
        ``fetch_list`` is variables or names, ``feed_dict`` an old name of ``feed``. ``return_numpy`` False returns LoDTensors.
        """
        if feed is None and feed_dict is not None:
            feed = feed_dict
        return self._executor.run(self._compiled, feed, fetch_list, scope=self._scope, return_numpy=return_numpy)

    def drop_local_exe_scopes(self) -> None:
        """Give back the memory in which replicas hand over gradients; the next run allocates it again."""
        self._compiled._drop()


__all__ = ["ParallelExecutor"]
