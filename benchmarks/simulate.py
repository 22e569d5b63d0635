"""Real jobs on this machine beside what `trireme simulate` predicts for them: CPU time of each kind of rank, and the time of a step.

    python benchmarks/simulate.py [--costs FILE] [--jobs 1+1,1+2,2+2] [--models mlp_adam:64,...] [--save FILE]
    python benchmarks/simulate.py --load FILE [--costs FILE]
    python benchmarks/simulate.py --hosts [--mbit 1000,200]          as root

The costs are those of `trireme simulate --calibrate`. The models had no part in that. All ranks run on this host and share its cores, which
the prediction knows. With --hosts the jobs run on three hosts of namespaces, whose links are limited to so many Mbit/s each way.

--save keeps what was measured, and --load compares it again: with other costs, or with a simulator that has changed. CPU time is that of
the best round of steps, a step the median of rounds. Prints a line for each job, then the median and the worst error.
"""

import argparse
import itertools
import json
import os
import pickle
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SETTINGS = ("sync none", "async none", "sync bf16", "ssp(2) int8")
HOST_SETTINGS = ("sync none", "sync bf16", "sync int8", "async none")
MODELS = "mlpbig_sgd:256,mlp_adam:64,lenet5:32,widedeep_tables:256,deepfm_tables:512,ngram:128"
ROUNDS = 6
WHAT = ("step", "CPU of a trainer", "CPU of a server")


def work(model: str, batch: int, steps: int) -> None:
    """A trainer, or the script that is measured alone."""
    import numpy as np
    import rows
    import trireme_rows

    import trireme as fluid
    from trireme.simulate.meter import meter

    loss, optimizer = getattr(trireme_rows, model)()
    optimizer.minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    random = np.random.default_rng([1, fluid.distributed.trainer_index()])
    feeds = [_batch(rows, model, random, batch) for _ in range(8)]
    for i in range(10):
        exe.run(feed=feeds[i % len(feeds)], fetch_list=[loss])
    job = meter(fluid.distributed.trainer_index())
    for _ in range(ROUNDS):
        job.round(lambda i: exe.run(feed=feeds[i % len(feeds)], fetch_list=[loss]), steps)
    print(job.report(), flush=True)


def _batch(rows, model, random, batch):
    if model.startswith(("widedeep", "deepfm")):
        feed = rows.ctr_batch(random, batch)
        return {**feed, "ids": feed["ids"][:, :, None]}
    if model == "ngram":
        return {"x": random.integers(0, 2073, (batch, 4, 1)), "y": random.integers(0, 2073, (batch, 1))}
    shape = {"lenet5": (1, 28, 28), "resnet20": (3, 32, 32)}.get(model, (784,))
    return {"x": random.normal(size=(batch, *shape)).astype("float32"), "y": random.integers(0, 10, (batch, 1))}


@dataclass
class Measured:
    """A job, and what was measured of it: milliseconds. ``facts`` are those of as many copies of its script as it had trainers here."""

    model: str
    batch: int
    job: tuple[int, int]
    mode: str
    compress: str
    mbit: int
    facts: object
    lines: list

    @property
    def values(self):
        """A step, and the CPU time of a trainer and of a server in it."""
        cpu = {name: value for line in self.lines for name, value in line["cpu"].items()}
        trainers = [value for name, value in cpu.items() if name.startswith("trainer")]
        servers = [value for name, value in cpu.items() if name.startswith("server")]
        return [1e3 * statistics.mean(one) for one in ([line["round"] for line in self.lines], trainers, servers or [float("nan")])]


def probe(model, batch, copies):
    from trireme.simulate.probe import run_script_apart
    return run_script_apart(str(HERE / "simulate.py"), ["--worker", model, str(batch), "--steps", "5"], steps=30, copies=copies)


def measure(model, batch, facts, job, setting, run, more=(), mbit=0):
    mode, compress = setting.split()
    servers, trainers = job
    step = facts.computing + 1e-4 + (2 * trainers * facts.dense_bytes / (mbit * 1e6 / 8) if mbit else 0.0)
    steps = int(min(max(0.25 / step, 3 if mbit else 8), 200))
    logs = tempfile.mkdtemp()
    command = [sys.executable, "-m", "trireme", "launch", "--log", logs, *more, "--servers", servers, "--trainers", trainers,
               "--standbys", 0, "--restarts", 0, "--mode", mode, "--compress", compress, HERE / "simulate.py", "--worker", model, batch,
               "--steps", steps]
    done = run(list(map(str, command)))
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    shutil.rmtree(logs)
    if done.returncode or len(lines) != trainers:
        sys.exit(f"the job ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return Measured(model, batch, job, mode, compress, mbit, facts, lines)


def local(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False,
                          env={**os.environ, "TRIREME_NUM_THREADS": "1"})


def of_models(options):
    for one in options.models.split(","):
        model, _, batch = one.partition(":")
        yield model, int(batch)


def here(options):
    """Measure jobs whose ranks share this host."""
    jobs = [tuple(map(int, one.split("+"))) for one in options.jobs.split(",")]
    for model, batch in of_models(options):
        facts = {copies: probe(model, batch, copies) for copies in {trainers for _, trainers in jobs}}
        for job, setting in itertools.product(jobs, options.settings.split(",")):
            yield measure(model, batch, facts[job[1]], job, setting, local)


def on_hosts(options):
    """Measure jobs on three hosts: a server and a trainer on the first one, a trainer on each of the others."""
    sys.path.insert(0, str(HERE.parent / "tests" / "python"))
    import cluster

    reason = cluster.missing()
    if reason:
        sys.exit(f"simulate: {reason}")
    with cluster.Cluster(3, (cluster.ROOT, Path.cwd()), slots=2) as hosts:
        def run(command):
            words = ["env", "TRIREME_NUM_THREADS=1", f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}", *command]
            return subprocess.run(hosts.command(words, folder=HERE.parent), capture_output=True, text=True, timeout=600, check=False)

        more = ["--hostfile", hosts.hostfile, "--ssh", hosts.ssh]
        for model, batch in of_models(options):
            facts = probe(model, batch, 2)
            for mbit in map(int, options.mbit.split(",")):
                for number in (1, 2, 3):
                    hosts.limit(f"h{number}", mbit)
                for setting in options.settings.split(","):
                    yield measure(model, batch, facts, (1, 3), setting, run, more, mbit)


def predicted(one, costs):
    from trireme.job.mode import parse
    from trireme.simulate.schedule import Options
    from trireme.simulate.simulation import Cluster, simulate

    servers, trainers = one.job
    cores = os.cpu_count() or 1
    if one.mbit:
        cluster = Cluster(one.mbit * 1e6 / 8, 5e-5, trainers_per_host=1, is_shared=True)
    else:
        cluster = Cluster(1e13, 0.0, trainers_per_host=trainers, cores=cores, is_shared=True)
    found = simulate(one.facts, costs, cluster, parse(one.mode), Options(one.compress), trainers, servers)
    return [1e3 * value for value in (found.step, found.of_trainer, found.of_server)]


def compare(found, costs, clock):
    """Print a line for a job; return the errors."""
    said, real = predicted(found, costs), found.values
    where = f"{found.mbit} Mbit/s" if found.mbit else ""
    print(f"{found.model:<16} {found.batch:>4} {found.job[0]}+{found.job[1]} {found.mode:<6} {found.compress:<5} {where:<11}", end="")
    kept = [True, not found.mbit, not found.mbit] if clock else [False, True, True]
    errors = [one / other - 1 if keep else None for one, other, keep in zip(said, real, kept)]
    for what, one, other, error in zip(WHAT, said, real, errors):
        if error is not None:
            print(f"; {what} {one:.3g} ms, measured {other:.3g}, {error:+.1%}", end="")
    print(flush=True)
    return errors


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--costs")
    options.add_argument("--jobs", default="1+1,1+2,2+2", help="servers + trainers")
    options.add_argument("--models", default=MODELS, help="some of the models, each with its batch")
    options.add_argument("--settings", help="mode and compression, such as 'sync none,async int8'")
    options.add_argument("--hosts", action="store_true")
    options.add_argument("--mbit", default="1000,200")
    options.add_argument("--no-clock", action="store_true", help="others use this machine: compare CPU times alone")
    options.add_argument("--save")
    options.add_argument("--load")
    options.add_argument("--steps", type=int, default=10, help=argparse.SUPPRESS)
    options.add_argument("--worker", nargs=2, metavar=("MODEL", "BATCH"), help=argparse.SUPPRESS)
    options = options.parse_args()
    if options.worker:
        work(options.worker[0], int(options.worker[1]), options.steps)
        return
    from trireme.simulate.costs import default_path, load

    options.settings = options.settings or ",".join(HOST_SETTINGS if options.hosts else SETTINGS)
    costs, kept, errors = load(Path(options.costs) if options.costs else default_path()), [], []
    sys.modules["simulate"] = sys.modules["__main__"]                 # for what --save has pickled
    Measured.__module__ = "simulate"
    for one in pickle.loads(Path(options.load).read_bytes()) if options.load else (on_hosts if options.hosts else here)(options):
        kept.append(one)
        errors.append(compare(one, costs, not options.no_clock))
        if options.save:
            Path(options.save).write_bytes(pickle.dumps(kept))
    for what, found in zip(WHAT, zip(*errors)):
        sizes = [abs(one) for one in found if one is not None]
        if sizes:
            print(f"{what}: median error {statistics.median(sizes):.1%}, worst {max(sizes):.1%}, of {len(sizes)} jobs")


if __name__ == "__main__":
    main()
