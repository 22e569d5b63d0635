"""Reads a job's logs after the job: docs/logs.md describes them. Files that are cut off or missing are named, and read as far as
possible.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..job.mode import Mode, parse
from ..native.errors import FileError, NotFoundError, TriremeError
from ..native.regular import read_regular
from .numbers import number_of, numbers_of, whole_of
from .runlog import LAUNCHER

_NAME = re.compile(r"(trainer|server|standby|replica)-(\d{1,6})\.jsonl")

_MOST_BYTES = 1 << 30                  # of a log: a rank's line of ten seconds has a kilobyte
_MOST_RANKS = 10 ** 4                  # more ranks than any job has: a greater number is damage

Line = dict[str, Any]


@dataclass
class Log:
    """The log of one rank since the job's last start."""

    name: str
    role: str
    index: int
    lines: list[Line]
    joined: Line
    totals: Line                       # the newest line; empty: the rank has written none

    @property
    def is_whole(self) -> bool:
        return bool(self.lines) and self.lines[-1].get("event") == "summary"

    def number(self, name: str, default: float = 0.0) -> float:
        return number_of(self.totals.get(name), default)

    def numbers(self, name: str, count: int) -> list[float]:
        """Return a list of the totals, filled up with zeros."""
        return (numbers_of(self.totals.get(name)) + [0.0] * count)[:count]

    def table(self, name: str) -> dict[str, float]:
        """Return an object of the totals, by the names of its fields; empty where there is none."""
        found = self.totals.get(name)
        return {str(key): number_of(value) for key, value in found.items()} if isinstance(found, dict) else {}

    def events(self, event: str) -> list[Line]:
        return [line for line in self.lines if line.get("event") == event]

    @property
    def attempt(self) -> int:
        return whole_of(self.joined.get("attempt"))

    @property
    def host(self) -> str:
        return str(self.joined.get("host", "?"))


@dataclass
class Logs:
    """The logs of a job: servers and trainers by their numbers. A standby or replica that took a server's place stands in that place."""

    folder: Path
    trainers: dict[int, Log] = field(default_factory=dict)
    servers: dict[int, Log] = field(default_factory=dict)
    launcher: list[Line] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)           # remarks on damaged or missing logs, and on deaths

    @property
    def mode(self) -> str:
        return self._began("mode", "sync")

    @cached_property
    def policy(self) -> Mode:
        """The meaning of the mode. Damaged logs are read as those of ``sync``."""
        try:
            return parse(self.mode)
        except TriremeError:
            return parse("sync")

    @property
    def compress(self) -> str:
        return self._began("compress", "none")

    @property
    def compress_parameters(self) -> str:
        return self._began("compress_parameters", "none")

    def began_number(self, name: str) -> int:
        """Return a number that all trainers were told alike."""
        return whole_of(max([number_of(line.get(name)) for log in self.trainers.values() for line in log.events("began")], default=0))

    @property
    def last(self) -> float:
        """Return when the newest line of a rank was written, in seconds since 1970."""
        return max([number_of(line.get("t_s")) for log in (*self.trainers.values(), *self.servers.values()) for line in log.lines[-1:]],
                   default=0.0)

    @property
    def silence(self) -> float:
        """Return the seconds without a line after which a log has ended. Ranks write a line every ten seconds, or less often where the
        user asked for that.
        """
        times = [[number_of(line.get("t_s")) for line in log.events("steps")] for log in (*self.trainers.values(), *self.servers.values())]
        gaps = [late - early for one in times for early, late in itertools.pairwise(one)]
        return 2.5 * max([10.0, *gaps])

    def _began(self, name: str, otherwise: str) -> str:
        """A fact that all trainers were told alike, from the first log that has it."""
        found = [str(line[name]) for log in self.trainers.values() for line in log.events("began") if name in line]
        return found[0] if found else otherwise

    @property
    def restarts(self) -> int:
        return max([0, *(log.attempt for log in (*self.trainers.values(), *self.servers.values()))])


def _read_lines(path: Path, remarks: list[str]) -> list[Line]:
    """Return the JSON objects of a file. Add a remark on lines that are not valid."""
    try:
        text = read_regular(path, _MOST_BYTES).decode(errors="replace")
    except FileError as error:
        remarks.append(str(error))
        return []
    lines, bad = [], []
    rows = text.split("\n")
    for number, row in enumerate(rows, 1):
        if not row.strip("\0 \r"):
            continue
        try:
            line = json.loads(row)
        except (ValueError, RecursionError):
            line = None
        if isinstance(line, dict):
            lines.append(line)
        else:
            bad.append(number)
    if bad and bad[-1] == len(rows):
        remarks.append(f"{path.name} ends in the middle of a line")
        bad.pop()
    if bad:
        remarks.append(f"{path.name}: line {', '.join(map(str, bad[:5]))}{' and more' if len(bad) > 5 else ''} cannot be read")
    return lines


def _log_of(path: Path, role: str, index: int, remarks: list[str]) -> Log:
    lines = _read_lines(path, remarks)
    starts = [i for i, line in enumerate(lines) if line.get("event") == "joined"]
    lines = lines[starts[-1]:] if starts else lines
    totals = [line for line in lines if line.get("event") in ("steps", "summary")]
    return Log(path.name, role, index, lines, lines[0] if starts else {}, totals[-1] if totals else {})


def _clock(line: Line) -> str:
    when = number_of(line.get("t_s"), -1.0)
    return time.strftime("%H:%M:%S", time.localtime(when)) if 0 <= when < 1e11 else "?"


def _say_ends(logs: Logs, found: Sequence[Log]) -> None:
    """Remarks on logs that do not end well, and on ranks that died."""
    for log in found:
        if not log.lines:
            logs.remarks.append(f"{log.name} is empty")
        elif not log.is_whole:
            logs.remarks.append(f"{log.name} ends at {_clock(log.lines[-1])} without a summary: its process was killed, or still runs")
        elif log.totals.get("end") == "failed":
            logs.remarks.append(f"{log.name}: {log.totals.get('why', 'it failed')}")
    deaths = {(str(line.get("role")), whole_of(line.get("index"), -1), str(line.get("how")))
              for log in found for line in log.events("died") if log.role != "trainer"}
    logs.remarks += [f"{role} {index} {how}; the others went on" for role, index, how in sorted(deaths)]


def _place_standbys(logs: Logs, standbys: Sequence[Log]) -> None:
    for log in standbys:
        for line in log.events("took_place"):
            trainer, server = whole_of(line.get("trainer"), -1), whole_of(line.get("server"), -1)
            if 0 <= trainer < _MOST_RANKS:
                logs.remarks.append(f"{log.role} {log.index} took the place of trainer {trainer} at {_clock(line)}")
                logs.trainers[trainer] = log
                continue
            if not 0 <= server < _MOST_RANKS:
                continue
            logs.remarks.append(f"{log.role} {log.index} took the place of server {server} at {_clock(line)}")
            before = logs.servers.get(server)
            if before is None or log.number("updates") >= before.number("updates"):
                logs.servers[server] = log


def read(folder: str | Path) -> Logs:
    """Read the logs in a folder. NotFoundError: there are no logs of trainers."""
    logs = Logs(Path(folder))
    try:
        paths = sorted(logs.folder.iterdir())
    except OSError as error:
        raise NotFoundError(f"cannot read the logs in {str(folder)!r}: {error.strerror}") from None
    found = []
    for path in paths:
        name = _NAME.fullmatch(path.name)
        if name:
            found.append(_log_of(path, name[1], int(name[2]), logs.remarks))
    newest = max([log.attempt for log in found], default=0)
    for log in found:
        if log.attempt < newest:
            logs.remarks.append(f"{log.name} has nothing of the job's last start")
    last = [log for log in found if log.attempt == newest]
    for log in last:
        if log.role in ("trainer", "server"):
            (logs.trainers if log.role == "trainer" else logs.servers)[log.index] = log
    _say_ends(logs, last)
    _place_standbys(logs, [log for log in last if log.role in ("standby", "replica")])
    if not logs.trainers:
        raise NotFoundError(f"{str(folder)!r} holds no log of a trainer; `trireme launch --log DIR` writes them")
    if (logs.folder / LAUNCHER).exists():
        logs.launcher = _read_lines(logs.folder / LAUNCHER, logs.remarks)
    _say_missing(logs)
    return logs


def _say_missing(logs: Logs) -> None:
    for role, own in (("trainer", logs.trainers), ("server", logs.servers)):
        count = max([whole_of(log.joined.get(f"{role}s")) for log in (*logs.trainers.values(), *logs.servers.values())], default=0)
        missing = [str(index) for index in range(min(count, _MOST_RANKS)) if index not in own]
        if missing:
            logs.remarks.append(f"there is no log of {role} {', '.join(missing)}")
