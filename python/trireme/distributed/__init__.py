"""Many trainers that share their parameters through servers: the same script as in one process.

    trireme launch --servers 2 --trainers 4 train.py
    mpirun -np 2 trireme-pserver : -np 4 python train.py

In such a process ``Executor.run`` of a training program computes the gradients, has the servers apply them, and
takes the new parameters. A script says one thing of its own: that a trainer takes its slice of each batch.

>>> reader = fluid.distributed.shard(fluid.batch(fluid.dataset.digits.train(), batch_size=32))
>>> fluid.distributed.trainer_index(), fluid.distributed.trainer_count()
(0, 1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..framework import Variable, default_main_program
from . import job as _jobs
from .checkpoints import checkpoint, first_step, resumed, resumed_from
from .compression import set_compression
from .mode import set_mode, set_row_cache
from .table_report import TablePart, TableReport, table_report
from .training import prefetch, prefetched, set_batch_weight
from .transpiler import DistributeTranspiler, DistributeTranspilerConfig

if _jobs.is_launched():
    _jobs.prepare()


def is_distributed() -> bool:
    """Return whether this process is a trainer of a job."""
    return _jobs.is_launched()


def trainer_index() -> int:
    """Return this trainer's number, from 0."""
    job = _jobs.current()
    return job.index if job is not None else 0


def trainer_count() -> int:
    job = _jobs.current()
    return job.trainers if job is not None else 1


def server_count() -> int:
    """Return the number of parameter servers; 0 in one process."""
    job = _jobs.current()
    return job.servers if job is not None else 0


def shard(batch_reader: Callable[[], Any]) -> Callable[[], Iterator[Any]]:
    """Return a reader of this trainer's slice of each batch; in one process of the whole batch.

    A script's batch size is then that of all trainers together, whose steps follow those of one process. Batches
    are lists of samples, arrays, or dicts or tuples of arrays. A trainer's slice may be empty; it takes part in the
    step all the same. Every trainer must read the same batches.

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
    if isinstance(batch, dict):
        return {name: slice_of(value, index, count) for name, value in batch.items()}
    if isinstance(batch, tuple) and batch and all(isinstance(value, np.ndarray) for value in batch):
        return tuple(slice_of(value, index, count) for value in batch)
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
        program.__dict__.setdefault("_means", []).append(var.name)
    return variables[0] if len(variables) == 1 else variables


__all__ = ["is_distributed", "trainer_index", "trainer_count", "server_count", "shard", "slice_of", "all_mean",
           "set_batch_weight", "set_mode", "set_compression", "checkpoint", "resumed", "resumed_from", "first_step", "table_report",
           "TablePart", "TableReport", "DistributeTranspiler", "DistributeTranspilerConfig",
           "set_row_cache", "prefetch", "prefetched"]
