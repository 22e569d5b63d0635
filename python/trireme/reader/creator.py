"""Readers of arrays and files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from ..native.checks import path_text
from .decorator import Reader


def np_array(x: Any) -> Reader:
    """Return a reader of the rows of an array.

    >>> [row.tolist() for row in fluid.reader.creator.np_array(np.array([[1, 2], [3, 4]]))()]
    [[1, 2], [3, 4]]
    """
    return lambda: iter(x)


def text_file(path: str) -> Reader:
    """Return a reader of the lines of a text file, without their ends.

    ``path`` is the file's; it is opened when the reader is called.

    >>> with open("words.txt", "w") as file:
    ...     _ = file.write("left\\nright\\n")
    >>> list(fluid.reader.creator.text_file("words.txt")())
    ['left', 'right']
    """
    def lines() -> Iterator[str]:
        with open(path) as file:
            for line in file:
                yield line.rstrip("\n")

    return lines


def recordio(paths: Sequence[str] | str, buf_size: int = 100) -> Reader:
    """Return a reader of the records of files of ``fluid.recordio_writer``, one after the other: lists of arrays. ``buf_size`` are read
    ahead.

    ``paths`` is one path, or a list of them.

    >>> feeder = fluid.DataFeeder(feed_list=[fluid.layers.data("x", [1])], place=fluid.CPUPlace())
    >>> batches = fluid.batch(lambda: iter([(1.0,), (2.0,), (3.0,)]), batch_size=2)
    >>> fluid.recordio_writer.convert_reader_to_recordio_file("x.recordio", batches, feeder)
    2
    >>> [np.array(record[0]).tolist() for record in fluid.reader.creator.recordio("x.recordio")()]
    [[[1.0], [2.0]], [[3.0]]]
    """
    from .decorator import buffered
    from .recordio import read_all

    files = path_text(paths).split(",") if isinstance(paths, (str, os.PathLike)) else list(paths)
    return buffered(lambda: read_all(files), buf_size)


__all__ = ["np_array", "text_file", "recordio"]
