"""From a list of samples, as readers yield them, to what ``Executor.run`` is fed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..native.dtypes import array_of, numpy_dtype
from ..native.tensor import CPUPlace, FedArray, LoDTensor
from ..program import Program, Variable, default_main_program
from ..program.places import cpu_places


class DataFeeder:
    """Makes a feed of a batch: sample i has one field for each variable of ``feed_list``.

    Fields become arrays of the variable's type and shape; those of a variable with ``lod_level`` are sequences
    and become LoDTensors. DTypeError: a number with a fraction for a variable of integers.

    >>> x, y = fluid.layers.data("x", [2]), fluid.layers.data("y", [1], dtype="int64")
    >>> feeder = fluid.DataFeeder([x, y], fluid.CPUPlace())
    >>> feed = feeder.feed([([1, 2], 0), ([3, 4], 1)])
    >>> feed["x"].shape, feed["y"].tolist()
    ((2, 2), [[0], [1]])
    """

    def __init__(self, feed_list: Sequence[Any], place: CPUPlace | None = None, program: Program | None = None) -> None:
        block = (program or default_main_program()).global_block()
        self.vars = [block.var(var) if isinstance(var, str) else var for var in feed_list]
        for var in self.vars:
            if not isinstance(var, Variable):
                raise TypeError(f"DataFeeder: feed_list holds Variables or names, got {var!r}")
        self.place = place
        self._fields = [(var.name, numpy_dtype(var.dtype), [-1 if dim is None else dim for dim in var.shape][1:],
                         var.lod_level) for var in self.vars]

    def feed(self, iterable: Iterable[Sequence[Any]]) -> dict[str, Any]:
        """Return the feed of one batch. ``iterable`` is its samples: tuples with a field for each variable."""
        names = ", ".join(field[0] for field in self._fields)
        if isinstance(iterable, dict):
            raise TypeError(f"a batch is a list of samples, each a tuple of {names}; got a dict of {', '.join(map(str, iterable))}: "
                            "Executor.run takes a dict of arrays as it is")
        samples = list(iterable)
        for i, sample in enumerate(samples):
            if len(sample) != len(self._fields):
                raise ValueError(f"sample {i} has {len(sample)} fields, the feed list {len(self._fields)}: {names}")
        return {name: self._field([sample[i] for sample in samples], name, dtype, dims, level)
                for i, (name, dtype, dims, level) in enumerate(self._fields)}

    def feed_parallel(self, iterable: Iterable[Iterable[Sequence[Any]]], num_places: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield one feed for each place, from as many batches; ``num_places`` is by default that of ``cpu_places()``.
        ``iterable`` is those batches, each a list of samples.
        """
        count = num_places or len(cpu_places())
        batches = list(itertools.islice(iterable, count + 1))
        if len(batches) != count:
            raise ValueError(f"feed_parallel: there are {count} places, so {count} batches are needed, got "
                             f"{len(batches) if len(batches) < count else 'more'}")
        yield from map(self.feed, batches)

    def decorate_reader(self, reader: Callable[[], Iterable[Any]], multi_devices: bool, num_places: int | None = None,
                        drop_last: bool = True) -> Callable[[], Iterator[Any]]:
        """Return a reader of feeds for a ``reader`` of batches: what ``Executor.run`` takes.

        With ``multi_devices`` each item is a list of ``num_places`` feeds, for ``ParallelExecutor.run``. The last batches that are too
        few for all places are left out, or refused if ``drop_last`` is False.
        """
        def feeds() -> Iterator[dict[str, Any]]:
            return map(self.feed, reader())

        def lists() -> Iterator[list[dict[str, Any]]]:
            count, batches = num_places or len(cpu_places()), iter(reader())
            while some := list(itertools.islice(batches, count)):
                if len(some) == count:
                    yield list(self.feed_parallel(some, count))
                elif not drop_last:
                    raise ValueError(f"decorate_reader: the last {len(some)} batches are too few for {count} places; use drop_last=True")

        return lists if multi_devices else feeds

    @staticmethod
    def _field(values: list[Any], name: str, dtype: np.dtype, dims: list[int], level: int) -> Any:
        if level == 0:
            try:
                return _shaped(array_of(values, dtype, name), dims).view(FedArray)
            except (ValueError, TypeError) as error:
                raise ValueError(f"feed {name!r}: {len(values)} samples do not make a {dtype} array of "
                                 f"[{len(values)}, {', '.join(map(str, dims))}]: {error}") from None
        lengths, sequences = [], values
        for depth in range(level):
            lengths.append([_length(item, name, level) for item in sequences])
            if depth + 1 < level:
                sequences = [part for item in sequences for part in item]
        try:
            rows = [_shaped(array_of(item, dtype, name), dims) for item in sequences]
        except (ValueError, TypeError) as error:
            raise ValueError(f"feed {name!r}: sequences are {dtype} arrays of [length, {', '.join(map(str, dims))}]: "
                             f"{error}") from None
        tensor = LoDTensor()
        tensor.set(np.concatenate(rows) if rows else np.empty([0, *dims], dtype))
        tensor.set_recursive_sequence_lengths(lengths)
        return tensor


def _shaped(array: np.ndarray, dims: list[int]) -> np.ndarray:
    """Return the array with these dimensions behind the first. One that has as many dimensions already keeps its own."""
    if array.ndim == len(dims) + 1 or dims.count(-1) > 0:
        return array
    return array.reshape([len(array), *dims])


def _length(item: Any, name: str, level: int) -> int:
    """Return how many parts a sequence has."""
    try:
        return len(item)
    except TypeError:
        raise TypeError(f"feed {name!r}: its lod_level is {level}, so samples have {'lists of ' * (level - 1)}"
                        f"sequences there; got {item!r}") from None


__all__ = ["DataFeeder"]
