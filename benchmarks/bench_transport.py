"""Compare what a job moves with bare MPI and with memory, interleaved on the same machine.

    cmake -B build/release --preset release -DTR_BENCHMARKS=ON && cmake --build build/release
    python benchmarks/bench_transport.py build/release [--rounds 7] [--mpirun PATH] [--only push,step]

Every round runs all sides once, each by itself; a row is the median of the rounds' ratios. `bench_transport.c` says what a side does.
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
from collections.abc import Callable

# Of each side: servers, trainers.
SIDES = {"raw": (0, 2), "push": (1, 1), "sgd": (1, 1), "adam": (1, 1), "step": (1, 2), "overlap": (1, 1), "idle": (2, 2), "start": (2, 2),
         "push-unseen": (1, 1), "overlap-unseen": (1, 1), "sgd-two": (1, 1), "adam-two": (1, 1), "overlap-two": (1, 1)}
UNSEEN = "-unseen"                     # such a side does not look for NaN
TWO = "-two"                           # its server has two threads
Figures = dict[str, dict[str, float]]


def bound(raw: dict[str, float], streams: int) -> float:
    """Return GB/s of gradient at the speed of what is slower, the wire or a memory that so many streams pass."""
    return min(raw["push_GBps"], raw["triad_GBps"] / streams)


# What, in which unit, beside what, as which ratio; the target, and whether the ratio is to be below it.
ROWS: list[tuple[str, str, Callable[[Figures], float], Callable[[Figures], float], float, bool]] = [
    ("8 B push and acknowledgement, us / raw round trip", "push", lambda f: f["push"]["round_trip_us"], lambda f: f["raw"]["round_trip_us"],
     3, True),
    ("16 MiB push, GB/s / raw loop, received and added", "push", lambda f: f["push"]["push_GBps"], lambda f: f["raw"]["push_GBps"],
     0.9, False),
    ("16 MiB pull, GB/s / raw loop", "push", lambda f: f["push"]["pull_GBps"], lambda f: f["raw"]["pull_GBps"], 0.9, False),
    ("1 KB requests, 16 in flight, M/s / 1", "push", lambda f: f["push"]["requests_M"], lambda f: 1, 1, False),
    ("the same / raw loop", "push", lambda f: f["push"]["requests_M"], lambda f: f["raw"]["requests_M"], 0, False),
    ("bytes on the wire / values, but for 64 a message", "push", lambda f: f["push"]["wire"], lambda f: 1, 1.02, True),
    ("16 MiB push + SGD, GB/s / slower of wire and memory", "sgd", lambda f: f["sgd"]["sgd_GBps"], lambda f: bound(f["raw"], 3),
     0.8, False),
    ("16 MiB push + Adam, GB/s / slower of wire and memory", "adam", lambda f: f["adam"]["adam_GBps"], lambda f: bound(f["raw"], 7),
     0.8, False),
    ("16 MiB push + SGD, two server threads, GB/s / slower of wire and memory", "sgd-two", lambda f: f["sgd-two"]["sgd_GBps"],
     lambda f: bound(f["raw"], 3), 0.85, False),
    ("16 MiB push + Adam, two server threads, GB/s / slower of wire and memory", "adam-two", lambda f: f["adam-two"]["adam_GBps"],
     lambda f: bound(f["raw"], 7), 0.85, False),
    ("1 ms computing, ms / a step with 64 KB each way", "step", lambda f: f["step"]["compute_ms"], lambda f: f["step"]["step_ms"],
     0.95, False),
    ("8 layers of 2 MiB: a step, ms / the longer of computing and moving", "overlap", lambda f: f["overlap"]["step_ms"],
     lambda f: max(f["overlap"]["compute_ms"], f["overlap"]["moving_ms"]), 1.1, True),
    ("8 layers of 2 MiB, two server threads: a step, ms / the longer of computing and moving", "overlap-two",
     lambda f: f["overlap-two"]["step_ms"], lambda f: max(f["overlap-two"]["compute_ms"], f["overlap-two"]["moving_ms"]), 1.12, True),
    ("16 MiB push, GB/s / without looking for NaN", "push-unseen", lambda f: f["push"]["push_GBps"],
     lambda f: f["push-unseen"]["push_GBps"], 0.8, False),
    ("8 layers of 2 MiB: a step, ms / without looking for NaN", "overlap-unseen", lambda f: f["overlap"]["step_ms"],
     lambda f: f["overlap-unseen"]["step_ms"], 1.05, True),
    ("4 ranks, 2 CPUs: round trip, us / 10", "idle", lambda f: f["idle"]["round_trip_us"], lambda f: 10, 1, True),
    ("4 ranks, 2 CPUs: CPU of an idle rank / 1", "idle", lambda f: f["idle"]["idle_cpu"], lambda f: 1, 0.02, True),
    ("job of 2 + 2 to its first step, s / mpirun of nothing, s", "start", lambda f: f["start"]["job"], lambda f: 1 + f["start"]["mpirun"],
     1, True),
]

FIRST_STEP = """
import trireme as fluid
x = fluid.layers.data("x", [13], dtype="float32")
loss = fluid.layers.mean(fluid.layers.fc(x, 1))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
import numpy
exe.run(feed={"x": numpy.ones([4, 13], "float32")}, fetch_list=[loss])
"""


def mode_of(side: str) -> str:
    return side.removesuffix(UNSEEN).removesuffix(TWO)


def run(mpirun: str, build: pathlib.Path, side: str) -> str:
    servers, trainers = SIDES[side]
    bench = str(build / "benchmarks" / "bench_transport")
    ranks = ["-np", str(trainers), bench, mode_of(side)]
    if servers and side != "start":
        ranks = ["-np", str(servers), str(build / "bin" / "trireme-pserver"), ":", *ranks]
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TRIREME_NUM_THREADS": "1",
           "TRIREME_TRANSPORT": str(build / "python" / "trireme" / "trireme_mpi.so"),
           "TRIREME_ON_NAN": "ignore" if side.endswith(UNSEEN) else "stop", "TRIREME_SERVER_THREADS": "2" if side.endswith(TWO) else "1"}
    command = [mpirun, "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", *ranks]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=120).stdout


def measure(mpirun: str, build: pathlib.Path, side: str) -> dict[str, float]:
    if side != "start":
        return json.loads(run(mpirun, build, side).splitlines()[-1])
    begun = time.monotonic()
    run(mpirun, build, side)
    nothing = time.monotonic() - begun
    script = build / "first_step.py"
    script.write_text(FIRST_STEP)
    env = {**os.environ, "PYTHONPATH": str(build / "python"), "PYTHONPYCACHEPREFIX": str(build / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    begun = time.monotonic()
    subprocess.run([sys.executable, "-m", "trireme", "launch", "--servers", "2", "--trainers", "2", str(script)], env=env, check=True,
                   capture_output=True, timeout=120)
    return {"mpirun": nothing, "job": time.monotonic() - begun}


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3g} ({min(values):.3g}..{max(values):.3g})"


def main() -> None:
    own = f"{sys.prefix}/bin/mpirun"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mpirun", default=own if os.access(own, os.X_OK) else "mpirun")
    parser.add_argument("--only", default=",".join(SIDES), help="the sides to run; those of bare MPI always")
    args = parser.parse_args()
    asked = args.only.split(",")
    sides = dict.fromkeys(["raw", *[side.removesuffix(UNSEEN) for side in asked], *asked])
    rounds: list[Figures] = []
    for _ in range(args.rounds):
        rounds.append({side: measure(args.mpirun, args.build.resolve(), side) for side in sides})
    load = os.getloadavg()[0]
    print(f"{args.rounds} rounds; load {load:.1f} on {os.cpu_count()} CPUs; memory {spread([f['raw']['triad_GBps'] for f in rounds])} GB/s")
    print("| | job | beside it | ratio | quartiles | target |\n|---|---|---|---|---|---|")
    for name, side, ours, other, target, is_below in ROWS:
        if side not in sides:
            continue
        mine, theirs = [ours(f) for f in rounds], [other(f) for f in rounds]
        ratios = sorted(a / b for a, b in zip(mine, theirs))
        middle = statistics.median(ratios)
        missed = " (missed)" if (middle > target if is_below else middle < target) else ""
        told = f"{'<=' if is_below else '>='} {target:g}{missed}" if target else ""
        print(f"| {name} | {spread(mine)} | {spread(theirs)} | {middle:.3g} | "
              f"{ratios[len(ratios) // 4]:.3g}..{ratios[-1 - len(ratios) // 4]:.3g} | {told} |")


if __name__ == "__main__":
    main()
