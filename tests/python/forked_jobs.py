"""Jobs whose ranks are forked from one process that has imported everything: such a job costs milliseconds, not a second.

Only the transport differs from a job under mpirun (jobs/rings.c). A script is two texts: one builds programs, and is run once, in the process
that forks the others; one runs them, in every process. It notes values by ``note(name, value)``. What each trainer has noted comes back, with the
error that ended it, if one did.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import io
import mmap
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
RING = 256 << 10                                       # bytes for a pair of ranks: more than jobs/rings.c needs


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


def _serve() -> None:
    out = ffi.new("tr_job **")
    if lib.tr_dist_init() == 0 and lib.tr_job_start(out, 1, ffi.NULL) == 0:
        lib.tr_job_serve(out[0])
    lib.tr_job_free(out[0])


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


def _become(rank: int, size: int, rings: int, name: str, extra: dict[str, str]) -> None:
    os.environ.update(OMPI_COMM_WORLD_SIZE=str(size), OMPI_COMM_WORLD_RANK=str(rank), TRIREME_RINGS=f"{rank} {size} {rings:#x}", TRIREME_SHUFFLE=name, **extra)


def _collect(children: list[tuple[int, int]], deadline: float) -> list[Outcome]:
    """Read what the processes write until they end, and end those that are late."""
    parts: dict[int, bytes] = {fd: b"" for _, fd in children}
    open_ones = set(parts)
    while open_ones and time.monotonic() < deadline:
        for fd in select.select(list(open_ones), [], [], 0.5)[0]:
            piece = os.read(fd, 1 << 20)
            parts[fd] += piece
            if not piece:
                open_ones.discard(fd)
    living, codes = {pid for pid, _ in children}, {}
    while living and time.monotonic() < deadline:
        for pid in list(living):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                living.discard(pid)
                codes[pid] = os.waitstatus_to_exitcode(status)
        if living:
            time.sleep(0.0005)
    for pid in living:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    outcomes = []
    for pid, fd in children:
        os.close(fd)
        outcome = pickle.loads(parts[fd]) if parts[fd] else Outcome()
        outcome.is_over, outcome.exit_code = pid not in living, codes.get(pid, 0)
        outcomes.append(outcome)
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


def run_job(transport: str, built: Built, folder: str, servers: int, trainers: int, mode: str = "sync", **extra: str) -> list[Outcome]:
    """Run the script in a job. Return the outcomes of its trainers, and then those of its servers."""
    size = servers + trainers
    rings = mmap.mmap(-1, size * size * RING)          # the ranks share it, and nobody else
    address = int(ffi.cast("intptr_t", ffi.from_buffer(rings)))
    extra = {"TRIREME_TRANSPORT": transport, "TRIREME_MODE": mode, **extra}

    def start(rank: int) -> tuple[int, int]:
        is_server = rank < servers

        def run() -> Outcome | None:
            _become(rank, size, address, folder, extra)
            return _serve() if is_server else _train(built, folder)

        return _fork(run, (lambda: None) if is_server else _leave)

    children = [start(rank) for rank in range(size)]
    rings.close()
    outcomes = _collect(children, time.monotonic() + LIMIT)
    return outcomes[servers:] + outcomes[:servers]
