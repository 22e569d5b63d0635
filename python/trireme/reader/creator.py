"""Readers of arrays and files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .decorator import Reader


def np_array(x: Any) -> Reader:
    """Return a reader of the rows of an array.

    >>> [row.tolist() for row in fluid.reader.creator.np_array(np.array([[1, 2], [3, 4]]))()]
    [[1, 2], [3, 4]]
    """
    return lambda: iter(x)


def text_file(path: str) -> Reader:
    """Return a reader of the lines of a text file, without their ends."""
    def lines() -> Iterator[str]:
        with open(path) as file:
            for line in file:
                yield line.rstrip("\n")

    return lines


def recordio(paths: Sequence[str] | str, buf_size: int = 100) -> Reader:
    """Return a reader of the records of files of ``fluid.recordio_writer``, one after the other: lists of arrays. ``buf_size`` are read ahead.

    ``paths`` is one path, or a list of them.
    """
    from ..recordio import read_all
    from .decorator import buffered

    files = paths.split(",") if isinstance(paths, str) else list(paths)
    return buffered(lambda: read_all(files), buf_size)


__all__ = ["np_array", "text_file", "recordio"]
