"""Sparse tables: looking rows up beside reading them at known places; training steps beside a dense table; memory.

    cmake -B build/release --preset release -DTR_BENCHMARKS=ON && cmake --build build/release
    python benchmarks/bench_table.py build/release [--rows 10000000] [--rounds 7] [--mpirun PATH]

A step looks 26 keys up for each of 1024 samples (Zipf, exponent 1.05), takes the mean of all and trains the rows by Adagrad: there
is nothing in it but rows. It is timed with a dense table of sparse gradients in one process (gather and scatter at known places), with a
sparse table in one process, with one on a server, and with one on a server whose rows are asked for a step ahead (`prefetch`). Times are
wall clock: the best step and the median say how quiet it was; where rows come a step ahead only the median counts, since a step may find
its rows there.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

SLOTS, BATCH, WIDTH, EXPONENT = 26, 1024, 16, 1.05
KINDS = ("dense", "sparse", "job", "ahead")


def worker(kind: str, rows: int, steps: int) -> None:
    import numpy as np

    import trireme as fluid

    ids = fluid.layers.data("ids", [SLOTS, 1], dtype="int64")
    attr = fluid.ParamAttr("table", initializer=fluid.initializer.Constant(0.5))
    looked_up = fluid.layers.embedding(ids, [rows, WIDTH], is_sparse=True, is_distributed=kind != "dense", param_attr=attr)
    fluid.optimizer.Adagrad(0.1).minimize(fluid.layers.mean(looked_up))
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    random, a = np.random.RandomState(1), 1 - EXPONENT
    ranks = [((random.random_sample((BATCH, SLOTS, 1)) * ((rows + 1.0) ** a - 1) + 1) ** (1 / a)).astype(np.int64) - 1
             for _ in range(64)]                       # the inverse of Zipf's distribution, made continuous
    batches = [{"ids": rank * 2654435761 % rows} for rank in ranks]
    for batch in batches:
        exe.run(feed=batch)
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        if kind == "ahead":
            fluid.distributed.prefetch(batches[(step + 1) % 64])
        exe.run(feed=batches[step % 64])
        times.append(1e3 * (time.perf_counter() - begin))
    print(json.dumps({"median": statistics.median(times), "best": min(times)}))


def run(command: list[str], build: pathlib.Path) -> dict[str, float]:
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TRIREME_NUM_THREADS": "1",
           "PYTHONPATH": str(build / "python")}
    text = subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=600).stdout
    return json.loads(text.splitlines()[-1])


def step_of(kind: str, args: argparse.Namespace) -> dict[str, float]:
    script = [sys.executable, __file__, str(args.build), "--worker", kind, "--rows", str(args.rows), "--steps", str(args.steps)]
    if kind in ("job", "ahead"):
        script = [args.mpirun, "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp",
                  "-np", "1", str(args.build / "bin" / "trireme-pserver"), ":", "-np", "1", *script]
    return run(script, args.build)


def main() -> None:
    own = f"{sys.prefix}/bin/mpirun"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--mpirun", default=own if os.access(own, os.X_OK) else "mpirun")
    parser.add_argument("--small", type=int, default=0, help="report the memory of so many rows of 4 values, too")
    parser.add_argument("--worker", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.build = args.build.resolve()
    if args.worker:
        worker(args.worker, args.rows, args.steps)
        return
    bench = str(args.build / "benchmarks" / "bench_table")
    looks = [run([bench, str(args.rows), str(WIDTH), "1"], args.build) for _ in range(args.rounds)]
    for ours, raw in (("find", "raw_read"), ("pull", "raw_gather")):
        ratio = statistics.median(one[ours] / one[raw] for one in looks)
        print(f"{ours}: {statistics.median(one[ours] for one in looks):.1f} M keys/s of CPU time, {raw} "
              f"{statistics.median(one[raw] for one in looks):.1f}, ratio {ratio:.2f}")
    ratio = statistics.median(one["restore"] / one["make"] for one in looks)
    print(f"restore: {statistics.median(one['restore'] for one in looks):.2f} M rows/s of CPU time, make "
          f"{statistics.median(one['make'] for one in looks):.2f}, ratio {ratio:.2f}")
    print(f"{looks[0]['bytes_a_row']:.1f} bytes a row of {WIDTH} values and one state, {looks[0]['over_need']:.3f} of values + states + 24")
    if args.small:
        one = run([bench, str(args.small), "4", "0"], args.build)
        print(f"{one['rows']:.0f} rows of 4 values: {one['bytes_a_row']:.1f} bytes a row, {one['over_need']:.3f} of values + 24; "
              f"made at {one['make']:.2f} M a second of CPU time")
    rounds = [{kind: step_of(kind, args) for kind in KINDS} for _ in range(args.rounds)]
    for kind in KINDS:
        ratio = {of: statistics.median(one["dense"][of] / one[kind][of] for one in rounds) for of in ("median", "best")}
        print(f"{kind:6} step {statistics.median(one[kind]['median'] for one in rounds):7.2f} ms, best "
              f"{min(one[kind]['best'] for one in rounds):.2f}, dense / {kind} {ratio['median']:.2f}, of best steps {ratio['best']:.2f}")


if __name__ == "__main__":
    main()
