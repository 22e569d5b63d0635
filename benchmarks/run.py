"""Trireme's training steps beside those of PyTorch and JAX, measured in alternation.

    python benchmarks/run.py [--rows linreg,mlp_sgd,...] [--threads 1,2] [--rounds 7] [--json out.json]

Each side of a row is a process that stays up (worker.py). All start from the same parameters and data, and their
losses of the first steps must agree before anything is timed. Then they take turns: in each round every side runs for
about the same time, alone, so that a busy moment of the machine hits all. A round in which other processes took more
than QUIET of the CPUs is set aside, as long as --patience lasts; the quietest rounds count, and the table says how
much of the CPUs others took in the worst of them. The peers run under --peer-python (or
TRIREME_PEER_PYTHON); one that is not installed is left out, with the reason.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import machine
from rows import ROWS

HERE = Path(__file__).parent
PRECISIONS = ("float32", "bfloat16", "mixed")    # "mixed" stores activations and their gradients in bfloat16, too
CHECKED_STEPS, FIRST_STEPS = 48, 4
HALF_TOLERANCE, FIRST_TOLERANCE = 0.02, 1e-4     # of a loss in bfloat16, and of the first ones in float32: as a part of the first one
HALF_TARGETS = {"mlpbig_sgd": 1.2, "lstm": 1.2, "resnet20": 1.2, "widedeep_sgd": 1.2, "lenet5": 2.0, "widedeep_adam": 2.0,
                "deepfm_adam": 2.0}              # beside PyTorch's autocast, with any number of threads
SLICE_MS = 250                                  # of one side in one round
QUIET = 0.08                                    # part of the CPUs


class Side:
    """A process that runs one row in one system."""

    def __init__(self, name: str, row: str, threads: int, python: str, precision: str = "float32", cpu: int = 0) -> None:
        """`cpu`: it has the CPUs of this process from that one on."""
        self.name, self.ms, self.said = name, [], tempfile.TemporaryFile("w+")
        cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[cpu:]))
        self.process = subprocess.Popen(["taskset", "-c", cpus, python, HERE / "worker.py", name, row, str(threads), precision], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said,
                                        env={**os.environ, "JAX_PLATFORMS": "cpu"})
        hello = self._read()
        self.skip, self.version = hello.get("skip"), hello.get("version", "")

    def _read(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            self.said.seek(0)
            sys.exit(f"{self.name} ended:\n{self.said.read()}")
        return json.loads(line)

    def tell(self, command: str, count: int = 0) -> None:
        self.process.stdin.write(f"{command} {count}\n")
        self.process.stdin.flush()

    def ask(self, command: str, count: int = 0) -> dict:
        self.tell(command, count)
        return self._read()

    def time(self, steps: int, clock: str, threads: int) -> tuple[float, float]:
        """Return the milliseconds of a step, and the part of this side's CPUs' time that others took meanwhile."""
        start, busy = time.perf_counter(), busy_seconds()
        told = self.ask("time", steps)
        busy, wall = busy_seconds() - busy, time.perf_counter() - start
        free = len(os.sched_getaffinity(0)) - threads        # on these, others do no harm
        return told[clock], max(0.0, busy - told["cpu_ms"] * steps / 1e3 - free * wall) / (threads * wall)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(60)


class Crowd(Side):
    """So many processes of one thread, each on a CPU of its own, that make their steps at the same time: what the machine gives at best. A
    step of each counts as one of so many samples, as if they shared one step."""

    def __init__(self, name: str, row: str, threads: int, python: str) -> None:
        self.name, self.ms = "crowd", []
        self.sides = [Side(name, row, 1, python, cpu=cpu) for cpu in range(threads)]

    def ask(self, command: str, count: int = 0) -> dict:
        for side in self.sides:
            side.tell(command, count)
        told = [side._read() for side in self.sides]
        if command != "time":
            return told[0]
        return {"ms": max(one["ms"] for one in told) / len(told), "cpu_ms": sum(one["cpu_ms"] for one in told)}

    def close(self) -> None:
        for side in self.sides:
            side.close()


def check_losses(row: str, sides: list[Side], part: float, first: float = float("inf"), steps: int = CHECKED_STEPS) -> float:
    """Return how far the losses of trireme and a peer are apart at most, as a part of the first loss.

    More than `part` is too far, and more than `first` within the first steps. Then the program ends.
    """
    losses = {side.name: side.ask("check", steps)["losses"] for side in sides}
    ours, furthest = losses["trireme"], 0.0
    for name, theirs in losses.items():
        apart = [abs(a - b) / abs(theirs[0]) for a, b in zip(ours, theirs)]
        furthest = max(furthest, *apart)
        if not (max(apart) <= part and max(apart[:FIRST_STEPS]) <= first):
            sys.exit(f"{row}: the losses of trireme {ours} and {name} {theirs} differ by {max(apart):.2g} of the first: not the same model")
    return furthest


def busy_seconds() -> float:
    """Return the seconds that all CPUs together have worked since the machine started."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def take_rounds(sides: list[Side], steps: dict[str, int], rounds: int, patience: float, threads: int, clock: str) -> float:
    """Fill `ms` of each side with the quietest rounds; return the part of the CPUs that others took in the worst."""
    found, end = [], time.monotonic() + patience
    while len(found) < rounds or (sum(others <= QUIET for others, _ in found) < rounds and time.monotonic() < end):
        order = sides if len(found) % 2 == 0 else list(reversed(sides))
        taken = {side.name: side.time(steps[side.name], clock, threads) for side in order}
        found.append((max(others for _, others in taken.values()), {name: ms for name, (ms, _) in taken.items()}))
    found = sorted(found, key=lambda one: one[0])[:rounds]
    for side in sides:
        side.ms = [ms[side.name] for _, ms in found]
    return found[-1][0]


def quartiles(values: list[float]) -> list[float]:
    return statistics.quantiles(values, n=4) if len(values) > 1 else values * 3


def measure(name: str, threads: int, power: dict, options: argparse.Namespace) -> dict:
    clock = "cpu_ms" if options.cpu_time else "ms"
    row, skipped = ROWS[name](), {}
    sides = [Side(side, name, threads, sys.executable if side == "trireme" else options.peer_python, options.precision)
             for side in ("trireme", "torch", "jax")]
    for side in sides:
        if side.skip:
            skipped[side.name] = side.skip
    sides = [side for side in sides if not side.skip]
    if "trireme" in skipped:
        sys.exit(f"trireme cannot run here: {skipped['trireme']}")
    is_exact = options.precision == "float32"
    apart = check_losses(name, sides, row.drift, FIRST_TOLERANCE) if is_exact else check_losses(name, sides, HALF_TOLERANCE)
    target = row.targets[min(threads, 2) - 1] if is_exact else HALF_TARGETS.get(name, 1.0)
    products = {side.name: side.ask("product")["gflops"] for side in sides}
    gflops = max(*products.values(), power["gemm_gflops"] if is_exact else 0)
    steps = {}
    for side in sides:                           # the second slice knows how long a warm step takes
        for guess in (3, max(3, int(SLICE_MS / 4 / side.ask("time", 3)["ms"]))):
            steps[side.name] = max(2, int(SLICE_MS / side.ask("time", guess)["ms"]))
    others = take_rounds(sides, steps, options.rounds, 0 if options.cpu_time else options.patience, threads, clock)
    result = {"row": name, "threads": threads, "skipped": skipped, "others": others, "target": target, "losses_apart": apart,
              "version": {side.name: side.version for side in sides},
              "ms": {side.name: statistics.median(side.ms) for side in sides},
              "best_ms": {side.name: min(side.ms) for side in sides},
              "products_gflops": products, "product_gflops": gflops,
              "floor_ms": max(row.flops / gflops, row.bytes / machine.stream_gbps(power, row.bytes)) / 1e6}
    peers = sides[1:]
    if peers:
        best = min(peers, key=lambda side: statistics.median(side.ms))
        ratios = [theirs / ours for theirs, ours in zip(best.ms, sides[0].ms)]
        result.update(peer=best.name, ratio=statistics.median(ratios), ratio_quartiles=quartiles(ratios)[::2])
    for side in sides:
        side.close()
    return result


HEADINGS = ("row", "thr", "trireme", "torch", "jax", "best peer / ours", "quartiles", "target", "floor", "ours / floor",
            "others")


def line(result: dict) -> list[str]:
    ms = lambda side: f"{result['ms'][side]:.3f}" if side in result["ms"] else "-"
    ratio, spread, met = "-", "-", ""
    if "ratio" in result:
        ratio, spread = f"{result['ratio']:.2f}", "{:.2f}..{:.2f}".format(*result["ratio_quartiles"])
        met = "" if result["ratio"] >= result["target"] else " (missed)"
    floor = result["floor_ms"]
    return [result["row"], str(result["threads"]), ms("trireme"), ms("torch"), ms("jax"), ratio, spread,
            f"{result['target']:.2f}{met}", f"{floor:.4f}", f"{result['ms']['trireme'] / floor:.2f}",
            f"{100 * result['others']:.0f} %"]


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rows", default=",".join(ROWS), help="names, separated by commas: %(default)s")
    options.add_argument("--threads", type=numbers, default=[1, 2])
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--patience", type=float, default=60, help="seconds that a row waits for quiet rounds: %(default)s")
    options.add_argument("--precision", choices=PRECISIONS, default="float32",
                         help="bfloat16: products in it, beside PyTorch's autocast; mixed: activations are stored in it, too")
    options.add_argument("--cpu-time", action="store_true", help="compare CPU time: for one thread on a busy machine")
    options.add_argument("--json", type=Path, help="write all figures there")
    options.add_argument("--peer-python", default=os.environ.get("TRIREME_PEER_PYTHON", sys.executable),
                         help="the Python that has torch and jax (TRIREME_PEER_PYTHON, or this one)")
    options = options.parse_args()
    unknown = [name for name in options.rows.split(",") if name not in ROWS]
    if unknown:
        sys.exit(f"no such rows: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    available = machine.describe()["cpus"]
    if options.cpu_time and options.threads != [1]:
        sys.exit("--cpu-time goes with --threads 1: waiting threads may spin")
    if max(options.threads) > available:
        sys.exit(f"{max(options.threads)} threads need as many CPUs; this process may use {available}")

    report = {"date": date.today().isoformat(), "clock": "cpu" if options.cpu_time else "wall", "machine": machine.describe(),
              "versions": machine.versions(),
              "power": {}, "results": []}
    print(f"{report['date']}, {report['machine']}, {report['versions']}")
    for threads in options.threads:
        report["power"][threads] = power = machine.measure(threads)
        print(f"{threads} thread(s): product {power['gemm_gflops']:.0f} GFLOP/s, triad {power['triad_gbps']:.1f} GB/s")
    print("milliseconds a step, medians\n| " + " | ".join(HEADINGS) + " |\n|" + "---|" * len(HEADINGS))
    for name in options.rows.split(","):
        for threads in options.threads:
            result = measure(name, threads, report["power"][threads], options)
            report["results"].append(result)
            print("| " + " | ".join(line(result)) + " |", flush=True)
    skips = {(side, why) for result in report["results"] for side, why in result["skipped"].items()
             if why.startswith("not installed")}
    for side, why in sorted(skips):
        print(f"{side} was left out: {why}")
    versions = {side: version for result in report["results"] for side, version in result["version"].items()}
    print("versions: " + ", ".join(f"{side} {version}" for side, version in versions.items()))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
