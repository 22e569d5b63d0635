"""What a seed decides: an MPI, how many ranks, in which mode, what they train, and what happens to whom."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from job_support import MPIS, environment  # noqa: E402

JOBS = ROOT / "tests" / "python" / "jobs"
MODES = {"sync": 6, "async": 2, "async(compensation=0.04)": 1, "ssp(1)": 1, "ssp(2)": 1, "geo(3)": 1, "geo(5)": 1, "sync(backups=1)": 2,
         "sync(degraded)": 1}
WORKS = {"train": 4, "tables": 4, "optimizers": 1, "loops": 4, "saved": 3}
KINDS = {"kill server": 5, "kill trainer": 4, "kill standby": 1, "kill two": 2, "kill mpirun": 2, "stop rank": 2, "nap": 3,
         "stop mpirun": 1, "damage": 2, "kill launcher": 1, "ask to stop": 2}
EPOCHS = 2                             # of what loops count
FILES = 16                             # of data


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
        self.mode = dice.choices(list(MODES), list(MODES.values()))[0]
        self.work = dice.choices(list(WORKS), list(WORKS.values()))[0]
        self.is_saved = self.work == "saved" or self.work == "loops" and dice.random() < 0.5
        # What compression leaves out dies with a trainer, so that a sync job that starts again has other bits.
        self.compress = dice.choice(["none", "none", "fp16", "bf16", "int8", "topk(0.1)"]) if self.work in ("train", "saved") else "none"
        self.is_apart = self.mode != "sync" or self.compress != "none"
        self.servers = dice.randint(1, 3)
        self.trainers = dice.randint(2, 4) if self.mode != "sync" else dice.randint(1, 3)
        self.standbys = dice.choice([0, 1, 1, 2])
        self.replacements = dice.random() < 0.5
        self.args = getattr(self, f"_{self.work}")(dice)
        self.keeps = dice.choice([None, None, ("--checkpoint-steps", dice.randint(1, 40)), ("--checkpoint-seconds", 0.3)])
        if self.work == "loops" and self.keeps is None:
            self.keeps = ("--checkpoint-steps", 100000)                        # where counts are
        self.logs = dice.random() < 0.3
        kinds = dice.choices(list(KINDS), list(KINDS.values()), k=dice.randint(0, 3))
        self.mishaps = [Mishap(kind, i == 0 and dice.random() < 0.2, dice.uniform(0, 0.8), dice.getrandbits(30))
                        for i, kind in enumerate(kinds) if kind != "ask to stop" or self.keeps]
        if self.keeps and dice.random() < 0.5:
            self.keeps += ("--checkpoint-full-every", dice.randint(2, 6))      # chains of what has changed
        self.is_on_disk = self.work == "tables" and not self.mode.startswith("geo") and dice.random() < 0.5
        self.server_threads = dice.choice([1, 1, 2])

    # -- what is trained: the arguments of a script of tests/python/jobs -----------------------------------------------

    def _train(self, dice: random.Random) -> list[str]:
        args = ["--steps", "200", "--optimizer", dice.choice(["sgd", "momentum", "adam"]), "--pause", "0.008"]
        if dice.random() < 0.4:
            args += ["--clip", "0.2"]
        return args + (["--width", "3000"] if self.compress != "none" else [])

    def _tables(self, dice: random.Random) -> list[str]:
        """Rows come and go. SGD and momentum over rows of many trainers that do not wait for each other go astray by themselves."""
        optimizer = "adagrad" if self.is_apart else dice.choice(["sgd", "momentum", "adagrad", "adam", "decayed", "rmsprop", "ftrl"])
        args = ["--steps", "200", "--optimizer", optimizer, "--pause", "0.008", "--row-dtype",
                dice.choice(["float32", "float32", "float16", "bfloat16"])]
        for option, values in {"--entry-count": [2, 3], "--entry-probability": [0.4], "--max-age": [2, 20], "--max-rows": [1024, 2048],
                               "--rare": [300, 3000], "--clip": ["value", "norm", "global"]}.items():
            if dice.random() < 0.5:
                args += [option, str(dice.choice(values))]
        if "--max-age" in args and dice.random() < 0.5:
            args += ["--keep-count", "4"]
        if self.mode.startswith(("async", "ssp")) and dice.random() < 0.4:
            args += ["--row-cache", "8", "3"]
        return args + (["--ahead"] if dice.random() < 0.5 else [])

    def _optimizers(self, dice: random.Random) -> list[str]:
        """Their rates are bold: with more trainers, delay compensation, which grows with the gradient's square, goes astray without any
        mishap."""
        if "compensation" in self.mode:
            self.trainers = 2
        return ["--kind", dice.choice(["apart", "apart", "global"]), "--steps", "80", "--pause", "0.02"]

    def _loops(self, dice: random.Random) -> list[str]:
        """A loop of the core that counts how often each line was trained on."""
        return ["--files", str(FILES), "--batches", str(dice.choice([3, 10])), "--epochs", str(EPOCHS), "--pause", "0.05"]

    def _saved(self, dice: random.Random) -> list[str]:
        args = ["--optimizer", "sgd" if self.is_apart else dice.choice(["adam", "sgd"]), "--split", dice.choice(["batches", "tasks"]),
                "--epochs", "3"]
        if dice.random() < 0.3:
            args += ["--table"]
        if dice.random() < 0.3:
            args += ["--dropout", "0.3"]
        return args + (["--width", "3000", "--compress", self.compress] if self.compress != "none" else [])

    # -- how it is started ------------------------------------------------------------------------------------------------

    def command(self, folder: Path) -> tuple[Path, list[str]]:
        """Return what the launcher is to run with which arguments; write what that wants to read."""
        script, args = JOBS / f"{self.work}.py", list(self.args)
        mark, out = ["--mark", str(folder / "begun")], ["--out", str(folder / "out" / "r.npz")]
        (folder / "out").mkdir()
        (folder / "disk").mkdir()
        if self.work == "loops":
            args = [str(folder / "data"), *args, *mark]
            if not self.is_saved:
                return script, args + out
        elif self.work == "saved":
            args = [write_lines(folder / "data"), *args, "--save", str(folder / "out" / "values")]
        else:
            return script, args + mark + out + (["--save", str(folder / "out" / "values")] if self.work == "tables" else [])
        if self.work == "saved":
            args += ["--pipe", f"touch {folder / 'begun'}; sleep 0.04; cat"]
        subprocess.run([sys.executable, script, *args, "--write", folder / "job", "--servers", "1", "2", "3", "--mode", self.mode],
                       env=environment(), check=True, timeout=60)
        return folder / "job", []

    def options(self, folder: Path) -> tuple[object, ...]:
        """The launcher's."""
        said = () if self.is_saved else ("--mode", self.mode, "--compress", self.compress)       # as the saved job does
        keeps = ("--checkpoint", folder / "checkpoints", *self.keeps) if self.keeps else ()
        disk = ("--table-memory", "20KB", "--table-spill", folder / "disk") if self.is_on_disk else ()
        logs = ("--log", folder / "log") if self.logs else ()
        return (*said, "--standbys", self.standbys, "--server-threads", self.server_threads, "--restarts", 9, *keeps, *disk, *logs)

    def __str__(self) -> str:
        return (f"Open MPI {self.version}, {self.mode}, compression {self.compress}, {self.servers} servers, {self.trainers} trainers, "
                f"{self.standbys} standbys{' for all' if self.replacements else ''}{', logs' if self.logs else ''}"
                f"{', rows on disk' if self.is_on_disk else ''}, {self.server_threads} threads a server, "
                f"{self.work}{' as a saved job' if self.is_saved else ''} {' '.join(self.args)}, "
                f"{' '.join(map(str, self.keeps or ('no checkpoints',)))}; {'; '.join(map(str, self.mishaps))}")


def write_lines(folder: Path) -> str:
    """Files for saved jobs: a label, six numbers, some words."""
    dice = random.Random(2)
    folder.mkdir()
    for i in range(FILES):
        with open(folder / f"f{i:02}.txt", "w") as out:
            for _ in range(30):
                words = [dice.randrange(40) for _ in range(dice.randint(1, 6))]
                numbers = " ".join(f"{dice.gauss(0, 1):.5g}" for _ in range(6))
                out.write(f"1 {sum(words) % 5} 6 {numbers} {len(words)} {' '.join(map(str, words))}\n")
    return str(folder / "f*.txt")
