"""A step of mlpbig_sgd over a slow link, by each method of compression: two hosts of namespaces, of which one has the server and a
trainer, the other a second trainer.

    python benchmarks/slow_link.py [--mbit 1000,100] [--methods none,int8] [--steps 20]      as root

The second host's link is limited to so many Mbit/s each way; mode sync, so that its trainer's step is everybody's. A step pushes 7.4 MB
of gradients, compressed, and pulls as many bytes of parameters, which always travel as they are. Prints a line for each: the median
step of the trainer after the link, and what goes out there and in.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WARM = 5                               # first steps, which do not count
METHODS = "none,fp16,bf16,int8,topk(0.1),topk(0.01)"


def train(batch: int, steps: int, counted) -> tuple[float, list[float]]:
    """Train mlpbig_sgd. Return the median time of a step in ms, and by how much each number of `counted()` grows in a step."""
    import numpy as np
    from trireme_rows import mlpbig_sgd

    import trireme as fluid

    loss, optimizer = mlpbig_sgd()
    optimizer.minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    random = np.random.default_rng(1)
    feed = {"x": random.normal(size=(batch, 784)).astype("float32"), "y": random.integers(0, 10, (batch, 1))}
    seconds, found = [], []
    for _ in range(steps + WARM):
        begun = time.perf_counter()
        exe.run(feed=feed, fetch_list=[loss])
        seconds.append(time.perf_counter() - begun)
        found.append(counted())
    each = [(last - first) / steps for first, last in zip(found[WARM - 1], found[-1])]
    return 1e3 * statistics.median(seconds[WARM:]), each


def work(steps: int) -> None:
    """The trainer."""
    import trireme as fluid
    from trireme._core import ffi, lib
    from trireme.job import job

    stats = ffi.new("tr_job_stats *")

    def moved() -> tuple[int, int]:
        lib.tr_job_get_stats(job.current().ptr, stats)
        return stats.bytes_sent, stats.bytes_received

    ms, (sent, received) = train(256, steps, moved)
    if fluid.distributed.trainer_index() == fluid.distributed.trainer_count() - 1:
        print(json.dumps({"ms": ms, "sent": sent, "received": received}), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--mbit", default="1000,100")
    options.add_argument("--methods", default=METHODS)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = options.parse_args()
    if options.worker:
        work(options.steps)
        return
    sys.path.insert(0, str(HERE.parent / "tests" / "python"))
    import cluster

    reason = cluster.missing()
    if reason:
        sys.exit(f"slow_link: {reason}")
    with cluster.Cluster(2, (cluster.ROOT, Path.cwd()), slots=2) as hosts:
        for mbit in map(int, options.mbit.split(",")):
            hosts.limit("h2", mbit)
            for method in options.methods.split(","):
                command = [sys.executable, "-m", "trireme", "launch", "--hostfile", hosts.hostfile, "--ssh", hosts.ssh, "--servers", 1,
                           "--trainers", 2, "--standbys", 0, "--restarts", 0, "--compress", method, HERE / "slow_link.py", "--worker",
                           "--steps", options.steps]
                done = subprocess.run(hosts.command(command, folder=HERE.parent), capture_output=True, text=True, timeout=600, check=False)
                lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
                if done.returncode or not lines:
                    sys.exit(f"the job ended with {done.returncode}:\n{done.stdout}{done.stderr}")
                found = json.loads(lines[-1])
                print(f"{mbit:>6} Mbit/s  {method:<12} {found['ms']:8.1f} ms a step  {found['sent'] / 1e6:8.3f} MB out  "
                      f"{found['received'] / 1e6:8.3f} MB in", flush=True)


if __name__ == "__main__":
    main()
