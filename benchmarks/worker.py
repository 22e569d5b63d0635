"""One side of a row in a process of its own, told over a pipe what to do: worker.py SIDE ROW THREADS [PRECISION].

SIDE is trireme, torch or jax. PRECISION is one of run.PRECISIONS; a side that has no such precision says so and ends. It answers one line
of JSON for each line it reads: to `check K` the losses of the first K steps, to `time N` the milliseconds of a step on average of N (by the
clock, and of the CPU), to `memory` its peak, to `product` the GFLOP/s of a large product in this precision. It ends with its input.
"""

import importlib
import json
import os
import resource
import sys
import time


def main() -> None:
    side, name, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    precision = sys.argv[4] if len(sys.argv) > 4 else "float32"
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)                                # what a library prints is no answer

    def answer(**fields):
        print(json.dumps(fields), file=answers, flush=True)

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TRIREME_NUM_THREADS"):
        os.environ[variable] = str(threads)
    try:
        module = importlib.import_module(f"{side}_rows")
    except ImportError as error:
        return answer(skip=f"not installed: {error}")
    from rows import ROWS
    if not hasattr(module, name):
        return answer(skip="row not written for it")
    if precision != "float32" and precision not in getattr(module, "PRECISIONS", ()):
        return answer(skip=f"rows not written in {precision}")
    feeds, step = module.prepare(name, ROWS[name](), threads, *([precision] if precision != "float32" else []))
    answer(version=module.version())
    at = 0
    for line in sys.stdin:
        command, *count = line.split()
        if command == "memory":
            answer(mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            continue
        if command == "product":
            answer(gflops=module.product_gflops(time.process_time if threads == 1 else time.perf_counter, precision))
            continue
        count, losses, loss = int(count[0]), [], None
        start, start_cpu = time.perf_counter(), time.process_time()
        for i in range(at, at + count):
            loss = step(feeds[i % len(feeds)])
            if command == "check":
                losses.append(float(loss.mean()))
        module.wait(loss)
        at += count
        answer(ms=(time.perf_counter() - start) / count * 1e3, cpu_ms=(time.process_time() - start_cpu) / count * 1e3,
               losses=losses)


if __name__ == "__main__":
    main()
