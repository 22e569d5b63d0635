"""Measures the connections between hosts by ``trireme-pserver --probe`` under the launcher, and finds slow ones."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..native.errors import PeerError
from .mpi import Layout
from .programs import server_program
from .supervisor import Launch

# A connection is slow if it is worse than the best of its kind by this factor, and a latency also by so many us.
SLACK, LATENCY_FLOOR = 3.0, 50.0


@dataclass(frozen=True)
class Way:
    """Between two ranks: the latency in microseconds, and 10^6 bytes a second with messages of 256 KiB and 16 MiB."""

    ranks: tuple[int, int]
    latency: float
    small: float
    large: float


@dataclass(frozen=True)
class Measure:
    title: str
    of: Callable[[Way], float]
    unit: str
    is_rate: bool                      # a greater value is better

    def factor(self, way: Way, best: Way) -> float:
        """Return how many times worse one value is than another."""
        mine, other = max(self.of(way), 1e-9), max(self.of(best), 1e-9)
        return other / mine if self.is_rate else mine / other

    def is_slow(self, way: Way, best: Way, slack: float) -> bool:
        return self.factor(way, best) > slack and (self.is_rate or self.of(way) - self.of(best) > LATENCY_FLOOR)


MEASURES = (Measure("latency of 8 bytes", lambda way: way.latency, "us", False),
            Measure("speed of messages of 256 KiB", lambda way: way.small, "MB/s", True),
            Measure("speed of messages of 16 MiB", lambda way: way.large, "MB/s", True))


@dataclass
class Report:
    """The result of a probe."""

    hosts: list[str] = field(default_factory=list)     # the host of each rank
    versions: list[str] = field(default_factory=list)
    ways: list[Way] = field(default_factory=list)

    def name(self, rank: int) -> str:
        return f"rank {rank} (host {self.hosts[rank]})"

    def matrices(self) -> Iterator[str]:
        """Return one table for each measure, symmetric."""
        heads = [f"{rank} {host}" for rank, host in enumerate(self.hosts)]
        width = max(9, *(len(head) + 2 for head in heads))
        for measure in MEASURES:
            cells = {ranks: f"{measure.of(way):.1f}" for way in self.ways for ranks in (way.ranks, way.ranks[::-1])}
            yield f"{measure.title}, {measure.unit}"
            yield " " * width + "".join(head.rjust(width) for head in heads)
            for a, head in enumerate(heads):
                yield head.rjust(width) + "".join(cells.get((a, b), "-").rjust(width) for b in range(len(heads)))

    def findings(self, slack: float = SLACK) -> list[str]:
        """Return the findings: different versions, and connections that are slower than the best of their kind (within a host, between
        hosts).
        """
        found = [f"{self.name(rank)} has Trireme {version}, {self.name(0)} has {self.versions[0]}: install the same on all hosts"
                 for rank, version in enumerate(self.versions) if version != self.versions[0]]
        for is_local in (True, False):
            ways = [way for way in self.ways if self._is_local(way) == is_local]
            for measure in MEASURES if len(ways) > 1 else ():
                found += self._slow(measure, ways, slack)
        return found

    def _is_local(self, way: Way) -> bool:
        return self.hosts[way.ranks[0]] == self.hosts[way.ranks[1]]

    def _slow(self, measure: Measure, ways: list[Way], slack: float) -> list[str]:
        best = min(ways, key=lambda way: measure.of(way) * (-1 if measure.is_rate else 1))
        slow = [way for way in ways if measure.is_slow(way, best, slack)]
        against = f"times worse than the best, {measure.of(best):.1f} between {self.name(best.ranks[0])} and {self.name(best.ranks[1])}"
        for host in dict.fromkeys(self.hosts):
            mine = [way for way in ways if host in (self.hosts[rank] for rank in way.ranks)]
            if slow == mine and len(mine) > 1:
                worst = max(mine, key=lambda way: measure.factor(way, best))
                return [(f"host {host}: look at its link: {measure.title} {measure.of(worst):.1f} {measure.unit}, "
                         f"{measure.factor(worst, best):.1f} {against}; each of its ways is slow")]
        return [f"{self.name(way.ranks[0])} and {self.name(way.ranks[1])}: {measure.title} {measure.of(way):.1f} {measure.unit}, "
                f"{measure.factor(way, best):.1f} {against}" for way in slow]


def read(text: str) -> Report:
    """Parse the output of ``trireme-pserver --probe``."""
    report = Report()
    for found in re.finditer(r"^probe rank \d+ host (\S+) version (\S+)$", text, re.M):
        report.hosts.append(found[1])
        report.versions.append(found[2])
    for found in re.finditer(r"^probe pair (\d+) (\d+) latency_us (\S+) small_mbs (\S+) large_mbs (\S+)$", text, re.M):
        report.ways.append(Way((int(found[1]), int(found[2])), float(found[3]), float(found[4]), float(found[5])))
    return report


class _Probe(Launch):
    """A job whose ranks measure connections."""

    def __init__(self, layout: Layout, mpirun: str | None, timeout: float) -> None:
        super().__init__(layout, [server_program(), "--probe"], mpirun=mpirun, timeout=timeout, restarts=0)
        self.trainer = self.trainer[1:]                # these ranks run no Python

    def describe(self) -> str:
        return f"measuring between {self.layout.trainers} ranks, {self.mpi}"


def run(layout: Layout, mpirun: str | None = None, timeout: float | None = None) -> Report:
    """Measure between the ranks (trainers) of a layout without servers. The measurement is bounded by ``timeout`` seconds, or else by
    the time that very slow connections would take. Raises PeerError when ranks died, fell silent or got other bytes than were sent;
    their messages are printed.
    """
    pairs = layout.trainers * (layout.trainers - 1) // 2
    launch = _Probe(layout, mpirun, timeout or 60 + 30 * pairs)
    with tempfile.TemporaryFile() as output:
        launch.output = output
        code = launch.run()
        output.seek(0)
        report = read(output.read().decode(errors="replace"))
    if code or len(report.ways) != pairs:
        raise PeerError(f"trireme doctor: {len(report.ways)} of {pairs} ways between ranks could be measured (exit code {code})")
    return report
