"""The script that ``trireme simulate --calibrate`` runs: parameters or rows of a given size, and as little computing as possible.

Each trainer prints a line of JSON (``meter.py``).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import trireme as fluid
from trireme.simulate.meter import meter

WARM, ROUNDS, FEEDS, SIDE = 5, 4, 64, 640        # the best of so many rounds counts; a table is larger than a cache
_OPTIMIZERS: dict[str, Any] = {"sgd": lambda: fluid.optimizer.SGD(1e-9),
                               "momentum": lambda: fluid.optimizer.Momentum(1e-9, 0.9),
                               "adam": lambda: fluid.optimizer.Adam(1e-9), "adagrad": lambda: fluid.optimizer.Adagrad(1e-9)}


def network(kind: str, count: int, size: int) -> Any:
    """Return a loss over ``count`` parameters of ``size`` floats, or over that many rows of a table of this width.

    ``slow``: a step computes, too.
    """
    layers = fluid.layers
    work = []
    if kind.startswith("slow"):                        # some milliseconds, and caches that hold other things
        x = layers.data("x", [SIDE])
        work = [layers.reduce_sum(layers.matmul(x, x, transpose_y=True))]
    if kind.endswith("rows"):
        ids = layers.data("ids", [1], dtype="int64")
        work.append(layers.reduce_sum(layers.embedding(ids, [1 << 24, size], is_distributed=True, param_attr="rows")))
        return layers.mean(layers.sums(work))
    work += [layers.reduce_sum(layers.create_parameter([size // 16, 16], "float32", name=f"p{i}",
                                                       default_initializer=fluid.initializer.Constant(0.0))) for i in range(count)]
    return layers.mean(layers.sums([*work, layers.reduce_sum(layers.data("y", [1]))]))


def feeds_of(kind: str, count: int, random: np.random.Generator) -> list[dict[str, Any]]:
    feed: dict[str, Any] = {"x": np.ones((SIDE, SIDE), "float32")} if kind.startswith("slow") else {}
    if kind.endswith("rows"):
        return [{**feed, "ids": random.choice(256 * count, count, replace=False).reshape(-1, 1)} for _ in range(FEEDS)]
    return [{**feed, "y": np.ones((1, 1), "float32")}]


def main() -> None:
    kind, optimizer, count, size, steps = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    loss = network(kind, count, size)
    _OPTIMIZERS[optimizer]().minimize(loss)
    exe: Any = fluid.Executor()
    exe.run(fluid.default_startup_program())
    random = np.random.default_rng(fluid.distributed.trainer_index())
    feeds = feeds_of(kind, count, random)
    for step in range(WARM + len(feeds)):
        exe.run(feed=feeds[step % len(feeds)], fetch_list=[])
    job = meter(fluid.distributed.trainer_index())
    for _ in range(ROUNDS):
        job.round(lambda step: exe.run(feed=feeds[step % len(feeds)], fetch_list=[]), steps // ROUNDS)
    sys.stdout.write(job.report() + "\n")


if __name__ == "__main__":
    main()
