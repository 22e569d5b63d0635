"""The other hosts of a job. An agent on each host, started by ssh or srun, watches its ranks, passes on their files and output, and
cleans up.

The hosts need not share a folder: an agent makes the job's folders under the same paths on its host, and files that ranks write there
appear in the launcher's folders.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ..native.errors import NotFoundError, UnsupportedError
from . import agent as agents
from . import slurm
from .console import Console
from .mpi import Layout
from .notices import ASKED_BY
from .watch import Ranks

_READY = 60.0                          # seconds for an agent to start: ssh or srun may take their time
_SILENCE = 5.0                         # of an agent: its host, or the way to it, is dead
_END = 4.0                             # for agents to clean up


def is_here(name: str) -> bool:
    """Return whether this name means this host. For an address: can a socket be bound to it here?"""
    if name in ("localhost", socket.gethostname(), socket.gethostname().partition(".")[0]):
        return True
    try:
        family, _, _, _, address = socket.getaddrinfo(name, 0, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind(address)
        return True
    except OSError:
        return False


# The messages of an agent, with a check of each.
WORDS: dict[str, Callable[..., bool]] = {
    "ready": lambda *rest: _are(rest, int), "begun": lambda *rest: not rest, "alive": lambda *rest: not rest,
    "drained": lambda *rest: not rest, "lacks": lambda *rest: all(type(path) is str for path in rest),
    "printed": lambda *rest: _are(rest, int, int, str) and rest[1] in (1, 2),
    "file": lambda *rest: _are(rest, str, str), "rank": lambda *rest: _are(rest, int, int), "gone": lambda *rest: _are(rest, int, int)}


def _are(values: Sequence[object], *types: type) -> bool:
    return len(values) == len(types) and all(type(value) is one for value, one in zip(values, types))


def words_of(line: bytes) -> list[object] | None:
    """Return the agent's message in a line. None: a host's greeting, or other output of ssh."""
    try:
        words = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_word = isinstance(words, list) and words and isinstance(words[0], str) and words[0] in WORDS
    return words if is_word and WORDS[words[0]](*words[1:]) else None


class Host:
    """An agent on another host."""

    def __init__(self, name: str, ssh: Sequence[str], state: str) -> None:
        self.name = name
        remote = shlex.join([sys.executable, agents.__file__, state])
        self.command = [*ssh, name, remote]
        self.program = "srun" if list(ssh) == shlex.split(slurm.SRUN) else Path(ssh[0]).name
        try:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, start_new_session=True)
        except OSError as error:
            raise NotFoundError(f"host {name}: {ssh[0]!r}, which is to reach it, cannot be started: {error.strerror}; "
                                "--ssh COMMAND names another one") from None
        self.cores = 0
        self.lacks: list[str] = []     # paths that the job needs and this host does not have
        self.lost: str | None = None   # why nothing more comes from it
        self.heard = math.inf          # not known yet: the start is bounded by _READY
        self.is_drained = True         # all that its ranks printed has come
        self.taken = 0                 # bytes of that for which there is room again; another thread counts
        self.told_taken = 0
        self._text = b""
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream
            fcntl.fcntl(stream, fcntl.F_SETFL, fcntl.fcntl(stream, fcntl.F_GETFL) | os.O_NONBLOCK)

    def tell(self, *words: object) -> bool:
        """Send a message. Return whether it was written: a full pipe takes all of a short line or nothing."""
        assert self.process.stdin
        with contextlib.suppress(OSError):             # a lost host is noticed by its silence
            return os.write(self.process.stdin.fileno(), (json.dumps(words) + "\n").encode()) > 0
        return False

    def begin(self, ranks: list[int], *folders: str) -> None:
        """Start the job's ranks of this host."""
        self.is_drained, self.taken, self.told_taken = not ranks, 0, 0
        self.tell("begin", ranks, *folders)

    def take(self, count: int) -> None:
        """Tell the agent that the console has taken so many bytes of its ranks' output."""
        self.taken += count

    def give_room(self) -> None:
        room = self.taken - self.told_taken
        if room and self.tell("room", room):
            self.told_taken += room

    def read(self) -> list[list[object]]:
        """Return the agent's messages since the last call, and find out whether it is lost."""
        assert self.process.stdout
        while self.lost is None:
            try:
                got = os.read(self.process.stdout.fileno(), 1 << 16)
            except BlockingIOError:
                break
            self.heard = time.monotonic()
            self._text += got
            if not got:
                self.lost = self._why_ended()
        if self.lost is None and time.monotonic() - self.heard > _SILENCE:
            self.lost = f"nothing came from it for {_SILENCE:g} s"
        *lines, self._text = self._text.split(b"\n")
        return [words for words in map(words_of, lines) if words is not None]

    def _why_ended(self) -> str:
        assert self.process.stderr
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        said = b""
        with contextlib.suppress(BlockingIOError):
            said = os.read(self.process.stderr.fileno(), 1 << 14)
        lines = said.decode(errors="replace").strip().splitlines()
        return f"{self.program} ended with exit code {self.process.poll()}" + (f": {lines[-1]}" if lines else "")

    def close(self, seconds: float) -> None:
        """Wait for the agent's end, so many seconds at most."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0 if self.lost else seconds)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream
            with contextlib.suppress(OSError):
                stream.close()


class Hosts:
    """The agents of a job. ``slots``: the hosts with their slots, as in a Layout. Names of the servers' shared memory begin with
    ``state``. ``caught``: the signals that ask for the end, in order of arrival.
    """

    def __init__(self, slots: dict[str, str], ssh: str, state: str, console: Console, caught: Sequence[int] = ()) -> None:
        self.slots, self.console, self.caught = slots, console, caught
        self.hosts = [Host(name, shlex.split(ssh), state) for name in slots if not is_here(name)]
        self.folder = Path()
        self.said = 0.0
        self._untold: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.hosts)

    @property
    def count(self) -> int:
        """The number of hosts that take part in the job."""
        return max(1, len(self.slots) - len(self.lost()))

    def lost(self) -> set[str]:
        return {host.name for host in self.hosts if host.lost is not None}

    def cores(self) -> int:
        """Return the number of cores of the smallest host, this host included."""
        return min([len(os.sched_getaffinity(0)), *(host.cores for host in self.hosts if not host.lost)])

    def news(self) -> list[str]:
        """Return messages about hosts that were lost since the last call."""
        news, self._untold = self._untold, []
        return news

    def start(self) -> None:
        """Wait until all agents are there."""
        if (slow := self._await("ready")) and not self.caught:
            raise UnsupportedError(f"trireme launch: host {slow[0].name}: {slow[0].lost or 'the agent does not start'}; "
                                   f"it was started by `{shlex.join(slow[0].command)}`")

    def check(self, paths: Sequence[str]) -> None:
        """Refuse a job whose programs or script another host does not have."""
        for host in self.hosts:
            host.tell("need", *paths)
        self._await("lacks")                           # a host that is lost now is noticed at the begin
        for host in self.hosts:
            if host.lacks:
                raise NotFoundError(f"trireme launch: host {host.name} has no {' and no '.join(map(repr, host.lacks))}. Is the folder "
                                    "shared between the hosts? Scripts and programs must lie under the same path on all of them")

    def begin(self, layout: Layout, *folders: str | None) -> Layout:
        """Make the job's folders on all hosts. The first holds the ranks' files and their pipes. Return the layout without hosts that
        are lost.
        """
        own = [folder for folder in folders if folder]
        self.folder = Path(own[0])
        for folder in map(Path, own if self else ()):
            agents.remove_stale(folder.parent)
            agents.claim(folder)
        while True:
            lost = self.lost()
            layout = self._without(layout, lost)
            ranks = layout.hosts_of_ranks()
            for host in self.hosts:
                host.begin([rank for rank, name in enumerate(ranks) if name == host.name], *own)
            for host in self._await("begun"):
                host.lost = host.lost or f"it has not made {' and '.join(own)} within {_READY:g} s"
                self._untold.append(f"host {host.name} is lost: {host.lost}")
            if self.lost() == lost or self.caught:
                break
        others = {host.name for host in self.hosts}
        self.console.gather(self.folder, [rank for rank, name in enumerate(ranks) if name not in others])
        return layout

    def _without(self, layout: Layout, lost: set[str]) -> Layout:
        living = ",".join(slot for name, slot in self.slots.items() if name not in lost)
        if not living and self.hosts:
            raise UnsupportedError(f"trireme launch: all hosts are lost: {', '.join(sorted(lost))}")
        return replace(layout, hosts=living, hostfile=None) if lost else layout

    def _await(self, kind: str) -> list[Host]:
        """Wait for a message from each agent. Return the agents that sent none."""
        deadline = time.monotonic() + _READY
        waiting = [host for host in self.hosts if not host.lost]
        missed: list[Host] = []
        while waiting and time.monotonic() < deadline and not self.caught:
            self.beat()
            for host in list(waiting):
                for word, *rest in host.read():
                    if word == "ready":
                        host.cores = int(str(rest[0]))
                    if word == "lacks":
                        host.lacks = [str(path) for path in rest]
                    if word == kind:
                        waiting.remove(host)
                if host.lost and host in waiting:
                    waiting.remove(host)
                    missed.append(host)
            time.sleep(0.005)
        return missed + waiting

    def beat(self) -> None:
        if time.monotonic() - self.said > agents.BEAT:
            self.said = time.monotonic()
            for host in self.hosts:
                host.tell("alive")

    def look(self, ranks: Ranks) -> None:
        """Handle the agents' messages."""
        self.beat()
        for host in self.hosts:
            if host.lost:
                continue
            host.give_room()
            for kind, *rest in host.read():
                if kind == "printed":
                    self.console.feed(int(str(rest[0])), int(str(rest[1])), str(rest[2]).encode("latin-1", "replace"), host.take)
                elif kind == "drained":
                    host.is_drained = True
                elif kind == "file":
                    self._write(str(rest[0]), str(rest[1]))
                elif kind == "rank":
                    ranks.note_remote(int(str(rest[0])), int(str(rest[1])), host.name)
                elif kind == "gone":
                    ranks.note_gone(int(str(rest[0])), None if rest[1] == -1 else int(str(rest[1])))
            if host.lost:
                self._untold.append(f"host {host.name} is lost: {host.lost}")
                ranks.lose_host(host.name, host.lost)

    def _write(self, name: str, text: str) -> None:
        """Write a rank's file. It appears at once, because the watch may read it at any time. Hosts that share the folder send files
        that are already there.
        """
        path = self.folder / Path(name).name
        if path.exists() and path.read_text(errors="replace") == text:
            return
        path.with_suffix(f"{path.suffix}~").write_text(text)
        path.with_suffix(f"{path.suffix}~").rename(path)

    def note_asked(self, name: str) -> None:
        """Tell the ranks of all hosts the name of the signal that asked for the job's end, because mpirun sends them another signal."""
        (self.folder / ASKED_BY).write_text(name)
        for host in self.hosts:
            host.tell("asked", name)

    def kill(self) -> None:
        """End the ranks of all hosts."""
        for host in self.hosts:
            host.tell("kill")

    def drain(self, ranks: Ranks, seconds: float, is_hurried: Callable[[], bool]) -> None:
        """Read all output that killed ranks have printed before."""
        deadline = time.monotonic() + seconds
        while self._undrained() and time.monotonic() < deadline and not is_hurried():
            self.look(ranks)
            time.sleep(0.005)

    def _undrained(self) -> list[Host]:
        return [host for host in self.hosts if not host.is_drained and not host.lost]

    def missed(self) -> list[str]:
        """Return the hosts whose ranks may have output that has not arrived."""
        return [host.name for host in self.hosts if not host.is_drained]

    def descriptors(self) -> list[int]:
        """Return the descriptors that become readable when a message arrives."""
        return [host.process.stdout.fileno() for host in self.hosts if host.process.stdout and not host.lost]

    def close(self) -> None:
        """End all processes of the job that are left on the hosts."""
        for host in self.hosts:
            host.tell("end")
        deadline = time.monotonic() + _END
        for host in self.hosts:
            host.close(max(0.0, deadline - time.monotonic()))


@contextlib.contextmanager
def hosts_of(layout: Layout, state: str, console: Console, caught: Sequence[int], needs: Sequence[str] = ()) -> Iterator[Hosts]:
    """Open the other hosts of a job; there are none for a job on this host alone."""
    hosts = Hosts(layout.slots() if layout.is_remote else {}, layout.ssh, state, console, caught)
    try:
        hosts.start()
        hosts.check(needs)
        yield hosts
    finally:
        hosts.close()
