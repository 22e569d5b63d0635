"""All output of a job passes here: rows of the ranks and of the launcher, to two files, mostly descriptors 1 and 2.

One thread reads the pipes of the ranks and writes to the files, a whole row at a time. The launcher's other work never waits for a
reader of the output, because it hands its rows to this thread. When a file takes no more, this thread does not read the ranks' pipes.
Then ranks that print wait, like any program whose output is not read.

What must stay true: only this thread writes. It writes to a file only as much as the file takes, so it never waits either.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import queue
import select
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from . import pipes

_ERASE = b"\r\x1b[K"
_FULL = 1 << 18                        # bytes that wait to be written to one file: no more is read for it
_PIECE = 4096                          # PIPE_BUF: a pipe that is ready takes as much without a wait
_HALF, _LONG = 1.0, 1 << 20            # a row without an end is shown after so many seconds, or bytes
_TO_COUNT = 1.0                        # seconds to read output that is not taken any more
LAUNCHER = "launcher"                  # the source of its own rows


class Target:
    """A file with its waiting output. A terminal may have a progress line at its bottom, below all rows."""

    def __init__(self, fd: int, name: str) -> None:
        self.fd, self.name = fd, name
        self.bottom: bytes | None = None               # None: there is no such line here
        self.missed = 0                                # rows of ranks that could not be written
        self.why: str | None = None                    # could they not
        self.is_dead = False                           # nothing can be written any more
        self.has_reader = True                         # False: a pipe whose reader is gone
        self.is_wanted = True                          # False: a terminal that the job outlives, as SIGHUP was ignored
        self._waiting: deque[tuple[bytes, int]] = deque()      # the waiting output, and the ranks' rows in it
        self._size = 0
        self._open: object = None                      # the source of the row that has no end yet
        self._piece = _piece_of(fd)

    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def is_full(self) -> bool:
        return self._size >= _FULL

    def put(self, source: object, text: bytes, prefix: bytes = b"") -> None:
        """Add rows of a source; the last one may go on in the next call."""
        before, is_open = self._open, not text.endswith(b"\n")
        rows = text.count(b"\n") + is_open
        if before is None:
            begin = _ERASE if self.bottom is not None else b""
        else:
            begin = b"" if before == source else b"\n"
        if prefix:
            text = text.replace(b"\n", b"\n" + prefix, rows - 1)
            text = text if before == source else prefix + text
        self._open = source if is_open else None
        end = b"" if is_open else self.bottom or b""
        self._add(begin + text + end, 0 if source == LAUNCHER else rows)

    def show(self, line: bytes) -> None:
        """Change the line at the bottom. A row that a rank has begun is left alone."""
        if self.bottom is None:
            return
        self.bottom = line
        if self._open is None:
            self._add(_ERASE + line, 0)

    def _add(self, text: bytes, rows: int) -> None:
        if self.is_dead:
            self.missed += rows * self.is_wanted
        elif text:
            self._waiting.append((text, rows))
            self._size += len(text)

    def write(self) -> None:
        """Write as much as the file takes now."""
        text, rows = self._waiting[0]
        try:
            done = os.write(self.fd, text[:self._piece])
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error)
            return
        self._size -= done
        if done < len(text):
            self._waiting[0] = text[done:], rows
        else:
            self._waiting.popleft()

    def _fail(self, error: OSError) -> None:
        """Drop the waiting output. A disk may have room again later; a reader that is gone never comes back."""
        self.has_reader = error.errno != errno.EPIPE
        self.is_wanted = not (error.errno == errno.EIO and stat.S_ISCHR(os.fstat(self.fd).st_mode))
        self.give_up(error.strerror or str(error), is_dead=not (self.has_reader and self.is_wanted))

    def give_up(self, why: str, is_dead: bool = True) -> None:
        self.why, self.is_dead = why, self.is_dead or is_dead
        self.missed += sum(rows for _, rows in self._waiting) * self.is_wanted
        self._waiting.clear()
        self._size, self._open = 0, None


def _piece_of(fd: int) -> int:
    try:
        return 1 << 20 if stat.S_ISREG(os.fstat(fd).st_mode) else _PIECE
    except OSError:
        return _PIECE                                  # it is closed: the next write fails and tells so


@dataclass(eq=False)
class Source:
    """A source of output for one of the files, mostly a rank. A row waits here until it is complete."""

    target: Target
    prefix: bytes = b""
    half: bytes = b""
    since: float = math.inf            # when the row without an end began
    has_printed: bool = False

    def take(self, text: bytes, now: float) -> None:
        self.has_printed = self.has_printed or bool(text)
        whole, end, self.half = (self.half + text).rpartition(b"\n")
        if end:
            self.target.put(self, whole + end, self.prefix)
        self.since = math.inf if not self.half else now if end or self.since == math.inf else self.since
        if len(self.half) > _LONG:
            self.end()

    def end(self) -> None:
        """Pass on a row that has no end yet."""
        if self.half:
            self.target.put(self, self.half, self.prefix)
        self.half, self.since = b"", math.inf


class LogMultiplexer:
    """``fds``: the files that stand for descriptors 1 and 2. ``is_live``: they are a terminal, with a line at its bottom."""

    def __init__(self, fds: Mapping[int, int], is_live: bool = False) -> None:
        out = Target(fds[1], "stdout")
        self.targets = {1: out, 2: out if _are_same(fds[1], fds[2]) else Target(fds[2], "stderr")}
        if is_live:
            self.targets[2].bottom = b""
        self._pipes: dict[int, Source] = {}
        self._fed: deque[tuple[Source, bytes, Callable[[int], None]]] = deque()
        self._sources: set[Source] = set()             # sources with a row that has no end yet
        self._tasks: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._drained = threading.Event()
        self._is_draining = self._ends = False
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    # -- for other threads -----------------------------------------------------------------------------------------

    def put(self, number: int, text: bytes) -> None:
        """Print rows of the launcher's own to the file ``number``."""
        self._do(lambda: self.targets[number].put(LAUNCHER, text))

    def show(self, line: bytes) -> None:
        self._do(lambda: self.targets[2].show(line))

    def source(self, number: int, prefix: bytes = b"") -> Source:
        return Source(self.targets[number], prefix)

    def read_from(self, fd: int, source: Source) -> None:
        """Read a pipe from now on, until ``forget``."""
        self._do(lambda: self._pipes.update({fd: source}))

    def feed(self, source: Source, text: bytes, taken: Callable[[int], None]) -> None:
        """Take output of a source that is read elsewhere. ``taken`` is called with its length when there is room for more."""
        self._do(lambda: self._fed.append((source, text, taken)))

    def has_reader(self) -> bool:
        return all(target.has_reader for target in self.targets.values())

    def lost(self) -> list[str]:
        """Return, for each file that missed rows, their number and the reason."""
        if not self._thread.is_alive():
            return ["the output could not be written: its thread has ended"]
        return [f"{target.missed} line{'s' * (target.missed != 1)} of {target.name} could not be written: {target.why}"
                for target in dict.fromkeys(self.targets.values()) if target.missed]

    def drain(self, seconds: float, is_hurried: Callable[[], bool] = lambda: False) -> None:
        """Wait until all output is written, at most so many seconds, and less when there is no time."""
        deadline = time.monotonic() + seconds
        while not self._wait_drained(0.02) and self._thread.is_alive() and time.monotonic() < deadline and not is_hurried():
            continue
        if not self._wait_drained(0.2):
            why = f"nobody has read it for {seconds:g} s" if not is_hurried() else "nobody read it"
            self._do(lambda: self._give_up(why))
            self._wait_drained(_TO_COUNT)

    def _give_up(self, why: str) -> None:
        for target in self.targets.values():
            if target.is_waiting() or target.is_full():
                target.give_up(why)

    def forget(self) -> None:
        """Close the pipes."""
        done = threading.Event()
        self._do(self._close_pipes)
        self._do(done.set)
        done.wait(_TO_COUNT)

    def close(self) -> None:
        self._do(self._end)
        self._thread.join(_TO_COUNT)
        os.close(self._wake)

    def _wait_drained(self, seconds: float) -> bool:
        self._drained.clear()
        self._do(self._begin_draining)
        return self._drained.wait(seconds)

    def _do(self, task: Callable[[], object]) -> None:
        self._tasks.put(task)
        os.eventfd_write(self._wake, 1)

    # -- its own thread ----------------------------------------------------------------------------------------------

    def _begin_draining(self) -> None:
        self._is_draining = True

    def _end(self) -> None:
        self._ends = True

    def _close_pipes(self) -> None:
        for fd in self._pipes:
            os.close(fd)
        self._pipes.clear()

    def _run(self) -> None:
        while not self._ends:
            self._turn()
        self._close_pipes()

    def _turn(self) -> None:
        targets = dict.fromkeys(self.targets.values())
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        for target in targets:
            if target.is_waiting():
                poll.register(target.fd, select.POLLOUT)
        for fd, source in self._pipes.items():
            if not source.target.is_full():
                poll.register(fd, select.POLLIN)
        events = {fd for fd, _ in poll.poll(self._patience())}
        now = time.monotonic()
        if self._wake in events:
            self._do_tasks()
        for fd in events & self._pipes.keys():
            text = pipes.read(fd)
            if text is not None:
                self._take(self._pipes[fd], text, now)
            if text == b"":
                os.close(fd)
                del self._pipes[fd]
        for target in targets:
            if target.fd in events and target.is_waiting():
                target.write()
        is_idle = not self._take_fed(now) and not events
        for source in [one for one in self._sources if is_idle or now - one.since > _HALF]:
            source.end()
            self._sources.discard(source)
        if is_idle and self._is_draining and not any(target.is_waiting() for target in targets):
            self._is_draining = False
            self._drained.set()

    def _patience(self) -> float | None:
        """Return the milliseconds until the thread has work even if no event comes."""
        if self._is_draining and not any(target.is_waiting() for target in self.targets.values()):
            return 0
        if self._sources:
            return max(0.0, 1000 * (min(one.since for one in self._sources) + _HALF - time.monotonic())) + 1
        return None

    def _do_tasks(self) -> None:
        os.eventfd_read(self._wake)
        with contextlib.suppress(queue.Empty):
            while True:
                self._tasks.get_nowait()()

    def _take_fed(self, now: float) -> bool:
        """Take the output of sources that are read elsewhere, as far as there is room. Return whether there was any."""
        waiting, self._fed = self._fed, deque()
        for source, text, taken in waiting:
            if source.target.is_full():
                self._fed.append((source, text, taken))
            else:
                self._take(source, text, now)
                taken(len(text))
        return bool(waiting)

    def _take(self, source: Source, text: bytes, now: float) -> None:
        source.take(text, now)
        (self._sources.add if source.half else self._sources.discard)(source)


def _are_same(a: int, b: int) -> bool:
    try:
        return os.path.samestat(os.fstat(a), os.fstat(b))
    except OSError:
        return False
