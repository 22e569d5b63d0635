"""What makes readers of readers; see the package."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from ..native.checks import plain
from ..native.errors import check_whole
from .ahead import Ahead, owned, put

Reader = Callable[[], Iterator[Any]]


class ComposeNotAligned(ValueError):
    """Readers that were composed do not have the same number of samples.

    >>> pairs = fluid.reader.compose(lambda: iter([1, 2]), lambda: iter([1]))
    >>> try:
    ...     list(pairs())
    ... except fluid.reader.ComposeNotAligned:
    ...     print("one reader has more samples")
    one reader has more samples
    """


def batch(reader: Reader, batch_size: int, drop_last: bool = False) -> Reader:
    """Return a reader of lists of ``batch_size`` samples; the last list may be shorter, or is dropped.

    >>> list(fluid.reader.batch(lambda: iter(range(5)), 2)())
    [[0, 1], [2, 3], [4]]
    """
    batch_size = check_whole("batch: batch_size", batch_size, 1)

    def batched() -> Iterator[list[Any]]:
        samples = map(owned, reader())
        while samples_now := list(itertools.islice(samples, batch_size)):
            if len(samples_now) == batch_size or not drop_last:
                yield samples_now

    return batched


def shuffle(reader: Reader, buf_size: int, *, seed: int | None = None) -> Reader:
    """Return a reader in random order within stretches of ``buf_size`` samples; ``seed`` makes it repeatable.

    >>> sorted(fluid.reader.shuffle(lambda: iter(range(5)), 100, seed=1)())
    [0, 1, 2, 3, 4]
    """
    def shuffled() -> Iterator[Any]:
        import random

        source = random.Random(plain(seed)) if seed is not None else random
        samples = map(owned, reader())
        while buffer := list(itertools.islice(samples, buf_size)):
            source.shuffle(buffer)
            yield from buffer

    return shuffled


def map_readers(func: Callable[..., Any], *readers: Reader) -> Reader:
    """Return a reader of ``func(a, b, ...)`` with one sample of each reader.

    >>> list(fluid.reader.map_readers(lambda a, b: a + b, lambda: iter([1, 2]), lambda: iter([10, 20]))())
    [11, 22]
    """
    return lambda: map(func, *[reader() for reader in readers])


def chain(*readers: Reader) -> Reader:
    """Return a reader of all samples of the first reader, then of the second, ...

    >>> list(fluid.reader.chain(lambda: iter([1, 2]), lambda: iter([3]))())
    [1, 2, 3]
    """
    return lambda: itertools.chain.from_iterable(reader() for reader in readers)


def compose(*readers: Reader, check_alignment: bool = True) -> Reader:
    """Return a reader of tuples: the fields of one sample of each reader, side by side.

    ``check_alignment`` raises ComposeNotAligned when the readers end at different places.

    >>> list(fluid.reader.compose(lambda: iter([(1, 2)]), lambda: iter([3]))())
    [(1, 2, 3)]
    """
    def fields(sample: Any) -> tuple[Any, ...]:
        return sample if isinstance(sample, tuple) else (sample,)

    def composed() -> Iterator[tuple[Any, ...]]:
        iterators = [iter(reader()) for reader in readers]
        if not check_alignment:
            for samples in zip(*iterators):
                yield tuple(itertools.chain.from_iterable(map(fields, samples)))
            return
        end = object()
        for number, samples in enumerate(itertools.zip_longest(*iterators, fillvalue=end)):
            ended = [i for i, sample in enumerate(samples) if sample is end]
            if ended:
                raise ComposeNotAligned(f"readers {ended} of {len(readers)} ended after {number} samples, others go on")
            yield tuple(itertools.chain.from_iterable(map(fields, samples)))

    return composed


def firstn(reader: Reader, n: int) -> Reader:
    """Return a reader of the first ``n`` samples.

    >>> list(fluid.reader.firstn(lambda: iter(range(100)), 3)())
    [0, 1, 2]
    """
    return lambda: itertools.islice(reader(), n)


def cache(reader: Reader) -> Reader:
    """Return a reader that keeps all samples in memory after its first whole pass.

    >>> cached = fluid.reader.cache(lambda: iter([1, 2]))
    >>> list(cached()), list(cached())
    ([1, 2], [1, 2])
    """
    samples: list[Any] | None = None

    def cached() -> Iterator[Any]:
        nonlocal samples
        if samples is None:
            samples = list(map(owned, reader()))
        return iter(samples)

    return cached


class _Failure:
    """An error on its way through a queue."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _end(stop: Any, threads: list[Any]) -> None:
    stop.set()
    for thread in threads:
        thread.join()


def buffered(reader: Reader, size: int) -> Reader:
    """Return a reader whose samples a thread reads ahead, up to ``size`` of them.

    >>> list(fluid.reader.buffered(lambda: iter(range(3)), 2)())
    [0, 1, 2]
    """
    def buffered_reader() -> Iterator[Any]:
        ahead = Ahead(reader, max(1, size))
        try:
            yield from ahead
        finally:
            ahead.close()

    return buffered_reader


def xmap_readers(mapper: Callable[[Any], Any], reader: Reader, process_num: int, buffer_size: int,
                 order: bool = False) -> Reader:
    """Return a reader of ``mapper(sample)``, computed by ``process_num`` threads; ``order`` keeps the order.

    ``buffer_size`` samples are ready ahead of the caller, at most.

    >>> list(fluid.reader.xmap_readers(lambda x: x * x, lambda: iter(range(4)), 2, 8, order=True)())
    [0, 1, 4, 9]
    """
    process_num, buffer_size = plain(process_num), plain(buffer_size)
    if process_num < 1 or buffer_size < 1:
        raise ValueError("xmap_readers: process_num and buffer_size must be at least 1, "
                         f"got {process_num!r} and {buffer_size!r}")

    def xmapped() -> Iterator[Any]:
        import threading
        from queue import Empty, Queue

        todo: Any = Queue(buffer_size)
        done: Any = Queue(buffer_size)
        stop = threading.Event()
        end = object()

        def read() -> None:
            try:
                for numbered in enumerate(map(owned, reader())):
                    if not put(todo, numbered, stop):
                        return
            except BaseException as error:
                put(done, _Failure(error), stop)
            for _ in range(process_num):
                put(todo, end, stop)

        def work() -> None:
            try:
                while not stop.is_set():
                    try:
                        numbered = todo.get(timeout=0.05)
                    except Empty:
                        continue
                    if numbered is end:
                        break
                    if not put(done, (numbered[0], mapper(numbered[1])), stop):
                        return
            except BaseException as error:
                put(done, _Failure(error), stop)
            put(done, end, stop)

        threads = [threading.Thread(target=target, name="trireme-xmap", daemon=True)
                   for target in [read, *[work] * process_num]]
        for thread in threads:
            thread.start()
        try:
            yield from _in_order(done, end, process_num, order)
        finally:
            _end(stop, threads)

    return xmapped


def _in_order(done: Any, end: Any, workers: int, order: bool) -> Iterator[Any]:
    """Yield what workers put into ``done`` until all of them have ended."""
    waiting: dict[int, Any] = {}
    turn = 0
    while workers:
        item = done.get()
        if item is end:
            workers -= 1
        elif isinstance(item, _Failure):
            raise item.error
        elif not order:
            yield item[1]
        else:
            waiting[item[0]] = item[1]
            while turn in waiting:
                yield waiting.pop(turn)
                turn += 1
