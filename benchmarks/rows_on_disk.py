"""Rows on disk beside RocksDB and beside memory, in a memory cgroup with a hard limit.

    sudo python benchmarks/rows_on_disk.py FOLDER [--rows 104000000] [--share 0.125] [--keys zipf,uniform] [--optimizers adagrad,adam]
        [--engines memory,table,rocksdb] [--steps 200] [--warm 200] [--program build/release/benchmarks/bench_rows_on_disk]

FOLDER lies on the disk that is measured. For each optimizer and engine a process makes all rows, and measures the laws of the keys one
after the other (bench_rows_on_disk.c, built with -DTR_BENCHMARKS=ON). ``table`` and ``rocksdb`` have `memory`: the share of the bytes that
the rows take in memory, with their index. The limit of their process is 128 MB more, for the program. Rows that are ``announced`` are those
of a table whose next step is known (tr_table_expect).

The floor of a step is the number of its reads, divided by the reads of 4 KiB that the disk makes in a second.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import mmap
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

from machine import cpu_name

WIDTH, LOOK_UPS, PROGRAM_BYTES = 16, 13312, 128 << 20
ROW = {"adagrad": 155, "adam": 219}                    # bytes of a row in memory, with its index


@dataclasses.dataclass
class Group:
    """A memory cgroup."""

    folder: pathlib.Path
    peak: pathlib.Path

    def enter(self) -> None:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))


@contextlib.contextmanager
def limited(limit: int) -> Iterator[Group]:
    """Make a memory cgroup with a hard limit, of either version."""
    root = pathlib.Path("/sys/fs/cgroup")
    is_new = "memory" in (root / "cgroup.controllers").read_text().split() if (root / "cgroup.controllers").exists() else False
    folder = (root if is_new else root / "memory") / f"rows_on_disk_{os.getpid()}"
    try:
        folder.mkdir()
        (folder / ("memory.max" if is_new else "memory.limit_in_bytes")).write_text(str(limit))
    except OSError as why:
        raise SystemExit(f"rows_on_disk.py makes a memory cgroup, and needs root and the memory controller below {root}: {why}") from why
    try:
        yield Group(folder, folder / ("memory.peak" if is_new else "memory.max_usage_in_bytes"))
    finally:
        time.sleep(1)                                  # the kernel still frees the process's memory
        folder.rmdir()


def disk_reads(folder: pathlib.Path) -> float:
    """Return the reads of 4 KiB at random places that the disk makes in a second, past the page cache."""
    size, seconds = 4 << 30, 8
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        piece = os.urandom(1 << 20)
        for _ in range(size >> 20):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
        if shutil.which("fio"):
            options = {"name": "reads", "filename": file.name, "size": size, "rw": "randread", "bs": "4k", "direct": 1,
                       "ioengine": "libaio", "iodepth": 128, "runtime": seconds, "time_based": 1, "output-format": "json"}
            command = ["fio", *(f"--{name}={value}" for name, value in options.items())]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            return json.loads(text)["jobs"][0]["read"]["iops"]
        return plain_reads(file.name, size, seconds)


def plain_reads(name: str, size: int, seconds: float) -> float:
    counts: list[int] = []

    def read() -> None:
        file, page, count = os.open(name, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4096), 0
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            os.preadv(file, [page], random.randrange(size >> 12) << 12)
            count += 1
        os.close(file)
        counts.append(count)

    threads = [threading.Thread(target=read) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def free_bytes() -> int:
    lines = dict(line.split(":") for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) << 10


def run(args: argparse.Namespace, engine: str, optimizer: str) -> list[dict]:
    """Return what the program has measured, a dictionary for each law and way; nothing if it could not run."""
    rows = args.rows
    memory = int(args.share * rows * ROW[optimizer])
    if engine == "memory" and free_bytes() < rows * ROW[optimizer] * 1.05:
        print(f"memory, {optimizer}: not measured, {free_bytes() >> 30} GB are free", flush=True)
        return []
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder, contextlib.ExitStack() as stack:
        group = None if engine == "memory" else stack.enter_context(limited(memory + PROGRAM_BYTES))
        command = [args.program, "--engine", engine, "--rows", rows, "--width", WIDTH, "--optimizer", optimizer, "--keys", args.keys,
                   "--memory", memory, "--folder", folder, "--look-ups", LOOK_UPS, "--steps", args.steps, "--warm", args.warm]
        command += ["--ahead"] if engine == "table" else ["--settings", args.settings]
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, preexec_fn=group.enter if group else None,
                              check=False)
        peak = int(group.peak.read_text()) if group and group.peak.exists() else None
    if done.returncode:
        print(f"{engine}, {optimizer}: the program ended with {done.returncode}; -9: it took more memory than the limit", flush=True)
    return [{**json.loads(line), "group": peak} for line in done.stdout.splitlines()]


def tell(found: dict, beside: dict[str, dict], reads_a_second: float, optimizer: str) -> None:
    def ratio(name: str) -> str:
        other = beside.get(name)
        return f"{other['step'] / found['step']:.3g}" if other and name != found["engine"] else ""

    name = found["engine"] + (", announced" if found["ahead"] else "")
    cells = [optimizer, found["keys"], name, f"{1 / found['step']:.1f}", f"{found['rows_a_second']:,.0f}"]
    cells += [ratio("memory"), ratio("rocksdb")]
    if found["engine"] != "memory":
        waited = "" if found["waited"] is None else f"{1e3 * found['waited']:.0f} ms"
        cells += [f"{found['reads']:.0f}, {found['read_bytes'] / 1e6:.1f} MB", f"{found['found']:.1%}", f"{found['written']:.2f}", waited,
                  f"{1e3 * found['cpu']:.0f} ms", f"{found['peak'] / 1e6:.0f} MB, {(found['group'] or 0) / 1e6:.0f} MB",
                  f"{1e3 * found['reads'] / reads_a_second:.0f} of {1e3 * found['step']:.0f} ms"]
    else:
        cells += ["", "", "", "", f"{1e3 * found['cpu']:.1f} ms", f"{found['peak'] / 1e6:.0f} MB", ""]
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    root = pathlib.Path(__file__).parents[1]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=104_000_000)
    parser.add_argument("--share", type=float, default=0.125)
    parser.add_argument("--keys", default="zipf,uniform")
    parser.add_argument("--optimizers", default="adagrad,adam")
    parser.add_argument("--engines", default="memory,table,rocksdb")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--warm", type=int, default=200)
    parser.add_argument("--settings", default="", help="options of RocksDB, as text, beside those of the program")
    parser.add_argument("--program", type=pathlib.Path, default=root / "build/release/benchmarks/bench_rows_on_disk")
    args = parser.parse_args()
    if not args.program.exists():
        sys.exit(f"{args.program} does not exist: build it with -DTR_BENCHMARKS=ON, or name it by --program")
    with limited(1 << 30):                             # complain before anything takes time
        pass
    reads_a_second = disk_reads(args.folder)
    print(f"{cpu_name()}, {len(os.sched_getaffinity(0))} CPUs, {reads_a_second:.0f} reads of 4 KiB a second, {args.rows} rows, "
          f"a share of {args.share:g} in memory\n")
    print("| optimizer | keys | engine | steps a second | rows a second | to memory | to RocksDB | reads a step | found in memory | "
          "written for a byte that changed | waiting | processor time | peak: process, cgroup | floor |\n" + "|---" * 14 + "|", flush=True)
    for optimizer in args.optimizers.split(","):
        found = {engine: run(args, engine, optimizer) for engine in args.engines.split(",")}
        for law in args.keys.split(","):
            beside = {one["engine"]: one for lines in found.values() for one in lines if one["keys"] == law and not one["ahead"]}
            for one in (one for lines in found.values() for one in lines if one["keys"] == law):
                tell(one, beside, reads_a_second, optimizer)


if __name__ == "__main__":
    main()
