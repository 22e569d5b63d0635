"""The script that ``trireme simulate --calibrate`` runs: parameters or rows of a given size, and as little computing as possible.

Trainer 0 prints a line of JSON: CPU seconds of itself and of server 0 for a step, and the time of a step.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import trireme as fluid

WARM, ROUNDS = 5, 4                    # the best of so many rounds counts
_OPTIMIZERS: dict[str, Any] = {"sgd": lambda: fluid.optimizer.SGD(1e-9),
                               "momentum": lambda: fluid.optimizer.Momentum(1e-9, 0.9),
                               "adam": lambda: fluid.optimizer.Adam(1e-9), "adagrad": lambda: fluid.optimizer.Adagrad(1e-9)}


def network(kind: str, count: int, size: int) -> Any:
    """Return a loss over ``count`` parameters of ``size`` floats, or over that many rows of a table of this width."""
    layers = fluid.layers
    if kind == "rows":
        ids = layers.data("ids", [1], dtype="int64")
        return layers.mean(layers.embedding(ids, [1 << 24, size], is_distributed=True, param_attr="rows"))
    parts = [layers.reduce_sum(layers.create_parameter([size // 16, 16], "float32", name=f"p{i}",
                                                      default_initializer=fluid.initializer.Constant(0.0))) for i in range(count)]
    x = layers.data("x", [1])
    return layers.mean(layers.sums([layers.reduce_sum(x), *parts]))


def server_seconds(pid: int) -> float:
    """Return the CPU time of a process: of its threads, which all live as long as the job."""
    return 1e-9 * sum(int(one.read_text(encoding="ascii").split()[0]) for one in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def pid_of_server() -> int:
    with open(os.path.join(os.environ["TRIREME_LOG"], "server-0.jsonl"), encoding="utf-8") as log:
        return int(json.loads(log.readline())["pid"])


def main() -> None:
    kind, optimizer, count, size, steps = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    loss = network(kind, count, size)
    _OPTIMIZERS[optimizer]().minimize(loss)
    exe: Any = fluid.Executor()
    exe.run(fluid.default_startup_program())
    random = np.random.default_rng(fluid.distributed.trainer_index())
    feeds: list[dict[str, Any]] = [{"x": np.ones((1, 1), "float32")}]
    if kind == "rows":
        feeds = [{"ids": random.choice(8 * count, count, replace=False).reshape(-1, 1)} for _ in range(8)]
    for step in range(WARM + len(feeds)):
        exe.run(feed=feeds[step % len(feeds)], fetch_list=[])
    is_measured = "TRIREME_LOG" in os.environ and fluid.distributed.trainer_index() == 0
    server = pid_of_server() if is_measured else 0
    rounds, times = [], []
    for _ in range(ROUNDS):
        before, served = own_seconds(), server_seconds(server) if server else 0.0
        for step in range(steps // ROUNDS):
            begun = time.perf_counter()
            exe.run(feed=feeds[step % len(feeds)], fetch_list=[])
            times.append(time.perf_counter() - begun)
        rounds.append((own_seconds() - before, (server_seconds(server) if server else 0.0) - served))
    if is_measured:
        own, others = (min(one) / (steps // ROUNDS) for one in zip(*rounds))
        sys.stdout.write(json.dumps({"trainer": own, "server": others, "step": float(np.percentile(times, 20))}) + "\n")


if __name__ == "__main__":
    main()
