"""Saving a sparse table of a job into files, exporting it, and loading it before the first step, beside plain writing and reading.

    python benchmarks/table_files.py [--gigabytes 2] [--width 64] [--servers 2,3] [--folder DIR] [--rounds 3]

Jobs of one trainer train a table under Adagrad. Saving and exporting are timed by the trainer's calls; the same bytes are then written,
and flushed, by as many threads as there are servers. Loading is the time until the first step is over, less that of a job that loads
nothing; plain reading takes as many threads, with a cold page cache. It also prints by how much trainer 0's memory grew. Needs memory and
disk space for the table.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from restore import forget, read

SCRIPT = """
import sys, time
import numpy as np
import trireme as fluid

rows, width, load, save, export = *map(int, sys.argv[1:3]), *sys.argv[3:]
BATCH = 50000
ids = fluid.layers.data("ids", [1], dtype="int64")
table = fluid.layers.embedding(ids, [1 << 40, width], is_distributed=True, param_attr="table")
fluid.optimizer.Adagrad(0.01).minimize(fluid.layers.mean(table))
exe = fluid.Executor()
exe.run(fluid.default_startup_program())


def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) // 1024


def timed(what, call):
    before, began = peak(), time.monotonic()
    call()
    print(f"{what} {time.monotonic() - began:.3f} {peak() - before}", flush=True)


def first_step():
    if load:
        fluid.io.load_vars(exe, load, vars=["table"])
    exe.run(feed={"ids": np.zeros((1, 1), np.int64)})


timed("loaded", first_step)
for begin in range(0, 0 if load else rows, BATCH):
    exe.run(feed={"ids": np.arange(begin, min(rows, begin + BATCH), dtype=np.int64).reshape(-1, 1)})
if save:
    timed("saved", lambda: fluid.io.save_vars(exe, save, vars=["table"]))
    timed("exported", lambda: fluid.serving.export_model(export, ["ids"], [table], exe))
"""


def launch(servers: int, script: Path, args: argparse.Namespace, rows: int, load: str = "", save: str = "",
           export: str = "") -> dict[str, list[float]]:
    line = [sys.executable, "-m", "trireme", "launch", "--servers", str(servers), "--trainers", "1", str(script), str(rows),
            str(args.width), load, save, export]
    done = subprocess.run(line, capture_output=True, text=True, timeout=3600, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    found = re.findall(r"(loaded|saved|exported) ([\d.]+) (\d+)", done.stdout)
    return {what: [float(seconds), float(grown)] for what, seconds, grown in found}


def write(folder: Path, size: int, writers: int) -> float:
    """Write and flush so many bytes in files, by so many threads."""
    def one(number: int) -> None:
        block, left = os.urandom(1 << 22), size // writers
        with (folder / f"plain-{number}").open("wb", buffering=0) as file:
            while left > 0:
                left -= file.write(block[:left])
            os.fsync(file.fileno())

    began = time.monotonic()
    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(one, range(writers)))
    took = time.monotonic() - began
    for path in folder.glob("plain-*"):
        path.unlink()
    return took


def ratio(pairs: list[tuple[float, float]]) -> str:
    ratios = sorted(ours / plain for ours, plain in pairs)
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def measure(servers: int, script: Path, folder: Path, args: argparse.Namespace, rows: int) -> None:
    saved, exported, loaded, grown = [], [], [], 0.0
    for number in range(args.rounds):
        place, export = folder / f"saved-{servers}-{number}", folder / f"export-{servers}-{number}"
        first = launch(servers, script, args, rows, save=str(place), export=str(export))
        files, rest = sorted(place.glob("table/*.npy")), sorted(export.glob("*/*.rows"))
        sizes = [sum(path.stat().st_size for path in some) for some in (files, rest)]
        saved.append((first["saved"][0], write(folder, sizes[0], servers)))
        exported.append((first["exported"][0], write(folder, sizes[1], servers)))
        plain = read(files, servers)
        forget(files)
        again = launch(servers, script, args, rows, load=str(place))
        loaded.append((again["loaded"][0] - first["loaded"][0], plain))
        grown = max(grown, first["saved"][1], first["exported"][1], again["loaded"][1] - first["loaded"][1])
        for path in (*files, *rest):
            path.unlink()
    for what, pairs in (("saved", saved), ("exported", exported), ("loaded", loaded)):
        ours, plain = (statistics.median(pair[i] for pair in pairs) for i in range(2))
        print(f"| {servers} | {what} | {ours:.2f} s | {plain:.2f} s | {ratio(pairs)} | {grown:.0f} MB |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--servers", default="2,3")
    parser.add_argument("--folder")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    rows = int(args.gigabytes * 1e9 / (8 * args.width + 16))
    with tempfile.TemporaryDirectory(dir=args.folder) as temporary:
        script = Path(temporary) / "script.py"
        script.write_text(SCRIPT)
        print(f"{args.gigabytes} GB, {rows} rows of {args.width} floats with one state")
        print("| servers | | ours | plain | ours / plain | trainer 0 grew by |\n|---|---|---|---|---|---|")
        for servers in map(int, args.servers.split(",")):
            measure(servers, script, Path(temporary), args, rows)


if __name__ == "__main__":
    main()
