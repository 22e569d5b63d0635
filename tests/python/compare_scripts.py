"""Compares random scripts (script_maker.py) in jobs with one process.

    python compare_scripts.py --seeds 2000 [--first 1] [--all-shapes] [--transport rings.so]

With one trainer a job has the bits of one process, in every mode that does not round by itself. With two trainers it has the same
numbers; where trainers draw random numbers, their models are the same. A job may also refuse what the script does, by one of the texts in
REFUSALS. Where ranks are killed in the middle, all others end. A seed that fails is printed with its script; --first SEED --seeds 1
repeats it.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from forked_jobs import Built, Outcome, run_alone, run_job, warm_up
from script_maker import ROUNDING, Script, make_script

# What a job refuses of what one process does: the beginning of each text, as docs/distributed.md has it.
REFUSALS = [
    "NotFiniteError: ",                                # one process trains on
    "UnsupportedError: rows of table 'rows' are set after step",
    "PeerError: rank .* failed in the middle of step .*a bad batch. A script can catch an error of the forward part",
]
ENDS = ["InvalidArgumentError: the data gave no batch"]    # by which a script may end in one process
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
LONE, SHARED, MORE = [(1, 1), (2, 1)], (2, 2), [(1, 2), (3, 2), (2, 3)]        # servers and trainers


def is_refused(error: str) -> bool:
    return any(re.match(text, error) for text in REFUSALS)


def _tolerance(script: Script, trainers: int) -> tuple[float, float] | None:
    """Relative and absolute; None: bits are promised."""
    mode = script.lone_mode if trainers == 1 else script.shared_mode
    if trainers == 1 and not mode.startswith(ROUNDING):
        return None
    return 2e-3, 2e-4


def _difference(wanted: Outcome, found: Outcome, tolerance: tuple[float, float] | None, is_prefix: bool) -> str:
    """Return what differs in the notes, in words; empty: nothing. ``is_prefix``: the job has ended earlier."""
    if len(found.notes) > len(wanted.notes) or (not is_prefix and len(found.notes) < len(wanted.notes)):
        return f"{len(found.notes)} notes, not {len(wanted.notes)}"
    for i, ((name, value), (known, right)) in enumerate(zip(found.notes, wanted.notes)):
        a, b = np.asarray(value), np.asarray(right)
        if name != known or a.shape != b.shape or a.dtype != b.dtype:
            return f"note {i} is {name} {a.dtype}{a.shape}, not {known} {b.dtype}{b.shape}"
        same = a.tobytes() == b.tobytes() if tolerance is None else np.allclose(a, b, *tolerance, equal_nan=True)
        if not same:
            return f"note {i}, {name}: {a.ravel()[:6]}, not {b.ravel()[:6]} (differs by {np.abs(a.astype(float) - b).max():.3g})"
    return ""


def _shared(outcome: Outcome, is_lockstep: bool) -> Outcome:
    """Return what a trainer's own random numbers, or data, do not reach: statistics of its batches are its own, and so is what they go
    into. Where trainers do not wait for each other, they share only what they count together."""
    shared = re.compile("(?!loss|mean|variance|norm\\.|test|inferred)" if is_lockstep else "lines of tasks|sum")
    return replace(outcome, notes=[one for one in outcome.notes if shared.match(one[0])])


def _first_line(error: str) -> str:
    return error.split("\n")[0]


def _judge(script: Script, wanted: Outcome, outcomes: list[Outcome], trainers: int) -> str:
    if not all(one.is_over for one in outcomes):
        return "does not end: " + ", ".join(f"{'trainer' if i < trainers else 'server'} {i % trainers}" for i,
                                            one in enumerate(outcomes) if not one.is_over)
    errors = [one.error for one in outcomes[:trainers] if one.error and (is_refused(one.error) or not one.error.startswith("PeerError: "))]
    if wanted.error and not wanted.error.startswith(tuple(ENDS)):
        return f"ends in one process by {wanted.error}"
    if wanted.error:
        same = any(_first_line(error) == _first_line(wanted.error) for error in errors)
        return "" if same or any(map(is_refused, errors)) else f"ends by {errors}, not by {_first_line(wanted.error)}"
    unknown = [error for error in errors if not is_refused(error)]
    if unknown or any(one.error for one in outcomes[:trainers]) != bool(errors):
        said = next((one.said for one in outcomes if one.error in unknown), "")
        return (f"ends by {unknown or [one.error for one in outcomes[:trainers]]}, with the exit codes "
                f"{[one.exit_code for one in outcomes]}\n{said}")
    tolerance = _tolerance(script, trainers)
    if script.is_own and trainers > 1:                 # they have one model all the same
        is_lockstep = script.shared_mode.startswith("sync")
        counted = [one for one in wanted.notes if one[0] == "lines of tasks"]
        found = [one for one in outcomes[0].notes if one[0] == "lines of tasks"]
        if found != counted[:len(found)] or not errors and len(found) < len(counted):
            return f"trainers have read {found}, not {counted}"
        wanted, tolerance = _shared(outcomes[0], is_lockstep), None
        outcomes = [_shared(one, is_lockstep) for one in outcomes]
    for i, one in enumerate(outcomes[:trainers]):
        difference = _difference(wanted, one, tolerance, bool(errors))
        if difference:
            return f"trainer {i}: {difference}"
    return ""


def _unended(script: Script, built: Built, seed: int, transport: str, folder: Path) -> str:
    """Kill ranks of a job at moments of its time. Return, in words, which of the others do not end as they should; empty: all end."""
    chance = random.Random(seed)
    servers, trainers = chance.choice([(1, 1), (2, 2), (1, 3)])
    kills = [(chance.randrange(servers + trainers), chance.uniform(0.05, 80)) for _ in range(chance.choice((1, 1, 2)))]
    mode = script.lone_mode if trainers == 1 else script.shared_mode
    outcomes = run_job(transport, built, str(folder), servers, trainers, mode, seed=seed, kills=kills)
    if all(one.is_over and one.exit_code in (0, 1, -signal.SIGKILL) for one in outcomes):
        return ""
    return f"{servers} + {trainers}, {mode}, kills {kills}: {[(one.is_over, one.exit_code, one.error) for one in outcomes]}"


def compare(seed: int, transport: str, has_all: bool = False) -> tuple[Script, str]:
    """Run the script of this seed. Return it, and in words how a job differs from one process; empty: nowhere. With one trainer, where
    bits are promised, half of the scripts have one server and half have two; all of them run with two trainers."""
    script, folder = make_script(seed), tempfile.mkdtemp(prefix="trireme-script-", dir=MEMORY)
    try:
        (Path(folder) / "one").mkdir()
        built = Built(script.build, script.run)
        wanted = run_alone(built, f"{folder}/one")
        for servers, trainers in [*LONE, SHARED, *MORE] if has_all else [LONE[seed % 2], SHARED]:
            mode = script.lone_mode if trainers == 1 else script.shared_mode
            job = Path(folder) / f"{servers}-{trainers}"
            job.mkdir()
            fault = _judge(script, wanted, run_job(transport, built, str(job), servers, trainers, mode), trainers)
            if fault:
                return script, f"{servers} + {trainers}, {mode}: {fault}"
        if seed % 8 == 0 or has_all:
            (Path(folder) / "kills").mkdir()
            return script, _unended(script, built, seed, transport, Path(folder) / "kills")
        return script, ""
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ask(worker: subprocess.Popen[str], seed: int) -> str:
    """Return the worker's answer about a seed; empty: it has died."""
    assert worker.stdin and worker.stdout
    worker.stdin.write(f"{seed}\n")
    worker.stdin.flush()
    return worker.stdout.readline()


def compare_all(seeds: list[int], transport: str, has_all: bool, workers: int) -> tuple[dict[int, str], Counter[str]]:
    """Compare many scripts, each worker in a process of its own. Return the faults by seed, and how often there was each feature."""
    faults: dict[int, str] = {}
    features: Counter[str] = Counter()
    line = [sys.executable, __file__, "--transport", transport, "--serve", *["--all-shapes"] * has_all]

    def note(seed: int, fault: str) -> None:
        script = make_script(seed)
        features.update([*set(script.features), "all", "sliced" if script.is_sliced else "whole"])
        if fault:
            faults[seed] = f"seed {seed}: {fault}\n{sorted(set(script.features))}\n{'-' * 30}\n{script.text}{'-' * 30}\n"

    def work(mine: list[int], deaths: int = 3) -> None:
        left = list(mine)
        with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
            answer = "first"
            while left and answer:
                seed = left.pop(0)
                answer = _ask(worker, seed)
                note(seed, eval(answer or repr("the worker has died")))
        if left:                                           # another worker goes on
            assert deaths, f"workers die, the last one at seed {seed}"
            work(left, deaths - 1)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, [seeds[i::workers] for i in range(workers)]))
    return faults, features


def build_transport(folder: Path) -> str:
    """Compile the transport and the schedule of forked jobs (jobs/rings.c, jobs/turns.c)."""
    out, sources = folder / "rings.so", [Path(__file__).with_name("jobs") / name for name in ("rings.c", "turns.c")]
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", f"-I{Path(__file__).resolve().parents[2]}", "-o",
                    out, *sources], check=True, timeout=60)
    return str(out)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--all-shapes", action="store_true", help="each script in more shapes of jobs")
    parser.add_argument("--transport", default="")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--serve", action="store_true", help="read seeds, answer each with a line")
    parser.add_argument("--without", default="", help="leave out scripts with these features, divided by ';'")
    parser.add_argument("--brief", action="store_true", help="print no scripts")
    args = parser.parse_args()
    if args.serve:
        warm_up(args.transport, ((one.build, one.run) for one in map(make_script, range(10**6, 10**6 + 10))))
        for line in sys.stdin:
            print(repr(compare(int(line), args.transport, args.all_shapes)[1]), flush=True)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        transport = args.transport or build_transport(Path(folder))
        unwanted = {one for one in args.without.split(";") if one}
        seeds = [seed for seed in range(args.first, args.first + args.seeds) if not unwanted & set(make_script(seed).features)]
        faults, features = compare_all(seeds, transport, args.all_shapes, args.workers)
    for fault in faults.values():
        print(fault if not args.brief else fault.split("\n" + "-" * 30)[0][:1500], flush=True)
    print(f"{len(seeds)} scripts, {len(faults)} faults; {dict(features.most_common())}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
