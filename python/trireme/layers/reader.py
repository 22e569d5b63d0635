"""Readers as part of a program: what they read is fed to every run by a thread of their own. See ``fluid.io.PyReader``."""

from __future__ import annotations

import itertools
import numbers
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..native import unique_name
from ..native.checks import plain
from ..native.errors import InvalidArgumentError, check_whole
from ..native.tensor import CPUPlace
from ..program import Variable, default_main_program

if TYPE_CHECKING:
    from ..feeding.py_reader import PyReader

_Records = Callable[[], Iterator[list[Any]]]


def _slots(what: str, name: str | None, shapes: Sequence[Sequence[int]], dtypes: Sequence[Any],
           lod_levels: Sequence[int] | None) -> list[Variable]:
    """Declare the variables that a reader feeds."""
    lod_levels = [0] * len(shapes) if lod_levels is None else list(lod_levels)
    if not shapes or not len(shapes) == len(dtypes) == len(lod_levels):
        raise InvalidArgumentError(f"{what}: {len(shapes)} shapes, {len(dtypes)} dtypes and {len(lod_levels)} lod_levels; give one of each "
                                   "for every variable, and at least one")
    name = name or unique_name.generate(what)
    block = default_main_program().global_block()
    return [block.create_var(name=f"{name}_slot_{i}", shape=list(shape), dtype=dtype, lod_level=level, stop_gradient=True, is_data=True)
            for i, (shape, dtype, level) in enumerate(zip(shapes, dtypes, lod_levels))]


def _py_reader(*args: Any, **options: Any) -> PyReader:
    from ..feeding.py_reader import PyReader  # few scripts use it, and it loads a tenth of the package

    return PyReader(*args, **options)


def py_reader(capacity: int, shapes: Sequence[Sequence[int]], dtypes: Sequence[Any], lod_levels: Sequence[int] | None = None,
              name: str | None = None, use_double_buffer: bool = True) -> PyReader:
    """Return a reader of batches that the script makes; ``read_file`` gives its variables.

    ``shapes`` have the batch dimension, -1, first. Give it a generator by ``decorate_paddle_reader`` (lists of samples) or
    ``decorate_tensor_provider`` (lists of arrays); ``start()`` begins a pass, ``fluid.core.EOFException`` ends it, ``reset()`` makes ready
    for the next.

    ``capacity`` batches are ready ahead, at most. ``dtypes`` has a type for each variable.

    >>> reader = fluid.layers.py_reader(capacity=8, shapes=[[-1, 2], [-1, 1]], dtypes=["float32", "int64"])
    >>> x, label = fluid.layers.read_file(reader)
    >>> reader.decorate_tensor_provider(lambda: iter([[np.ones((3, 2), "float32"), np.zeros((3, 1), "int64")]]))
    >>> reader.start()
    >>> fluid.Executor(fluid.CPUPlace()).run(fetch_list=[fluid.layers.reduce_sum(x)])
    [array([6.], dtype=float32)]
    """
    return _py_reader(_slots("py_reader", name, shapes, dtypes, lod_levels), capacity, use_double_buffer, name=name)


def create_py_reader_by_data(capacity: int, feed_list: Sequence[Variable], name: str | None = None,
                             use_double_buffer: bool = True) -> PyReader:
    """Return a reader, as ``py_reader``, that feeds variables of ``layers.data``.

    ``feed_list`` has the variables. ``capacity`` batches are ready ahead, at most.

    >>> x = fluid.layers.data("x", [2])
    >>> reader = fluid.layers.create_py_reader_by_data(capacity=4, feed_list=[x])
    >>> reader.decorate_tensor_provider(lambda: iter([[np.ones((3, 2), "float32")]]))
    >>> reader.start()
    >>> fluid.Executor().run(fetch_list=[fluid.layers.reduce_sum(x)])
    [array([6.], dtype=float32)]
    """
    return _py_reader(feed_list, capacity, use_double_buffer, name=name)


def read_file(reader: PyReader) -> Any:
    """Return the variables of a reader: a list, or the variable where there is one. Each run of this program takes a batch.

    ``reader`` is what ``py_reader``, ``open_files`` and their kind return; anything else is a TypeError.

    >>> reader = fluid.layers.random_data_generator(0.0, 1.0, shapes=[[4, 2], [4, 1]])
    >>> x, y = fluid.layers.read_file(reader)
    >>> [value.shape for value in fluid.Executor().run(fetch_list=[x, y])]
    [(4, 2), (4, 1)]
    """
    _check(reader, "read_file")
    reader.attach(default_main_program())
    return reader.vars[0] if len(reader.vars) == 1 else list(reader.vars)


def double_buffer(reader: PyReader, place: CPUPlace | None = None, name: str | None = None) -> PyReader:
    """Return the reader itself: its thread prepares batches ahead in any case.

    >>> reader = fluid.layers.random_data_generator(0.0, 1.0, shapes=[[4, 2]])
    >>> fluid.layers.double_buffer(reader) is reader
    True
    """
    _check(reader, "double_buffer")
    return reader


def _check(reader: Any, what: str) -> None:
    from ..feeding.py_reader import PyReader

    if not isinstance(reader, PyReader):
        raise TypeError(f"{what}: a reader of py_reader, create_py_reader_by_data, open_files or random_data_generator is wanted, got "
                        f"{reader!r}")


# -- readers that need no generator of the script ---------------------------------------------------------------


def _self_starting(what: str, vars: Sequence[Variable], records: _Records, capacity: int) -> PyReader:
    reader = _py_reader(vars, capacity, name=unique_name.generate(what))
    reader.decorate_batch_generator(records)
    reader._starts_itself = True
    return reader


def random_data_generator(low: float, high: float, shapes: Sequence[Sequence[int]], lod_levels: Sequence[int] | None = None,
                          for_parallel: bool = True) -> PyReader:
    """Return a reader of endless float32 batches with elements from [``low``, ``high``): for measuring without data. The same in every run.

    ``shapes`` has one shape for each variable. ``for_parallel`` is accepted for old programs and changes nothing.

    >>> reader = fluid.layers.random_data_generator(-1.0, 1.0, shapes=[[4, 2]])
    >>> x = fluid.layers.read_file(reader)
    >>> value, = fluid.Executor().run(fetch_list=[x])
    >>> value.shape, bool(abs(value).max() <= 1)
    ((4, 2), True)
    """
    low, high, shapes = plain(low), plain(high), plain(shapes)
    if not (isinstance(low, numbers.Real) and isinstance(high, numbers.Real) and low < high):
        raise InvalidArgumentError(f"random_data_generator: low={low!r}, high={high!r}; low must be below high")
    if any(dim < 0 for shape in shapes for dim in shape):
        raise InvalidArgumentError(f"random_data_generator: shapes={shapes!r}; every dimension must be a number of at least 0")

    def records() -> Iterator[list[Any]]:
        random = np.random.default_rng(0)
        while True:
            yield [(low + (high - low) * random.random(shape)).astype("float32") for shape in shapes]

    return _self_starting("random_data_generator", _slots("random_data_generator", None, shapes, ["float32"] * len(shapes), lod_levels),
                          records, 8)


def open_files(filenames: Sequence[str] | str, shapes: Sequence[Sequence[int]], lod_levels: Sequence[int], dtypes: Sequence[Any],
               thread_num: int | None = None, buffer_size: int | None = None, pass_num: int = 1, is_test: bool | None = None) -> PyReader:
    """Return a reader of RecordIO files (``fluid.recordio_writer``), one record a run, in the order of the files, ``pass_num`` times.

    A thread reads up to ``buffer_size`` (64) records ahead. ``thread_num`` and ``is_test`` are accepted: records come in order in any case.

    ``filenames`` is one path or a list; ``shapes`` and ``dtypes`` have an entry for each variable of a record.

    >>> feeder = fluid.DataFeeder(feed_list=[fluid.layers.data("x", [1])], place=fluid.CPUPlace())
    >>> batches = fluid.batch(lambda: iter([(1.0,), (2.0,), (3.0,)]), batch_size=2)
    >>> _ = fluid.recordio_writer.convert_reader_to_recordio_file("x.recordio", batches, feeder)
    >>> reader = fluid.layers.open_files("x.recordio", shapes=[[-1, 1]], lod_levels=[0], dtypes=["float32"])
    >>> x = fluid.layers.read_file(reader)
    >>> fluid.Executor().run(fetch_list=[x])[0].tolist()
    [[1.0], [2.0]]
    """
    files = [filenames] if isinstance(filenames, (str, os.PathLike)) else list(filenames)
    pass_num = check_whole("open_files: pass_num", pass_num, 1)

    def records() -> Iterator[list[Any]]:
        from ..reader.recordio import read_all

        return itertools.chain.from_iterable(read_all(files) for _ in range(pass_num))

    return _self_starting("open_files", _slots("open_files", None, shapes, dtypes, lod_levels), records, buffer_size or 64)


def _derived(what: str, reader: PyReader, change: Callable[[Iterator[Any]], Iterator[Any]]) -> PyReader:
    """Return a reader of the same variables whose batches are made of those of ``reader``."""
    _check(reader, what)
    made = _py_reader(reader.vars, reader._capacity, name=unique_name.generate(what))
    program = reader.vars[0].block.program
    program._readers = [one for one in program._readers if one is not reader]
    made.decorate_batch_generator(lambda: change(reader._require_source(what)()))
    made._starts_itself = reader._starts_itself
    return made


def shuffle(reader: PyReader, buffer_size: int) -> PyReader:
    """Return a reader whose records come in random order within stretches of ``buffer_size``; the order is the same in every run.

    ``reader`` is what ``open_files`` and its kind return. ``buffer_size`` is a whole number from 1 on.

    >>> reader = fluid.layers.random_data_generator(0.0, 1.0, shapes=[[4, 2]])
    >>> x = fluid.layers.read_file(fluid.layers.shuffle(reader, buffer_size=8))
    >>> fluid.Executor().run(fetch_list=[x])[0].shape
    (4, 2)
    """
    from ..reader import shuffle as shuffled

    buffer_size = check_whole("shuffle: buffer_size", buffer_size, 1)
    return _derived("shuffle", reader, lambda records: shuffled(lambda: records, buffer_size, seed=0)())


def batch(reader: PyReader, batch_size: int) -> PyReader:
    """Return a reader that puts ``batch_size`` records together along their first dimension; the last batch may be smaller.

    ``reader`` is what ``open_files`` and its kind return.

    >>> reader = fluid.layers.random_data_generator(0.0, 1.0, shapes=[[4, 2]])
    >>> x = fluid.layers.read_file(fluid.layers.batch(reader, batch_size=3))
    >>> fluid.Executor().run(fetch_list=[x])[0].shape
    (12, 2)
    """
    from ..run.replica_feeds import joined_feeds

    batch_size = check_whole("batch: batch_size", batch_size, 1)

    def joined(records: Iterator[Any]) -> Iterator[Any]:
        while held := list(itertools.islice(records, batch_size)):
            yield joined_feeds(held)

    return _derived("batch", reader, joined)


__all__ = ["py_reader", "create_py_reader_by_data", "read_file", "double_buffer", "random_data_generator", "open_files", "shuffle", "batch"]
