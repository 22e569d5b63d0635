"""Readers whose samples come from other processes, and one that repeats a sample."""

from __future__ import annotations

import errno
import gzip
import itertools
import multiprocessing
import os
import queue as queues
import shlex
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection
from typing import Any

from ..native.errors import FileError
from ..native.shell_command import Command
from .ahead import owned

Reader = Callable[[], Iterator[Any]]

_SAMPLE, _END, _FAILURE = range(3)


def _read_into(queue: Any, reader: Reader) -> None:
    """In a process of its own: put what a reader yields, then how it ended."""
    try:
        for sample in reader():
            queue.put((_SAMPLE, owned(sample)))      # another thread pickles it, later
        queue.put((_END, None))
    except Exception as error:
        queue.put((_FAILURE, f"{type(error).__name__}: {error}"))


def _received(queue: Any, workers: Sequence[Any]) -> Iterator[Any]:
    running = len(workers)
    while running:
        try:
            kind, value = queue.get(timeout=1.0)
        except queues.Empty:
            ended = connection.wait([worker.sentinel for worker in workers], 0)
            if len(ended) > len(workers) - running:    # more processes than readers; the kernel need not tell us how they ended
                codes = [worker.exitcode for worker in workers]
                code = next(filter(None, codes), 0 if 0 in codes else None)
                how = f"ended with exit code {code}" if code is not None else "ended"
                raise RuntimeError(f"multiprocess_reader: a process {how} before its reader was done") from None
            continue
        if kind == _FAILURE:
            raise RuntimeError(f"multiprocess_reader: a reader failed with {value}")
        if kind == _SAMPLE:
            yield value
        running -= kind == _END


def multiprocess_reader(readers: Sequence[Reader], use_pipe: bool = True, queue_size: int = 1000) -> Reader:
    """Return a reader of the samples of several readers, each of which runs in a process of its own.

    Samples come in the order in which they arrive. At most ``queue_size`` of them wait. Samples must be objects that ``pickle`` can copy.
    ``use_pipe`` makes no difference here: samples travel through a pipe in any case. A reader that fails ends the iteration with a
    RuntimeError.

    >>> sorted(fluid.reader.multiprocess_reader([lambda: iter([1, 2]), lambda: iter([3])])())
    [1, 2, 3]
    """
    if not isinstance(readers, (list, tuple)) or not readers or not all(map(callable, readers)):
        raise TypeError(f"multiprocess_reader: readers must be a list of readers, got {readers!r}")

    def read() -> Iterator[Any]:
        context = multiprocessing.get_context("fork")
        queue = context.Queue(queue_size)
        workers = [context.Process(target=_read_into, args=(queue, reader), daemon=True) for reader in readers]
        try:
            for worker in workers:
                worker.start()
            yield from _received(queue, workers)
        finally:
            for worker in workers:
                if worker.pid is not None:
                    worker.kill()                      # the script may have a handler of SIGTERM, which a fork copies
                    worker.join()

    return read


class PipeReader:
    """The output of a command, such as ``hadoop fs -cat path``, read piece by piece.

    ``bufsize`` is the size of a piece in bytes. ``file_type`` is ``"plain"`` or ``"gzip"``.

    >>> list(fluid.reader.PipeReader("seq 2").get_line())
    ['1', '2']
    """

    def __init__(self, command: str, bufsize: int = 8192, file_type: str = "plain") -> None:
        if not isinstance(command, str) or not command.strip():
            raise TypeError(f"PipeReader: command must be a string with a command, got {command!r}")
        if file_type not in ("plain", "gzip"):
            raise ValueError(f"PipeReader: file_type must be 'plain' or 'gzip', got {file_type!r}")
        self.command, self.bufsize, self.file_type = command, bufsize, file_type
        words = shlex.split(command)
        if shutil.which(words[0]) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), words[0])
        self._running = Command("exec " + shlex.join(words), bufsize if bufsize > 1 else -1)

    def _pieces(self) -> Iterator[bytes]:
        with self._running.output as out:
            unpacked = gzip.GzipFile(fileobj=out) if self.file_type == "gzip" else out
            try:
                while piece := unpacked.read(self.bufsize):
                    yield piece
            except (EOFError, OSError, zlib.error) as error:
                raise RuntimeError(f"PipeReader: the output of {self.command!r} cannot be unpacked: {error}") from None
        try:
            self._running.end()
        except FileError as error:
            raise RuntimeError(f"PipeReader: {error}") from None

    def get_line(self, cut_lines: bool = True, line_break: str = "\n") -> Iterator[str]:
        """Yield the lines without their ``line_break``; with ``cut_lines`` False the pieces as they come."""
        end, rest = line_break.encode(), b""
        for piece in self._pieces():
            *lines, rest = (rest + piece).split(end) if cut_lines else (piece, b"")
            yield from (line.decode() for line in lines)
        if rest:
            yield rest.decode()


class Fake:
    """Makes readers that repeat a reader's first sample, to measure how fast a training is without its data.

    >>> list(fluid.reader.Fake()(lambda: iter([7, 8]), 3)())
    [7, 7, 7]
    """

    def __call__(self, reader: Reader, data_num: int) -> Reader:
        """Return a reader of ``data_num`` times the first sample of ``reader``, which is read once."""
        first: list[Any] = []

        def repeated() -> Iterator[Any]:
            if not first:
                first.append(next(iter(reader())))
            return itertools.repeat(first[0], data_num)

        return repeated


__all__ = ["Fake", "multiprocess_reader", "PipeReader"]
