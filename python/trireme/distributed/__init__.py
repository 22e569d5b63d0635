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

from ..job.job import is_distributed, server_count, trainer_count, trainer_index
from ..native.lazy import load_later

if TYPE_CHECKING:
    from ..job import compression, mode, on_nan
    from ..job.compression import set_compression
    from ..job.mode import set_mode, set_row_cache
    from ..job.on_nan import set_on_nan
    from . import checkpoints, geo, placement, stops, transpiler
    from .batches import prefetch, prefetched, set_batch_weight
    from .checkpoints import checkpoint, first_step, resumed, resumed_from
    from .collectives import all_gather, all_reduce, barrier, broadcast
    from .merged_metrics import merge_auc, merge_metric
    from .reached import is_replaying
    from .slices import all_mean, shard, slice_of
    from .tables import TableDisk, TablePart, TableReport, TableReports, table_report
    from .fluid_transpiler import DistributeTranspiler, DistributeTranspilerConfig
else:
    __getattr__, __dir__ = load_later(__name__, {
        "": ("checkpoints", "geo", "placement", "stops", "transpiler"),
        "batches": ("prefetch", "prefetched", "set_batch_weight"),
        "checkpoints": ("checkpoint", "first_step", "resumed", "resumed_from"),
        "collectives": ("all_gather", "all_reduce", "barrier", "broadcast"),
        "merged_metrics": ("merge_auc", "merge_metric"),
        "reached": ("is_replaying",),
        "slices": ("all_mean", "shard", "slice_of"),
        "tables": ("TableDisk", "TablePart", "TableReport", "TableReports", "table_report"),
        "fluid_transpiler": ("DistributeTranspiler", "DistributeTranspilerConfig"),
        "..job": ("compression", "mode", "on_nan"),
        "..job.compression": ("set_compression",),
        "..job.mode": ("set_mode", "set_row_cache"),
        "..job.on_nan": ("set_on_nan",),
    })


__all__ = ["is_distributed", "trainer_index", "trainer_count", "server_count", "shard", "slice_of", "all_mean",
           "set_batch_weight", "set_mode", "set_compression", "set_on_nan", "checkpoint", "resumed", "resumed_from", "first_step",
           "table_report", "TableDisk", "TablePart", "TableReport", "TableReports", "DistributeTranspiler", "DistributeTranspilerConfig",
           "set_row_cache", "prefetch", "prefetched", "is_replaying", "barrier", "broadcast", "all_reduce", "all_gather",
           "merge_metric", "merge_auc"]
