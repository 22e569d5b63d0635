"""Jobs whose ranks are forked from one process that has imported everything: such a job costs milliseconds, not a second.

Only the transport differs from a job under mpirun (jobs/rings.c). A script is two texts: one builds programs, and is run once, in the
process that forks the others; one runs them, in every process. It notes values by ``note(name, value)``. What each trainer has noted comes
back, with the error that ended it, if one did.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import io
import os
import pickle
import pkgutil
import select
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", TRIREME_NUM_THREADS="1")   # a process that forks has one thread

import numpy as np

import trireme as fluid
import trireme.contrib
from trireme._core import ffi, lib
from trireme.distributed import rank
from trireme.job import job as jobs
from trireme.job.session import session

LIMIT = 60.0                                           # seconds, for a job
RING = 256 << 10                                       # bytes for a pair of ranks: more than jobs/rings.c and turns.h need
MILLISECOND = 10**6                                    # of a job's time, which is virtual


@dataclass
class Outcome:
    """What a process of a script has come to."""

    notes: list[tuple[str, Any]] = field(default_factory=list)
    error: str = ""                                    # the type and the text of the exception that ended the script
    said: str = ""                                     # on standard error
    is_over: bool = False                              # it has ended in time
    exit_code: int = 0                                 # below 0: the signal that killed the process


class Built:
    """What a script has built: its names, and the code that runs it."""

    def __init__(self, build: str, run: str) -> None:
        self.names: dict[str, Any] = {"fluid": fluid, "np": np, "L": fluid.layers, "D": fluid.distributed, "__name__": "__main__"}
        self.programs = fluid.Program(), fluid.Program()
        with fluid.program_guard(*self.programs), fluid.unique_name.guard():
            exec(build, self.names)
        for program in (*self.programs, *[one for one in self.names.values() if isinstance(one, fluid.Program)]):
            for block in program.blocks:
                block.read_ops()                       # what every process would read
        self.code = compile(run, "script", "exec")


def _run_script(built: Built, folder: str) -> Outcome:
    outcome = Outcome()
    names = {**built.names, "folder": folder, "note": lambda name, value: outcome.notes.append((name, value))}
    try:
        with fluid.program_guard(*built.programs):
            exec(built.code, names)
    except BaseException as error:
        outcome.error = f"{type(error).__name__}: {error}"
        outcome.said = traceback.format_exc()
    return outcome


def _train(built: Built, folder: str) -> Outcome:
    rank.begin()
    outcome = _run_script(built, folder)
    if outcome.error and session.job is not None:
        session.job.failure = outcome.error
    return outcome


def _leave() -> None:
    """Say goodbye as at the end of a script. A failed job may end the process here."""
    if session.job is not None:
        with contextlib.redirect_stderr(io.StringIO()):
            jobs._end()


def serve(role: int = lib.TR_ROLE_SERVER) -> bool:
    """Do what trireme-pserver does. Return whether all went well."""
    out = ffi.new("tr_job **")
    is_well = lib.tr_dist_init() == 0 and lib.tr_job_start(out, role, ffi.NULL) == 0 and lib.tr_job_serve(out[0]) == 0
    return lib.tr_job_free(out[0]) == 0 and is_well


def _fork(run: Callable[[], Outcome | None], end: Callable[[], None]) -> tuple[int, int]:
    """Fork a process that runs ``run`` and writes what it returns. Return its id and the descriptor to read that from."""
    here, there = os.pipe()
    child = os.fork()
    if child:
        os.close(there)
        return child, here
    try:
        gc.disable()                                   # a pass would touch all that the processes share
        os.close(here)
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        with os.fdopen(there, "wb") as out:
            outcome = run()
            if outcome is not None:
                pickle.dump(outcome, out)
        end()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def become_rank(rank: int, size: int, file: int) -> None:
    """Set what mpirun and the transport tell a rank."""
    os.environ.update(OMPI_COMM_WORLD_SIZE=str(size), OMPI_COMM_WORLD_RANK=str(rank), TRIREME_RINGS=f"{rank} {file}")


class Ranks:
    """The ranks of a job that this process forks, their turns, and the memory that they share."""

    def __init__(self, transport: str, size: int, seed: int, kills: Iterable[tuple[int, float]]) -> None:
        """``kills``: a rank, and the milliseconds from the job's begin until it is killed."""
        self._turns, self.size = ctypes.CDLL(transport), size
        # The ranks share it, and nobody else. A rank that becomes another program maps the file at this address again.
        self.file, self._bytes = os.memfd_create("trireme-rings", 0), size * size * RING
        os.ftruncate(self.file, self._bytes)
        self._turns.turns_map.restype = ctypes.c_void_p
        self._memory = ctypes.c_void_p(self._turns.turns_map(self.file, ctypes.c_size_t(self._bytes)))
        times = map(ctypes.c_int64, (time.monotonic_ns(), MILLISECOND // 20, 5 * MILLISECOND))
        self._turns.turns_prepare(self._memory, size, ctypes.c_uint64(seed), *times)
        for victim, after in kills:
            self._turns.turns_kill(self._memory, victim, ctypes.c_int64(int(after * MILLISECOND)))

    def wait(self, pids: list[int], fds: Iterable[int], seconds: float) -> tuple[dict[int, int], dict[int, bytes]]:
        """Hand on the turns of ranks that have ended, and end those that are late. Return the exit codes of the others, and what came from
        the descriptors, which are closed then."""
        parts: dict[int, bytes] = dict.fromkeys(fds, b"")
        ends = {os.pidfd_open(pid): i for i, pid in enumerate(pids)}
        waited, codes, deadline = {*parts, *ends}, {}, time.monotonic() + seconds
        while len(codes) < len(pids) and time.monotonic() < deadline:
            for fd in select.select(list(waited), [], [], 0.5)[0]:
                if fd in ends:
                    rank = ends[fd]
                    codes[rank] = os.waitstatus_to_exitcode(os.waitpid(pids[rank], 0)[1])
                    self._turns.turns_reap(self._memory, rank, codes[rank] != 0)
                    waited.discard(fd)
                    continue
                piece = os.read(fd, 1 << 20)
                parts[fd] += piece
                if not piece:
                    waited.discard(fd)
        for rank, pid in enumerate(pids):
            if rank not in codes:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        for fd in parts:
            while fd in waited and select.select([fd], [], [], 0)[0] and (piece := os.read(fd, 1 << 20)):
                parts[fd] += piece
        for fd in (*parts, *ends):
            os.close(fd)
        return codes, parts

    def end(self) -> tuple[int, int, int]:
        """Return how many turns there were, the job's nanoseconds, and a digest of all turns: two jobs of one seed have the same."""
        counts = (ctypes.c_int64 * 3)()
        self._turns.turns_count(self._memory, counts)
        self._turns.turns_unmap(self._memory, ctypes.c_size_t(self._bytes))
        os.close(self.file)
        return tuple(counts)


def _collect(ranks: Ranks, children: list[tuple[int, int]]) -> list[Outcome]:
    codes, parts = ranks.wait([pid for pid, _ in children], [fd for _, fd in children], LIMIT)
    outcomes = [pickle.loads(parts[fd]) if parts[fd] else Outcome() for _, fd in children]
    for i, outcome in enumerate(outcomes):
        outcome.is_over, outcome.exit_code = i in codes, codes.get(i, 0)
    return outcomes


def run_alone(built: Built, folder: str) -> Outcome:
    """Run the script in this process. It dies if the script does not end."""
    signal.alarm(int(LIMIT))
    with fluid.scope_guard(fluid.Scope()):
        outcome = _run_script(built, folder)
    signal.alarm(0)
    outcome.is_over = True
    return outcome


def warm_up(transport: str, scripts: Iterable[tuple[str, str]]) -> None:
    """Load once, before the forks, what every process would load: modules, libraries, and what the first runs make."""
    for module in (fluid, fluid.layers, fluid.optimizer, fluid.io, fluid.distributed, fluid.initializer, fluid.regularizer, fluid.clip):
        for name in module.__all__:                    # names are loaded when they are first used
            getattr(module, name)
    for found in pkgutil.walk_packages(fluid.distributed.__path__, "trireme.distributed."):
        importlib.import_module(found.name)
    with contextlib.suppress(OSError):                 # a job loads it for any transport
        ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
    ctypes.CDLL(transport)
    for build, run in scripts:
        with tempfile.TemporaryDirectory() as folder:
            run_alone(Built(build, run), folder)
    gc.collect()
    gc.freeze()


def run_job(transport: str, built: Built, folder: str, servers: int, trainers: int, mode: str = "sync", *, seed: int = 0,
            kills: Iterable[tuple[int, float]] = (), **extra: str) -> list[Outcome]:
    """Run the script in a job, which is a function of ``seed`` (jobs/turns.h). ``kills`` are those of `Ranks`; servers come first. Return
    the outcomes of its trainers, and then those of its servers."""
    ranks = Ranks(transport, servers + trainers, seed, kills)
    extra = {"TRIREME_TRANSPORT": transport, "TRIREME_MODE": mode, **extra}

    def start(rank: int) -> tuple[int, int]:
        is_server = rank < servers

        def run() -> Outcome | None:
            become_rank(rank, ranks.size, ranks.file)
            os.environ.update(TRIREME_SHUFFLE=folder, **extra)
            if is_server:
                serve()
                return None
            return _train(built, folder)

        return _fork(run, (lambda: None) if is_server else _leave)

    outcomes = _collect(ranks, [start(rank) for rank in range(ranks.size)])
    ranks.end()
    return outcomes[servers:] + outcomes[:servers]
