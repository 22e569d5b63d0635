"""Files of batches that ``layers.open_files`` reads.

>>> import tempfile, os
>>> path = os.path.join(tempfile.mkdtemp(), "numbers.recordio")
>>> x = fluid.layers.data("x", [2])
>>> feeder = fluid.DataFeeder(feed_list=[x], place=fluid.CPUPlace())
>>> reader = fluid.batch(lambda: iter([([1, 2],), ([3, 4],), ([5, 6],)]), batch_size=2)
>>> fluid.recordio_writer.convert_reader_to_recordio_file(path, reader, feeder)
2
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..native.errors import check_whole
from ..native.files import new_file
from ..reader.recordio import Writer
from .data_feeder import DataFeeder


def _converted(reader_creator: Callable[[], Iterable[Any]], feeder: DataFeeder, feed_order: Sequence[str] | None) -> Iterable[list[Any]]:
    names = list(feed_order) if feed_order is not None else [var.name for var in feeder.vars]
    unknown = set(names) - {var.name for var in feeder.vars}
    if unknown:
        raise ValueError(f"recordio_writer: feed_order has {sorted(unknown)}, the feeder has {[var.name for var in feeder.vars]}")
    for batch in reader_creator():
        feed = feeder.feed(batch)
        yield [feed[name] for name in names]


def convert_reader_to_recordio_file(filename: str, reader_creator: Callable[[], Iterable[Any]], feeder: DataFeeder, compressor: Any = None,
                                    max_num_records: int = 1000, feed_order: Sequence[str] | None = None) -> int:
    """Write every batch of a reader as a record, and return how many there are.

    ``max_num_records`` is the most that a chunk of the file has. ``feed_order`` are the names of the variables in the order of the file.
    Nothing is compressed, whatever ``compressor`` is. The file appears when it is complete.

    ``reader_creator`` is a function that returns an iterable of batches (lists of samples); ``feeder`` is the DataFeeder that makes arrays
    of them.

    >>> feeder = fluid.DataFeeder(feed_list=[fluid.layers.data("x", [2])], place=fluid.CPUPlace())
    >>> batches = fluid.batch(lambda: iter([([1, 2],), ([3, 4],), ([5, 6],)]), batch_size=2)
    >>> fluid.recordio_writer.convert_reader_to_recordio_file("x.recordio", batches, feeder)
    2
    """
    max_num_records = check_whole("convert_reader_to_recordio_file: max_num_records", max_num_records, 1)
    with new_file(filename) as out:
        writer = Writer(out, max_num_records)
        for tensors in _converted(reader_creator, feeder, feed_order):
            writer.write(tensors)
        writer.flush()
    return writer.written


def convert_reader_to_recordio_files(filename: str, batch_per_file: int, reader_creator: Callable[[], Iterable[Any]], feeder: DataFeeder,
                                     compressor: Any = None, max_num_records: int = 1000,
                                     feed_order: Sequence[str] | None = None) -> list[int]:
    """The same in several files of ``batch_per_file`` batches: ``x.recordio`` becomes ``x-00000.recordio``, ... Return the batches of each.

    ``reader_creator``, ``feeder``, ``compressor``, ``max_num_records`` and ``feed_order`` are those of ``convert_reader_to_recordio_file``.

    >>> feeder = fluid.DataFeeder(feed_list=[fluid.layers.data("x", [2])], place=fluid.CPUPlace())
    >>> batches = fluid.batch(lambda: iter([([1, 2],), ([3, 4],), ([5, 6],)]), batch_size=1)
    >>> fluid.recordio_writer.convert_reader_to_recordio_files("x.recordio", 2, batches, feeder)
    [2, 1]
    >>> import os
    >>> sorted(os.listdir("."))
    ['x-00000.recordio', 'x-00001.recordio']
    """
    batch_per_file = check_whole("convert_reader_to_recordio_files: batch_per_file", batch_per_file, 1)
    max_num_records = check_whole("convert_reader_to_recordio_files: max_num_records", max_num_records, 1)
    stem, extension = os.path.splitext(filename)
    if extension != ".recordio":
        raise ValueError(f"convert_reader_to_recordio_files: filename={filename!r}; a name that ends with '.recordio' is wanted")
    batches = iter(_converted(reader_creator, feeder, feed_order))
    counts: list[int] = []
    first = next(batches, None)
    while first is not None:
        with new_file(f"{stem}-{len(counts):05d}{extension}") as out:
            writer = Writer(out, max_num_records)
            writer.write(first)
            while writer.written < batch_per_file and (tensors := next(batches, None)) is not None:
                writer.write(tensors)
            writer.flush()
        counts.append(writer.written)
        first = next(batches, None)
    return counts


__all__ = ["convert_reader_to_recordio_file", "convert_reader_to_recordio_files"]
