"""Measures what work costs on this machine: ``trireme simulate --calibrate``.

Small jobs of one or two trainers and one server run for some hundred steps: with few messages and many, of few bytes and many, with each
optimizer and each method of compression. The CPU time of each rank is known, and the simulation says what the rank did. The costs are those
that explain these times best (``fit.py``). CPU times depend little on what else the machine does.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..job.mode import parse as parse_mode
from ..launch import mpi as mpis
from ..launch.programs import server_program
from ..native.errors import PeerError
from .costs import OPTIMIZERS, POLLED, UNITS, Costs, cpu_name
from .facts import Facts
from .fit import Point, errors, fit
from .probe import run_script_apart
from .schedule import Options
from .simulation import Cluster, simulate

SCRIPT = Path(__file__).with_name("calibration_job.py")
STREAM = Path(__file__).with_name("calibration_stream.py")
_LIMIT, _ENOUGH = 120.0, 110.0         # seconds: of a job, of all of them


@dataclass(frozen=True)
class Case:
    """A job: so many parameters (or rows) of so many floats."""

    count: int
    size: int
    steps: int
    kind: str = "dense"
    optimizer: str = "sgd"
    trainers: int = 1
    tcp: bool = False
    compress: str = "none"
    rounds: bool = False
    only: str = ""                     # the kind of ranks whose times count: the others' are mostly something else

    def __str__(self) -> str:
        more = [*(["TCP"] if self.tcp else []), *([self.compress] if self.compress != "none" else []),
                *(["rounded parameters"] if self.rounds else [])]
        return f"{self.kind} {self.optimizer}, {self.trainers} trainers, {self.count} of {self.size}" + "".join(f", {one}" for one in more)


_NOTHING, _LARGE, _MIDDLE, _SMALL = Case(1, 16, 2400), Case(4, 1 << 20, 48), Case(256, 8192, 64), Case(512, 1024, 240)
_NARROW, _SLOW_ROWS = Case(4000, 8, 240, kind="rows"), Case(4000, 8, 64, kind="slow rows", only="server")
CASES = (                              # the most important ones first
    *(replace(one, trainers=trainers) for one in (_NOTHING, _LARGE, _MIDDLE, _SMALL) for trainers in (1, 2)),
    *(replace(one, tcp=True) for one in (_NOTHING, _LARGE, _MIDDLE)), replace(_LARGE, tcp=True, trainers=2),
    *(Case(count, size, 80, kind="slow", trainers=trainers) for count, size in ((1, 16), (24, 8192)) for trainers in (1, 2)),
    *(replace(_NARROW, count=count, size=size, only="trainer") for count, size in ((4000, 8), (4000, 64), (400, 8))),
    _SLOW_ROWS, replace(_SLOW_ROWS, trainers=2), replace(_SLOW_ROWS, size=64),
    *(replace(one, optimizer=name) for one in (_LARGE, _SLOW_ROWS) for name in OPTIMIZERS[1:]),
    *(replace(_LARGE, compress=name) for name in ("fp16", "bf16", "int8", "topk(0.01)", "nonzero")), replace(_LARGE, rounds=True),
)


class Bench:
    """Runs the jobs of a calibration."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._mpi = say, mpis.find(None, "auto")
        self._alone: dict[tuple[str, int, int], Facts] = {}

    def _mpirun(self, tcp: bool, *words: str) -> list[str]:
        return [self._mpi.mpirun, *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--oversubscribe", "--mca", "pml", "ob1",
                "--mca", "btl", "self,tcp" if tcp else "self,vader", *words]

    def _run(self, line: list[str], more: dict[str, str]) -> list[dict[str, Any]]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRIREME_", "OMPI_", "PMIX_"))}
        done = subprocess.run(line, env={**kept, "TRIREME_NUM_THREADS": "1", **more}, capture_output=True, text=True, timeout=_LIMIT,
                              check=False)
        lines = [json.loads(one) for one in done.stdout.splitlines() if one.startswith("{")]
        if done.returncode or not lines:
            raise PeerError(f"trireme simulate: a job of the calibration ended with exit code {done.returncode}:\n"
                            f"{done.stdout}{done.stderr}")
        return lines

    def points(self, case: Case, costs: Costs) -> Iterator[Point]:
        """Run a job; return what its trainers and its server did, and the CPU time of it."""
        words = [sys.executable, str(SCRIPT), case.kind, case.optimizer, str(case.count), str(case.size), str(case.steps)]
        with tempfile.TemporaryDirectory() as folder:
            lines = self._run(self._mpirun(case.tcp, "-np", "1", server_program(), ":", "-np", str(case.trainers), *words),
                              {"TRIREME_LOG": folder, "TRIREME_COMPRESS": case.compress,
                               "TRIREME_COMPRESS_PARAMETERS": "bf16" if case.rounds else "none"})
        found = next(one for one in lines if one["trainer"] == 0)
        facts = self._facts(case)
        did = simulate(facts, costs, Cluster(1e13, 0.0, trainers_per_host=case.trainers, is_shared=not case.tcp), parse_mode("sync"),
                       Options(case.compress, case.rounds), case.trainers, 1).tally
        trainers = [name for name in found["cpu"] if name.startswith("trainer")]
        own = facts.computing + facts.script
        for kind, names, less in (("trainer", trainers, own), ("server", ["server-0"], 0.0)):
            if case.only not in ("", kind):
                continue
            seconds = statistics.mean(found["cpu"][name] for name in names)
            wakes = statistics.mean(found["wakes"][name] for name in names)
            self._say(f"{case}: {kind} {1e6 * seconds:.1f} us of a step")
            others = min(less + did[kind][POLLED], seconds)
            cold = wakes * did[kind]["cold"] / max(did[kind]["wake"], 1e-9)
            yield Point({**did[kind], "wake": wakes, "cold": cold, "nap": 0.0}, seconds - others, others, f"{case}: {kind}")

    def _facts(self, case: Case) -> Facts:
        key = case.kind, case.count, case.size
        if key not in self._alone:
            self._alone[key] = run_script_apart(str(SCRIPT), [case.kind, "sgd", str(case.count), str(case.size), "40"], steps=40)
        return replace(self._alone[key], optimizer=case.optimizer, states={"sgd": 0, "adam": 2}.get(case.optimizer, 1))

    def share_of_sender(self, tcp: bool) -> float:
        """Return which part of the cost of a byte a sender has."""
        lines = self._run(self._mpirun(tcp, "-np", "2", sys.executable, str(STREAM), os.path.join(self._mpi.libdir, mpis.LIBMPI)), {})
        sent, received = (sum(one[name] for one in lines) for name in ("sent", "received"))
        self._say(f"a byte over {'TCP' if tcp else 'shared memory'}: sender {5e8 * sent:.3f} ns, receiver {5e8 * received:.3f} ns")
        return sent / (sent + received) if sent + received > 0 else 0.5


def time_to_wake() -> float:
    """Return how late a thread sees what it sleeps for: half of a round of two threads that wake each other, among the fastest ones."""
    there, back, times = threading.Semaphore(0), threading.Semaphore(0), []

    def answer() -> None:
        for _ in range(400):
            there.acquire()
            back.release()

    other = threading.Thread(target=answer)
    other.start()
    for _ in range(400):
        begun = time.perf_counter()
        there.release()
        back.acquire()
        times.append(time.perf_counter() - begun)
    other.join()
    return 0.5 * sorted(times)[len(times) // 10]


def calibrate(say: Callable[[str], None]) -> Costs:
    """Measure all costs. ``say`` is called with a line for each job."""
    bench, costs, begun = Bench(say), Costs(cpu=cpu_name(), cores=os.cpu_count() or 1), time.monotonic()
    for way in ("memory", "tcp"):
        costs.sent[way] = bench.share_of_sender(way == "tcp")
    points: list[Point] = []
    for case in CASES:
        if time.monotonic() - begun > _ENOUGH:
            say(f"{case}: left out, because {_ENOUGH:.0f} s have passed; its costs are estimated from those of the other jobs")
            continue
        points += bench.points(case, costs)
    slower = statistics.median(one.seconds / costs.seconds(one.tally) for one in points)
    costs.units = fit(points, {name: slower * cost for name, cost in UNITS.items()})
    costs.units["nap"] = costs.units["wake"]           # jobs of one host have none
    costs.delay = time_to_wake()
    off = errors(points, costs.units)
    costs.error = statistics.median(map(abs, off))
    for point, one in zip(points, off):
        if abs(one) > 0.15:
            say(f"{point.name}: the costs say {one:+.0%} of the CPU time")
    return costs
