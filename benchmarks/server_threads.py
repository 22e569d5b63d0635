"""How long a server computes on a step with one thread and with several, in jobs of one server.

    python benchmarks/server_threads.py [--threads 1,2] [--rounds 5] [--steps 60] [--only dense,rows]

Run it with the package on PYTHONPATH or installed. The server says how long an update takes it (`apply_median_ms` of its log): rows of
several trainers are added in it, too, but a trainer's computing and the way of messages do not count. In `sync` the trainer waits
meanwhile, so that the server can have its core. Each round runs all numbers of threads in turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import sys
import numpy as np
import trireme as fluid

kind, optimizer, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
layers = fluid.layers
if kind == "dense":                                    # 16 MiB of one parameter
    x = layers.data("x", [1024])
    loss = layers.mean(layers.fc(x, 4096, bias_attr=False))
    feeds = [{"x": np.ones((1, 1024), "float32")}]
else:                                                  # 20,000 rows of 16 values a step, of a million
    ids = layers.data("ids", [1], dtype="int64")
    loss = layers.mean(layers.embedding(ids, [1 << 40, 16], is_distributed=True, param_attr="rows"))
    random = np.random.default_rng(fluid.distributed.trainer_index())
    feeds = [{"ids": random.permutation(10**6)[:20000].reshape(-1, 1)} for _ in range(40)]
getattr(fluid.optimizer, optimizer)(0.01).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
for step in range(steps):
    exe.run(feed=feeds[step % len(feeds)])
"""
CASES = [("dense", "SGD", 1), ("dense", "Adam", 1), ("rows", "Adagrad", 1), ("rows", "Adam", 1), ("rows", "Adagrad", 2)]


def run(script: Path, case: tuple[str, str, int], threads: int, steps: int) -> float:
    """Return the milliseconds of an update."""
    kind, optimizer, trainers = case
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, "-m", "trireme", "launch", "--servers", "1", "--trainers", str(trainers), "--standbys", "0", "--log",
                folder, "--server-threads", str(threads), str(script), kind, optimizer, str(steps)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        return json.loads((Path(folder) / "server-0.jsonl").read_text().splitlines()[-1])["apply_median_ms"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--only", default="dense,rows")
    args = parser.parse_args()
    numbers, chosen = [int(one) for one in args.threads.split(",")], args.only.split(",")
    print(f"| job | {' | '.join(f'{one} threads' for one in numbers)} | {numbers[0]} / {numbers[-1]} |")
    print("|---" * (len(numbers) + 2) + "|")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(SCRIPT)
        for case in (one for one in CASES if one[0] in chosen):
            rounds = [[run(script, case, threads, args.steps) for threads in numbers] for _ in range(args.rounds)]
            ratios = sorted(one[0] / one[-1] for one in rounds)
            times = " | ".join(f"{statistics.median(one[i] for one in rounds):.2f}" for i in range(len(numbers)))
            spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            print(f"| {case[0]}, {case[1]}, 1 + {case[2]} | {times} | {spread} |", flush=True)


if __name__ == "__main__":
    main()
