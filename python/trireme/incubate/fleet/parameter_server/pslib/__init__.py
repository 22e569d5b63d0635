"""The plain calls of Fleet on pslib, Fluid's other parameter server: the same job of Trireme, in mode ``async``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .....distributed.tables import table_report
from .....native.errors import InvalidArgumentError, UnsupportedError, user_line
from .....program import Program
from .....train.executor import Executor
from .....transpiler.distribute_transpiler import DistributeTranspilerConfig
from ...base.fleet_base import DistributedOptimizer
from ..distribute_transpiler import FleetTranspiler


class PSLib(FleetTranspiler):
    """The class of pslib's ``fleet``.

    >>> from trireme.incubate.fleet.parameter_server.pslib import fleet
    >>> fleet.init()
    >>> fleet.is_worker()
    True
    """

    def distributed_optimizer(self, optimizer: Any, strategy: Mapping[str, Any] | None = None) -> DistributedOptimizer:
        """Return an optimizer for mode ``async``. ``strategy`` must be empty: its settings describe tables of pslib."""
        _ = self._role
        if strategy:
            raise UnsupportedError(f"fleet.distributed_optimizer: strategy has {', '.join(map(str, strategy))}; these describe tables of "
                                   "pslib. Leave it out: layers.embedding(is_distributed=True) and the optimizer say the same here\n"
                                   f"  your line: {user_line()}")
        config = DistributeTranspilerConfig()
        config.sync_mode = False
        return DistributedOptimizer(optimizer, config, self)

    def save_persistables(self, executor: Executor | None, dirname: str, main_program: Program | None = None, **kwargs: Any) -> None:
        """Write parameters, tables and what optimizers remember. ``mode``, the only further argument, must be 0: all of it."""
        if kwargs.pop("mode", 0) != 0 or kwargs:
            raise UnsupportedError("fleet.save_persistables: mode=0 alone is possible, which writes everything; what has changed is in "
                                   f"checkpoints of a job (--checkpoint-full-every)\n  your line: {user_line()}")
        super().save_persistables(executor, dirname, main_program)

    def print_table_stat(self, table_id: int) -> None:
        """Let trainer 0 print the rows and the memory of sparse table ``table_id``, from 0, by names in order."""
        reports = table_report(self.main_program)
        if not 0 <= table_id < len(reports):
            raise InvalidArgumentError(f"fleet.print_table_stat({table_id!r}): the program has {len(reports)} sparse tables")
        if self.is_first_worker():
            print(reports[table_id])

    def set_pull_local_thread_num(self, thread_num: int) -> None:
        """Do nothing: the core decides how many threads look rows up."""


fleet = PSLib()

__all__ = ["fleet", "PSLib"]
