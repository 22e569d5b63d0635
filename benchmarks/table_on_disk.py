"""A table of which a part lies on disk: the rate of steps against the share of its rows in memory.

    python benchmarks/table_on_disk.py FOLDER [--rows 1000000] [--shares 1,0.5,0.25,0.125,0.0625] [--optimizer adagrad]
        [--keys zipf] [--layer 400] [--steps 100] [--rounds 3]

FOLDER lies on the disk that is measured. Each share is measured in a process of its own, the shares in turn, once with the next batch
announced (``prefetched``) and once without. A share is that of the table's ``memory`` in the bytes of all rows with their index in memory.
A step is that of a click model: 26 keys of each of 512 samples, rows of 16 values, two layers of ``--layer``. All rows exist before it is
timed. The yardstick is the same model with all rows in memory, in the same round.

A line has the median step of the rounds, the median and the quartiles of its ratio to the yardstick, the keys that found their row in
memory, the reads of a step and how many were ahead, the time that a step waited for reads, what was written for each byte of rows that
changed, the processor time, and the memory of the process beyond that of the yardstick without its rows.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from machine import cpu_name

WIDTH, BATCH, SLOTS, ROW = 16, 512, 26, 155
SPREAD = 2654435761                                    # keys of neighbouring ranks are far from each other


def keys_of(random, law: str, rows: int):
    import numpy as np

    if law == "uniform":
        rank = random.randint(0, rows, (BATCH, SLOTS, 1))
    else:                                              # the inverse of Zipf's distribution with exponent 1.05, made continuous
        a = -0.05
        rank = ((random.random_sample((BATCH, SLOTS, 1)) * ((rows + 1.0) ** a - 1) + 1) ** (1 / a)).astype(np.int64) - 1
    return {"ids": rank * SPREAD % (1 << 40)}


def model(fluid, args: argparse.Namespace, **options):
    ids = fluid.layers.data("ids", [SLOTS, 1], dtype="int64")
    rows = fluid.layers.embedding(ids, [1 << 40, WIDTH], is_distributed=True, param_attr="rows", **options)
    hidden = fluid.layers.reshape(rows, [-1, SLOTS * WIDTH])
    for _ in range(2):
        hidden = fluid.layers.fc(hidden, args.layer, act="relu")
    rule = fluid.optimizer.Adam if args.optimizer == "adam" else fluid.optimizer.Adagrad
    rule(0.01).minimize(fluid.layers.mean(fluid.layers.fc(hidden, 1)))


def worker(args: argparse.Namespace, share: float, announces: bool) -> None:
    import numpy as np

    import trireme as fluid

    row = ROW + (4 * WIDTH if args.optimizer == "adam" else 0)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        model(fluid, args, **({} if share == 1 else {"memory": int(args.rows * row * share), "spill": folder}))
        exe, random = fluid.Executor(), np.random.RandomState(1)
        exe.run(fluid.default_startup_program())
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for first in range(0, args.rows, 4 * BATCH * SLOTS):
            keys = np.arange(first, first + 4 * BATCH * SLOTS) % args.rows
            exe.run(feed={"ids": (keys * SPREAD % (1 << 40)).reshape(-1, SLOTS, 1)})
        for _ in range(60):
            exe.run(feed=keys_of(random, args.keys, args.rows))
        feeds = [keys_of(random, args.keys, args.rows) for _ in range(args.steps)]
        changed = sum(len(np.unique(feed["ids"])) for feed in feeds) * row
        disk, cpu, begun = disk_of(fluid), time.process_time(), time.perf_counter()
        for feed in fluid.distributed.prefetched(feeds) if announces else feeds:
            exe.run(feed=feed)
        found = {"step": 1e3 * (time.perf_counter() - begun) / args.steps, "cpu": 1e3 * (time.process_time() - cpu) / args.steps,
                 "memory": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3}
        for name, value in disk_of(fluid).items():
            found[name] = (value - disk[name]) / (changed if name == "written_bytes" else args.steps)
        print(json.dumps(found))


def disk_of(fluid) -> dict[str, float]:
    disk = fluid.distributed.table_report()[0].parts[0].disk
    names = ("looked_up", "found_in_memory", "reads", "reads_ahead", "wait_seconds", "written_bytes")
    return {name: getattr(disk, name) if disk else 0 for name in names}


def measure(args: argparse.Namespace, share: float, announces: bool) -> dict[str, float]:
    command = [sys.executable, __file__, *sys.argv[1:], "--worker", str(share), "--announces", str(int(announces))]
    text = subprocess.run(command, env={**os.environ, "TRIREME_NUM_THREADS": str(args.threads)}, check=True, capture_output=True, text=True,
                          timeout=3600).stdout
    return json.loads(text.splitlines()[-1])


def tell(share: float, announces: bool, found: list[dict[str, float]], yardstick: list[dict[str, float]]) -> None:
    middle = {name: statistics.median(one[name] for one in found) for name in found[0]}
    ratios = sorted(of["step"] / one["step"] for one, of in zip(found, yardstick, strict=True))
    spread = f"{ratios[len(ratios) // 4]:.2f}-{ratios[-1 - len(ratios) // 4]:.2f}"
    line = f"{share:7.4f} {'announced' if announces else '':9} {middle['step']:7.1f} ms  {statistics.median(ratios):.2f} ({spread})"
    if share < 1:
        line += (f"  {middle['found_in_memory'] / middle['looked_up']:6.1%} in memory, {middle['reads']:6.0f} reads, "
                 f"{middle['reads_ahead'] / max(middle['reads'], 1):4.0%} ahead, waits {1e3 * middle['wait_seconds']:5.1f} ms, "
                 f"{middle['written_bytes']:.2f} written")
    print(f"{line}, {middle['cpu']:.1f} ms of processors, {middle['memory']:.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--shares", default="1,0.5,0.25,0.125,0.0625")
    parser.add_argument("--optimizer", choices=("adagrad", "adam"), default="adagrad")
    parser.add_argument("--keys", choices=("zipf", "uniform"), default="zipf")
    parser.add_argument("--layer", type=int, default=400)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--worker", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--announces", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker is not None:
        worker(args, args.worker, bool(args.announces))
        return
    shares = [float(share) for share in args.shares.split(",")]
    ways = [(1.0, False)] + [(share, announces) for share in shares if share < 1 for announces in (False, True)]
    rounds = [{way: measure(args, *way) for way in ways} for _ in range(args.rounds)]
    print(f"{cpu_name()}, {args.threads} threads, {args.rows} rows, {args.keys}, {args.optimizer}, layers of {args.layer}")
    for way in ways:
        tell(*way, [one[way] for one in rounds], [one[1.0, False] for one in rounds])


if __name__ == "__main__":
    main()
