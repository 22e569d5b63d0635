"""Going on from a checkpoint, on other numbers of servers than wrote it, beside a plain reading of its files with a cold page cache.

    python benchmarks/restore.py [--gigabytes 8] [--dense 0] [--width 256] [--readers 2,3] [--folder DIR] [--rounds 3]

Four servers train a table under Adagrad, and with --dense (megabytes) a dense parameter, and write one checkpoint. Then, in turns: as
many threads as there are servers read the files whole; a job goes on from the checkpoint. Its time is that of all servers' reading: of
the trainer's first question where it goes on. The same with the files in the page cache is what comparing and making rows take: on
machines whose CPUs are few beside the speed of their disk, that is the floor. It also prints by how much trainer 0's memory grew. Needs
memory and disk space for the state.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SCRIPT = """
import sys, time
import numpy as np
import trireme as fluid

rows, width, dense, steps = map(int, sys.argv[1:])
BATCH = 50000
ids = fluid.layers.data("ids", [1], dtype="int64")
table = fluid.layers.embedding(ids, [1 << 40 - width.bit_length(), width], is_distributed=True, param_attr=fluid.ParamAttr(name="table"))
loss = fluid.layers.mean(table)
if dense:
    x = fluid.layers.data("x", [dense])
    loss = loss + fluid.layers.mean(fluid.layers.fc(x, 1 << 18, bias_attr=False))
fluid.optimizer.Adagrad(0.01).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())


def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) // 1024


before, began = peak(), time.monotonic()
first = fluid.distributed.first_step()
asked = time.monotonic() - began
for step in range(first, steps):
    keys = np.arange(step * BATCH, min(rows, (step + 1) * BATCH), dtype=np.int64).reshape(-1, 1)
    feed = {"ids": keys if first == 0 else keys[:1]}
    if dense:
        feed["x"] = np.ones((1, dense), np.float32)
    exe.run(feed=feed, fetch_list=[loss])
    if first:
        print(f"restored in {asked:.3f} s, first step after {time.monotonic() - began:.3f} s, grew by {peak() - before} MB", flush=True)
"""


def launch(servers: int, script: Path, folder: Path, rows: int, args: argparse.Namespace, steps: int, *options: str) -> str:
    dense = args.dense                                 # a column of the weights has 2^18 floats: 1 MB
    line = [sys.executable, "-m", "trireme", "launch", "--servers", str(servers), "--trainers", "1", "--checkpoint", str(folder),
            "--checkpoint-seconds", "1000000", *options, str(script), str(rows), str(args.width), str(dense), str(steps)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=3600, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def forget(files: list[Path]) -> None:
    """Let the page cache drop the files."""
    os.sync()
    for path in files:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(files: list[Path], readers: int) -> float:
    def one(part: list[Path]) -> None:
        memory = bytearray(16 << 20)
        for path in part:
            with path.open("rb", buffering=0) as file:
                while file.readinto(memory):
                    pass

    forget(files)
    began = time.monotonic()
    with ThreadPoolExecutor(readers) as pool:
        list(pool.map(one, [files[i::readers] for i in range(readers)]))
    return time.monotonic() - began


def remove_others(folder: Path, files: list[Path]) -> None:
    """Remove the checkpoints that jobs have written since."""
    for path in folder.glob("step-*"):
        if path != files[0].parent:
            shutil.rmtree(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=8)
    parser.add_argument("--dense", type=int, default=0, help="megabytes of a dense parameter")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--readers", default="2,3")
    parser.add_argument("--folder")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    rows = int(args.gigabytes * 1e9 / (8 * args.width + 16))
    steps = max(1, -(-rows // 50000))
    with tempfile.TemporaryDirectory(dir=args.folder) as temporary:
        script, folder = Path(temporary) / "script.py", Path(temporary) / "checkpoints"
        script.write_text(SCRIPT)
        launch(4, script, folder, rows, args, steps)
        files = sorted(folder.glob("step-*/part-*"))
        size = sum(path.stat().st_size for path in files)
        print(f"{size / 1e9:.2f} GB, {rows} rows of {args.width} floats with one state, {args.dense} MB dense with its state, by 4 servers")
        print("| servers | plain reading | GB/s | restored in | / plain reading | from the page cache | trainer 0 grew by |\n"
              "|---|---|---|---|---|---|---|")
        for servers in map(int, args.readers.split(",")):
            rounds = []
            for _ in range(args.rounds):
                plain = read(files, servers)
                forget(files)
                said = launch(servers, script, folder, rows, args, steps + 1, "--resume", "--checkpoint-keep", "1000")
                ours, _, grown = map(float, re.findall(r"[\d.]+", said)[:3])
                remove_others(folder, files)
                read(files, servers)
                said = launch(servers, script, folder, rows, args, steps + 1, "--resume", "--checkpoint-keep", "1000")
                rounds.append((plain, ours, grown, float(re.findall(r"[\d.]+", said)[0])))
                remove_others(folder, files)
            plain, ours, cached = (statistics.median(one[i] for one in rounds) for i in (0, 1, 3))
            ratios = sorted(one[1] / one[0] for one in rounds)
            spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            memory = max(one[2] for one in rounds)
            print(f"| {servers} | {plain:.2f} s | {size / plain / 1e9:.2f} | {ours:.2f} s | {spread} | {cached:.2f} s | {memory:.0f} MB |",
                  flush=True)


if __name__ == "__main__":
    main()
