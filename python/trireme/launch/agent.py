"""The launcher's helper on another host. ssh or srun runs it as a program of its own. It imports nothing of the package except its
neighbours ends.py, memory.py and pipes.py.

    python agent.py STATE

Launcher and agent exchange messages, a JSON list in each line. The launcher sends:

- ["begin", ranks, folder...]: these ranks will start. Make the folders, and the ranks' pipes in the first one. The ranks write their
  files there.
- ["need", path...]: the job needs these files on this host.
- ["room", bytes]: so many more bytes of the ranks' output may be passed on.
- ["asked", signal]: a user or a scheduler has asked for the job's end by this signal.
- ["kill"]: end the ranks.
- ["alive"], at least every second.
- ["end"]: clean up and end.

The agent sends ["ready", cores], ["lacks", path...] with the needed files that are not there, ["begun"], ["file", name, text], ["rank",
rank, pid], ["printed", rank, 1 or 2, text with a character for each byte], ["gone", rank, its status, -1 for unknown] and ["alive"]. It
sends ["drained"] when killed ranks have ended and all of their output is passed on.

At another "begin" the agent ends the job's processes that are left on this host, and removes the folders. It does the same at the end,
or when the launcher is silent for some seconds or gone. Then it also removes the state of servers in shared memory, under names that
begin with STATE.

What must stay true: nothing of the job is left on this host, however the launcher, its host or the connection dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from . import ends, pipes
    from .memory import Kills
    from .notices import ASKED_BY, Notice
else:                                  # its own folder is where Python looks first
    import pipes

    import ends
    from memory import Kills
    from notices import ASKED_BY, Notice

BEAT = 1.0                             # seconds
SILENCE = 8.0                          # of the launcher: it, or the way to it, is dead
# bytes that ranks have printed and the launcher has not taken: without such a bound its memory would fill
ROOM = 1 << 18
_TURN = 0.05
_SEARCH = 0.25
_OWNER = "owner"
_PATTERN = "trireme-hosts-*"


def claim(folder: Path) -> None:
    """Make a folder that belongs to this process."""
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / _OWNER).write_text(str(os.getpid()))


def remove_stale(place: Path) -> None:
    """Remove files whose owners were killed."""
    for folder in place.glob(_PATTERN):
        with contextlib.suppress(OSError, ValueError):
            owner = int((folder / _OWNER).read_text())
            if folder.stat().st_uid == os.geteuid() and not is_running(owner):
                shutil.rmtree(folder, ignore_errors=True)


def remove_segment(path: Path) -> None:
    """Remove a segment of servers' state. A link beside the segments leads to a file with rows of a table: remove the file first."""
    with contextlib.suppress(OSError):
        if path.is_symlink() and path.lstat().st_uid == os.geteuid() and (file := os.readlink(path)).endswith(".cold"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file)
        path.unlink()


class Agent:
    def __init__(self, state: str) -> None:
        self.state = state
        self.folders: list[Path] = []
        self.before = _processes()
        self.ranks: dict[int, tuple[int, int]] = {}    # rank -> pid, pidfd
        self.living: dict[int, int] = {}               # pidfd -> rank
        self.told: dict[str, tuple[int, int]] = {}
        self.pipes: dict[int, tuple[int, int]] = {}    # descriptor -> rank, 1 or 2
        self.room = ROOM
        self.is_ending = False                         # the ranks were killed; their output is being passed on
        self.kills = Kills()
        self.heard = self.said = time.monotonic()
        self.searched = 0.0
        self.input = b""

    def say(self, *words: object) -> None:
        text = (json.dumps(words) + "\n").encode()
        while text:
            text = text[os.write(1, text):]
        self.said = time.monotonic()

    def live(self) -> None:
        self.say("ready", len(os.sched_getaffinity(0)))
        while self.turn():
            pass

    def begin(self, ranks: list[int], *folders: str) -> None:
        self.clear()
        self.folders = [Path(folder) for folder in folders]
        for folder in self.folders:
            remove_stale(folder.parent)
            claim(folder)
        self.pipes, self.room = pipes.make(self.folders[0], ranks), ROOM
        self.say("begun")

    def turn(self) -> bool:
        now = time.monotonic()
        if now - self.heard > SILENCE:
            return False
        if now - self.searched > _SEARCH:
            self.searched = now
            self.search()
        if now - self.said > BEAT:
            self.say("alive")
        poll = select.poll()
        for fd in (0, *self.living, *(self.pipes if self.room > 0 else ())):
            poll.register(fd, select.POLLIN)
        events = {fd for fd, _ in poll.poll(1000 * _TURN)}
        ended, printed = events & self.living.keys(), events & self.pipes.keys()
        for fd in ended:
            self.note_end(self.living[fd])
        for fd in printed:
            self.pass_on(fd)
        self.tell_files()                              # pass on a rank's files before its end
        for fd in ended:
            rank = self.living.pop(fd)
            status = ends.status_of(self.ranks[rank][0], fd)
            self.say("gone", rank, -1 if status is None else status)
        if self.is_ending and not self.living and not printed and self.room > 0:
            self.is_ending = False
            self.say("drained")
        return 0 not in events or self.listen()

    def note_end(self, rank: int) -> None:
        """If the kernel has ended the rank for memory, leave the reason in the job's folder."""
        if why := self.kills.why_gone(rank):
            Notice.STARVED.path(self.folders[0], rank).write_text(why)

    def pass_on(self, fd: int) -> None:
        """Pass on the output of a rank, as far as there is room."""
        text = pipes.read(fd, min(pipes.MOST, self.room)) if self.room > 0 else None
        if text:
            self.room -= len(text)
            self.say("printed", *self.pipes[fd], text.decode("latin-1"))

    def listen(self) -> bool:
        got = os.read(0, 4096)
        self.heard = time.monotonic()
        *lines, self.input = (self.input + got).split(b"\n")
        for word, *rest in map(json.loads, lines):
            if word == "end":
                return False
            if word == "begin":
                self.begin(*rest)
            elif word == "need":
                self.say("lacks", *[path for path in rest if not os.path.exists(path)])
            elif word == "asked":
                (self.folders[0] / ASKED_BY).write_text(rest[0])
            elif word == "room":
                self.room += rest[0]
            elif word == "kill":
                self.kill()
                self.is_ending = True
        return bool(got)

    def search(self) -> None:
        """Find ranks among the processes that have started since this agent."""
        for pid in () if not self.folders else _processes() - self.before:
            rank = _rank_of(pid, self.folders[0])
            if rank is None or self.ranks.get(rank, (0,))[0] == pid:
                continue
            with contextlib.suppress(ProcessLookupError):
                fd = os.pidfd_open(pid)
                self.ranks[rank] = pid, fd
                self.living[fd] = rank
                self.kills.watch(rank, pid)
                self.say("rank", rank, pid)

    def tell_files(self) -> None:
        """Pass on the files that ranks have written. A file that was incomplete is passed on again."""
        for entry in os.scandir(self.folders[0]) if self.folders else ():
            with contextlib.suppress(OSError):
                about = entry.stat()
                seen = about.st_size, about.st_mtime_ns
                if "." in entry.name and entry.is_file() and self.told.get(entry.name) != seen:
                    self.told[entry.name] = seen
                    self.say("file", entry.name, Path(entry.path).read_text(errors="replace"))

    def kill(self) -> None:
        self.search()
        for fd in self.living:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)

    def clear(self) -> None:
        """End the job's processes here, MPI's daemon among them, and remove its folders."""
        if not self.folders:
            return
        self.kill()
        deadline = time.monotonic() + 2
        daemons = {pid for pid in _processes() - self.before if _is_daemon(pid, self.folders[0])}
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in daemons:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            while any(map(is_running, daemons)) and time.monotonic() < deadline:
                time.sleep(0.02)
            deadline += 1
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)
        for fd in (*self.pipes, *(fd for _, fd in self.ranks.values())):
            os.close(fd)
        self.folders, self.ranks, self.living, self.told, self.pipes, self.is_ending = [], {}, {}, {}, {}, False

    def close(self) -> None:
        self.clear()
        for path in Path("/dev/shm").glob(f"{self.state}*"):
            remove_segment(path)


def _processes() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def _rank_of(pid: int, folder: Path) -> int | None:
    """Return the rank of a process in the job of that folder; None for any other process."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    if f"TRIREME_JOB_FOLDER={folder}".encode() not in entries:
        return None
    ranks = [entry.partition(b"=")[2] for entry in entries if entry.startswith(b"OMPI_COMM_WORLD_RANK=")]
    return int(ranks[0]) if ranks and not _is_child_of_rank(pid, ranks[0]) else None


def _is_child_of_rank(pid: int, rank: bytes) -> bool:
    """Return whether the process is a rank itself: a rank's children inherit its variables."""
    try:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return b"OMPI_COMM_WORLD_RANK=" + rank in Path(f"/proc/{parent}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _is_daemon(pid: int, folder: Path) -> bool:
    """Return whether the process is prted or orted of this job. The daemon got the folder on its command line."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return Path(os.fsdecode(words[0])).name in ("prted", "orted") and os.fsencode(folder) in b" ".join(words)


def is_running(pid: int) -> bool:
    """Return whether the process runs. A zombie does not; in a container often no process reaps zombies."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def main() -> int:
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2):
        # a scheduler may send these signals to all processes; this agent ends with the launcher
        signal.signal(number, signal.SIG_IGN)
    agent = Agent(sys.argv[1])
    try:
        agent.live()
    except BrokenPipeError:
        pass
    finally:
        agent.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
