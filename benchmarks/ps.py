"""A job's steps beside those of one process and of other parameter servers: wide and deep, SGD.

    python benchmarks/ps.py [--rounds 3] [--batches 512,1024] [--trainers 1,2] [--threads 1|own] [--peer SCRIPT --peer-python PYTHON]...
    [--json out.json]

The model is row widedeep_sgd of run.py: 26 slots, a million rows x 10 and x 1, 13 numbers, layers of 400. In each round every side
runs once, each by itself: Trireme in one process; a job of 1 server whose tables are sparse (`is_distributed`), in mode sync, with two
trainers also in mode async; the same with rows that are asked for ahead (--ahead), and with dense tables (--dense); each peer, alone and
with 1 server. A step is BATCH samples, of all trainers together; in mode async and in the peers, whose workers do not wait for each other,
each takes BATCH samples in a step of its own, and the time is that of BATCH samples in all. What is compared are medians of the rounds and
of their ratios.

Each process computes with one thread, as far as its system does what it is told: TensorFlow runs two operators at a time all the same. With
--threads own each system has the machine as it would have it for its users: Trireme's launcher divides the CPUs by the trainers of a host,
the peers' processes take all CPUs each.

A peer is a script that prints a line of JSON with ms_median, given by --peer and run under --peer-python; several are given by
repeating both. The first word of its name (tf_..., paddle_...) says which it is of PEERS.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import machine

HERE = Path(__file__).parent
LIMIT = 240                                      # seconds of one side in one round


@dataclass
class Peer:
    """Called as `SCRIPT local BATCH 1 THREADS` for one process, as `SCRIPT mode BATCH WORKERS THREADS` with 1 server."""

    name: str
    mode: str
    tells_each: bool = False                     # every worker prints a line, with the time of its own steps
    command: tuple = ()


PEERS = {"tf": Peer("TensorFlow", "ps"), "paddle": Peer("Paddle", "async", tells_each=True)}


def peers_of(scripts: list[Path], pythons: list[str]) -> list[Peer]:
    """What --peer names, each under the --peer-python of its place; the last one goes on for the rest."""
    found = []
    for i, script in enumerate(scripts):
        kind = PEERS.get(script.name.split("_")[0])
        if kind is None:
            sys.exit(f"ps.py: '{script.name}' is none of {', '.join(f'{word}_...' for word in PEERS)}")
        found.append(replace(kind, command=(pythons[min(i, len(pythons) - 1)], script)))
    return found


def told(command: list, env: dict, tells_each: bool = False) -> dict:
    """Run a side; return the object of its last line of JSON, with the machine's load beside it. Where each worker tells its own
    time, the job's is that in which all of them together take BATCH samples."""
    words = [str(word) for word in command]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    of_job = json.loads(lines[-1])
    if tells_each:
        of_job = {**of_job, "ms_median": 1 / sum(1 / json.loads(line)["ms_median"] for line in lines)}
    return {**of_job, "load": os.getloadavg()[0]}


def sides_of(batch: int, trainers: int, options: argparse.Namespace) -> dict[str, list]:
    """The command of each side; those of peers begin with their names."""
    worker, here = [HERE / "ps_worker.py", batch], [sys.executable]
    launch = [*here, "-m", "trireme", "launch", "--servers", 1, "--trainers", trainers]
    sides = {"one process": [*here, *worker], "sync": [*launch, *worker, "--tables"]}
    if trainers > 1:
        sides["async"] = [*launch, "--mode", "async", *worker, "--tables", "--each"]
    if options.ahead:
        sides["sync, rows ahead"] = [*launch, *worker, "--tables", "--ahead"]
        if trainers > 1:
            sides["async, rows ahead"] = [*sides["async"], "--ahead"]
    if options.dense:
        sides["sync, dense"] = [*launch, *worker]
    threads = 1 if options.threads == "1" else os.cpu_count()
    for peer in options.peers:
        sides[f"{peer.name}, one process"] = [*peer.command, "local", batch, 1, threads]
        sides[f"{peer.name}, 1 server"] = [*peer.command, peer.mode, batch, trainers, threads]
    return sides


def environment_of(options: argparse.Namespace) -> dict:
    names = ("TRIREME_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    env = {name: value for name, value in os.environ.items() if name not in names}
    return {**env, **dict.fromkeys(names, "1")} if options.threads == "1" else env


def measure(batch: int, trainers: int, options: argparse.Namespace) -> dict:
    env, sides, found = environment_of(options), sides_of(batch, trainers, options), {}
    each = {f"{peer.name}, 1 server" for peer in options.peers if peer.tells_each}
    for turn in range(options.rounds):
        for name in sides if turn % 2 == 0 else reversed(sides):
            found.setdefault(name, []).append(told(sides[name], env, name in each))
    return {"batch": batch, "trainers": trainers, "threads": options.threads, "sides": found}


def spread(values: list[float]) -> str:
    """The median, and the least and the greatest."""
    return f"{statistics.median(values):.1f} ({min(values):.1f}..{max(values):.1f})" if values else "-"


def ratio(above: list[dict] | None, below: list[dict]) -> str:
    """The median of the rounds' ratios."""
    if not above:
        return "-"
    return f"{statistics.median(a['ms_median'] / b['ms_median'] for a, b in zip(above, below)):.2f}"


def headings(peers: list[Peer]) -> list[str]:
    return ["batch", "trainers", "side", "ms a step (least..greatest)", "/ one process", *(f"{peer.name} / this" for peer in peers), "load"]


def rows(result: dict, peers: list[Peer]) -> list[list[str]]:
    sides = result["sides"]
    table = []
    for name, runs in sides.items():
        own = next((peer for peer in peers if name.startswith(f"{peer.name}, ")), None)
        single = sides[f"{own.name}, one process" if own else "one process"]
        kind = "one process" if name.endswith("one process") else "1 server"
        beside = [ratio(None if own else sides[f"{peer.name}, {kind}"], runs) for peer in peers]
        table.append([str(result["batch"]), str(result["trainers"]), name, spread([run["ms_median"] for run in runs]),
                      ratio(runs, single), *beside, f"{statistics.mean(run['load'] for run in runs):.0f}"])
    return table


def main() -> None:
    numbers = lambda text: [int(part) for part in text.split(",")]
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--batches", type=numbers, default=[512, 1024])
    options.add_argument("--trainers", type=numbers, default=[1, 2])
    options.add_argument("--threads", choices=["1", "own"], default="1", help="of each process; own: as each system chooses")
    options.add_argument("--dense", action="store_true", help="also a job whose tables are ordinary parameters")
    options.add_argument("--ahead", action="store_true", help="also a job that knows the keys of its next batch")
    options.add_argument("--peer", type=Path, action="append", default=[], help="a peer's script; may be repeated")
    options.add_argument("--peer-python", action="append", help="of each peer in turn")
    options.add_argument("--json", type=Path, help="write all figures there")
    options = options.parse_args()
    options.peers = peers_of(options.peer, options.peer_python or [os.environ.get("TRIREME_PEER_PYTHON", sys.executable)])
    report = {"date": date.today().isoformat(), "machine": machine.describe(), "versions": machine.versions(), "results": []}
    print(f"{report['date']}, {report['machine']}, {report['versions']}")
    titles = headings(options.peers)
    print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
    for batch in options.batches:
        for trainers in options.trainers:
            start = time.monotonic()
            result = measure(batch, trainers, options)
            report["results"].append({**result, "seconds": time.monotonic() - start})
            for row in rows(result, options.peers):
                print("| " + " | ".join(row) + " |", flush=True)
            if options.json:
                options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
