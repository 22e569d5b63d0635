"""Measures what messages and bytes cost on this machine: ``trireme simulate --calibrate``.

Small jobs of one or two trainers and one server run for some hundred steps. Their processes' CPU times are compared: a job with more
messages of the same bytes, with more bytes, with another optimizer. CPU times depend little on what else the machine does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..launch import mpi as mpis
from ..launch.programs import server_program
from ..native.errors import PeerError
from .costs import METHODS, OPTIMIZERS, Costs, cpu_name
from .probe import run_script_apart

SCRIPT = Path(__file__).with_name("calibration_job.py")
MEGABYTE = 1 << 20
_LARGE, _MIDDLE, _SMALL, _NOTHING = (4, MEGABYTE), (256, 8192), (512, 1024), (1, 16)     # parameters, and floats of each
_ROWS = 4000
_LIMIT = 120.0


@dataclass(frozen=True)
class Measured:
    """CPU seconds of a step, and its time."""

    trainer: float
    server: float
    step: float


class Bench:
    """Runs the jobs of a calibration."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._mpi = say, mpis.find(None, "auto")
        self._alone: dict[tuple[str, int, int], float] = {}

    def job(self, shape: tuple[int, int], *, kind: str = "dense", optimizer: str = "sgd", trainers: int = 1, tcp: bool = False,
            steps: int = 200, **env: str) -> Measured:
        """Run a job with so many parameters of a size."""
        count, size = shape
        words = [sys.executable, str(SCRIPT), kind, optimizer, str(count), str(size), str(steps)]
        with tempfile.TemporaryDirectory() as folder:
            line = [self._mpi.mpirun, *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--oversubscribe", "--mca", "pml", "ob1",
                    "--mca", "btl", "self,tcp" if tcp else "self,vader", "-np", "1", server_program(), ":", "-np", str(trainers), *words]
            done = subprocess.run(line, env=self._environment(folder, env), capture_output=True, text=True, timeout=_LIMIT, check=False)
        lines = [one for one in done.stdout.splitlines() if one.startswith("{")]
        if done.returncode or not lines:
            raise PeerError(f"trireme simulate: a job of the calibration ended with exit code {done.returncode}:\n"
                            f"{done.stdout}{done.stderr}")
        found = json.loads(lines[-1])
        how = "".join(f", {word}" for word in [*(["TCP"] if tcp else []), *env.values()])
        self._say(f"{kind} {optimizer}, {trainers} trainers, {count} of {size}{how}: "
                  f"server {1e6 * found['server']:.0f} us, trainer {1e6 * found['trainer']:.0f} us of a step")
        return Measured(**found)

    @staticmethod
    def _environment(folder: str, more: dict[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRIREME_", "OMPI_", "PMIX_"))}
        return {**kept, "TRIREME_LOG": folder, "TRIREME_NUM_THREADS": "1", **more}

    def alone(self, shape: tuple[int, int], kind: str = "dense") -> float:
        """Return the seconds that a trainer computes in such a step."""
        key = kind, *shape
        if key not in self._alone:
            self._alone[key] = run_script_apart(str(SCRIPT), [kind, "sgd", *map(str, shape), "40"]).computing
        return self._alone[key]


def calibrate(say: Callable[[str], None]) -> Costs:
    """Measure all costs. ``say`` is called with a line for each job."""
    bench, costs = Bench(say), Costs(cpu=cpu_name(), cores=os.cpu_count() or 1)
    nothing, large = bench.job(_NOTHING, steps=2000), bench.job(_LARGE, steps=60)
    _bytes(bench, costs, large)
    _updates(bench, costs, large)
    _messages(bench, costs, nothing)
    _small(bench, costs)
    _methods(bench, costs, large)
    _tables(bench, costs)
    return costs


def _positive(seconds: float, least: float) -> float:
    return max(seconds, least)


def _bytes(bench: Bench, costs: Costs, large: Measured) -> None:
    size = 4.0 * _LARGE[0] * _LARGE[1]
    for way, much in ((costs.memory, large), (costs.tcp, bench.job(_LARGE, tcp=True, steps=60))):
        way.byte = _positive((much.trainer - bench.alone(_LARGE)) / size, 1e-11)           # a trainer does one side of both ways


def _messages(bench: Bench, costs: Costs, nothing: Measured) -> None:
    """A message, from many messages. A server that one trainer keeps waking works more for a message than a busy one: the second trainer's
    messages say what a busy one does."""
    size, count = 4.0 * _MIDDLE[0] * _MIDDLE[1], 2.0 * _MIDDLE[0]
    for way, tcp in ((costs.memory, False), (costs.tcp, True)):
        one, two = bench.job(_MIDDLE, tcp=tcp, steps=80), bench.job(_MIDDLE, tcp=tcp, trainers=2, steps=80)
        way.message = _positive((one.trainer - bench.alone(_MIDDLE) - way.byte * size) / count, 2e-7)
        first = (one.server - (way.byte + costs.apply["sgd"]) * size) / count
        way.served = _positive(min(first, (two.server - one.server - (way.byte + costs.add) * size) / count), 2e-7)
        if not tcp:
            costs.rouse = _positive(2 * (first - way.served), 1e-7)                        # for a gradient; parameters leave together
    costs.step = _positive(nothing.trainer - bench.alone(_NOTHING) - 4 * costs.memory.message, 2e-6)
    costs.step_of_server = _positive(nothing.server - 4 * costs.memory.served - 2 * costs.rouse, 2e-6)
    costs.wake = min(_positive(0.5 * (nothing.step - nothing.trainer - nothing.server), 1e-6), 1e-4)


def _small(bench: Bench, costs: Costs) -> None:
    """Small parameters: what each trainer brings and takes, and what an update does once."""
    one, two = bench.job(_SMALL, steps=300), bench.job(_SMALL, trainers=2, steps=300)
    size = 4.0 * _SMALL[0] * _SMALL[1]
    moved = costs.memory.served * (2 + 2 * size / 524288) + costs.memory.byte * size
    costs.entry = _positive((two.server - one.server - moved - costs.add * size) / (2 * _SMALL[0]), 1e-8)
    rest = one.server - costs.step_of_server - moved - costs.apply["sgd"] * size
    costs.small_update = _positive(rest / _SMALL[0] - 2 * costs.entry, 1e-8)


def _updates(bench: Bench, costs: Costs, large: Measured) -> None:
    """What a server does with a gradient beyond receiving it, and sending parameters."""
    size = 4.0 * _LARGE[0] * _LARGE[1]
    moving = costs.memory.byte * size
    for name in OPTIMIZERS:
        found = large if name == "sgd" else bench.job(_LARGE, optimizer=name, steps=40)
        costs.apply[name] = _positive((found.server - moving) / size, 1e-11)
    two = bench.job(_LARGE, trainers=2, steps=40)
    costs.add = _positive((two.server - 2 * moving) / size - costs.apply["sgd"], 1e-11)


def _methods(bench: Bench, costs: Costs, large: Measured) -> None:
    size = 4.0 * _LARGE[0] * _LARGE[1]
    for name, share in zip(METHODS, (0.5, 0.5, 0.26, 0.06)):
        found = bench.job(_LARGE, steps=40, TRIREME_COMPRESS="topk(0.01)" if name == "topk" else name)
        spared = 0.5 * (1 - share) * costs.memory.byte * size
        costs.encode[name] = _positive((found.trainer - large.trainer + spared) / size, 1e-11)
        costs.decode[name] = _positive((found.server - large.server + spared) / size, 1e-11)
    found, spared = bench.job(_LARGE, steps=40, TRIREME_COMPRESS_PARAMETERS="bf16"), 0.25 * costs.memory.byte * size
    costs.round_byte = _positive((found.server - large.server + spared) / size, 1e-11)
    costs.widen_byte = _positive((found.trainer - large.trainer + spared) / size, 1e-11)


def _tables(bench: Bench, costs: Costs) -> None:
    """Rows: two widths say what a row and what a byte of it costs; reading is taken as a third of a row's work under SGD."""
    narrow, wide = (_ROWS, 8), (_ROWS, 64)
    found = {name: bench.job(narrow, kind="rows", optimizer=name, steps=100) for name in OPTIMIZERS}
    broad = bench.job(wide, kind="rows", steps=100)
    moved = [costs.memory.byte * _ROWS * (16 + 8 * shape[1]) / 2 for shape in (narrow, wide)]
    costs.row_byte = _positive((broad.server - moved[1] - found["sgd"].server + moved[0]) / (_ROWS * 4 * (wide[1] - narrow[1])), 1e-11)
    rest = {name: (one.server - costs.step_of_server - moved[0]) / _ROWS - 4 * narrow[1] * costs.row_byte for name, one in found.items()}
    costs.row_read = _positive(rest["sgd"] / 3, 1e-9)
    costs.row_apply = {name: _positive(seconds - costs.row_read, 1e-9) for name, seconds in rest.items()}
    own = (found["sgd"].trainer - bench.alone(narrow, "rows") - costs.step - moved[0]) / _ROWS
    costs.row_trainer = _positive(own / 2, 1e-9)
