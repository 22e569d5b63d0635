"""Jobs whose processes are killed, stopped and damaged at random moments; simulated jobs, and random scripts in jobs, of fresh seeds.

    python tests/soak/soak.py --seconds 3600              # seeds from the clock
    python tests/soak/soak.py --seed 4711                 # one of them again

A case follows from its seed (cases.py): which MPI, how many ranks, which mode, what they train, what happens to whom and how long after the
first step. Every job must end with exit code 0 and leave nothing behind: no process, no shared memory, no file (running.py). In mode sync
all that it has left, tables and the newest checkpoint too, must have the bits of a job to which nothing happened; in the others it must be
numbers, and each line of leased tasks must have been trained on. Each failure is printed with its seed and the
command that makes it again, and what the job said is kept in build/soak. The exit code is 1 when there was one.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from cases import MPIS, ROOT, Case
from running import FOLDER, Running, Wrong


def run_case(seed: int) -> bool:
    case = Case(seed)
    try:
        with tempfile.TemporaryDirectory(prefix="trireme-soak-") as folder:
            running = Running(case, Path(folder))
            try:
                for mishap in case.mishaps:
                    running.suffer(mishap)
                running.await_end()
                running.check()
            finally:
                if running.job.process.poll() is None:
                    running.job.process.send_signal(signal.SIGCONT)
                    running.job.process.kill()
                    running.job.process.communicate(timeout=20)
    except Exception as error:  # whatever it is, the seed is to be known
        error = error if isinstance(error, Wrong) else "".join(traceback.format_exception(error))
        kept = FOLDER / f"seed-{seed}.log"
        kept.write_text(f"{case}\n\n{error}\n")
        print(f"seed {seed} FAILED: {str(error).splitlines()[0]}\n  {case}\n  {kept}\n  again: python tests/soak/soak.py --seed {seed}",
              flush=True)
        return False
    print(f"seed {seed} ok: {case}", flush=True)
    return True


def run_simulated(seed: int, runs: int) -> bool:
    """Simulated jobs of `runs` seeds from this one on."""
    folder = ROOT / "build" / os.environ.get("PRESET", "dev") / "tests" / "pserver"
    env = {**os.environ, "TRIREME_SIM_FIRST": str(seed), "TRIREME_SIM_RUNS": str(runs)}
    for program in sorted(path for path in folder.glob("test_sim*") if os.access(path, os.X_OK)):
        done = subprocess.run([program], env=env, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            report_simulated(program, seed, done.stdout + done.stderr)
            return False
    print(f"simulated seeds {seed} to {seed + runs - 1} ok", flush=True)
    return True


def run_scripts(seed: int, count: int) -> bool:
    """Random scripts in all shapes of jobs, compared with one process (tests/python/compare_scripts.py)."""
    line = [sys.executable, ROOT / "tests/python/compare_scripts.py", "--all-shapes", "--first", str(seed), "--seeds", str(count)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=3600, check=False)
    if done.returncode:
        kept = FOLDER / f"scripts-{seed}.log"
        kept.write_text(done.stdout + done.stderr)
        failed = re.findall(r"^seed (\d+):", done.stdout, re.M) or [str(seed)]
        print(f"scripts FAILED: {', '.join(failed)}\n  {kept}\n  again: {' '.join(map(str, line))}", flush=True)
        return False
    print(f"scripts {seed} to {seed + count - 1} ok", flush=True)
    return True


def report_simulated(program: Path, seed: int, text: str) -> None:
    kept = FOLDER / f"simulated-{seed}.log"
    kept.write_text(text)
    named = sorted(set(re.findall(r"seed (\d+)", text))) or [str(seed)]
    print(f"simulated seeds FAILED: {', '.join(named)}\n  {kept}", flush=True)
    for name in named:
        print(f"  again: TRIREME_SIM_FIRST={name} TRIREME_SIM_RUNS=1 {program.relative_to(ROOT)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, action="append", help="run this case, and no other")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))            # and its job with it
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not MPIS:
        print("soak: there is no Open MPI", file=sys.stderr)
        return 77
    if options.seed:
        return int(not all([run_case(seed) for seed in options.seed]))
    begin, first, cases, failed = time.monotonic(), time.time_ns() // 1000 % 10**9, 0, 0
    while time.monotonic() - begin < options.seconds:
        failed += not run_case(first + cases)
        cases += 1
        if cases % 10 == 0:
            failed += not run_simulated(first * 1000 + cases * 100, 200)
            failed += not run_scripts(first + cases * 100, 100)
    print(f"soak: {cases} jobs, {failed} failed", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
