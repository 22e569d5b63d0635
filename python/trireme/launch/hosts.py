"""The other hosts of a job: an agent on each, by ssh or srun, that sees its ranks, passes on what they say and cleans up.

The hosts need share no folder: an agent makes the job's folders under the same paths on its host, and what ranks write
there appears in the launcher's own.
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

from ..errors import NotFoundError, UnsupportedError
from . import agent as agents
from . import slurm
from .mpi import Layout
from .watch import Ranks

_READY = 60.0                          # seconds for an agent to start: ssh or srun may take their time
_SILENCE = 5.0                         # of an agent: its host, or the way to it, is dead
_END = 4.0                             # for agents to clean up


def is_here(name: str) -> bool:
    """Is this host meant? Of an address: can something be bound to it here?"""
    if name in ("localhost", socket.gethostname(), socket.gethostname().partition(".")[0]):
        return True
    try:
        family, _, _, _, address = socket.getaddrinfo(name, 0, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind(address)
        return True
    except OSError:
        return False


# What an agent may say, and whether it is that.
WORDS: dict[str, Callable[..., bool]] = {
    "ready": lambda *rest: _are(rest, int), "begun": lambda *rest: not rest, "alive": lambda *rest: not rest,
    "file": lambda *rest: _are(rest, str, str), "rank": lambda *rest: _are(rest, int, int), "gone": lambda *rest: _are(rest, int)}


def _are(values: Sequence[object], *types: type) -> bool:
    return len(values) == len(types) and all(type(value) is one for value, one in zip(values, types))


def words_of(line: bytes) -> list[object] | None:
    """Return what an agent says in a line; None: a host's greeting, or whatever else ssh prints."""
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
        self.lost: str | None = None   # why nothing more comes from it
        self.heard = math.inf          # at no time yet: who waits for its start does so for _READY
        self._text = b""
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream
            fcntl.fcntl(stream, fcntl.F_SETFL, fcntl.fcntl(stream, fcntl.F_GETFL) | os.O_NONBLOCK)

    def tell(self, *words: object) -> None:
        assert self.process.stdin
        with contextlib.suppress(OSError):             # a lost host is found by its silence
            os.write(self.process.stdin.fileno(), (json.dumps(words) + "\n").encode())

    def read(self) -> list[list[object]]:
        """Return what the agent has said since the last call; find out whether it is lost."""
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
        """Wait so long at most for the agent's end."""
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
    """The agents of a job. `slots`: see above; `state` is what the names of servers' shared memory begin with."""

    def __init__(self, slots: dict[str, str], ssh: str, state: str) -> None:
        self.slots = slots
        self.hosts = [Host(name, shlex.split(ssh), state) for name in slots if not is_here(name)]
        self.folder = Path()
        self.said = 0.0
        self._untold: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.hosts)

    @property
    def count(self) -> int:
        """Of hosts that have a part in the job."""
        return max(1, len(self.slots) - len(self.lost()))

    def lost(self) -> set[str]:
        return {host.name for host in self.hosts if host.lost is not None}

    def cores(self) -> int:
        """Of the host that has the fewest, this one counted."""
        return min([len(os.sched_getaffinity(0)), *(host.cores for host in self.hosts if not host.lost)])

    def news(self) -> list[str]:
        """What there is to say of hosts that were lost since the last call."""
        news, self._untold = self._untold, []
        return news

    def start(self) -> None:
        """Wait until all agents are there."""
        if slow := self._await("ready"):
            raise UnsupportedError(f"trireme launch: host {slow[0].name}: {slow[0].lost or 'the agent does not start'}; "
                                   f"it was started by `{shlex.join(slow[0].command)}`")

    def begin(self, layout: Layout, *folders: str | None) -> Layout:
        """Have the folders made on all hosts; the first is the one for the ranks' words. Return the layout without hosts that
        are lost."""
        own = [folder for folder in folders if folder]
        self.folder = Path(own[0])
        for folder in map(Path, own if self else ()):
            agents.remove_stale(folder.parent)
            agents.claim(folder)
        for host in self.hosts:
            host.tell("begin", *own)
        for host in self._await("begun"):
            host.lost = host.lost or f"it has not made {' and '.join(own)} within {_READY:g} s"
            self._untold.append(f"host {host.name} is lost: {host.lost}")
        lost = self.lost()
        living = ",".join(slot for name, slot in self.slots.items() if name not in lost)
        if not living and self.hosts:
            raise UnsupportedError(f"trireme launch: all hosts are lost: {', '.join(sorted(lost))}")
        return replace(layout, hosts=living, hostfile=None) if lost else layout

    def _await(self, kind: str) -> list[Host]:
        """Wait for a word from each agent. Return those from which it has not come."""
        deadline = time.monotonic() + _READY
        waiting = [host for host in self.hosts if not host.lost]
        missed: list[Host] = []
        while waiting and time.monotonic() < deadline:
            self.beat()
            for host in list(waiting):
                for word, *rest in host.read():
                    if word == "ready":
                        host.cores = int(str(rest[0]))
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
        """Take in what has happened on the hosts."""
        self.beat()
        for host in self.hosts:
            if host.lost:
                continue
            for kind, *rest in host.read():
                if kind == "file":
                    self._write(str(rest[0]), str(rest[1]))
                elif kind == "rank":
                    ranks.note_remote(int(str(rest[0])), int(str(rest[1])), host.name)
                elif kind == "gone":
                    ranks.note_gone(int(str(rest[0])))
            if host.lost:
                self._untold.append(f"host {host.name} is lost: {host.lost}")
                ranks.lose_host(host.name, host.lost)

    def _write(self, name: str, text: str) -> None:
        """All at once: the ranks' watch may look at any time. Hosts that share the folder tell what is there already."""
        path = self.folder / Path(name).name
        if path.exists() and path.read_text(errors="replace") == text:
            return
        path.with_suffix(f"{path.suffix}~").write_text(text)
        path.with_suffix(f"{path.suffix}~").rename(path)

    def kill(self) -> None:
        """End the ranks of all hosts."""
        for host in self.hosts:
            host.tell("kill")

    def close(self) -> None:
        """End all that is left on the hosts."""
        for host in self.hosts:
            host.tell("end")
        deadline = time.monotonic() + _END
        for host in self.hosts:
            host.close(max(0.0, deadline - time.monotonic()))


@contextlib.contextmanager
def hosts_of(layout: Layout, state: str) -> Iterator[Hosts]:
    """The other hosts of a job; none of a job on this one."""
    hosts = Hosts(layout.slots() if layout.is_remote else {}, layout.ssh, state)
    try:
        hosts.start()
        yield hosts
    finally:
        hosts.close()


__all__ = ["Hosts", "Host", "hosts_of", "is_here"]
