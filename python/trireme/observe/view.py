"""What a job's ranks do now, and did, from its logs."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

from ..launch.logs import Line, Log, Logs, read
from ..launch.numbers import number_of, numbers_of, whole_of
from ..launch.progress import add_bins, median_bin, staleness_range

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LEAST = 0.2                           # seconds between two lines whose difference tells a rate: the summary comes right after a line


@dataclass
class Rank:
    """One trainer or server between its last two lines."""

    role: str
    index: int
    host: str
    pid: int
    step: int                          # of a server: updates
    rate: float                        # steps or updates a second
    wait: float                        # share of the time in which it waits: a trainer for servers, a server for work
    doing: str
    age: float                         # seconds since its last line
    has_ended: bool
    memory: int | None                 # bytes; None: it is on another host, or gone
    loss: float | None = None
    staleness: list[int] = field(default_factory=list)
    late: list[float] = field(default_factory=list)    # of a server: seconds a second that each trainer came late
    sent: float = 0.0                  # bytes since it began
    received: float = 0.0
    skipped: int = 0
    quiet: float | None = None         # of a trainer: seconds since its last step

    @property
    def name(self) -> str:
        return f"{self.role} {self.index}"


@dataclass
class View:
    """A job at a moment."""

    logs: Logs
    ranks: list[Rank]

    def of(self, role: str) -> list[Rank]:
        return [rank for rank in self.ranks if rank.role == role]

    @property
    def rate(self) -> float:
        """Steps a second: of a trainer where all make them together, else of all."""
        rates = [rank.rate for rank in self.of("trainer") if not rank.has_ended]
        if not rates:
            return 0.0
        return max(rates) if self.logs.policy.is_lockstep else sum(rates)

    @property
    def step(self) -> int:
        return max([rank.step for rank in self.of("trainer")], default=0)

    @property
    def loss(self) -> float | None:
        return next((rank.loss for rank in self.of("trainer") if rank.loss is not None), None)

    @property
    def staleness(self) -> str:
        """The median and the most, as the launcher's line says it; "" where nothing was applied."""
        bins = add_bins([rank.staleness for rank in self.of("server") if rank.staleness])
        if not sum(bins):
            return ""
        most = max(i for i, count in enumerate(bins) if count)
        return f"{staleness_range(median_bin(bins))[0]} (max {staleness_range(most)[1]})"

    @property
    def restarts(self) -> int:
        return self.logs.restarts

    @property
    def waited_for(self) -> Rank | None:
        """The trainer that comes last, where the others wait for it for a twentieth of the time at least."""
        count = len(self.of("trainer"))
        late = [sum(server.late[i] for server in self.of("server") if i < len(server.late)) for i in range(count)]
        if count < 2 or max(late, default=0) < 0.05 * max(1, len(self.of("server"))):
            return None
        return self.of("trainer")[late.index(max(late))]


def view_of(folder: str | os.PathLike[str]) -> View:
    """Read a job's logs. NotFoundError: there are none."""
    logs = read(Path(folder))
    now, here = time.time(), socket.gethostname()
    ranks = [_rank_of(log, now, here) for group in (logs.trainers, logs.servers) for _, log in sorted(group.items())]
    return View(logs, ranks)


def totals(log: Log) -> list[Line]:
    """The lines that have totals, in order."""
    return [line for line in log.lines if line.get("event") in ("steps", "summary")]


def _rank_of(log: Log, now: float, here: str) -> Rank:
    lines = totals(log)
    last = lines[-1] if lines else {}
    before = next((line for line in reversed(lines[:-1]) if number_of(last.get("t_s")) - number_of(line.get("t_s")) > _LEAST), {})
    seconds = number_of(last.get("t_s")) - (number_of(before.get("t_s")) if before else number_of(log.joined.get("t_s")))
    is_server = log.role == "server" or "updates" in last

    def change(name: str) -> float:
        return number_of(last.get(name)) - number_of(before.get(name))

    count = "updates" if is_server else "steps"
    waited = change("idle_ms") if is_server else change("wait_ms")
    late = [a - b for a, b in zip(numbers_of(last.get("late_by_trainer_ms")),
                                  [*numbers_of(before.get("late_by_trainer_ms")), *[0.0] * 10000])]
    pid, host = whole_of(log.joined.get("pid")), log.host
    return Rank(
        role="server" if is_server else "trainer", index=whole_of(last.get("server"), log.index) if is_server else log.index, host=host,
        pid=pid, step=whole_of(last.get("updates" if is_server else "step")), rate=change(count) / seconds if seconds > 0 else 0.0,
        wait=min(1.0, waited / 1e3 / seconds) if seconds > 0 else 0.0, doing=str(last.get("doing", "" if last else "start")),
        age=now - number_of(log.lines[-1].get("t_s")) if log.lines else 0.0, has_ended=log.is_whole,
        memory=None if log.is_whole or host.split(".")[0] != here.split(".")[0] else memory_of(pid),
        loss=number_of(last["loss"]) if "loss" in last else None, staleness=[int(n) for n in numbers_of(last.get("staleness"))],
        late=[value / 1e3 / seconds if seconds > 0 else 0.0 for value in late], sent=number_of(last.get("sent_bytes")),
        received=number_of(last.get("received_bytes")), skipped=whole_of(last.get("skipped")), quiet=_quiet_of(log, last, now))


def _quiet_of(log: Log, last: Line, now: float) -> float | None:
    """Return the seconds since a trainer's last step; None: it has made none yet, or its last one."""
    if "quiet_ms" not in last or log.is_whole or last.get("doing") == "left":
        return None
    return max(0.0, now - number_of(last.get("t_s")) + number_of(last.get("quiet_ms")) / 1e3)


def memory_of(pid: int) -> int | None:
    """The resident memory of a process of this host, with what it shares."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None
