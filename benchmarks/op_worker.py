"""One side of ops.py in a process of its own: op_worker.py SIDE THREADS. It answers one line of JSON for each line it reads:

    prepare CASE MODE VARIANT    whether there is such a variant; it is what the lines below speak of
    check                        a digest of each result, to compare sides by
    time COUNT                   milliseconds of a call, on average of so many, by the clock and of the CPU
"""

import importlib
import json
import os
import sys
import time

import numpy as np


def digest(value: np.ndarray) -> list[float]:
    """Return the shape's product, the mean size of an element, and a projection that depends on where each stands."""
    flat = value.reshape(-1).astype(np.float64)
    return [float(flat.size), float(np.abs(flat).mean()), float(flat @ np.cos(np.arange(flat.size)) / flat.size ** 0.5)]


def main() -> None:
    side, threads = sys.argv[1], int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)                                # what a library prints is no answer

    def answer(**fields):
        print(json.dumps(fields), file=answers, flush=True)

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TRIREME_NUM_THREADS"):
        os.environ[variable] = str(threads)
    try:
        module = importlib.import_module(f"op_{side}")
    except ImportError as error:
        return answer(skip=f"not installed: {error}")
    from op_cases import CASES
    answer(version=module.version(), variants=module.VARIANTS)
    run = None
    for line in sys.stdin:
        command, *words = line.split(" ")
        words = [word.strip() for word in words]
        if command == "prepare":
            run = module.prepare(CASES[words[0]], words[1], threads, words[2])
            answer(there=run is not None)
        elif command.strip() == "check":
            answer(digests=[digest(value) for value in module.arrays(run())])
        else:
            count = int(words[0])
            start, start_cpu = time.perf_counter(), time.process_time()
            for _ in range(count):
                run()
            answer(ms=(time.perf_counter() - start) / count * 1e3, cpu_ms=(time.process_time() - start_cpu) / count * 1e3)


if __name__ == "__main__":
    main()
