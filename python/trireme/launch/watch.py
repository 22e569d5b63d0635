"""The ranks of a job, seen from outside: which ranks have started, which have ended, and whether they ended well.

mpirun's exit code says nothing about a job that survives deaths. So ranks write files. A rank that has left its job well has written
one. A rank whose script failed has written the reason. A process that is gone without either file has died.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from . import ends
from .memory import Kills
from .notices import Notice

_TO_APPEAR = 10.0                      # seconds: mpirun starts all ranks at once


@dataclass
class Rank:
    rank: int
    pid: int
    fd: int | None                     # pidfd of the process: readable when it has ended; None: on another host
    gone: int = 0                      # number of the look that found it ended, from 1
    host: str | None = None            # None: this host
    status: int | None = None          # status at its end, if the kernel tells it


class Left(NamedTuple):
    """A trainer whose script has ended."""

    label: int                         # its last step, as messages count
    steps: int                         # its steps, as its other figures count
    is_common: bool                    # all trainers make the same steps


@dataclass
class Failure:
    """Why a job failed: the exit code, and the message."""

    code: int
    text: str
    is_death: bool = False             # the job failed by a process's death, so it may be started again
    unknown: Sequence[int] = ()        # ranks that ended before they had begun well, and whose status the kernel does not tell
    is_asked: bool = False             # a signal asked for the end at once: what ranks say of each other's deaths follows from that


@dataclass
class Ranks:
    """The ranks under ``mpirun`` (a process id), which write their files into ``folder``."""

    mpirun: int
    folder: Path
    servers: int
    trainers: int
    standbys: int = 0
    has_run_before: bool = False       # the job is started again: its script is known to begin well
    replicas: int = 0
    known: dict[int, Rank] = field(default_factory=dict)
    looks: int = 0
    grown: float = 0.0                 # when a rank was seen for the first time
    slow: list[int] = field(default_factory=list)
    counted: set[int] = field(default_factory=set)
    greeted: set[int] = field(default_factory=set)
    lost_hosts: dict[str, str] = field(default_factory=dict)       # host -> reason
    has_said_beginning: bool = False
    kills: Kills = field(default_factory=Kills)
    starved: set[int] = field(default_factory=set)     # ranks whose end for lack of memory was reported

    @property
    def size(self) -> int:
        return self.servers + self.trainers + self.standbys + self.replicas

    def name(self, rank: int) -> str:
        index = rank
        for role, count in (("server", self.servers), ("trainer", self.trainers), ("standby", self.standbys)):
            if index < count:
                return f"rank {rank} ({role} {index})"
            index -= count
        return f"rank {rank} (replica {index})"

    def look(self, seconds: float, others: Iterable[int] = ()) -> None:
        """Find new ranks, and ranks that have ended. Wait at most so long for an event, also on these other descriptors."""
        if len(self.known) < self.size:
            for pid in _descendants(self.mpirun):
                self._note(pid)
        poll = select.poll()
        living = {one.fd: one for one in self.known.values() if one.fd is not None and not one.gone}
        for fd in (*living, *others):
            poll.register(fd, select.POLLIN)
        self.looks += 1
        for fd in living.keys() & {fd for fd, _ in poll.poll(1000 * seconds)}:
            living[fd].gone = self.looks
            living[fd].status = ends.status_of(living[fd].pid, fd)
            if why := self.kills.why_gone(living[fd].rank):
                Notice.STARVED.path(self.folder, living[fd].rank).write_text(why)

    def are_all_running(self) -> bool:
        """Return whether all ranks have started and none has ended."""
        return len(self.known) == self.size and not any(one.gone for one in self.known.values())

    def are_all_gone(self) -> bool:
        """Return whether the processes of all ranks have ended, except ranks whose death the others survived."""
        return all(one.gone or self.is_lost(one.rank) for one in self.known.values())

    def _note(self, pid: int) -> None:
        rank = _rank_of(pid)
        if rank is None or rank in self.known or not 0 <= rank < self.size:
            return
        try:
            self.known[rank] = Rank(rank, pid, os.pidfd_open(pid))
            self.kills.watch(rank, pid)
            self.grown = time.monotonic()
        except ProcessLookupError:
            pass

    def note_remote(self, rank: int, pid: int, host: str) -> None:
        """Note a rank that has started on another host."""
        if 0 <= rank < self.size:
            self.known[rank] = Rank(rank, pid, None, host=host)
            self.grown = time.monotonic()

    def server_hosts(self) -> set[str]:
        """Return the other hosts that have a server."""
        return {one.host for one in self.known.values() if one.host and one.rank < self.servers}

    def note_gone(self, rank: int, status: int | None = None) -> None:
        """Note that the rank has ended with this status."""
        if rank in self.known:
            self.known[rank].status = status
            self.known[rank].gone = self.known[rank].gone or self.looks

    def lose_host(self, host: str, why: str) -> None:
        """Note that a host is lost. No further news of its ranks will come."""
        self.lost_hosts[host] = why

    def is_explained(self) -> bool:
        """Return whether the reason of a failure is known: a rank has told it, or a host is lost."""
        return bool(self.lost_hosts) or any(path.exists() for what in (Notice.TOLD, Notice.FAILED) for path in self.paths(what))

    def paths(self, what: Notice) -> list[Path]:
        """Return the possible files of this kind, in the order of the ranks."""
        return [what.path(self.folder, rank) for rank in range(self.size)]

    def is_alive(self, rank: int) -> bool:
        """Return whether the rank has joined, and has neither left nor died."""
        one = self.known.get(rank)
        return one is not None and self._has(Notice.JOINED, rank) and not one.gone and not self.has_left(rank)

    def done(self) -> int:
        """Return the number of ranks that have left the job well, or whose death the others survived."""
        return sum(self.has_left(rank) for rank in range(self.size))

    def is_lost(self, rank: int) -> bool:
        """Return whether the rank has died and the others go on."""
        return self._has(Notice.LOST, rank)

    def all_lost(self) -> bool:
        """Return whether no trainer is left."""
        return all(self.is_lost(rank) for rank in (*range(self.servers, self.servers + self.trainers), *self.replacements()))

    def replacements(self) -> dict[int, int]:
        """Return the standbys that have become trainers, with the number of the trainer."""
        found = {rank: Notice.REPLACEMENT.path(self.folder, rank) for rank in range(self.servers + self.trainers, self.size)}
        return {rank: int(path.read_text() or 0) for rank, path in found.items() if path.exists()}

    def training(self) -> list[int]:
        """Return the ranks that are trainers, or became trainers, and have not died."""
        return [rank for rank in (*range(self.servers, self.servers + self.trainers), *self.replacements()) if not self.is_lost(rank)]

    def trainer_of(self, rank: int) -> int:
        """Return the number of the trainer that this rank is."""
        return rank - self.servers if rank < self.servers + self.trainers else self.replacements()[rank]

    def left(self) -> dict[int, Left]:
        """Return the trainers whose scripts have ended."""
        found = {}
        for rank in self.training():
            with contextlib.suppress(OSError, ValueError):
                label, steps, is_common = Notice.LEFT.path(self.folder, rank).read_text().split()
                found[rank] = Left(int(label), int(steps), is_common == "1")
        return found

    def followed(self) -> dict[int, int]:
        """Return the ranks that are a server's replica, or were one when they died, with the number of the server."""
        found = {rank: Notice.FOLLOWS.path(self.folder, rank) for rank in range(self.servers + self.trainers, self.size)}
        return {rank: int(path.read_text() or 0) for rank, path in found.items() if path.exists()}

    def outdated_replicas(self, before: set[str]) -> set[str]:
        """Return the hosts with an outdated state of a server: a replica has died there, now or in an earlier start (``before``), and
        its server has had no other replica since. "" is this host.
        """
        followed = self.followed()
        living = {server for rank, server in followed.items() if not self.is_lost(rank)}
        all_servers = set(range(self.servers))
        outdated = set() if set(followed.values()) == all_servers else set(before)
        for rank in {*followed, *range(self.size - self.replicas, self.size)}:
            has_follower = followed[rank] in living if rank in followed else living == all_servers
            if self.is_lost(rank) and not has_follower:
                outdated.add(self.known[rank].host or "" if rank in self.known else "")
        return outdated

    def all_listen(self) -> bool:
        """Return whether a signal that asks for a checkpoint would end no rank. All ranks must have joined, and all trainers that are
        not lost, at least one, must listen to it.
        """
        trainers = (*range(self.servers, self.servers + self.trainers), *self.replacements())
        return (not self.all_lost() and all(self._has(Notice.JOINED, rank) for rank in range(self.size))
                and all(self._has(Notice.LISTENS, rank) or self.has_left(rank) for rank in trainers))

    def is_asked(self) -> bool:
        """Return whether a trainer got a signal that asks for a checkpoint and the end."""
        return any(self._has(Notice.ASKED, rank) for rank in range(self.servers, self.size))

    def news(self) -> list[str]:
        """Return messages about ranks that were lost, or killed by the kernel, since the last call."""
        lost = [rank for rank in range(self.size) if rank not in self.counted and self.is_lost(rank) and not self._is_failing()]
        self.counted.update(lost)
        replacements = {rank: trainer for rank, trainer in self.replacements().items() if rank not in self.greeted}
        self.greeted.update(replacements)
        starved = [rank for rank in range(self.size) if rank not in self.starved and self._has(Notice.STARVED, rank)]
        self.starved.update(starved)
        return (self._beginning() + [f"{self.name(rank)}: {Notice.STARVED.path(self.folder, rank).read_text()}" for rank in starved]
                + [f"{self.name(rank)} {self._how_lost(rank)}; the others go on" for rank in lost]
                + [f"{self.name(rank)} takes the place of trainer {trainer}" for rank, trainer in replacements.items()]
                + [f"{self.name(rank)} is the replica of server {server} from here on" for rank, server in self._followers().items()])

    def _beginning(self) -> list[str]:
        """Return where a restarted job goes on. The line comes once, as soon as its trainers know."""
        found = [path for path in self.paths(Notice.BEGINS) if self.has_run_before and path.exists()]
        said, self.has_said_beginning = self.has_said_beginning, self.has_said_beginning or bool(found)
        return [f"the job {path.read_text(errors='replace')}" for path in found if not said]

    def _followers(self) -> dict[int, int]:
        """Return new replicas of servers that had lost theirs, each once."""
        followed = self.followed()
        lost = {server for rank, server in followed.items() if self.is_lost(rank)}
        found = {rank: server for rank, server in followed.items() if rank not in self.greeted and not self.is_lost(rank)}
        self.greeted.update(found)
        return {rank: server for rank, server in found.items() if server in lost or rank < self.size - self.replicas}

    def _how_lost(self, rank: int) -> str:
        """Return how a lost rank died. A rank that was silent is killed by the standby that takes its place, so other ranks saw its
        death at that moment.
        """
        what = Notice.SILENT if self._has(Notice.SILENT, rank) else Notice.LOST
        return what.path(self.folder, rank).read_text(errors="replace")

    def told(self) -> list[str]:
        """Return the ranks' messages about the job's failure, mostly one line, for the launcher to print."""
        return [path.read_text(errors="replace") for path in self.paths(Notice.TOLD) if path.exists()]

    def failure(self) -> Failure | None:
        """Return the first failure, if there is one."""
        for rank in range(self.size):
            path = Notice.FAILED.path(self.folder, rank)
            if path.exists() and not self.is_lost(rank):
                code, _, why = path.read_text(errors="replace").partition("\n")
                if not self._has(Notice.JOINED, rank):
                    why = f"{self._unjoined(rank, 'ended')}: {why}".rstrip(": \n")
                return Failure(int(code or 1), why.strip() or f"{self.name(rank)} failed")
        for host, why in self.lost_hosts.items():
            missed = [one.rank for one in self.known.values() if one.host == host and not self.has_left(one.rank)]
            if missed:
                return Failure(1, f"{', '.join(map(self.name, sorted(missed)))} on host {host}, which is lost: {why}",
                               self.has_death())
        if slow := self._slow():
            return Failure(1, f"{', '.join(map(self.name, slow))}: no first step within TRIREME_START_TIMEOUT seconds")
        for one in sorted(self.known.values(), key=self._suspicion):
            if one.gone and not self.has_left(one.rank):
                has_joined = self._has(Notice.JOINED, one.rank)
                how = ends.describe(one.status)
                joined = f"{self._where(one)}, {how if how != 'ended' else 'ended without a goodbye'}"
                text = joined if has_joined else self._unjoined(one.rank, how)
                is_death = self.has_run_before or self._has(Notice.BEGAN, one.rank) or ends.is_signal(one.status)
                unknown = [one.rank] if one.status is None and not is_death and self.has_death() else []
                return Failure(ends.exit_code(one.status) or 1, text, self.has_death() and is_death, unknown)
        if unseen := self._unseen():
            text = f"{', '.join(map(self.name, unseen))}: ended as soon as it was started"
            return Failure(1, text, self.has_death() and self.has_run_before, unseen if self.has_death()
                           and not self.has_run_before else [])
        return None

    def _unseen(self) -> list[int]:
        """Return the ranks that ended before they were seen."""
        if not self.known or len(self.known) == self.size or time.monotonic() - self.grown < _TO_APPEAR:
            return []
        return [rank for rank in range(self.size) if rank not in self.known and not self.has_left(rank)]

    def _slow(self) -> list[int]:
        """Return the ranks that were late for the start: they lived when another rank reported the long wait, and had not asked MPI to
        join.
        """
        if not self.slow and not self.has_run_before and any(self._has(Notice.LATE, rank) for rank in range(self.size)):
            self.slow = sorted(one.rank for one in self.known.values() if not one.gone and not self._has(Notice.JOINS, one.rank))
        return self.slow

    def has_death(self) -> bool:
        """Return whether the job failed by a death, by the ranks' messages: one tells of a death, or there are none."""
        if any(self._has(Notice.FAILED, rank) for rank in range(self.size)):
            return False
        has_told = any(self._has(Notice.TOLD, rank) for rank in range(self.size))
        return not has_told or any(self._has(Notice.DIED, rank) for rank in range(self.size))

    def has_begun(self) -> bool:
        """Return whether any rank has begun to run its program."""
        return any(self._has(Notice.BEGAN, rank) for rank in range(self.size))

    def _is_failing(self) -> bool:
        """Return whether a rank has ended the job: deaths after it follow from that."""
        return any(self._has(Notice.FAILED, rank) and not self.is_lost(rank) for rank in range(self.size))

    def _has(self, what: Notice, rank: int) -> bool:
        return what.path(self.folder, rank).exists()

    def has_left(self, rank: int) -> bool:
        """Return whether the rank has left the job well, or the others go on without it."""
        return self._has(Notice.DONE, rank) or self.is_lost(rank)

    def _where(self, one: Rank) -> str:
        return f"{self.name(one.rank)}, pid {one.pid}" + (f" on host {one.host}" if one.host else "")

    def _unjoined(self, rank: int, how: str) -> str:
        where = self._where(self.known[rank]) if rank in self.known else self.name(rank)
        return f"{where}, {how} before it had joined the job"

    def _suspicion(self, one: Rank) -> tuple[int, bool, bool, bool]:
        """Order the ranks by how probably they caused the failure: the rank that ended first. Of ranks found at the same time prefer a
        rank that never joined, then one that was not killed (mpirun kills the others), then a script.
        """
        return one.gone, self._has(Notice.JOINED, one.rank), ends.is_signal(one.status), one.rank < self.servers

    def kill(self, seconds: float) -> None:
        """Kill the ranks of this host that still live, and wait at most so long until they are gone."""
        self.look(0.0)                             # a rank may have started since
        here = [(one, one.fd) for one in self.known.values() if one.fd is not None]
        for _, fd in here:
            try:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        end = time.monotonic() + seconds
        while any(not one.gone for one, _ in here) and time.monotonic() < end:
            self.look(0.02)

    def close(self) -> None:
        for one in self.known.values():
            if one.fd is not None:
                os.close(one.fd)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(word) for word in (task / "children").read_text().split()]
    except OSError:
        pass
    return found


def _descendants(pid: int) -> list[int]:
    """Return the children of a process and their children: a shell may start a rank."""
    found = _children(pid)
    return found + [inner for one in found for inner in _children(one)]


def _rank_of(pid: int) -> int | None:
    try:
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                return int(entry.partition(b"=")[2])
    except (OSError, ValueError):
        pass
    return None
