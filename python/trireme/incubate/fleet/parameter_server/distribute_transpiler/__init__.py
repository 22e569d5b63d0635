"""Fleet on parameter servers, as scripts of Fluid 1.5 to 1.8 use it.

>>> from trireme.incubate.fleet.base import role_maker
>>> from trireme.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory, fleet
>>> fleet.init(role_maker.PaddleCloudRoleMaker())
>>> loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1))
>>> optimizer = fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), StrategyFactory.create_sync_strategy())
>>> _ = optimizer.minimize(loss)
>>> exe = fluid.Executor(fluid.CPUPlace())
>>> fleet.init_worker()
>>> _ = exe.run(fleet.startup_program)
>>> _ = exe.run(fleet.main_program, feed={"x": np.ones((4, 2), "float32")})
>>> fleet.stop_worker()
"""

from __future__ import annotations

from typing import Any

from .....native.errors import UnsupportedError, user_line
from .....transpiler.distribute_transpiler import DistributeTranspilerConfig
from ...base.fleet_base import DistributedOptimizer, Fleet
from .distributed_strategy import (
    AsyncStrategy, DistributedStrategy, GeoStrategy, HalfAsyncStrategy, StrategyFactory, SyncStrategy, TrainerRuntimeConfig)


class FleetTranspiler(Fleet):
    """The class of ``fleet``.

    >>> from trireme.incubate.fleet.parameter_server.distribute_transpiler import FleetTranspiler
    >>> FleetTranspiler().main_program is fluid.default_main_program()
    True
    """

    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> DistributedOptimizer:
        """Return an optimizer whose ``minimize`` sets the mode of the job.

        ``strategy`` is one of ``StrategyFactory``, or a DistributeTranspilerConfig. None is mode ``sync``. ``trireme launch --mode`` takes
        precedence.
        """
        _ = self._role
        config = DistributeTranspilerConfig() if strategy is None else strategy
        if isinstance(config, DistributedStrategy):
            config = config.get_program_config()
        if not isinstance(config, DistributeTranspilerConfig):
            raise TypeError(f"fleet.distributed_optimizer: strategy must be one of StrategyFactory or a DistributeTranspilerConfig, got "
                            f"{strategy!r}")
        return DistributedOptimizer(optimizer, config, self)

    def shrink_sparse_table(self) -> None:
        """Do nothing where each sparse table of the program says which rows go: they are removed while the job trains.

        UnsupportedError: a table has neither ``max_age`` nor ``max_rows``.
        """
        keep_all = [name for name, var in sorted(self.main_program.global_block().vars.items())
                    if (options := getattr(var, "table_options", None)) is not None and not (options.max_age or options.max_rows)]
        if keep_all:
            raise UnsupportedError(f"fleet.shrink_sparse_table: the rows of {', '.join(keep_all)} stay. Give layers.embedding max_age=, "
                                   f"keep_count= or max_rows=: such rows are removed while the job trains\n  your line: {user_line()}")


fleet = FleetTranspiler()

__all__ = ["fleet", "FleetTranspiler", "DistributedOptimizer", "DistributeTranspilerConfig", "TrainerRuntimeConfig", "DistributedStrategy",
           "SyncStrategy", "AsyncStrategy", "HalfAsyncStrategy", "GeoStrategy", "StrategyFactory"]
