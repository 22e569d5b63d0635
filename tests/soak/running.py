"""A case's job: what happens to it, and whether it ended as it must."""

from __future__ import annotations

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
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from cases import EPOCHS, ROOT, Case, Mishap
from job_support import Launched, environment, results

from trireme import checkpoint as checkpoints
from trireme.launch import supervisor
from trireme.launch.watch import Ranks

FOLDER = ROOT / "build" / "soak"
LIMIT = 200.0                          # seconds for a job
NOT_ROWS = re.compile(rb'"crc32c": \d+')          # of a table's file: its rows come in any order
GONE = 15.0                            # for what is left of one whose launcher was killed
BATCH, RATE = 4, 0.5                   # as loops.py has them
UNLIKE = ("losses", "wanted", "ahead", "cached")       # what depends on how often a script ran


class Wrong(Exception):
    """What a job did that it must not do."""


class Running:
    """A case's job."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.folder = case, folder
        self.script, self.args = case.command(folder)
        self.servers, self.text = case.servers, ""
        self.seen: set[int] = set()                    # processes of the job
        self.start()

    def start(self, *more: object) -> None:
        case, self.mark = self.case, self.folder / "begun"
        self.mark.unlink(missing_ok=True)
        self.job = Launched(self.servers, case.trainers, *self.args, version=case.version, script=self.script,
                            options=(*case.options(self.folder), *more), env=environment(TRIREME_START_TIMEOUT="40"),
                            replacements=case.replacements)
        self.pid = self.job.process.pid

    def has_ended(self) -> bool:
        return self.job.process.poll() is not None

    def files(self, what: str = "*") -> list[str]:
        places = (tempfile.gettempdir(), "/dev/shm")
        return [path for place in places for path in glob.glob(f"{place}/trireme-*-{self.pid}-{what}")]

    def ranks(self, begun: bool, said: str = "began") -> dict[int, int]:
        """The ranks that live, when there are all and have said that: rank -> pid. Empty when the job has ended meanwhile."""
        size = self.servers + self.case.trainers + self.case.standbys
        deadline = time.monotonic() + 40
        while not self.has_ended() and time.monotonic() < deadline:
            watch = Ranks(self.pid, Path("/nonexistent"), self.servers, self.case.trainers, self.case.standbys)
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
        if mishap.kind == "ask to stop":
            return self.stop_and_resume(random.Random(mishap.dice))
        # Who sleeps before it joins is late by its own doing.
        dice, ranks = random.Random(mishap.dice), self.ranks(not mishap.at_start, "joins" if mishap.kind == "stop rank" else "began")
        if not ranks:
            return None
        parts = {"server": range(self.servers), "standby": range(self.servers + self.case.trainers, 99),
                 "trainer": range(self.servers, self.servers + self.case.trainers)}
        whom = [pid for rank, pid in ranks.items() if rank in parts.get(mishap.kind.split()[-1], ranks)]
        if mishap.kind in ("kill server", "kill trainer", "kill standby") and whom:
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
        return None

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

    def stop_and_resume(self, dice: random.Random) -> None:
        """Ask the job for a checkpoint and its end; start it again from there, with another number of servers."""
        if self.has_ended():
            return
        self.ranks(True)
        send(self.pid, dice.choice([signal.SIGTERM, signal.SIGUSR1]))
        self.await_end()
        if self.job.process.returncode == 75:
            self.check_left()
            self.servers = dice.randint(1, 3)
            has_checkpoint = bool(checkpoints.steps(self.folder / "checkpoints"))     # none: it was stopped before its first step
            self.start(*["--resume"] * has_checkpoint)
            self.await_first_step()

    # -- the end -------------------------------------------------------------------------------------------------------

    def await_end(self) -> None:
        """Wait for it; keep what the job said."""
        try:
            text, _ = self.job.process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            state = self.state()
            self.job.process.kill()
            text, _ = self.job.process.communicate(timeout=20)
            raise Wrong(f"the job did not end within {LIMIT:g} s:\n{self.text}{text}\n{state}") from None
        except ValueError:                             # it had ended before
            return
        self.text += f"{text}\n(exit code {self.job.process.returncode})\n"

    def state(self) -> str:
        """Where every process of a job that stands still is, and what its ranks have told the launcher."""
        ranks = self.ranks(True)
        told = [f"{Path(path).name}: {Path(path).read_text()}"
                for path in sorted(glob.glob(f"{tempfile.gettempdir()}/trireme-*-{self.pid}-*/*.[0-9]*"))
                if os.path.isfile(path)]
        return "\n".join([*told, *(f"rank {rank}, process {pid}:\n{stacks(pid)}" for rank, pid in sorted(ranks.items()))])

    def check_left(self) -> None:
        """Nothing may be left."""
        was_killed = self.job.process.returncode == -signal.SIGKILL
        deadline = time.monotonic() + (GONE if was_killed else 2)
        while any(map(is_running, self.seen - {0})) and time.monotonic() < deadline:
            time.sleep(0.05)
        if left := [pid for pid in self.seen - {0} if is_running(pid)]:
            raise Wrong(f"processes are left: {left}\n{self.text}")
        supervisor._remove_stale()                     # what the next launcher does
        if left := self.files() + list(map(str, (self.folder / "disk").iterdir())):
            raise Wrong(f"files are left: {left}\n{self.text}")

    def check(self) -> None:
        self.check_left()
        if self.job.process.returncode == -signal.SIGKILL:
            return
        if self.job.process.returncode:
            raise Wrong(f"exit code {self.job.process.returncode}\n{self.text}")
        if "Traceback" in self.text:
            raise Wrong(f"a script failed\n{self.text}")
        self.check_logs()
        found = dict(arrays(self.folder))
        if not found and not self.case.is_apart:
            raise Wrong(f"there is no result\n{self.text}")
        wrong = self.compare(found)
        if wrong:
            raise Wrong(f"{', '.join(wrong)}\n{self.text}")

    def check_logs(self) -> None:
        if self.case.logs:
            done = subprocess.run([sys.executable, "-m", "trireme", "explain", self.folder / "log"], env=environment(), capture_output=True,
                                  text=True, timeout=60, check=False)
            if done.returncode or "advice:" not in done.stdout:
                raise Wrong(f"trireme explain: exit code {done.returncode}\n{done.stdout}{done.stderr}\n{self.text}")

    def compare(self, found: dict[str, np.ndarray]) -> list[str]:
        """Return what is wrong."""
        if not self.case.is_apart:
            want = results(reference(self.case))
            missing = {f"there is no {name}" for name in want.keys() - found.keys() if self.case.keeps or not name.startswith("kept ")}
            return [*sorted(missing),
                    *(f"{name} has other bits" for name in sorted(want.keys() & found.keys()) if not is_same(found[name], want[name]))]
        last = {"losses": -2}                          # of fewer samples than trainers: a mean of nothing is NaN
        wrong = [f"{name} has no numbers" for name, value in found.items()
                 if value.dtype.kind == "f" and not np.isfinite(value[:last.get(name)] if value.ndim else value).all()]
        if self.case.work == "loops" and self.case.mode.startswith(("async", "ssp", "geo")):
            scale = self.case.trainers if self.case.mode.startswith("geo") else 1
            counts = np.round(-found["kept counts"][:, 0] * BATCH / RATE * scale, 2)
            if counts.min() < EPOCHS:
                wrong.append(f"lines were lost: {counts.tolist()}")
        return wrong


def is_same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def arrays(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """All that a job has left in its folder: results, saved values, the newest checkpoint."""
    if (folder / "out" / "r.npz").exists():
        for name, value in results(folder / "out" / "r.npz").items():
            if name.rpartition(".")[2] not in UNLIKE:
                yield name, value
    for path in sorted((folder / "out").glob("values/**/*")):
        if path.parent.suffix == ".part":                              # of one that was killed while it saved
            continue
        if path.suffix == ".npy":
            yield from table_of(f"saved {path.parent.name}/{path.name}", np.load(path))
        elif path.is_file():
            yield f"saved {path.relative_to(folder / 'out')}", np.frombuffer(NOT_ROWS.sub(b"", path.read_bytes()), np.uint8)
    if (folder / "checkpoints").exists():
        yield from kept(folder / "checkpoints")


def table_of(name: str, rows: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """A column of a table's rows each."""
    rows = rows[np.argsort(rows["key"], kind="stable")]
    for column in rows.dtype.names or ():
        yield f"{name} {column}", np.ascontiguousarray(rows[column])


def kept(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """The newest checkpoint. All must be valid."""
    for step in checkpoints.steps(folder):
        checkpoints.find(folder, step)
    newest = checkpoints.newest(folder)
    if newest.refused:
        raise Wrong(f"a checkpoint is damaged: {newest.refused}")
    for name in newest.arrays:
        yield f"kept {name}", newest[name]
    for name in newest.tables:
        yield from table_of(f"kept {name}", newest.table_rows(name))
    yield "kept step", np.array(newest.step)


def reference(case: Case) -> Path:
    """The result of the same job when nothing happens."""
    path = FOLDER / ("_".join(["whole", case.work, str(case.is_saved), str(case.trainers),
                               *case.args]).replace("--", "").replace("/", "") + ".npz")
    if not path.exists():
        with tempfile.TemporaryDirectory(prefix="trireme-soak-") as folder:
            whole = Case(case.seed)
            whole.servers, whole.mishaps, whole.standbys, whole.logs, whole.keeps = 1, [], 0, False, ("--checkpoint-steps", 100000)
            running = Running(whole, Path(folder))
            running.await_end()
            if running.job.process.returncode:
                raise Wrong(f"the job to which nothing happens: {running.text}")
            whole_path = Path(folder) / "whole.npz"
            np.savez(whole_path, **dict(arrays(Path(folder))))
            shutil.move(whole_path, path)
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
    done = subprocess.run(["gdb", "-batch", "-nx", "-p", str(pid), "-ex", "thread apply all bt 12"], capture_output=True, text=True,
                          timeout=60, check=False)
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
