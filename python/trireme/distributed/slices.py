"""A trainer's slice of the job's batches, and means over the slices of all trainers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..job import job as _jobs
from ..program import Variable, default_main_program


def shard(batch_reader: Callable[[], Any]) -> Callable[[], Iterator[Any]]:
    """Return a reader of this trainer's slice of each batch; in one process of the whole batch.

    A script's batch size is then that of all trainers together, whose steps follow those of one process. Batches
    are lists of samples, arrays, or dicts or tuples of arrays. A trainer's slice may be empty; it takes part in the
    step all the same. Every trainer must read the same batches.

    ``batch_reader`` is a function that returns an iterable of batches.

    >>> list(fluid.distributed.shard(lambda: iter([[1, 2, 3], [4]]))())
    [[1, 2, 3], [4]]
    """
    if not callable(batch_reader):
        raise TypeError(f"shard takes a reader (a function that returns batches), got {batch_reader!r}")

    def sharded() -> Iterator[Any]:
        job = _jobs.current()
        for batch in batch_reader():
            yield slice_of(batch, job.index, job.trainers) if job is not None else batch

    return sharded


def slice_of(batch: Any, index: int, count: int) -> Any:
    """Return part ``index`` of ``count`` of a batch.

    >>> [fluid.distributed.slice_of([1, 2, 3, 4, 5], i, 3) for i in range(3)]
    [[1], [2, 3], [4, 5]]
    """
    if not 0 <= index < count:
        raise ValueError(f"slice_of: part {index!r} of {count!r}; parts 0 to count - 1 are possible, of 1 or more")
    if isinstance(batch, dict):
        return {name: slice_of(value, index, count) for name, value in batch.items()}
    if isinstance(batch, tuple) and batch and all(isinstance(value, np.ndarray) for value in batch):
        return tuple(slice_of(value, index, count) for value in batch)
    if not hasattr(batch, "__len__"):
        raise TypeError(f"slice_of takes a list, an array, or a dict or tuple of arrays, got {batch!r}")
    size = len(batch)
    return batch[index * size // count:(index + 1) * size // count]


def all_mean(*variables: Variable) -> Any:
    """Let what is fetched of these variables in training be the mean over all trainers' samples; return them.

    The loss is fetched like that anyway. Call it before the first step. In one process the mean is the value.

    >>> x = fluid.layers.data("x", [4])
    >>> fluid.distributed.all_mean(fluid.layers.mean(x)).name
    'mean_0.tmp_0'
    """
    for var in variables:
        if not isinstance(var, Variable):
            raise TypeError(f"all_mean takes variables, got {var!r}")
        if None in var.shape:
            raise ValueError(f"all_mean: {var!r} must have a known shape, such as that of layers.mean")
        program = var.block.program if var.block is not None else default_main_program()
        means = program.__dict__.setdefault("_means", [])
        if var.name not in means:
            _jobs.say_in_time(f"all_mean({var.name!r})")
            means.append(var.name)
    return variables[0] if len(variables) == 1 else variables
