"""The program of two ranks that says which side of a message pays for its bytes: ``trireme simulate --calibrate`` runs it under mpirun.

    mpirun -np 2 python calibration_stream.py LIBMPI

It calls MPI itself. Over shared memory the receiver copies, over TCP both sides do. Each rank prints a line of JSON: its CPU seconds for a
byte that it sends and for one that it receives, and for a look when nothing has come.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from typing import Any

_POOL = 32 << 20                       # more than a cache holds, as gradients are
_SMALL, _LARGE, _TIMES = 65536, 1 << 20, 40


class Mpi:
    """The calls of MPI that are needed, with the time in them."""

    def __init__(self, path: str) -> None:
        self._lib: Any = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        self._world, self._byte = (ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self._lib, name)))
                                   for name in ("ompi_mpi_comm_world", "ompi_mpi_byte"))
        self._lib.MPI_Init(None, None)
        rank = ctypes.c_int()
        self._lib.MPI_Comm_rank(self._world, ctypes.byref(rank))
        self.rank = rank.value
        self._memory = ctypes.create_string_buffer(b"\1" * _POOL, _POOL)
        self._at = 0

    def barrier(self) -> None:
        self._lib.MPI_Barrier(self._world)

    def end(self) -> None:
        self._lib.MPI_Finalize()

    def move(self, sends: bool, size: int) -> float:
        """Send or receive; return the CPU seconds in MPI. Between looks this thread sleeps, so that waiting costs little."""
        request, flag, begun = ctypes.c_void_p(), ctypes.c_int(), time.thread_time()
        call = self._lib.MPI_Isend if sends else self._lib.MPI_Irecv
        call(ctypes.byref(self._memory, self._at), size, self._byte, 1 - self.rank, 7, self._world, ctypes.byref(request))
        spent = time.thread_time() - begun
        self._at = (self._at + size) % (_POOL - _LARGE)
        while True:
            begun = time.thread_time()
            self._lib.MPI_Test(ctypes.byref(request), ctypes.byref(flag), None)
            spent += time.thread_time() - begun
            if flag.value:
                return spent
            time.sleep(5e-5)


def middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 3]


def byte_cost(mpi: Mpi, sends: bool) -> float:
    """Return the seconds of a byte: the difference between large messages and small ones."""
    found = {}
    for size in (_SMALL, _LARGE):
        mpi.barrier()
        times = []
        for _ in range(_TIMES):
            times.append(mpi.move(sends, size))
            mpi.move(not sends, 1)                     # both go in step
        found[size] = middle(times)
    return max(found[_LARGE] - found[_SMALL], 0.0) / (_LARGE - _SMALL)


def main() -> None:
    mpi = Mpi(sys.argv[1])
    costs = [byte_cost(mpi, sends == (mpi.rank == 0)) for sends in (True, False)]
    sent, received = costs if mpi.rank == 0 else reversed(costs)
    sys.stdout.write(json.dumps({"sent": sent, "received": received}) + "\n")
    sys.stdout.flush()
    mpi.barrier()
    mpi.end()


if __name__ == "__main__":
    main()
