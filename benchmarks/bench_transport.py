"""Compare pushes and pulls through a job with bare MPI, interleaved on the same machine.

    cmake -B build/release --preset release -DTR_BENCHMARKS=ON && cmake --build build/release
    python benchmarks/bench_transport.py build/release [--rounds 7] [--mpirun PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess


def run(mpirun: str, build: pathlib.Path, mode: str) -> dict[str, float]:
    bench = str(build / "benchmarks" / "bench_transport")
    ranks = ["-np", "2", bench, "raw"]
    if mode == "job":
        ranks = ["-np", "1", str(build / "bin" / "trireme-pserver"), ":", "-np", "1", bench, "job"]
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "TRIREME_TRANSPORT": str(build / "python" / "trireme" / "trireme_mpi.so")}
    command = [mpirun, "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", *ranks]
    text = subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=120).stdout
    return json.loads(text.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mpirun", default="mpirun")
    args = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {"raw": [], "job": []}
    for _ in range(args.rounds):
        for mode, list_ in results.items():
            list_.append(run(args.mpirun, args.build.resolve(), mode))
    for key in ("push_ack_8B_us", "push_16MiB_GBps", "pull_16MiB_GBps"):
        raw, job = ([one[key] for one in results[mode]] for mode in ("raw", "job"))
        a, b = statistics.median(raw), statistics.median(job)
        print(f"{key:18} raw {a:8.2f} ({min(raw):.2f}..{max(raw):.2f})  job {b:8.2f} ({min(job):.2f}..{max(job):.2f})  "
              f"job/raw {b / a:.2f}")


if __name__ == "__main__":
    main()
