"""Jobs whose processes are killed, stopped and damaged at random moments; and simulated jobs of fresh seeds.

    python tests/soak/soak.py --seconds 3600              # seeds from the clock
    python tests/soak/soak.py --seed 4711                 # one of them again

A case follows from its seed: which MPI, how many ranks, which mode, what happens to whom and how long after the first step.
Every job must end with exit code 0 and leave nothing behind: no process, no shared memory, no file. In mode sync its parameters
must have the bits of a job to which nothing happened; in the others they must be numbers. Each failure is printed with its seed and the
command that makes it again, and what the job said is kept in build/soak. The exit code is 1 when there was one.
"""

from __future__ import annotations

import argparse
import glob
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from job_support import MPIS, Launched, environment, launch  # noqa: E402

from trireme.launch import supervisor  # noqa: E402
from trireme.launch.watch import Ranks  # noqa: E402

FOLDER = ROOT / "build" / "soak"
SCRIPTS = {name: ROOT / "tests" / "python" / "jobs" / f"{name}.py" for name in ("train", "tables")}
LIMIT = 200.0                          # seconds for a job
GONE = 15.0                            # for what is left of one whose launcher was killed
KINDS = {"kill server": 5, "kill trainer": 4, "kill spare": 1, "kill two": 2, "kill mpirun": 2, "stop rank": 2, "nap": 3,
         "stop mpirun": 1, "damage": 2, "kill launcher": 1}


class Wrong(Exception):
    """What a job did that it must not do."""


@dataclass(frozen=True)
class Mishap:
    kind: str
    at_start: bool                     # or after the first step
    seconds: float                     # since then, or since the mishap before
    dice: int

    def __str__(self) -> str:
        return f"{self.kind} {self.seconds:.2f} s after the {'start' if self.at_start else 'first step'}"


class Case:
    """All that a seed decides."""

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        self.seed = seed
        self.version = dice.choice(sorted(MPIS))
        self.mode = dice.choice(["sync", "sync", "sync", "async", "ssp(1)", "geo(3)", "sync(backups=1)"])
        self.is_apart = self.mode != "sync"
        tables = self.mode != "geo(3)" and dice.random() < 0.3
        self.script = SCRIPTS["tables" if tables else "train"]
        # SGD and momentum over rows of many trainers that do not wait for each other go astray by themselves.
        optimizer = dice.choice(["adagrad"] if tables and self.is_apart else ["sgd", "momentum", "adam"])
        self.args = ["--steps", "200", "--optimizer", optimizer, "--pause", "0.008"]
        if not tables and dice.random() < 0.4:
            self.args += ["--clip", "0.2"]
        self.servers = 1 if "backups" in self.mode else dice.randint(1, 3)
        self.trainers = dice.randint(2, 3) if self.is_apart else dice.randint(1, 3)
        self.spares = dice.choice([0, 1, 1, 2])
        kinds = dice.choices(list(KINDS), list(KINDS.values()), k=dice.randint(1, 3))
        self.mishaps = [Mishap(kind, i == 0 and dice.random() < 0.2, dice.uniform(0, 0.8), dice.getrandbits(30))
                        for i, kind in enumerate(kinds)]
        # What compression leaves out dies with a trainer, so that a sync job that starts again has other bits.
        self.compress = dice.choice(["none", "fp16", "int8", "topk(0.1)"]) if self.is_apart and not tables else "none"
        if self.compress != "none":
            self.args += ["--width", "3000"]

    def __str__(self) -> str:
        return (f"Open MPI {self.version}, {self.mode}, compression {self.compress}, {self.servers} servers, {self.trainers} trainers, {self.spares} spares, "
                f"{self.script.name} {' '.join(self.args)}; {'; '.join(map(str, self.mishaps))}")


class Running:
    """A case's job."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.mark, self.out = case, folder / "begun", folder / "r.npz"
        self.job = Launched(case.servers, case.trainers, *case.args, "--out", self.out, "--mark", self.mark, version=case.version, script=case.script,
                            options=("--mode", case.mode, "--compress", case.compress, "--spares", case.spares, "--restarts", 9),
                            env=environment(TRIREME_START_TIMEOUT="20"))
        self.pid = self.job.process.pid
        self.seen: set[int] = set()                    # processes of the job

    def has_ended(self) -> bool:
        return self.job.process.poll() is not None

    def files(self, what: str = "*") -> list[str]:
        places = (tempfile.gettempdir(), "/dev/shm")
        return [path for place in places for path in glob.glob(f"{place}/trireme-*-{self.pid}-{what}")]

    def ranks(self, begun: bool, said: str = "began") -> dict[int, int]:
        """The ranks that live, when there are all and have said that: rank -> pid. Empty when the job has ended meanwhile."""
        size = self.case.servers + self.case.trainers + self.case.spares
        deadline = time.monotonic() + 40
        while not self.has_ended() and time.monotonic() < deadline:
            watch = Ranks(self.pid, Path("/nonexistent"), self.case.servers, self.case.trainers, self.case.spares)
            watch.look(0)
            watch.close()
            found = {one.rank: one.pid for one in watch.known.values()}
            self.seen.update(found.values(), map(parent_of, found.values()))
            told = {path.rpartition(".")[2] for path in self.files(f"*/{said}.*")}
            if begun and found or len(found) == size and len(told) == size:
                return found
            time.sleep(0.01)
        return {}

    def await_first_step(self) -> None:
        deadline = time.monotonic() + LIMIT
        while not self.has_ended() and time.monotonic() < deadline:
            if self.mark.exists():
                return
            time.sleep(0.005)

    # -- mishaps -----------------------------------------------------------------------------------------------------

    def suffer(self, mishap: Mishap) -> None:
        if not mishap.at_start:
            self.await_first_step()
        time.sleep(mishap.seconds)
        # Who sleeps before it joins is late by its own doing.
        dice, ranks = random.Random(mishap.dice), self.ranks(not mishap.at_start, "joins" if mishap.kind == "stop rank" else "began")
        if not ranks:
            return
        parts = {"server": range(self.case.servers), "spare": range(self.case.servers + self.case.trainers, 99),
                 "trainer": range(self.case.servers, self.case.servers + self.case.trainers)}
        whom = [pid for rank, pid in ranks.items() if rank in parts.get(mishap.kind.split()[-1], ranks)]
        if mishap.kind in ("kill server", "kill trainer", "kill spare") and whom:
            send(dice.choice(whom), signal.SIGKILL)
        elif mishap.kind == "kill two":
            for pid in dice.sample(whom, min(2, len(whom))):
                send(pid, signal.SIGKILL)
                time.sleep(dice.uniform(0, 0.1))
        elif mishap.kind == "stop rank":
            send(dice.choice(whom), signal.SIGSTOP)
        elif mishap.kind == "nap":
            pid = dice.choice(whom)
            send(pid, signal.SIGSTOP)
            time.sleep(dice.uniform(0.2, 6))
            send(pid, signal.SIGCONT)
        elif mishap.kind == "kill mpirun":
            send(parent_of(whom[0]), signal.SIGKILL)
        elif mishap.kind == "stop mpirun":
            send(parent_of(whom[0]), signal.SIGSTOP)
        elif mishap.kind == "damage":
            self.damage(dice, ranks)
        elif mishap.kind == "kill launcher":
            send(self.pid, signal.SIGKILL)

    def damage(self, dice: random.Random, ranks: dict[int, int]) -> None:
        """All die while the launcher looks away, and what a server has kept is damaged."""
        send(self.pid, signal.SIGSTOP)
        for pid in {*ranks.values(), *map(parent_of, ranks.values())} - {0}:
            send(pid, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while any(map(is_running, ranks.values())) and time.monotonic() < deadline:
            time.sleep(0.005)
        kept = sorted(path for path in self.files() if re.search(r"\.server\d+$", path))
        if kept:
            path = dice.choice(kept)
            if dice.random() < 0.3:
                os.truncate(path, dice.randrange(os.path.getsize(path) + 1) // 4096 * 4096)
            else:
                damage_bits(path, dice)
        send(self.pid, signal.SIGCONT)

    # -- the end -------------------------------------------------------------------------------------------------------

    def end(self) -> str:
        """Wait for it; return what the job said."""
        try:
            text, _ = self.job.process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            state = self.state()
            self.job.process.kill()
            text, _ = self.job.process.communicate(timeout=20)
            raise Wrong(f"the job did not end within {LIMIT:g} s:\n{text}\n{state}") from None
        return text

    def state(self) -> str:
        """Where every process of a job that stands still is, and what its ranks have told the launcher."""
        ranks = self.ranks(True)
        told = [f"{Path(path).name}: {Path(path).read_text()}" for path in sorted(glob.glob(f"{tempfile.gettempdir()}/trireme-*-{self.pid}-*/*.[0-9]*"))
                if os.path.isfile(path)]
        return "\n".join([*told, *(f"rank {rank}, process {pid}:\n{stacks(pid)}" for rank, pid in sorted(ranks.items()))])

    def check(self, text: str) -> None:
        was_killed = self.job.process.returncode == -signal.SIGKILL
        deadline = time.monotonic() + (GONE if was_killed else 2)
        while any(map(is_running, self.seen - {0})) and time.monotonic() < deadline:
            time.sleep(0.05)
        if left := [pid for pid in self.seen - {0} if is_running(pid)]:
            raise Wrong(f"processes are left: {left}\n{text}")
        supervisor._remove_stale()                     # what the next launcher does
        if left := self.files():
            raise Wrong(f"files are left: {left}\n{text}")
        if was_killed:
            return
        if self.job.process.returncode:
            raise Wrong(f"exit code {self.job.process.returncode}\n{text}")
        if "Traceback" in text:
            raise Wrong(f"a script failed\n{text}")
        if not self.out.exists() and not self.case.is_apart:
            raise Wrong(f"there is no result\n{text}")
        if self.out.exists():
            self.compare(text)

    def compare(self, text: str) -> None:
        got = arrays(self.out)
        if self.case.is_apart:
            wrong = [name for name, value in got.items() if not np.isfinite(value).all()]
        else:
            want = arrays(reference(self.case))
            wrong = [name for name in want if not np.array_equal(got.get(name), want[name])]
        if wrong:
            raise Wrong(f"{', '.join(wrong)} {'has no numbers' if self.case.is_apart else 'has other bits'}\n{text}")


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as data:
        return {name: data[name] for name in data.files if name not in ("losses", "wanted", "ahead", "cached")}


def reference(case: Case) -> Path:
    """The result of the same job when nothing happens."""
    path = FOLDER / "_".join(["whole", case.script.stem, str(case.trainers), *case.args]).replace("--", "")
    path = path.with_name(path.name + ".npz")
    if not path.exists():
        launch(1, case.trainers, *case.args, "--out", path, script=case.script)
    return path


def send(pid: int, number: int) -> None:
    try:
        if pid > 1:
            os.kill(pid, number)
    except ProcessLookupError:
        pass                                           # it was at its end


def stat_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["X", "0"]


def parent_of(pid: int) -> int:
    return int(stat_of(pid)[1])


def is_running(pid: int) -> bool:
    return stat_of(pid)[0] not in "ZX"


def stacks(pid: int) -> str:
    """The stacks of its threads, where there is gdb."""
    if not shutil.which("gdb"):
        return "(there is no gdb)"
    done = subprocess.run(["gdb", "-batch", "-nx", "-p", str(pid), "-ex", "thread apply all bt 12"], capture_output=True, text=True, timeout=60,
                          check=False)
    return "\n".join(line for line in done.stdout.splitlines() if line.startswith(("Thread", "#")))


def damage_bits(path: str, dice: random.Random) -> None:
    """In the header, where everything is, or in what is to be done."""
    with open(path, "r+b") as file:
        for _ in range(dice.randint(1, 4)):
            at = dice.choice([dice.randrange(64), 4096 + dice.randrange(400)])
            file.seek(at)
            byte, = file.read(1) or b"\0"
            file.seek(at)
            file.write(bytes([byte ^ (1 << dice.randrange(8))]))


def run_case(seed: int) -> bool:
    case = Case(seed)
    text = ""
    try:
        with tempfile.TemporaryDirectory(prefix="trireme-soak-") as folder:
            running = Running(case, Path(folder))
            try:
                for mishap in case.mishaps:
                    running.suffer(mishap)
                text = running.end()
                running.check(text)
            finally:
                if running.job.process.poll() is None:
                    running.job.process.send_signal(signal.SIGCONT)
                    running.job.process.kill()
                    running.job.process.communicate(timeout=20)
    except Exception as error:                         # noqa: BLE001 - whatever it is, the seed is to be known
        kept = FOLDER / f"seed-{seed}.log"
        kept.write_text(f"{case}\n\n{error}\n")
        print(f"seed {seed} FAILED: {str(error).splitlines()[0]}\n  {case}\n  {kept}\n  again: python tests/soak/soak.py --seed {seed}",
              flush=True)
        return False
    print(f"seed {seed} ok: {case}", flush=True)
    return True


def run_simulated(seed: int, runs: int) -> bool:
    """Simulated jobs of `runs` seeds from this one on."""
    program = ROOT / "build" / os.environ.get("PRESET", "dev") / "tests" / "pserver" / "test_sim"
    env = {**os.environ, "TRIREME_SIM_FIRST": str(seed), "TRIREME_SIM_RUNS": str(runs)}
    done = subprocess.run([program], env=env, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode == 0:
        print(f"simulated seeds {seed} to {seed + runs - 1} ok", flush=True)
        return True
    kept = FOLDER / f"simulated-{seed}.log"
    kept.write_text(done.stdout + done.stderr)
    named = sorted(set(re.findall(r"seed (\d+)", done.stdout + done.stderr))) or [str(seed)]
    print(f"simulated seeds FAILED: {', '.join(named)}\n  {kept}", flush=True)
    for name in named:
        print(f"  again: TRIREME_SIM_FIRST={name} TRIREME_SIM_RUNS=1 {program.relative_to(ROOT)}", flush=True)
    return False


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
    print(f"soak: {cases} jobs, {failed} failed", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
