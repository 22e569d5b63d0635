"""Two builds train to the same bits: jobs and examples of this tree, run with the package of each.

    python tests/soak/same_bits.py BEFORE AFTER [--only WORD]

BEFORE and AFTER are folders of builds, such as build/release of two trees. A case is a script with arguments and the ranks that run it.
What it writes into its files, and what the examples print, must be equal to the byte. The exit code is 1 where one differs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
JOBS = ROOT / "tests" / "python" / "jobs"
CHANGES = re.compile(r"[\d.]+ (?:ms|s|samples/s|lines/s|steps/s|MB|MiB)\b|/tmp/\S+")     # what an example prints of time and place
ALONE, SMALL, WIDE = None, (1, 1), (2, 2)


@dataclass
class Case:
    script: str
    arguments: str
    ranks: tuple[int, int] | None     # servers, trainers; None: one process
    mode: str = "sync"
    options: str = ""

    def __str__(self) -> str:
        where = "one process" if self.ranks is None else f"{self.ranks[0]} + {self.ranks[1]} {self.mode} {self.options}".rstrip()
        return f"{self.script} {self.arguments}".rstrip() + f": {where}"

    def run(self, build: str) -> dict[str, bytes]:
        """Return what the case leaves: the arrays of its file, and its output."""
        env = {**os.environ, "PYTHONPATH": str(Path(build).resolve() / "python"), "TRIREME_NUM_THREADS": "1"}
        path = JOBS / self.script if (JOBS / self.script).exists() else ROOT / "examples" / self.script
        with tempfile.TemporaryDirectory(prefix="trireme-bits-") as folder:
            words = [str(path), *self.arguments.replace("OUT", f"{folder}/out.npz").split()]
            if self.ranks is not None:
                words = ["-m", "trireme", "launch", "--servers", str(self.ranks[0]), "--trainers", str(self.ranks[1]), "--mode", self.mode,
                         "--progress", "0", *self.options.split(), *words]
            done = subprocess.run([sys.executable, *words], env=env, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
            if done.returncode:
                raise RuntimeError(f"{self} failed with {build}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
            left = {f"{file.name}:{name}": array.tobytes() for file in sorted(Path(folder).glob("*.npz"))
                    for name, array in np.load(file).items() if name not in ("stats", "sent", "received")}
            if path.parent != JOBS:
                left["output"] = CHANGES.sub("...", done.stdout).encode()
            return left


CASES = [
    *[Case("optimizers.py", f"--kind {kind} --out OUT", ranks, mode) for kind in ("apart", "global")
      for ranks, mode in ((ALONE, ""), (SMALL, "sync"), (WIDE, "sync"), (WIDE, "average(2)"))],
    *[Case("tables.py", f"--optimizer {name} --out OUT", ranks) for name in ("sgd", "adagrad", "adam", "ftrl")
      for ranks in (ALONE, SMALL, WIDE)],
    Case("tables.py", "--optimizer adam --clip global --out OUT", WIDE),
    Case("tables.py", "--optimizer adagrad --ahead --entry-count 2 --rare 40 --out OUT", WIDE),
    Case("tables.py", "--optimizer sgd --out OUT", SMALL, "geo(3)"),
    *[Case("nets.py", "--out OUT", ranks) for ranks in (ALONE, WIDE)],
    *[Case("averages.py", "--out OUT", ranks) for ranks in (ALONE, WIDE)],
    Case("train.py", "--sparse --out OUT", WIDE, options="--compress int8"),
    *[Case("fit_a_line.py", "", ranks) for ranks in (ALONE, (2, 2))],
    *[Case("recognize_digits/train.py", "", ranks) for ranks in (ALONE, (2, 2))],
    Case("wide_and_deep.py", "", ALONE),
    Case("deepfm/train.py", "", ALONE),
    Case("tagger/train.py", "", ALONE),
]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("before")
    options.add_argument("after")
    options.add_argument("--only", default="")
    options = options.parse_args()
    different = 0
    for case in (case for case in CASES if options.only in str(case)):
        try:
            before, after = case.run(options.before), case.run(options.after)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(error, flush=True)
            before = after = {}
        names = sorted({*before, *after})
        wrong = [name for name in names if before.get(name) != after.get(name)]
        different += bool(wrong or not names)
        print(f"{'DIFFERENT' if wrong or not names else 'the same bits'}: {case}, {len(names)} "
              f"arrays{': ' + ', '.join(wrong[:8]) if wrong else ''}", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
