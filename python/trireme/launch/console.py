"""What the launcher prints, among what its ranks print.

On a terminal a line at the bottom is rewritten in place. So that nothing runs into it, what ranks print comes through here
then; elsewhere they write where the launcher does.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO, Any

_ERASE = b"\r\x1b[K"
_TO_END = 1.0                          # seconds for the last words of ranks that have ended


class Console:
    """``is_live``: there is a terminal, and a line at its bottom."""

    def __init__(self, is_live: bool = False) -> None:
        self.is_live = is_live
        self._line = b""
        self._is_fresh = True                          # the cursor is at the beginning of a row
        self._lock = threading.Lock()
        self._pumps: list[threading.Thread] = []

    @staticmethod
    def is_terminal() -> bool:
        return os.isatty(1) and os.isatty(2)

    def is_read(self) -> bool:
        """Whether there is somebody at the other end, where our output goes into pipes. On a terminal it comes through here."""
        poll = select.poll()
        for target in (1, 2):
            poll.register(target, 0)
        return self.is_live or not any(events & select.POLLERR for _, events in poll.poll(0))

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self.tell(f"trireme launch: {text}")

    def tell(self, text: str) -> None:
        if self.is_live:
            self._write(2, f"{text}\n".encode(errors="replace"))
        else:
            with contextlib.suppress(OSError):         # nobody reads it; the job goes on
                print(text, file=sys.stderr, flush=True)

    def show(self, text: str) -> None:
        """Show how far the job is: in place of what was shown before, or as a line of its own."""
        if not self.is_live:
            self.say(text)
            return
        with self._lock:
            width = shutil.get_terminal_size().columns
            self._line = text.encode(errors="replace")[:max(0, width - 1)]
            self._draw()

    def start(self, command: Sequence[str], *, stdout: IO[bytes] | None, **options: Any) -> subprocess.Popen[bytes]:
        """Start a program whose output appears here."""
        if not self.is_live or stdout is not None:
            return subprocess.Popen(command, stdout=stdout, **options)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        for source, target in ((process.stdout, 1), (process.stderr, 2)):
            assert source
            self._pumps.append(threading.Thread(target=self._pump, args=(source, target), daemon=True))
            self._pumps[-1].start()
        return process

    def finish(self) -> None:
        """The program has ended: let its last words appear, take the line away."""
        for pump in self._pumps:
            pump.join(_TO_END)
        self._pumps.clear()
        if self.is_live:
            with self._lock:
                self._line = b""
                self._draw()

    def _pump(self, source: IO[bytes], target: int) -> None:
        while data := os.read(source.fileno(), 1 << 16):
            self._write(target, data)
        source.close()

    def _write(self, target: int, data: bytes) -> None:
        with self._lock:
            if self._is_fresh:
                _write_all(2, _ERASE)
            _write_all(target, data)
            self._is_fresh = data.endswith(b"\n")
            self._draw(erase=False)

    def _draw(self, erase: bool = True) -> None:
        """A row that a rank has begun to write is left alone."""
        if self._is_fresh:
            _write_all(2, (_ERASE if erase else b"") + self._line)


def _write_all(target: int, data: bytes) -> None:
    """Where nobody reads any more (the terminal is gone) it is lost: ranks must not wait for one who empties their pipes."""
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(target, data):]


__all__ = ["Console"]
