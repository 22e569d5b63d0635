"""The transpiler's classes, under the name of Fluid's module."""

from __future__ import annotations

from ..distributed.fluid_transpiler import DistributeTranspiler, DistributeTranspilerConfig


class ServerRuntimeConfig:
    """Numbers of Fluid's threads on servers. They are kept for scripts that read them and change nothing.

    >>> config = fluid.transpiler.distribute_transpiler.ServerRuntimeConfig()
    >>> config._rpc_send_thread_num = 24
    """

    def __init__(self) -> None:
        self._rpc_send_thread_num = self._rpc_get_thread_num = self._rpc_prefetch_thread_num = 12


__all__ = ["DistributeTranspiler", "DistributeTranspilerConfig", "ServerRuntimeConfig"]
