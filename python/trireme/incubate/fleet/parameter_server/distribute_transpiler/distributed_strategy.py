"""How a job of Fleet trains: Fluid's strategies, each a mode of Trireme.

A strategy has a ``DistributeTranspilerConfig``, which alone has an effect, and settings of Fluid's threads that send and receive, which
scripts may set: here a rank's communication thread decides these by itself.
"""

from __future__ import annotations

from typing import Any, TypeVar

from .....native.errors import InvalidArgumentError, check_whole, user_line
from .....native.suggest import did_you_mean
from .....run.strategies import BuildStrategy, ExecutionStrategy
from .....transpiler.distribute_transpiler import DistributeTranspilerConfig, ServerRuntimeConfig

_Config = TypeVar("_Config")


class TrainerRuntimeConfig:
    """Settings of Fluid's sending threads, by name. They are kept for scripts that read them and change nothing.

    >>> config = fluid.incubate.fleet.parameter_server.distribute_transpiler.TrainerRuntimeConfig()
    >>> config.send_queue_size = 16
    >>> config.get_communicator_flags()["communicator_send_queue_size"]
    16
    """

    def __init__(self) -> None:
        self.max_merge_var_num = self.send_queue_size = self.thread_pool_size = 1
        self.independent_recv_thread, self.min_send_grad_num_before_recv, self.send_wait_times = 0, 1, 5
        self.runtime_configs: dict[str, Any] = {}      # by the names of Fluid 1.8

    def get_communicator_flags(self) -> dict[str, Any]:
        """Return the settings by Fluid's names of flags."""
        return {**{f"communicator_{name}": value for name, value in vars(self).items() if name != "runtime_configs"},
                **self.runtime_configs}


def _set(what: str, kind: type[_Config], present: _Config, given: Any) -> _Config:
    """Return the configuration that a script gives, or the present one with the values of a dict."""
    if isinstance(given, kind):
        return given
    if not isinstance(given, dict):
        raise TypeError(f"{what}: config must be a {kind.__name__} or a dict, got {given!r}")
    for name, value in given.items():
        if not hasattr(present, name):
            known = [one for one in dir(present) if not one.startswith("_")]
            raise InvalidArgumentError(f"{what}: {kind.__name__} has no {name!r}{did_you_mean(name, known)}\n  your line: {user_line()}")
        setattr(present, name, value)
    return present


class DistributedStrategy:
    """Base of strategies, itself mode ``sync``.

    >>> strategy = fluid.incubate.fleet.parameter_server.distribute_transpiler.StrategyFactory.create_geo_strategy(20)
    >>> strategy.set_program_config({"min_block_size": 4096})
    >>> strategy.get_program_config().chosen_mode(), strategy.get_program_config().min_block_size
    ('geo(20)', 4096)
    """

    def __init__(self) -> None:
        self._program_config = DistributeTranspilerConfig()
        self._trainer_runtime_config = TrainerRuntimeConfig()
        self._server_runtime_config = ServerRuntimeConfig()
        self._execute_strategy, self._build_strategy = ExecutionStrategy(), BuildStrategy()

    def get_program_config(self) -> DistributeTranspilerConfig:
        """Return what says the mode, and how parameters are cut."""
        return self._program_config

    def set_program_config(self, config: Any) -> None:
        """Set what says the mode, and how parameters are cut. ``config`` is a DistributeTranspilerConfig, or a dict of its values."""
        self._program_config = _set("set_program_config", DistributeTranspilerConfig, self._program_config, config)

    def get_trainer_runtime_config(self) -> TrainerRuntimeConfig:
        """Return settings without effect."""
        return self._trainer_runtime_config

    def set_trainer_runtime_config(self, config: Any) -> None:
        """Set settings without effect. ``config`` is a TrainerRuntimeConfig, or a dict of its values."""
        self._trainer_runtime_config = _set("set_trainer_runtime_config", TrainerRuntimeConfig, self._trainer_runtime_config, config)

    def get_server_runtime_config(self) -> ServerRuntimeConfig:
        """Return settings without effect."""
        return self._server_runtime_config

    def set_server_runtime_config(self, config: Any) -> None:
        """Set settings without effect. ``config`` is a ServerRuntimeConfig, or a dict of its values."""
        self._server_runtime_config = _set("set_server_runtime_config", ServerRuntimeConfig, self._server_runtime_config, config)

    def get_execute_strategy(self) -> ExecutionStrategy:
        """Return what a script gives ``CompiledProgram.with_data_parallel`` as ``exec_strategy``."""
        return self._execute_strategy

    def set_execute_strategy(self, config: Any) -> None:
        """Set the above. ``config`` is an ExecutionStrategy, or a dict of its values."""
        self._execute_strategy = _set("set_execute_strategy", ExecutionStrategy, self._execute_strategy, config)

    def get_build_strategy(self) -> BuildStrategy:
        """Return what a script gives ``CompiledProgram.with_data_parallel`` as ``build_strategy``."""
        return self._build_strategy

    def set_build_strategy(self, config: Any) -> None:
        """Set the above. ``config`` is a BuildStrategy, or a dict of its values."""
        self._build_strategy = _set("set_build_strategy", BuildStrategy, self._build_strategy, config)


class SyncStrategy(DistributedStrategy):
    """Mode ``sync``: a step is the mean over all trainers.

    >>> fluid.incubate.fleet.parameter_server.distribute_transpiler.SyncStrategy().get_program_config().chosen_mode()
    'sync'
    """


class AsyncStrategy(DistributedStrategy):
    """Mode ``async``: each trainer's step is an update of its own.

    >>> fluid.incubate.fleet.parameter_server.distribute_transpiler.AsyncStrategy().get_program_config().chosen_mode()
    'async'
    """

    def __init__(self) -> None:
        super().__init__()
        self._program_config.sync_mode = False


class HalfAsyncStrategy(AsyncStrategy):
    """Mode ``async``. In Fluid the threads of a trainer wait for each other here; a trainer of a job has one thread, so its steps do.

    >>> fluid.incubate.fleet.parameter_server.distribute_transpiler.HalfAsyncStrategy().get_program_config().chosen_mode()
    'async'
    """

    def __init__(self) -> None:
        super().__init__()
        self._program_config.half_async = True


class GeoStrategy(DistributedStrategy):
    """Mode ``geo(N)``: trainers update copies of their own, and exchange changes every ``update_frequency`` steps.

    >>> fluid.incubate.fleet.parameter_server.distribute_transpiler.GeoStrategy(20).get_program_config().chosen_mode()
    'geo(20)'
    """

    def __init__(self, update_frequency: int = 100) -> None:
        super().__init__()
        self._program_config.sync_mode, self._program_config.geo_sgd_mode = False, True
        self._program_config.geo_sgd_need_push_nums = check_whole("GeoStrategy: update_frequency", update_frequency, 1)


class StrategyFactory:
    """Makes strategies.

    >>> factory = fluid.incubate.fleet.parameter_server.distribute_transpiler.StrategyFactory
    >>> [one.get_program_config().chosen_mode() for one in (factory.create_sync_strategy(), factory.create_async_strategy())]
    ['sync', 'async']
    """

    @staticmethod
    def create_sync_strategy() -> SyncStrategy:
        """Return mode ``sync``."""
        return SyncStrategy()

    @staticmethod
    def create_half_async_strategy() -> HalfAsyncStrategy:
        """Return mode ``async``."""
        return HalfAsyncStrategy()

    @staticmethod
    def create_async_strategy() -> AsyncStrategy:
        """Return mode ``async``."""
        return AsyncStrategy()

    @staticmethod
    def create_geo_strategy(update_frequency: int = 100) -> GeoStrategy:
        """Return mode ``geo(update_frequency)``."""
        return GeoStrategy(update_frequency)


__all__ = ["TrainerRuntimeConfig", "DistributedStrategy", "SyncStrategy", "AsyncStrategy", "HalfAsyncStrategy", "GeoStrategy",
           "StrategyFactory"]
