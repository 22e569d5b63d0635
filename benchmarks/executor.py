"""What running costs beyond the kernels: nanoseconds per operator, microseconds per Executor.run, allocations.

    python benchmarks/executor.py [--rounds 15]

A chain of 110 additions of one element is run by the core alone and compared with a chain of 10: a hundredth of the
difference is what an operator costs, its kernel of one addition included. Times are CPU time of one thread, which other
work on the machine disturbs little.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("TRIREME_NUM_THREADS", "1")
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])

import numpy as np  # noqa: E402

import trireme as fluid  # noqa: E402
from trireme._core import ffi, lib  # noqa: E402

layers = fluid.layers
SLICE_S = 0.05


def program_of(build):
    """Return (program, feeds, fetches) of what `build` makes; it returns the last two."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        feed, fetches = build()
    exe = fluid.Executor()
    exe.run(startup)
    return exe, main, feed, fetches


def chain(length):
    def build():
        x = layers.data("x", [1], append_batch_size=False)
        y = x
        for _ in range(length):
            y = layers.elementwise_add(y, x)
        y.persistable = True                     # else nothing wants the chain
        return {"x": np.ones(1, np.float32)}, [y]
    return program_of(build)


def runner_of_core(exe, main, feed, fetches):
    """A function that runs the plan `count` times without Python's part, and the plan."""
    exe.run(main, feed=feed, fetch_list=fetches)
    prepared = next(reversed(main._prepared.values()))
    kept = [one.set(feed[name]) for name, one in prepared.feeds]
    tensors = [ffi.gc(lib.tr_tensor_new(), lib.tr_tensor_free) for _ in fetches]
    out = ffi.new("tr_tensor *[]", tensors)

    def run(count):
        assert kept and tensors and exe and main   # the plan and its outputs are theirs
        for _ in range(count):
            lib.tr_plan_run(prepared.plan, prepared.natives, out)
    return run, prepared.plan


def runner_of_python(exe, main, feed, fetches):
    def run(count):
        for _ in range(count):
            exe.run(main, feed=feed, fetch_list=fetches)
    return run


def seconds(run):
    """Return the seconds of one call within a slice of SLICE_S."""
    count = 1
    while True:
        start = time.process_time()
        run(count)
        spent = time.process_time() - start
        if spent > SLICE_S / 4:
            break
        count *= 2
    count = max(1, int(count * SLICE_S / spent))
    start = time.process_time()
    run(count)
    return (time.process_time() - start) / count


def report(name, values, unit, target):
    low, middle, high = statistics.quantiles(values, n=4)
    print(f"{name:58s} {middle:9.2f} {unit:3s}  ({low:.2f}..{high:.2f})   target {target}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=15)
    rounds = options.parse_args().rounds

    long, long_plan = runner_of_core(*chain(110))
    short, _ = runner_of_core(*chain(10))
    empty = runner_of_python(*program_of(lambda: ({}, [])))

    def one_operator():
        x = layers.data("x", [1], append_batch_size=False)
        return {"x": np.ones(1, np.float32)}, [layers.scale(x, scale=2.0)]

    one = runner_of_python(*program_of(one_operator))
    per_operator, of_ten, of_empty, of_one = [], [], [], []
    for _ in range(rounds):
        of_ten.append(seconds(short) * 1e6)
        per_operator.append(seconds(long) * 1e7 - of_ten[-1] * 10)
        of_empty.append(seconds(empty) * 1e6)
        of_one.append(seconds(one) * 1e6)
    report("an operator in a planned step (one element added)", per_operator, "ns", "<= 15")
    report("a run of ten operators by the core", of_ten, "us", "<= 0.4")
    report("Executor.run of an empty program", of_empty, "us", "<= 1.4")
    report("Executor.run of one operator, one feed and one fetch", of_one, "us", "<= 8")
    before = lib.tr_plan_allocations(long_plan)
    long(1000)
    print(f"{'allocations in 1000 repeated steps of 110 operators':58s} "
          f"{lib.tr_plan_allocations(long_plan) - before:9d}      target 0")


if __name__ == "__main__":
    main()
