"""The progress line of a job, printed at regular times:

    step 1240  61.3 steps/s  loss 0.1432  4 trainers  2 servers  1 standby  staleness 1 (max 7)  1 restart

Each rank writes its newest figures, ``progress.RANK`` in the job's folder, once a second; agents pass those of other hosts on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from .console import Console
from .early_exits import EarlyExits
from .live import Live
from .notices import Notice
from .told import Told, read
from .watch import Ranks

ON_TERMINAL, IN_LOG = 1.0, 30.0        # seconds from one line to the next
_LOOK = 1.0                            # seconds from one look at the ranks' steps to the next
STILL, _FAR = 10.0, 100                # seconds without a step, and steps after the first, after which a trainer is named
_WINDOW = 10.0                         # bins of a server's staleness


def staleness_range(bin: int) -> tuple[int, int]:
    """Return the smallest and the greatest staleness that a bin stands for."""
    return (0, 0) if bin == 0 else (1 << bin - 1, (1 << bin) - 1)


def add_bins(all: Iterable[Sequence[int]]) -> list[int]:
    """Return the sum of several servers' bins."""
    return [sum(bins) for bins in zip(*all)]


def median_bin(bins: Sequence[int]) -> int:
    """Return the bin that the median falls into."""
    half, below = sum(bins) / 2, 0
    for bin, count in enumerate(bins):
        below += count
        if below > half:
            return bin
    return 0


class Pace:
    """Notes since when each trainer has been at its step."""

    def __init__(self, now: float) -> None:
        self.begun = now
        self._at: dict[int, tuple[int, float]] = {}    # rank -> step, and when it was seen first

    def note(self, rank: int, step: int, now: float) -> None:
        if self._at.get(rank, (-1, 0.0))[0] != step:
            self._at[rank] = step, now

    def step_of(self, rank: int) -> int:
        """Return the newest step of the rank that was seen."""
        return self._at.get(rank, (0, self.begun))[0]

    def laggards(self, trainers: Iterable[int], now: float, still_for: float = STILL) -> list[tuple[int, int, float]]:
        """Return trainers that hold up the others or are far behind them: the rank, its step, and the seconds at that step. Trainers
        that wait for a stalled trainer stand still, too, mostly one step ahead. So of the trainers that have stood still for so
        long only those at the lowest step are named.
        """
        at = {rank: self._at.get(rank, (0, self.begun)) for rank in trainers}
        still = {rank: step for rank, (step, since) in at.items() if now - since > still_for}
        most = max((step for step, _ in at.values()), default=0)
        named = [rank for rank, step in still.items() if step == min(still.values())]
        named += [rank for rank, (step, _) in at.items() if rank not in named and step < most / 2 and most - step > _FAR]
        return [(rank, at[rank][0], now - at[rank][1]) for rank in sorted(named)]


def _plural(count: int, of: int, noun: str) -> str:
    how_many = str(count) if count >= of else f"{count} of {of}"
    return f"{how_many} {noun}" + "s" * (of != 1 or count != 1)


class Progress:
    """``every``: seconds from one line to the next; 0: there is none. ``live``: gets the same figures, once a second."""

    def __init__(self, console: Console, every: float = 0.0, live: Live | None = None) -> None:
        self.console, self.every, self.live = console, every, live
        self.restarts = 0
        self._said = time.monotonic()
        self._steps: list[tuple[float, int]] = []      # time and step
        self._pace = Pace(self._said)
        self._early_exits = EarlyExits(lambda rank: self._pace.step_of(rank))
        self._looked = 0.0

    def begin(self, restarts: int) -> None:
        """The job starts, or starts again."""
        self.restarts = restarts
        self._steps.clear()
        self._pace = Pace(time.monotonic())
        self._early_exits.begin()
        if self.live:
            self.live.begin(restarts)

    def look(self, ranks: Ranks) -> None:
        """Print how far the job is, if a line is due."""
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            self._note(ranks, now)
        for text in self._early_exits.news(ranks, now):
            self.console.say(text)
        if self.every <= 0 or now - self._said < self.every:
            return
        self._said = now
        text = self.text(ranks, now)
        if text:
            self.console.show(text)

    def _note(self, ranks: Ranks, now: float) -> None:
        all_told = [one for one in map(read, ranks.paths(Notice.PROGRESS)) if one]
        for one in all_told:
            if one.role == "trainer":
                self._pace.note(one.rank, one.step, now)
        if self.live:
            self.live.note(ranks, all_told, now)

    def laggards(self, ranks: Ranks, now: float, still_for: float = STILL) -> list[str]:
        """Return a text for each trainer that has made no step for so long or is far behind."""
        left = ranks.left()
        trainers = [rank for rank in ranks.training()
                    if rank in ranks.known and not ranks.known[rank].gone and not ranks.has_left(rank) and rank not in left]
        return [f"{ranks.name(rank)} "
                + (f"has been at step {step} for {seconds:.0f} s" if step else f"has made no step for {seconds:.0f} s")
                for rank, step, seconds in self._pace.laggards(trainers, now, still_for)]

    def text(self, ranks: Ranks, now: float) -> str:
        """Return the line; "" before any trainer trains."""
        told = [one for one in map(read, ranks.paths(Notice.PROGRESS)) if one]
        trainers = [one for one in told if one.role == "trainer" and ranks.is_alive(one.rank)]
        steps = [one.step for one in trainers]
        if not steps or not max(steps):
            return ""
        parts = [f"step {max(steps)}", self._rate(max(steps), now)]
        losses = [one.loss for one in sorted(trainers, key=lambda one: one.rank) if one.loss is not None]
        parts += [f"loss {losses[0]:.4g}"] if losses else []
        servers = [one for one in told if one.role == "server"]
        parts += self._living(ranks, {one.rank for one in servers})
        parts += self._staleness(servers)
        if self.restarts:
            parts.append(_plural(self.restarts, self.restarts, "restart"))
        parts += self.laggards(ranks, now)
        return "  ".join(filter(None, parts))

    def _rate(self, step: int, now: float) -> str:
        self._steps.append((now, step))
        while len(self._steps) > 2 and self._steps[1][0] < now - _WINDOW:
            del self._steps[0]
        then, before = self._steps[0]
        return f"{(step - before) / (now - then):.3g} steps/s" if now > then and step >= before else ""

    @staticmethod
    def _living(ranks: Ranks, serving: set[int]) -> list[str]:
        """Return the role of a rank: a standby that serves counts as a server, a standby that replaces a trainer as a trainer."""
        first, replacements = ranks.servers + ranks.trainers, ranks.replacements()
        trainers = sum(map(ranks.is_alive, (*range(ranks.servers, first), *replacements)))
        servers = sum(ranks.is_alive(rank) for rank in range(ranks.size) if rank < ranks.servers or rank >= first and rank in serving)
        standbys = sum(ranks.is_alive(rank) for rank in range(first, ranks.size) if rank not in serving and rank not in replacements)
        return [_plural(trainers, ranks.trainers, "trainer"), _plural(servers, ranks.servers, "server"),
                _plural(standbys, standbys, "standby") if standbys else ""]

    @staticmethod
    def _staleness(servers: list[Told]) -> list[str]:
        """Return the staleness; mode sync has none."""
        bins = add_bins(one.staleness for one in servers)
        if not any(bins[1:]):
            return []
        most = max(bin for bin, count in enumerate(bins) if count)
        return [f"staleness {staleness_range(median_bin(bins))[0]} (max {staleness_range(most)[1]})"]
