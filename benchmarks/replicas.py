"""Training on several threads: replicas of a program (CompiledProgram.with_data_parallel) and kernels that share their work, beside one
thread.

    python benchmarks/replicas.py [--rows resnet20,widedeep_sgd] [--threads 2] [--rounds 9]

Four sides hold the same row and take turns, one at a time, as in run.py: one thread; so many threads under one executor; as many replicas;
and as many processes of one thread that work at the same time. These share nothing but the machine, so no sharing of a step is faster: they
are the floor. "speed" is the median of the rounds' ratios to one thread. A round in which other processes took much of the CPUs
is set aside, as long as --patience lasts. "round trip" is how long a cache line takes from the first CPU to the second and back, before and
after the row: what threads share costs three times as much where the host of a virtual machine gives it CPUs without a common cache. On a
busy machine `--best --slice-ms 20 --rounds 200` says more: it compares each side's fastest round.
"""

import argparse
import os
import statistics
import sys

import machine
from rows import ROWS
from run import FIRST_STEPS, Crowd, Side, check_losses, quartiles, take_rounds


def measure(name: str, options: argparse.Namespace) -> list[str]:
    sides = [Side("trireme", name, 1, sys.executable), Side("trireme", name, options.threads, sys.executable),
             Side("replicas", name, options.threads, sys.executable), Crowd("trireme", name, options.threads, sys.executable)]
    check_losses(name, sides, 0.05, steps=FIRST_STEPS)       # batch_norm takes the statistics of a slice, which makes another model of it
    sides[1].name = "threads"
    steps = {side.name: max(1, int(options.slice_ms / min(side.ask("time", 3)["ms"] for _ in range(5)))) for side in sides}
    before = machine.round_trip_ns()
    others = take_rounds(sides, steps, options.rounds, options.patience, options.threads, "ms")
    trips = f"{before}..{machine.round_trip_ns()}"
    for side in sides:
        side.close()
    if options.best:
        for side in sides:
            side.ms = [min(side.ms)]
    one = sides[0].ms
    speeds = [[a / b for a, b in zip(one, side.ms)] for side in sides[1:]]
    texts = ["{:.2f} ({:.2f}..{:.2f})".format(statistics.median(speed), *quartiles(speed)[::2]) for speed in speeds]
    return [name, *[f"{statistics.median(side.ms):.3f}" for side in sides], *texts, trips, f"{100 * others:.0f} %"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rows", default="resnet20,widedeep_sgd", help="names, separated by commas: %(default)s")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--patience", type=float, default=40, help="seconds that a row waits for quiet rounds: %(default)s")
    options.add_argument("--slice-ms", type=float, default=250, help="milliseconds of one side in one round: %(default)s")
    options.add_argument("--best", action="store_true", help="compare the fastest rounds alone")
    options = options.parse_args()
    unknown = [name for name in options.rows.split(",") if name not in ROWS]
    if unknown:
        sys.exit(f"no such rows: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    if not 2 <= options.threads <= len(os.sched_getaffinity(0)):
        sys.exit(f"2 threads or more are possible, and {options.threads} need as many CPUs")
    headings = ["row", "1 thread, ms", f"{options.threads} threads, ms", f"{options.threads} replicas, ms",
                f"{options.threads} processes, ms", "speed of threads",
                "speed of replicas", f"speed of {options.threads} processes", "round trip, ns", "others"]
    print("| " + " | ".join(headings) + " |\n|" + "---|" * len(headings))
    for name in options.rows.split(","):
        print("| " + " | ".join(measure(name, options)) + " |", flush=True)


if __name__ == "__main__":
    main()
