"""Which server a variable belongs to, by rules of Fluid. ``DistributeTranspiler`` places parameters by their sizes
(``distributed.placement``) and does not ask these; scripts that place variables of their own do."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any


class PSDispatcher:
    """Base: ``dispatch`` returns a server for each variable.

    ``pserver_endpoints`` has one text or more; none is a ValueError. A rule of your own:

    >>> class First(fluid.transpiler.PSDispatcher):
    ...     def dispatch(self, varlist):
    ...         return [self.eps[0] for _ in varlist]
    >>> First(["a:1", "b:1"]).dispatch(["w", "v"])
    ['a:1', 'a:1']
    """

    def __init__(self, pserver_endpoints: Sequence[str]) -> None:
        if not pserver_endpoints:
            raise ValueError(f"{type(self).__name__}: there must be a server, got {pserver_endpoints!r}")
        self._eps = list(pserver_endpoints)
        self._step = 0

    @property
    def eps(self) -> list[str]:
        return self._eps

    def reset(self) -> None:
        """Begin with the first server again."""
        self._step = 0

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        """Return an endpoint for each variable in ``varlist``."""
        raise NotImplementedError


class HashName(PSDispatcher):
    """The server is a hash of the variable's name: the same in every process.

    >>> fluid.transpiler.HashName(["a:1", "b:1"]).dispatch(["fc_0.w_0", "fc_0.b_0"])
    ['a:1', 'b:1']
    """

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        """Return the endpoint of each variable in ``varlist``, by a hash of its name."""
        return [self._eps[zlib.crc32((var if isinstance(var, str) else var.name).encode()) % len(self._eps)] for var in varlist]


class RoundRobin(PSDispatcher):
    """One server after the other.

    >>> fluid.transpiler.RoundRobin(["a:1", "b:1"]).dispatch(["w", "v", "u"])
    ['a:1', 'b:1', 'a:1']
    """

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        """Return the endpoint of each variable in ``varlist``, in turn."""
        first, self._step = self._step, self._step + len(varlist)
        return [self._eps[i % len(self._eps)] for i in range(first, self._step)]


__all__ = ["PSDispatcher", "HashName", "RoundRobin"]
