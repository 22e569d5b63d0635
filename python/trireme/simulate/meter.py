"""Measures the ranks of a job from within: what each costs its processors, and how long steps take.

Trainer 0 reads the CPU time of all ranks that live on its host. CPU time says little about other work of the machine, a clock says much.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Look:
    """The CPU seconds of a process's threads, and how often they have slept."""

    threads: frozenset[str]
    seconds: float
    wakes: int


def look(pid: int) -> Look | None:
    """Return what a process has done; None: it has ended meanwhile."""
    seconds, wakes, threads = 0, 0, list(Path(f"/proc/{pid}/task").glob("*"))
    try:
        for one in threads:
            seconds += int((one / "schedstat").read_text(encoding="ascii").split()[0])
            wakes += sum(int(line.split()[1]) for line in (one / "status").read_text(encoding="ascii").splitlines()
                         if line.startswith("voluntary_ctxt"))
    except OSError:
        return None
    return Look(frozenset(one.name for one in threads), 1e-9 * seconds, wakes)


def own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def ranks_here(folder: str | None) -> dict[str, int]:
    """Return the processes of a job's ranks on this host, by the names of their logs."""
    found = {}
    for log in Path(folder or "/nonexistent").glob("*-*.jsonl"):
        line = json.loads(log.read_text(encoding="utf-8").splitlines()[0])
        if line.get("host") == os.uname().nodename and "pid" in line:
            found[log.stem] = int(line["pid"])
    return found


@dataclass
class Meter:
    """``rounds`` of steps of this trainer. The best round counts: other work of the machine only adds."""

    index: int
    ranks: dict[str, int]
    cpu: dict[str, list[float]] = field(default_factory=dict)
    wakes: dict[str, list[float]] = field(default_factory=dict)
    means: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)

    def round(self, step: Callable[[int], Any], count: int) -> None:
        before = {name: look(pid) for name, pid in self.ranks.items()}
        own = own_seconds()
        last = begun = time.perf_counter()
        for number in range(count):
            step(number)
            now = time.perf_counter()
            self.steps.append(now - last)
            last = now
        self.means.append((last - begun) / count)
        if not self.ranks:
            self.cpu.setdefault(f"trainer-{self.index}", []).append((own_seconds() - own) / count)
        for name, pid in self.ranks.items():
            old, new = before[name], look(pid)
            if old and new and old.threads == new.threads:             # one of another trainer's threads may have ended
                self.cpu.setdefault(name, []).append((new.seconds - old.seconds) / count)
                self.wakes.setdefault(name, []).append((new.wakes - old.wakes) / count)

    def report(self) -> str:
        """Return a line of JSON."""
        return json.dumps({"trainer": self.index, "best": min(self.means), "round": statistics.median(self.means),
                           "step": statistics.median(self.steps),
                           "cpu": {name: min(found) for name, found in self.cpu.items()},
                           "wakes": {name: min(found) for name, found in self.wakes.items()}})


def meter(index: int) -> Meter:
    """Return the meter of a trainer. Trainer 0 reads all ranks of its host."""
    ranks = ranks_here(os.environ.get("TRIREME_LOG"))
    return Meter(index, ranks if index == 0 else {name: pid for name, pid in ranks.items() if name == f"trainer-{index}"})
