"""A job's steps beside those of one process and of TensorFlow's parameter server: wide and deep, SGD, one thread each.

    python benchmarks/ps.py [--rounds 3] [--batches 512,1024] [--trainers 1,2] [--json out.json]

The model is row widedeep_sgd of run.py: 26 slots, a million rows x 10 and x 1, 13 numbers, layers of 400. In each round every side
runs once, each by itself: Trireme in one process; a job of 1 server whose tables are sparse (`is_distributed`), in mode sync, with two
trainers also in mode async; the same with rows that are asked for ahead (--ahead), and with dense tables (--dense); the peer, alone and with 1 server. A step is BATCH samples, of
all trainers together; in mode async and in TensorFlow, whose workers do not wait for each other, each takes BATCH samples in a step
of its own, and the time is that of BATCH samples in all. What is compared are medians of the rounds and of their ratios.

The peer is a script that prints a line of JSON with ms_median: `PEER local|ps BATCH WORKERS 1`, given by --peer and run under
--peer-python. Without it its columns stay empty.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import machine

HERE = Path(__file__).parent
LIMIT = 240                                      # seconds of one side in one round


def told(command: list, env: dict) -> dict:
    """Run a side; return the object of its last line of JSON, with the machine's load beside it."""
    words = [str(word) for word in command]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return {**json.loads(lines[-1]), "load": os.getloadavg()[0]}


def sides_of(batch: int, trainers: int, options: argparse.Namespace) -> dict[str, list]:
    """The command of each side."""
    worker, here = [HERE / "ps_worker.py", batch], [sys.executable]
    launch = [*here, "-m", "trireme", "launch", "--servers", 1, "--trainers", trainers]
    sides = {"one process": [*here, *worker], "sync": [*launch, *worker, "--tables"]}
    if trainers > 1:
        sides["async"] = [*launch, "--mode", "async", *worker, "--tables", "--each"]
    if options.ahead:
        sides["sync, rows ahead"] = [*launch, *worker, "--tables", "--ahead"]
    if options.dense:
        sides["sync, dense"] = [*launch, *worker]
    if options.peer:
        peer = [options.peer_python, options.peer]
        sides["peer, one process"] = [*peer, "local", batch, 1, 1]
        sides["peer"] = [*peer, "ps", batch, trainers, 1]
    return sides


def measure(batch: int, trainers: int, options: argparse.Namespace) -> dict:
    env = {**os.environ, "TRIREME_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    sides, found = sides_of(batch, trainers, options), {}
    for turn in range(options.rounds):
        for name in sides if turn % 2 == 0 else reversed(sides):
            found.setdefault(name, []).append(told(sides[name], env))
    return {"batch": batch, "trainers": trainers, "sides": found}


def spread(values: list[float]) -> str:
    """The median, and the least and the greatest."""
    return f"{statistics.median(values):.1f} ({min(values):.1f}..{max(values):.1f})" if values else "-"


def ratio(above: list[dict] | None, below: list[dict]) -> str:
    """The median of the rounds' ratios."""
    if not above:
        return "-"
    return f"{statistics.median(a['ms_median'] / b['ms_median'] for a, b in zip(above, below)):.2f}"


HEADINGS = ("batch", "trainers", "side", "ms a step (least..greatest)", "/ one process", "peer / this", "load")


def rows(result: dict) -> list[list[str]]:
    sides = result["sides"]
    table = []
    for name, runs in sides.items():
        is_peer = name.startswith("peer")
        single = sides["peer, one process" if is_peer else "one process"]
        peer = None if is_peer else sides.get("peer, one process" if name == "one process" else "peer")
        table.append([str(result["batch"]), str(result["trainers"]), name, spread([run["ms_median"] for run in runs]),
                      ratio(runs, single), ratio(peer, runs), f"{statistics.mean(run['load'] for run in runs):.0f}"])
    return table


def main() -> None:
    numbers = lambda text: [int(part) for part in text.split(",")]
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--batches", type=numbers, default=[512, 1024])
    options.add_argument("--trainers", type=numbers, default=[1, 2])
    options.add_argument("--dense", action="store_true", help="also a job whose tables are ordinary parameters")
    options.add_argument("--ahead", action="store_true", help="also a job that knows the keys of its next batch")
    options.add_argument("--peer", type=Path, help="the peer's script")
    options.add_argument("--peer-python", default=os.environ.get("TRIREME_PEER_PYTHON", sys.executable))
    options.add_argument("--json", type=Path, help="write all figures there")
    options = options.parse_args()
    report = {"date": date.today().isoformat(), "machine": machine.describe(), "versions": machine.versions(), "results": []}
    print(f"{report['date']}, {report['machine']}, {report['versions']}")
    print("| " + " | ".join(HEADINGS) + " |\n|" + "---|" * len(HEADINGS))
    for batch in options.batches:
        for trainers in options.trainers:
            start = time.monotonic()
            result = measure(batch, trainers, options)
            report["results"].append({**result, "seconds": time.monotonic() - start})
            for row in rows(result):
                print("| " + " | ".join(row) + " |", flush=True)
            if options.json:
                options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
