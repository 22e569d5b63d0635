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
    prepared.begin(feed)
    plan, feeds, out = (ffi.cast(kind, address) for kind, address in (("tr_plan *", prepared.plan), ("tr_feed *", prepared.feeds),
                                                                      ("tr_tensor **", prepared.tensors)))

    def run(count):
        assert prepared and exe                    # the plan and its outputs are theirs
        for _ in range(count):
            lib.tr_plan_run(plan, feeds, out)
    return run, plan


def runner_of_handle(exe, main, feed, fetches):
    """A function that runs what `Executor.prepare` has prepared."""
    prepared = exe.prepare(main, feed=list(feed), fetch_list=fetches)

    def run(count):
        for _ in range(count):
            prepared.run(feed)
    return run


def runner_of_python(exe, main, feed, fetches, **more):
    def run(count):
        for _ in range(count):
            exe.run(main, feed=feed, fetch_list=fetches, **more)
    return run


def scales(count):
    """So many feeds of four elements, an operator and a fetch for each."""
    def build():
        xs = [layers.data(f"x{i}", [4], append_batch_size=False) for i in range(count)]
        return {x.name: np.ones(4, np.float32) for x in xs}, [layers.scale(x, scale=2.0) for x in xs]
    return program_of(build)


def calls_of_python():
    """Return what is measured of Python's part: (name, function, target)."""
    empty, one, ten = (scales(count) for count in (0, 1, 10))
    return [("Executor.run of an empty program", runner_of_python(*empty), "<= 2"),
            ("Executor.prepare(...).run of an empty program", runner_of_handle(*empty), "<= 1"),
            ("Executor.run of one operator, one feed and one fetch", runner_of_python(*one), "<= 4"),
            ("Executor.prepare(...).run of that", runner_of_handle(*one), ""),
            ("Executor.run of ten operators, ten feeds and ten fetches", runner_of_python(*ten), "<= 12"),
            ("the same with return_numpy=False", runner_of_python(*ten, return_numpy=False), "<= 12")]


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
    per_operator, of_ten = [], []
    calls = {name: (run, target, []) for name, run, target in calls_of_python()}
    for _ in range(rounds):
        of_ten.append(seconds(short) * 1e6)
        per_operator.append(seconds(long) * 1e7 - of_ten[-1] * 10)
        for run, _target, spent in calls.values():
            spent.append(seconds(run) * 1e6)
    report("an operator in a planned step (one element added)", per_operator, "ns", "<= 15")
    report("a run of ten operators by the core", of_ten, "us", "<= 0.4")
    for name, (_run, target, spent) in calls.items():
        report(name, spent, "us", target)
    before = lib.tr_plan_allocations(long_plan)
    long(1000)
    print(f"{'allocations in 1000 repeated steps of 110 operators':58s} "
          f"{lib.tr_plan_allocations(long_plan) - before:9d}      target 0")


if __name__ == "__main__":
    main()
