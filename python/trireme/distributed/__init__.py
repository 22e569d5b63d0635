"""Many trainers that share their parameters through servers: the same script as in one process.

    trireme launch --servers 2 --trainers 4 train.py
    mpirun -np 2 trireme-pserver : -np 4 python train.py

In a trainer ``Executor.run`` of a training program computes the gradients, lets the servers apply them, and
gets the new parameters. A script adds one thing for a job: each trainer takes its slice of each batch.

>>> reader = fluid.distributed.shard(fluid.batch(fluid.dataset.digits.train(), batch_size=32))
>>> fluid.distributed.trainer_index(), fluid.distributed.trainer_count()
(0, 1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import load_later
from . import job as _jobs

if TYPE_CHECKING:
    from . import checkpoints, compression, geo, mode, on_nan, placement, stops, training, transpiler
    from .checkpoints import checkpoint, first_step, resumed, resumed_from
    from .collectives import all_gather, all_reduce, barrier, broadcast
    from .compression import set_compression
    from .merged_metrics import merge_auc, merge_metric
    from .mode import set_mode, set_row_cache
    from .on_nan import set_on_nan
    from .slices import all_mean, shard, slice_of
    from .tables import TablePart, TableReport, TableReports, table_report
    from .training import is_replaying, prefetch, prefetched, set_batch_weight
    from .transpiler import DistributeTranspiler, DistributeTranspilerConfig

__getattr__, __dir__ = load_later(__name__, {
    "": ("checkpoints", "compression", "geo", "mode", "on_nan", "placement", "stops", "training", "transpiler"),
    "checkpoints": ("checkpoint", "first_step", "resumed", "resumed_from"),
    "collectives": ("all_gather", "all_reduce", "barrier", "broadcast"),
    "compression": ("set_compression",),
    "merged_metrics": ("merge_auc", "merge_metric"),
    "mode": ("set_mode", "set_row_cache"),
    "on_nan": ("set_on_nan",),
    "slices": ("all_mean", "shard", "slice_of"),
    "tables": ("TablePart", "TableReport", "TableReports", "table_report"),
    "training": ("is_replaying", "prefetch", "prefetched", "set_batch_weight"),
    "transpiler": ("DistributeTranspiler", "DistributeTranspilerConfig"),
})


def is_distributed() -> bool:
    """Return whether this process is a trainer of a job.

    Outside of a job:

    >>> fluid.distributed.is_distributed()
    False
    """
    return _jobs.is_launched()


def trainer_index() -> int:
    """Return this trainer's number, from 0.

    It is 0 in one process. Trainer 0 of a job is often the one that prints:

    >>> if fluid.distributed.trainer_index() == 0:
    ...     print("starting")
    starting
    """
    job = _jobs.current()
    return job.index if job is not None else 0


def trainer_count() -> int:
    """Return the number of trainers, dead ones included; 1 in one process.

    A batch of 256 samples for each trainer:

    >>> 256 * fluid.distributed.trainer_count()
    256
    """
    job = _jobs.current()
    return job.trainers if job is not None else 1


def server_count() -> int:
    """Return the number of parameter servers; 0 in one process.

    In one process:

    >>> fluid.distributed.server_count()
    0
    """
    job = _jobs.current()
    return job.servers if job is not None else 0


__all__ = ["is_distributed", "trainer_index", "trainer_count", "server_count", "shard", "slice_of", "all_mean",
           "set_batch_weight", "set_mode", "set_compression", "set_on_nan", "checkpoint", "resumed", "resumed_from", "first_step", "table_report",
           "TablePart", "TableReport", "TableReports", "DistributeTranspiler", "DistributeTranspilerConfig",
           "set_row_cache", "prefetch", "prefetched", "is_replaying", "barrier", "broadcast", "all_reduce", "all_gather",
           "merge_metric", "merge_auc"]
