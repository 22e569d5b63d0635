"""Batches that a thread of Python makes ahead of the run that takes them.

>>> x, y = fluid.layers.data("x", [2]), fluid.layers.data("y", [1], dtype="int64")
>>> reader = fluid.io.PyReader(feed_list=[x, y], capacity=4, iterable=False)
>>> reader.decorate_sample_list_generator(lambda: iter([[([1, 2], 0), ([3, 4], 1)], [([5, 6], 0)]]))
>>> reader.start()
>>> exe = fluid.Executor(fluid.CPUPlace())
>>> try:
...     while True:
...         print(exe.run(fetch_list=[x])[0].tolist())
... except fluid.core.EOFException:
...     reader.reset()
[[1.0, 2.0], [3.0, 4.0]]
[[5.0, 6.0]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..native import unique_name
from ..native.errors import EOFException, InvalidArgumentError, check_whole, user_line
from ..native.handles import Uncopied
from ..native.tensor import LoDTensor
from ..program import Program, Variable, default_main_program
from ..reader.ahead import Ahead
from ..reader.decorator import batch as batched
from .data_feeder import DataFeeder

Feed = dict[str, Any]
Source = Callable[[], Iterator[Feed]]


class PyReader(Uncopied):
    """Feeds the variables of ``feed_list`` from a generator of the script, whose batches a thread prepares, up to ``capacity`` of them.

    ``iterable=False``: ``start`` begins a pass, every ``Executor.run`` of the program takes a batch, and at the end of the pass it raises
    ``fluid.core.EOFException``; ``reset`` makes ready for the next pass. ``iterable=True``: ``for data in reader():`` gives what
    ``Executor.run(feed=data)`` takes, a list of one feed for each place; ``return_list`` makes lists of arrays of the feeds.
    An error in the generator comes out of the run, or of the loop, with the generator's own traceback. ``use_double_buffer`` changes
    nothing: the thread hands over arrays that are ready.

    >>> x = fluid.layers.data("x", [2])
    >>> reader = fluid.io.PyReader(feed_list=[x], capacity=4, iterable=True)
    >>> reader.decorate_sample_generator(lambda: iter([([1, 2],), ([3, 4],)]), batch_size=1, places=[fluid.CPUPlace()])
    >>> exe = fluid.Executor()
    >>> for feeds in reader():
    ...     print(exe.run(feed=feeds, fetch_list=[fluid.layers.reduce_sum(x)])[0].tolist())
    [3.0]
    [7.0]
    """

    def __init__(self, feed_list: Sequence[Variable] | None = None, capacity: int = 64, use_double_buffer: bool = True,
                 iterable: bool = False, return_list: bool = False, *, name: str | None = None, program: Program | None = None) -> None:
        if not isinstance(feed_list, (list, tuple)) or not feed_list or not all(isinstance(var, Variable) for var in feed_list):
            raise TypeError(f"PyReader: feed_list must be a list of variables, got {feed_list!r}")
        capacity = check_whole("PyReader: capacity", capacity, 1)
        self.name = name or unique_name.generate("py_reader")
        self.vars = list(feed_list)
        self._names = [var.name for var in feed_list]
        self._capacity, self._iterable, self._return_list = capacity, iterable, return_list
        self._places = 1
        self._source: Source | None = None
        self._ahead: Ahead | None = None
        self._starts_itself = False
        self._ended = False
        if not iterable:
            self.attach(program or feed_list[0].block.program)

    def attach(self, program: Program) -> None:
        """Let runs of the program take batches of this reader."""
        if self not in program._readers:
            program._readers = [*program._readers, self]

    # -- where batches come from ----------------------------------------------------------------------------

    def _decorate(self, what: str, generator: Any, source: Source, places: Any) -> None:
        if not callable(generator):
            raise TypeError(f"PyReader.{what}: a function without arguments that returns an iterator is wanted, got {generator!r}")
        if self._ahead is not None:
            raise InvalidArgumentError(f"PyReader.{what}: the reader is running; call reset() first")
        self._source = source
        self._places = len(places) if isinstance(places, (list, tuple)) else 1

    def decorate_sample_generator(self, sample_generator: Callable[[], Iterable[Any]], batch_size: int, drop_last: bool = True,
                                  places: Any = None) -> None:
        """Take single samples, tuples with a field for each variable, and make batches of them.
        ``sample_generator`` is called for each pass, and yields the samples.
        """
        self._check_size(batch_size)
        lists = batched(lambda: iter(sample_generator()), batch_size, drop_last)
        self._decorate("decorate_sample_generator", sample_generator, self._from_lists(lists), places)

    @staticmethod
    def _check_size(batch_size: int) -> None:
        batch_size = check_whole("PyReader: batch_size", batch_size, 1)

    def decorate_sample_list_generator(self, reader: Callable[[], Iterable[Any]], places: Any = None) -> None:
        """Take batches as lists of samples: what ``fluid.batch`` makes. ``reader`` is called for each pass, and yields the batches."""
        self._decorate("decorate_sample_list_generator", reader, self._from_lists(reader), places)

    def decorate_batch_generator(self, reader: Callable[[], Iterable[Any]], places: Any = None) -> None:
        """Take batches as they are fed: a list of arrays or LoDTensors in the order of the variables, or a dict by names.
        ``reader`` is called for each pass, and yields the batches.
        """
        def source() -> Iterator[Feed]:
            for item in reader():
                yield self._as_feed(item)

        self._decorate("decorate_batch_generator", reader, source, places)

    decorate_paddle_reader = decorate_sample_list_generator
    decorate_tensor_provider = decorate_batch_generator
    set_sample_generator = decorate_sample_generator
    set_sample_list_generator = decorate_sample_list_generator
    set_batch_generator = decorate_batch_generator

    def _from_lists(self, reader: Callable[[], Iterable[Any]]) -> Source:
        feeder = DataFeeder(self.vars)

        def source() -> Iterator[Feed]:
            for samples in reader():
                yield feeder.feed(samples)

        return source

    def _as_feed(self, item: Any) -> Feed:
        if isinstance(item, dict):
            if item.keys() != set(self._names):
                raise ValueError(f"{self.name}: a batch has {sorted(item)}, the reader's variables are {self._names}")
            return item
        values = list(item) if isinstance(item, (list, tuple)) else [item]
        if len(values) != len(self._names):
            raise ValueError(f"{self.name}: a batch has {len(values)} arrays, the reader has {len(self._names)} variables: "
                             f"{', '.join(self._names)}")
        return {name: value if isinstance(value, LoDTensor) else np.asarray(value) for name, value in zip(self._names, values)}

    def _require_source(self, what: str) -> Source:
        if self._source is None:
            raise InvalidArgumentError(f"{self.name}: {what} needs data: give a generator by decorate_sample_list_generator "
                                       "(decorate_paddle_reader), decorate_sample_generator or decorate_batch_generator first\n  your "
                                       f"line: {user_line()}")
        return self._source

    # -- passes that runs take from -------------------------------------------------------------------------

    def start(self) -> None:
        """Begin a pass: a thread prepares batches."""
        if self._iterable:
            raise InvalidArgumentError(f"{self.name}: start() belongs to iterable=False; this reader is iterated over: for data in "
                                       "reader():")
        if self._ahead is not None and not self._ended:
            raise InvalidArgumentError(f"{self.name}: a pass is running already; reset() ends it")
        source = self._require_source("start()")
        self.reset()
        self._ahead = Ahead(source, self._capacity)

    def reset(self) -> None:
        """End the pass, also in its middle."""
        if self._ahead is not None:
            self._ahead.close()
        self._ahead, self._ended = None, False

    def take(self) -> Feed:
        """Return the next batch of the pass; a run calls this. Raises EOFException at its end."""
        if self._ahead is None:
            if not self._starts_itself:
                raise InvalidArgumentError(f"{self.name}: the program reads from it, but it was not started: call start() before each pass"
                                           f"\n  your line: {user_line()}")
            self.start()
        assert self._ahead is not None
        try:
            return next(self._ahead)
        except StopIteration:
            self._ended = True
            raise EOFException(f"{self.name}: the pass is over; reset() makes ready for the next one") from None
        except BaseException:
            self._ended = True
            raise

    @property
    def queue(self) -> _Queue:
        """The batches that the thread has ready: ``queue.size()`` of at most ``queue.capacity()``."""
        return _Queue(self)

    # -- iteration ------------------------------------------------------------------------------------------

    def __call__(self) -> Iterator[list[Any]]:
        if not self._iterable:
            raise InvalidArgumentError(f"{self.name}: it is iterated over with iterable=True; with iterable=False call start() and run the "
                                       "program")
        return self._iterate(self._require_source("an iteration"))

    __iter__ = __call__

    def _iterate(self, source: Source) -> Iterator[list[Any]]:
        ahead = Ahead(source, self._capacity)
        held: list[Any] = []
        try:
            for feed in ahead:
                held.append([feed[name] for name in self._names] if self._return_list else feed)
                if len(held) == self._places:
                    yield held
                    held = []
        finally:
            ahead.close()

    def __repr__(self) -> str:
        return f"PyReader({self.name!r}, {', '.join(map(repr, self._names))})"


class _Queue:
    """The queue of a reader, as scripts look at it."""

    def __init__(self, reader: PyReader) -> None:
        self._reader = reader

    def size(self) -> int:
        """Return how many batches are ready."""
        ahead = self._reader._ahead
        return 0 if ahead is None else ahead.ready()

    def capacity(self) -> int:
        return self._reader._capacity

    cap = capacity

    def is_closed(self) -> bool:
        """Return whether no pass is running."""
        return self._reader._ahead is None

    def close(self) -> None:
        self._reader.reset()


class DataLoader:
    """Fluid's newer name for readers of this kind.

    >>> x = fluid.layers.data("x", [2])
    >>> loader = fluid.io.DataLoader.from_generator(feed_list=[x], capacity=2)
    >>> loader.set_batch_generator(lambda: iter([np.ones((1, 2), "float32")]))
    >>> [feed["x"].tolist() for feed, in loader()]
    [[[1.0, 1.0]]]
    """

    @staticmethod
    def from_generator(feed_list: Sequence[Variable] | None = None, capacity: int = 64, use_double_buffer: bool = True,
                       iterable: bool = True, return_list: bool = False) -> PyReader:
        """Return a PyReader that is iterated over unless ``iterable`` is False.
        ``feed_list`` is the variables, ``capacity`` how many batches are read ahead. ``return_list`` True: lists of arrays in the place of
        dicts.
        """
        return PyReader(feed_list, capacity, use_double_buffer, iterable, return_list)

    @staticmethod
    def from_dataset(dataset: Any, places: Any = None, drop_last: bool = True) -> PyReader:
        """Return a PyReader over the batches of a ``fluid.Dataset``; its last batch is left out if the dataset says so, not
        ``drop_last``."""
        block = default_main_program().global_block()
        reader = PyReader([block.var(slot.name) for slot in dataset.slots if slot is not None], iterable=True)
        reader.decorate_batch_generator(lambda: iter(dataset), places)
        return reader
