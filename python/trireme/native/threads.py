"""The native core as a whole: its version, its threads, its matrix products."""

from __future__ import annotations

from .._core import ffi, lib
from .errors import check

__version__: str = ffi.string(lib.tr_version()).decode()


def set_num_threads(count: int) -> None:
    """Set the threads that operators use; 0 is the default. Results do not depend on it.

    ``count`` is a whole number from 0 to 256.

    A number below 0 is a ValueError; a larger one than 256 means 256. ``TRIREME_NUM_THREADS`` is the default.

    >>> fluid.core.set_num_threads(2)
    >>> fluid.core.num_threads()
    2
    >>> fluid.core.set_num_threads(0)
    """
    if count < 0:
        raise ValueError(f"the number of threads must be at least 0, got {count!r}")
    lib.tr_set_num_threads(count)


def num_threads() -> int:
    """Return the threads that operators use. Raises InvalidArgumentError when TRIREME_NUM_THREADS is no number of them.

    >>> 1 <= fluid.core.num_threads() <= 256
    True
    """
    check(lib.tr_num_threads_check())
    return int(lib.tr_num_threads())


def blas_core() -> str:
    """Return the name of the kernels that OpenBLAS has chosen. Raises UnsupportedError when they do not fit the processor,
    NotFoundError when there is no OpenBLAS."""
    core = ffi.new("const char **")
    check(lib.tr_blas_check(core))
    return str(ffi.string(core[0]).decode())


def table_page_bytes() -> int:
    """Return the bytes of the pages that large tables of servers get on this machine: 2 MiB, or 4096."""
    return int(lib.tr_table_page_bytes())
