"""What a step costs by the number of sparse tables that hold the same rows: messages, time, processor time.

    python benchmarks/many_tables.py [--fields 26] [--batch 128] [--tables 52,2] [--ranks 1+1,2+2] [--rounds 3] [--steps 300]

Run it with the package on PYTHONPATH or installed. Each field of a batch has an id, with a row of 16 values and one of 1 value. So there
are two tables for each field, or two tables for all, with keys made different for each field. The work of a step is else the same. With
`--ahead` rows of the next batch are asked for ahead, as `train_from_dataset` does; else a step asks for its rows when it begins.

Messages are those that a trainer sends and receives. Processor time is that of a trainer and of a server, with all their threads
(/proc/PID/task/*/schedstat). All numbers are of one step; times are the best of the rounds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import json, os, pathlib, sys, time
import numpy as np
import trireme as fluid
from trireme._core import ffi, lib
from trireme.job import job

tables, fields, batch, steps, ahead = (int(word) for word in sys.argv[1:])


def table(name, ids, width):
    return fluid.layers.embedding(ids, [1 << 40, width], is_sparse=True, is_distributed=True, param_attr=fluid.ParamAttr(name))


def processor_time(process):
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in pathlib.Path("/proc", str(process), "task").iterdir())


def servers():
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getppid() and b"pserver" in (folder / "cmdline").read_bytes().split(bytes(1))[0]:
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def figures():
    lib.tr_job_finish_pulls(job.current().ptr)
    stats = ffi.new("tr_job_stats *")
    lib.tr_job_get_stats(job.current().ptr, stats)
    return np.array([stats.messages_sent + stats.messages_received, stats.bytes_sent + stats.bytes_received, 1e9 * time.perf_counter(),
                     processor_time("self"), np.mean([processor_time(one) for one in servers()] or [0])])


every = fluid.layers.data("every", [fields, 1], dtype="int64")
label = fluid.layers.data("label", [1])
if tables > 2:
    ids = [fluid.layers.data(f"id{i}", [1], dtype="int64") for i in range(fields)]
    rows = [table(f"deep{i}", one, 16) for i, one in enumerate(ids)] + [table(f"wide{i}", one, 1) for i, one in enumerate(ids)]
    hidden = fluid.layers.concat(rows, axis=1)
else:
    hidden = fluid.layers.concat([fluid.layers.reshape(table("deep", every, 16), [-1, 16 * fields]),
                                  fluid.layers.reshape(table("wide", every, 1), [-1, fields])], axis=1)
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), label))
fluid.optimizer.SGD(0.01).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
random = np.random.default_rng(fluid.distributed.trainer_index())
feeds = []
for _ in range(16):
    keys = (20000 * random.random((batch, fields)) ** 3).astype("int64")
    feed = {"label": np.ones((batch, 1), "float32")}
    if tables > 2:
        feed.update({f"id{i}": keys[:, i:i + 1].copy() for i in range(fields)})
    else:
        feed["every"] = (keys + np.arange(fields) * 20000)[:, :, None].copy()
    feeds.append(feed)


def train(count):
    batches = [feeds[i % len(feeds)] for i in range(count)]
    for feed in fluid.distributed.prefetched(batches) if ahead else batches:
        exe.run(feed=feed, fetch_list=[loss])


train(30)
before = figures()
train(steps)
if fluid.distributed.trainer_index() == 0:
    print("figures", json.dumps(((figures() - before) / steps).tolist()), flush=True)
train(3)
"""


def run(ranks: str, arguments: list[str], script: Path) -> list[float]:
    """Return messages, bytes, and nanoseconds by the clock, of a trainer and of a server."""
    servers, trainers = ranks.split("+")
    command = [sys.executable, "-m", "trireme", "launch", "--servers", servers, "--trainers", trainers, "--progress", "0", str(script)]
    done = subprocess.run([*command, *arguments], check=False, capture_output=True, text=True, timeout=1800)
    lines = [line.partition(" ")[2] for line in done.stdout.splitlines() if "figures [" in line]
    if not lines:
        raise RuntimeError(f"{command} printed no figures:\n{done.stdout}{done.stderr}")
    return json.loads(lines[0].rpartition("figures ")[2])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--fields", type=int, default=26)
    options.add_argument("--batch", type=int, default=128)
    options.add_argument("--tables", default="52,2")
    options.add_argument("--ranks", default="1+1,2+2")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--steps", type=int, default=300)
    options.add_argument("--ahead", action="store_true")
    args = options.parse_args()
    print("| servers + trainers | tables | messages | KB | ms | CPU of a trainer, ms | CPU of a server, ms |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "tables.py"
        script.write_text(SCRIPT)
        for ranks in args.ranks.split(","):
            for tables in args.tables.split(","):
                arguments = [tables, str(args.fields), str(args.batch), str(args.steps), str(int(args.ahead))]
                rounds = [run(ranks, arguments, script) for _ in range(args.rounds)]
                messages, size, *times = [min(column) for column in zip(*rounds)]
                cells = [ranks, tables, f"{messages:.1f}", f"{size / 1e3:.0f}", *(f"{one / 1e6:.2f}" for one in times)]
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
