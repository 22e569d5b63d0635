"""Single operators beside PyTorch, forward and forward with backward, at shapes of real nets.

    python benchmarks/ops.py [--ops gelu,conv3_64_8x8] [--threads 1] [--rounds 7] [--record]

Each side is a process that stays up (op_worker.py). Both start from the same inputs, and their results must agree before anything is
timed. Then they take turns, as in run.py. PyTorch runs with its best settings: fused optimizers, and for images the faster of both
layouts of memory, contiguous and channels_last; the table says which. *Floor* is the greater of two times: the operations at the speed of
the fastest product or convolution of this run, by any side, and the bytes at the speed of the fastest stream over as many (machine.c).

`--record` keeps the ratios in ops_record.json under this CPU's name. Every run compares with what is kept there for this CPU and names the
operators whose ratio fell by more than a tenth. CPU time is compared unless there are two threads or more.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

import machine
from op_cases import CASES

HERE = Path(__file__).parent
RECORD = HERE / "ops_record.json"
SLICE_MS = 60                                   # of one side in one round
TOLERANCE = 2e-3
FELL = 0.9


class Side:
    """A process that runs cases in one system."""

    def __init__(self, name: str, threads: int, python: str) -> None:
        self.name, self.said = name, tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([python, HERE / "op_worker.py", name, str(threads)], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.said, env=os.environ)
        hello = self._read()
        self.skip, self.version, self.variants = hello.get("skip"), hello.get("version", ""), hello.get("variants", [])

    def _read(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            self.said.seek(0)
            sys.exit(f"{self.name} ended:\n{self.said.read()}")
        return json.loads(line)

    def ask(self, *words: object) -> dict:
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self._read()

    def calls(self, clock: str) -> int:
        """Return how many calls fill a slice, after some to warm up."""
        self.ask("time", 2)
        return max(1, int(SLICE_MS / max(1e-3, self.ask("time", 2)[clock])))

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(60)


def check(case: str, mode: str, ours: list, theirs: list) -> None:
    """End the program where two sides did not compute the same; a dropout has the same shape alone."""
    if CASES[case].op == "dropout":
        return
    for got, want in zip(ours, theirs, strict=True):
        size = max(1e-6, want[1])
        if got[0] != want[0] or abs(got[1] - want[1]) > TOLERANCE * size or abs(got[2] - want[2]) > 10 * TOLERANCE * size:
            sys.exit(f"{case}, {mode}: trireme's result {got} and torch's {want} differ: not the same operator")


def best_variant(side: Side, case: str, mode: str, clock: str) -> str:
    """Return the variant of this side that is fastest, by a few calls of each."""
    found = {}
    for variant in side.variants:
        if side.ask("prepare", case, mode, variant)["there"]:
            calls = side.calls(clock)
            found[variant] = min(side.ask("time", calls)[clock] for _ in range(3))
    return min(found, key=found.get)


def clock_of(threads: int) -> str:
    return "cpu_ms" if threads == 1 else "ms"


def measure(case: str, mode: str, ours: Side, peer: Side, options: argparse.Namespace) -> dict:
    clock = clock_of(options.threads)
    ours.ask("prepare", case, mode, ours.variants[0])
    result = {"case": case, "mode": mode}
    calls, taken = ours.calls(clock), {"trireme": [], "torch": []}
    sides = [(ours, calls)]
    if not peer.skip:
        result["variant"] = best_variant(peer, case, mode, clock)
        for side, variant in ((ours, ours.variants[0]), (peer, result["variant"])):    # anew, since an optimizer has moved its parameters
            side.ask("prepare", case, mode, variant)
        check(case, mode, ours.ask("check")["digests"], peer.ask("check")["digests"])
        sides.append((peer, peer.calls(clock)))
    for i in range(options.rounds):
        for side, count in sides if i % 2 == 0 else reversed(sides):
            taken[side.name].append(side.ask("time", count)[clock])
    result["ms"] = {name: statistics.median(ms) for name, ms in taken.items() if ms}
    result["best_ms"] = {name: min(ms) for name, ms in taken.items() if ms}
    if not peer.skip:
        ratios = [theirs / own for theirs, own in zip(taken["torch"], taken["trireme"])]
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        result.update(ratio=middle, quartiles=[low, high])
    return result


def raise_product(power: dict, result: dict) -> None:
    """Let the fastest product be that of this result, where a side was faster than all before."""
    flops = CASES[result["case"]].floor_flops(result["mode"])
    power["gemm_gflops"] = max(power["gemm_gflops"], *(flops / ms / 1e6 for ms in result["best_ms"].values()))


def floor_ms(result: dict, power: dict) -> float:
    case, mode = CASES[result["case"]], result["mode"]
    size = case.floor_bytes(mode)
    return max(case.floor_flops(mode) / power["gemm_gflops"], size / machine.stream_gbps(power, size)) / 1e6


HEADINGS = ("case", "forward: trireme, torch", "ratio", "quartiles", "floor", "ours / floor", "with gradients: trireme, torch", "ratio",
            "quartiles", "floor", "ours / floor", "target")


def cells(result: dict | None, power: dict) -> list[str]:
    """Return what the table says of one mode."""
    if result is None:
        return [""] * 5
    floor = floor_ms(result, power)
    ms = ", ".join(f"{result['ms'][side]:.3f}" for side in ("trireme", "torch") if side in result["ms"])
    layout = " (channels_last)" if result.get("variant") == "channels_last" else ""
    ratio, spread = (f"{result['ratio']:.2f}", "{:.2f}..{:.2f}".format(*result["quartiles"])) if "ratio" in result else ("-", "-")
    return [ms + layout, ratio, spread, f"{floor:.3f}", f"{result['ms']['trireme'] / floor:.2f}"]


def line(case: str, results: dict[str, dict], power: dict) -> str:
    target = CASES[case].target
    missed = [mode for mode, result in results.items() if result.get("ratio", target) < target]
    words = f" ({'missed' if len(missed) == len(results) else ', '.join(missed) + ' missed'})" if missed else ""
    return " | ".join(["| " + case, *cells(results.get("forward"), power), *cells(results.get("both"), power), f"{target:.2f}{words} |"])


def key_of(result: dict) -> str:
    return f"{result['case']} {result['mode']}"


def compare(results: list[dict], kept: dict | None, cpu: str) -> None:
    if kept is None:
        print(f"nothing is recorded for {cpu}: --record keeps this run")
        return
    fell = [(key_of(one), kept["ratios"][key_of(one)], one["ratio"]) for one in results
            if "ratio" in one and one["ratio"] < FELL * kept["ratios"].get(key_of(one), 0)]
    for name, before, now in fell:
        print(f"FELL: {name}: {before:.2f} on {kept['date']}, {now:.2f} now")
    print(f"compared with {kept['date']} ({kept['versions']['torch']}): {len(fell)} of {len(results)} fell by more than a tenth")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--ops", default=",".join(CASES), help="names, separated by commas: %(default)s")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--record", action="store_true", help=f"keep the ratios in {RECORD.name}")
    options.add_argument("--peer-python", default=os.environ.get("TRIREME_PEER_PYTHON", sys.executable),
                         help="the Python that has torch (TRIREME_PEER_PYTHON, or this one)")
    options = options.parse_args()
    names = options.ops.split(",")
    unknown = [name for name in names if name not in CASES]
    if unknown:
        sys.exit(f"no such operators: {', '.join(unknown)}; there are {', '.join(CASES)}")
    ours, peer = Side("trireme", options.threads, sys.executable), Side("torch", options.threads, options.peer_python)
    if ours.skip:
        sys.exit(f"trireme cannot run here: {ours.skip}")
    power, cpu = machine.measure(options.threads), f"{machine.cpu_name()}, {options.threads} thread(s)"
    results = []
    for name in dict.fromkeys(["matmul_1024", *names]):      # the first one for the floor alone, if it is not asked for
        for mode in CASES[name].modes:
            result = measure(name, mode, ours, peer, options)
            raise_product(power, result)
            if name in names:
                results.append(result)
                print(f"{key_of(result)}: {result['ms']}", file=sys.stderr, flush=True)
    ours.close()
    peer.close()
    print(f"{date.today()}, {cpu}: product {power['gemm_gflops']:.0f} GFLOP/s, triad {power['triad_gbps']:.1f} GB/s")
    print(f"trireme {ours.version}; " + (f"torch left out: {peer.skip}" if peer.skip else
                                         f"torch {peer.version}: fused optimizers, the faster of contiguous and channels_last"))
    print(f"milliseconds of {'CPU' if options.threads == 1 else 'the clock'}, medians of {options.rounds}; ratio: torch / trireme")
    print("| " + " | ".join(HEADINGS) + " |\n|" + "---|" * len(HEADINGS))
    for name in names:
        print(line(name, {result["mode"]: result for result in results if result["case"] == name}, power))
    records = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    compare(results, records.get(cpu), cpu)
    if options.record and not peer.skip:
        ratios = {**records.get(cpu, {}).get("ratios", {}), **{key_of(one): round(one["ratio"], 3) for one in results}}
        records[cpu] = {"date": str(date.today()), "versions": {"trireme": ours.version, "torch": peer.version}, "power": power,
                        "ratios": ratios}
        RECORD.write_text(json.dumps(records, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
