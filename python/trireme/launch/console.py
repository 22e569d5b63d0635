"""The launcher's own output, among the output of its ranks. On a terminal the line at the bottom is rewritten in place."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from . import pipes
from .log_multiplexer import LogMultiplexer, Source

_TO_DELIVER = 600.0                    # seconds without a reader of the output, until the rest is given up


class Console:
    """``is_live``: the output is a terminal, with a progress line at its bottom. ``tags``: each row of a rank begins with the rank's
    name.
    """

    def __init__(self, is_live: bool = False, tags: bool = False) -> None:
        self.is_live, self.tags = is_live, tags
        self._multiplexer: LogMultiplexer | None = None
        self._sources: dict[tuple[int, int], Source] = {}

    @staticmethod
    def is_terminal() -> bool:
        return os.isatty(1) and os.isatty(2)

    @contextlib.contextmanager
    def opened(self, out: int = 1) -> Iterator[None]:
        """Print the ranks' output while this context lasts. Their standard output goes to the file ``out``."""
        self._multiplexer = LogMultiplexer({1: out, 2: 2}, self.is_live)
        try:
            yield
        finally:
            self._multiplexer.show(b"")
            self._multiplexer.drain(_TO_DELIVER, lambda: True)
            self._multiplexer.close()
            self._multiplexer = None

    # -- the launcher's own rows -----------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self.tell(f"trireme launch: {text}")

    def tell(self, text: str) -> None:
        if self._multiplexer:
            self._multiplexer.put(2, f"{text}\n".encode(errors="replace"))
        else:
            with contextlib.suppress(OSError):         # the output has no reader; the job goes on
                print(text, file=sys.stderr, flush=True)

    def show(self, text: str) -> None:
        """Show the job's progress. On a terminal it replaces the last progress line; otherwise it is a line of its own."""
        if self.is_live and self._multiplexer:
            width = shutil.get_terminal_size().columns
            self._multiplexer.show(text.encode(errors="replace")[:max(0, width - 1)])
        else:
            self.say(text)

    # -- what others print -------------------------------------------------------------------------------------------

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program whose output appears here."""
        assert self._multiplexer
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        for number, stream in ((1, process.stdout), (2, process.stderr)):
            assert stream
            fd = os.dup(stream.fileno())
            os.set_blocking(fd, False)
            self._multiplexer.read_from(fd, self._multiplexer.source(number))
            stream.close()
        return process

    def gather(self, folder: Path, ranks: Iterable[int]) -> None:
        """Make the pipes of the ranks that will start on this host, and read them. Earlier ranks are forgotten."""
        assert self._multiplexer
        self._sources.clear()
        for fd, (rank, number) in pipes.make(folder, ranks).items():
            self._multiplexer.read_from(fd, self._source(rank, number))

    def feed(self, rank: int, number: int, text: bytes, taken: Callable[[int], None]) -> None:
        """Take output of a rank on another host. ``taken`` is called with its length when there is room for more."""
        assert self._multiplexer
        self._multiplexer.feed(self._source(rank, number), text, taken)

    def _source(self, rank: int, number: int) -> Source:
        assert self._multiplexer
        if (rank, number) not in self._sources:
            prefix = f"[1,{rank}]<{pipes.NAMES[number]}>: ".encode() if self.tags else b""
            self._sources[rank, number] = self._multiplexer.source(number, prefix)
        return self._sources[rank, number]

    def finish(self, is_hurried: Callable[[], bool]) -> None:
        """Call it when all ranks have ended: write the rest of their output, and close their pipes. Without a reader this takes long,
        unless ``is_hurried``.
        """
        assert self._multiplexer
        self._multiplexer.show(b"")
        self._multiplexer.drain(_TO_DELIVER, is_hurried)
        self._multiplexer.forget()

    def has_complained(self, rank: int) -> bool:
        """Return whether a rank has written to its standard error. The answer is valid after ``finish``."""
        source = self._sources.get((rank, 2))
        return source is not None and source.has_printed

    def has_reader(self) -> bool:
        """Return whether the output still has a reader, as far as a write has shown."""
        return self._multiplexer is None or self._multiplexer.has_reader()

    def lost(self) -> list[str]:
        """Return a message about rows that could not be written."""
        return self._multiplexer.lost() if self._multiplexer else []
