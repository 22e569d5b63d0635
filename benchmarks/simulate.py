"""Step times of real jobs on this machine beside what `trireme simulate` predicts for it.

    python benchmarks/simulate.py [--costs FILE] [--jobs 1+1,1+2,2+2] [--rounds 3] [--hosts --mbit 1000,200]

The costs are those of `trireme simulate --calibrate`. The models had no part in that. All ranks run on this host and share its cores, which
the prediction knows. With --hosts (as root) the jobs run on three hosts of namespaces, whose links are limited to so many Mbit/s each way.

A job's step is the best of its rounds of ten steps: what other processes take from it is no part of the prediction. Where others keep the
cores busy all the time, the CPU time of all ranks in a step says more. Prints a line for each job, then the median and the worst error of
both.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SETTINGS = (("sync", "none"), ("async", "none"), ("sync", "bf16"))
MODELS = (("mlpbig_sgd", 256), ("mlp_adam", 64), ("lenet5", 32), ("widedeep_tables", 256))
ROUND, WARM = 10, 10


def work(model: str, batch: int, rounds: int) -> None:
    """A trainer, or the script that is measured alone."""
    import numpy as np
    import rows
    import trireme_rows

    import trireme as fluid

    loss, optimizer = getattr(trireme_rows, model)()
    optimizer.minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    random = np.random.default_rng([1, fluid.distributed.trainer_index()])
    feeds = [_batch(rows, model, random, batch) for _ in range(8)]
    servers = _servers() if fluid.distributed.trainer_index() == 0 else []
    means, works = [], []
    for _ in range(1 + rounds):
        before, begun = _worked(["self", *servers]), time.perf_counter()
        for i in range(ROUND):
            exe.run(feed=feeds[i % len(feeds)], fetch_list=[loss])
        means.append((time.perf_counter() - begun) / ROUND)
        works.append((_worked(["self", *servers]) - before) / ROUND)
    print(json.dumps({"best": min(means[1:]), "work": min(works[1:])}), flush=True)


def _servers():
    """The processes of a job's servers on this host."""
    logs = Path(os.environ.get("TRIREME_LOG", "/nowhere")).glob("server-*.jsonl")
    return [json.loads(log.read_text().splitlines()[0])["pid"] for log in logs]


def _worked(processes):
    """CPU seconds of processes: of their threads, which live as long as the job."""
    return 1e-9 * sum(int(one.read_text().split()[0]) for pid in processes for one in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def _batch(rows, model, random, batch):
    if model.startswith("widedeep"):
        feed = rows.ctr_batch(random, batch)
        return {**feed, "ids": feed["ids"][:, :, None]}
    shape = (1, 28, 28) if model == "lenet5" else (784,)
    return {"x": random.normal(size=(batch, *shape)).astype("float32"), "y": random.integers(0, 10, (batch, 1))}


def measured(options, model, batch, job, mode, compress, run, more=()):
    """Of a step of a job: the mean over its trainers of the best of all rounds of all starts, and the CPU seconds of all ranks."""
    servers, trainers = job
    logs = tempfile.mkdtemp()
    best, work = [float("inf")] * trainers, float("inf")
    command = [sys.executable, "-m", "trireme", "launch", "--log", logs, *more, "--servers", servers, "--trainers", trainers,
               "--standbys", 0, "--restarts", 0, "--mode", mode, "--compress", compress, HERE / "simulate.py", "--worker", model, batch,
               "--rounds", options.rounds]
    for _ in range(options.starts):
        done = run(list(map(str, command)))
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or len(lines) != trainers:
            sys.exit(f"the job ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        best = [min(pair) for pair in zip(best, sorted(line["best"] for line in lines))]
        work = min(work, sum(line["work"] for line in lines))
    shutil.rmtree(logs)
    return statistics.mean(best), work


def predicted(facts, costs, cluster, job, mode, compress):
    from trireme.job.mode import parse
    from trireme.simulate.schedule import Options
    from trireme.simulate.simulation import simulate

    servers, trainers = job
    found = simulate(facts, costs, cluster, parse(mode), Options(compress), trainers, servers)
    return found.step, found.work


def local(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False,
                          env={**os.environ, "TRIREME_NUM_THREADS": "1"})


def compare(options, jobs, cluster_of, run, more=(), note=""):
    """Print a line for each job; return the errors."""
    from trireme.simulate.costs import default_path, load
    from trireme.simulate.probe import run_script_apart

    costs, errors = load(Path(options.costs) if options.costs else default_path()), []
    for model, batch in MODELS:
        if options.models and model not in options.models.split(","):
            continue
        facts = run_script_apart(str(HERE / "simulate.py"), ["--worker", model, str(batch), "--rounds", "5"], steps=30)
        facts.computing *= min(facts.spread)           # the best rounds are compared, and they have no stragglers
        facts.spread = [1.0]
        for job in jobs:
            for mode, compress in SETTINGS:
                said = predicted(facts, costs, cluster_of(job), job, mode, compress)
                real = measured(options, model, batch, job, mode, compress, run, more)
                errors.append([one / other - 1 for one, other in zip(said, real)])
                print(f"{model:<16} {batch:>4} {job[0]}+{job[1]} {mode:<6} {compress:<5} {note}alone {1e3 * facts.computing:8.2f} ms",
                      end="")
                for what, one, other, error in zip(("step", "CPU"), said, real, errors[-1]):
                    print(f"; {what} predicted {1e3 * one:8.2f}, measured {1e3 * other:8.2f}, error {error:+7.1%}", end="")
                print(flush=True)
    return errors


def on_hosts(options, mbit):
    """Three hosts: a server and a trainer on the first one, a trainer on each of the others."""
    sys.path.insert(0, str(HERE.parent / "tests" / "python"))
    import cluster

    from trireme.simulate.simulation import Cluster

    reason = cluster.missing()
    if reason:
        sys.exit(f"simulate: {reason}")
    with cluster.Cluster(3, (cluster.ROOT, Path.cwd()), slots=2) as hosts:
        for number in (1, 2, 3):
            hosts.limit(f"h{number}", mbit)
        more = ["--hostfile", hosts.hostfile, "--ssh", hosts.ssh]

        def run(command):
            words = ["env", "TRIREME_NUM_THREADS=1", *command]
            return subprocess.run(hosts.command(words, folder=HERE.parent), capture_output=True, text=True, timeout=600, check=False)
        return compare(options, [(1, 3)], lambda _: Cluster(mbit * 1e6 / 8, 5e-5, is_shared=True), run, more, f"{mbit} Mbit/s ")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--costs")
    options.add_argument("--jobs", default="1+1,1+2,2+2", help="servers + trainers")
    options.add_argument("--models", help="some of the models")
    options.add_argument("--rounds", type=int, default=6)
    options.add_argument("--starts", type=int, default=2)
    options.add_argument("--hosts", action="store_true")
    options.add_argument("--mbit", default="1000,200")
    options.add_argument("--worker", nargs=2, metavar=("MODEL", "BATCH"), help=argparse.SUPPRESS)
    options = options.parse_args()
    if options.worker:
        work(options.worker[0], int(options.worker[1]), options.rounds)
        return
    from trireme.simulate.simulation import Cluster

    if options.hosts:
        errors = [one for mbit in options.mbit.split(",") for one in on_hosts(options, int(mbit))]
    else:
        jobs = [tuple(map(int, one.split("+"))) for one in options.jobs.split(",")]
        cores = os.cpu_count() or 1
        errors = compare(options, jobs, lambda job: Cluster(1e12, 0.0, trainers_per_host=job[1], cores=cores, is_shared=True), local)
    for what, found in zip(("step", "CPU"), zip(*errors)):
        sizes = [abs(one) for one in found]
        print(f"{what}: median error {statistics.median(sizes):.1%}, worst {max(sizes):.1%}, of {len(sizes)} jobs")


if __name__ == "__main__":
    main()
