"""Wide and deep as ps.py times it: in one process, or as a trainer of a job. Trainer 0 prints a line of JSON.

    ps_worker.py BATCH [--tables] [--each] [--ahead]

BATCH samples are a step of all trainers; with --each they are a step of each, as asynchronous trainers take them.
"""

import argparse
import json
import resource
import statistics
import sys
import time

import numpy as np
from rows import BATCHES, ctr_batch
from trireme_rows import widedeep_sgd, widedeep_tables

import trireme as fluid

ROUNDS, STEPS, WARM = 5, 30, 20


def feeds_of(batch, is_own):
    index, count = fluid.distributed.trainer_index(), fluid.distributed.trainer_count()
    random = np.random.default_rng([1, index if is_own else 0])
    for _ in range(BATCHES):
        feed = ctr_batch(random, batch)
        feed["ids"] = feed["ids"][:, :, None]
        yield feed if is_own else fluid.distributed.slice_of(feed, index, count)


def cpu_ms():
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return 1e3 * used.ru_utime, 1e3 * used.ru_stime


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("batch", type=int)
    options.add_argument("--tables", action="store_true")
    options.add_argument("--each", action="store_true")
    options.add_argument("--ahead", action="store_true", help="rows of the next batch are asked for before its step")
    options.add_argument("--profile", action="store_true", help="print where the time of the operators goes")
    options = options.parse_args()
    loss, optimizer = (widedeep_tables if options.tables else widedeep_sgd)()
    optimizer.minimize(loss)
    exe, main_program = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program()
    exe.run(fluid.default_startup_program())
    feeds = list(feeds_of(options.batch, options.each))

    def step(i):
        if options.ahead:
            fluid.distributed.prefetch(feeds[(i + 1) % BATCHES])
        exe.run(main_program, feed=feeds[i % BATCHES], fetch_list=[loss])

    for i in range(WARM):
        step(i)
    if options.profile:
        fluid.profiler.start_profiler("CPU")
    times, begun = [], cpu_ms()
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for i in range(STEPS):
            step(i)
        times.append((time.perf_counter() - start) / STEPS * 1e3)
    used = [(now - then) / (ROUNDS * STEPS) for now, then in zip(cpu_ms(), begun)]
    shared = fluid.distributed.trainer_count() if options.each else 1
    if fluid.distributed.trainer_index() == 0:
        if options.profile:
            fluid.profiler.stop_profiler("total")
        sys.stdout.write(json.dumps({"ms_median": statistics.median(times) / shared, "ms_best": min(times) / shared,
                                     "user_ms": used[0], "system_ms": used[1]}) + "\n")


if __name__ == "__main__":
    main()
