"""A job's newest numbers, for a thread that serves them: ``trireme launch --metrics-port``.

The launcher's own thread makes a new ``JobNow`` once a second, from what the ranks tell it. A ``JobNow`` never changes, so the other
thread takes the newest one without a lock.
"""

from __future__ import annotations

import socket
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .told import Told
from .watch import Ranks

_WINDOW = 10.0                         # seconds over which rates and shares are taken
_ROLES = ("server", "trainer", "standby", "replica")


@dataclass(frozen=True)
class RankNow:
    """A trainer or a server that lives."""

    role: str
    index: int
    host: str
    step: int                          # of a server: updates
    rate: float                        # steps or updates a second
    wait: float                        # share of the time in which it waits
    memory: int | None                 # bytes
    loss: float | None
    sent: float                        # bytes since the process began
    received: float
    skipped: int
    told_at: float                     # when it told this, on the monotonic clock
    still_since: float | None          # when a trainer made its last step; None: a server, or a trainer that has made its last step

    @property
    def age(self) -> float:
        """Return the seconds since the rank's newest figures."""
        return time.monotonic() - self.told_at

    @property
    def quiet(self) -> float | None:
        """Return the seconds since a trainer's last step."""
        return None if self.still_since is None else time.monotonic() - self.still_since


@dataclass(frozen=True)
class JobNow:
    """The job at one moment."""

    script: str
    began: float                       # seconds since 1970
    ranks: tuple[RankNow, ...] = ()
    restarts: int = 0
    wanted: Mapping[str, int] = field(default_factory=dict)    # ranks by their roles, as the job was started
    living: Mapping[str, int] = field(default_factory=dict)
    deaths: Mapping[str, int] = field(default_factory=dict)    # of all starts; the job went on, or was started again


@dataclass
class _Seen:
    """A rank's newest figures, and those of the seconds before."""

    told: Told
    told_at: float
    still_since: float
    past: deque[tuple[float, int, float]] = field(default_factory=deque)       # time, step, seconds of waiting

    def note(self, told: Told, now: float) -> None:
        if told != self.told:
            self.still_since = now if told.step != self.told.step else self.still_since
            self.told, self.told_at = told, now
        self.past.append((now, told.step, told.waited))
        while len(self.past) > 2 and self.past[1][0] < now - _WINDOW:
            self.past.popleft()

    def change(self) -> tuple[float, float]:
        """Return the steps and the seconds of waiting in a second."""
        (then, step, waited), (now, new_step, new_waited) = self.past[0], self.past[-1]
        seconds = now - then
        return (max(0, new_step - step) / seconds, max(0.0, new_waited - waited) / seconds) if seconds > 0 else (0.0, 0.0)


class Live:
    """Keeps ``now``, the newest ``JobNow``."""

    def __init__(self, script: str) -> None:
        self.now = JobNow(script, time.time(), deaths=dict.fromkeys(_ROLES, 0))
        self._here = socket.gethostname()
        self._seen: dict[int, _Seen] = {}
        self._lost: set[int] = set()
        self._before: Counter[str] = Counter()         # deaths of earlier starts
        self._roles: dict[int, str] = {}
        self._restarts = 0

    def begin(self, restarts: int) -> None:
        """The job starts, or starts again."""
        self._restarts = restarts
        self._before.update(self._deaths(self._lost))
        self._seen.clear()
        self._lost = set()
        self.now = replace(self.now, ranks=(), restarts=restarts)

    def note(self, ranks: Ranks, all_told: Iterable[Told], now: float) -> None:
        """Take what the ranks tell at this moment."""
        for told in all_told:
            if told.rank in self._seen:
                self._seen[told.rank].note(told, now)
            else:
                self._seen[told.rank] = _Seen(told, now, now, deque([(now, told.step, told.waited)]))
        self._roles = {rank: self._role_of(ranks, rank) for rank in range(ranks.size)}
        self._lost = {rank for rank in range(ranks.size) if ranks.is_lost(rank)}
        self.now = JobNow(self.now.script, self.now.began, tuple(self._living_ranks(ranks)), self._restarts,
                          {"server": ranks.servers, "trainer": ranks.trainers, "standby": ranks.standbys, "replica": ranks.replicas},
                          self._count(rank for rank in range(ranks.size) if ranks.is_alive(rank)),
                          self._count((), self._before + self._deaths(self._lost)))

    def _role_of(self, ranks: Ranks, rank: int) -> str:
        """Return what a rank is now: a standby may have become a server or a trainer."""
        if rank in self._seen:
            return self._seen[rank].told.role
        bounds = (ranks.servers, ranks.trainers, ranks.standbys, ranks.replicas)
        return next(role for i, role in enumerate(_ROLES) if rank < sum(bounds[:i + 1]))

    def _deaths(self, lost: Iterable[int]) -> Counter[str]:
        return Counter(self._roles[rank] for rank in lost)

    def _count(self, ranks: Iterable[int], more: Mapping[str, int] | None = None) -> dict[str, int]:
        found = Counter(self._roles[rank] for rank in ranks)
        return {role: found[role] + (more or {}).get(role, 0) for role in _ROLES}

    def _living_ranks(self, ranks: Ranks) -> list[RankNow]:
        left, replacements = ranks.left(), ranks.replacements()
        found = []
        for rank, seen in sorted(self._seen.items()):
            told = seen.told
            if told.role not in ("server", "trainer") or not ranks.is_alive(rank):
                continue
            index = told.server if told.role == "server" else replacements.get(rank, rank - ranks.servers)
            rate, wait = seen.change()
            makes_steps = told.role == "trainer" and rank not in left and told.doing != "left"
            found.append(RankNow(told.role, index, ranks.known[rank].host or self._here, told.step, rate, min(1.0, wait),
                                 told.memory or None, told.loss, told.sent, told.received, told.skipped, seen.told_at,
                                 seen.still_since if makes_steps else None))
        return found
