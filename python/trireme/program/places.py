"""The places of replicas, and places that this build does not have: those exist as names, for scripts that choose one, and say so when one
is made."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from ..native.errors import InvalidArgumentError, UnsupportedError
from ..native.tensor import CPUPlace
from ..native.threads import num_threads


class _NoPlace:
    def __init__(self, *args: Any) -> NoReturn:
        raise UnsupportedError(f"{type(self).__name__}: Trireme computes on processors alone (core.get_cuda_device_count() is 0); use "
                               "fluid.CPUPlace()")


class CUDAPlace(_NoPlace):
    """A GPU: making one is refused. ``fluid.CUDAPlace(0) if use_gpu else fluid.CPUPlace()`` works with ``use_gpu = False``.

    >>> fluid.CUDAPlace(0)
    Traceback (most recent call last):
        ...
    trireme.errors.UnsupportedError: CUDAPlace: Trireme computes on processors alone ...
    """


class CUDAPinnedPlace(_NoPlace):
    """Memory that a GPU reads: making one is refused.

    >>> fluid.CUDAPinnedPlace()
    Traceback (most recent call last):
        ...
    trireme.errors.UnsupportedError: CUDAPinnedPlace: Trireme computes on processors alone ...
    """


def cuda_places(device_ids: Any = None) -> list[Any]:
    """Refuse: there are no GPUs. ``fluid.cpu_places()`` lists the processor.

    ``device_ids`` is what Fluid's function takes.

    >>> places = fluid.cuda_places() if fluid.core.is_compiled_with_cuda() else fluid.cpu_places(2)
    >>> places
    [CPUPlace, CPUPlace]
    """
    return [CUDAPlace(0)]


def cuda_pinned_places(device_count: int | None = None) -> list[Any]:
    """Refuse, as ``cuda_places`` does.

    ``device_count`` is what Fluid's function takes.

    >>> fluid.cuda_pinned_places()
    Traceback (most recent call last):
        ...
    trireme.errors.UnsupportedError: CUDAPinnedPlace: Trireme computes on processors alone ...
    """
    return [CUDAPinnedPlace()]


def get_cuda_device_count() -> int:
    """Return 0: there are no GPUs.

    >>> fluid.core.get_cuda_device_count()
    0
    """
    return 0


def is_compiled_with_cuda() -> bool:
    """Return False: every operator runs on the processor.

    >>> fluid.core.is_compiled_with_cuda()
    False
    """
    return False


def cpu_places(device_count: int | None = None) -> list[CPUPlace]:
    """Return so many places, each for one replica of a program (``CompiledProgram``): by default ``CPU_NUM`` of the environment, or as
    many as the process has threads.

    ``device_count`` is the number of places; None: the default.

    >>> fluid.cpu_places(2)
    [CPUPlace, CPUPlace]
    """
    count = device_count if device_count is not None else os.environ.get("CPU_NUM") or num_threads()
    if isinstance(count, bool) or not str(count).isdigit() or int(count) < 1:
        what = "device_count" if device_count is not None else "CPU_NUM of the environment"
        raise InvalidArgumentError(f"cpu_places: {what} is {count!r}; a whole number of at least 1 is possible")
    return [CPUPlace() for _ in range(int(count))]


__all__ = ["CPUPlace", "CUDAPlace", "CUDAPinnedPlace", "cpu_places", "cuda_places", "cuda_pinned_places", "get_cuda_device_count",
           "is_compiled_with_cuda"]
