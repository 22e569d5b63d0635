"""All tables of benchmarks/README.md by one command, each after the words that made it.

    cmake -B build/release --preset release -DTR_BENCHMARKS=ON && cmake --build build/release
    python benchmarks/all.py build/release --out tables.md [--only float32,ops] [--list] [--peer-python PYTHON]

The tables run one after the other, on a machine that nobody else should use, and take about 15 minutes. Each ends after its limit at the
latest; the file then has what it has printed so far. The exit code is 1 where a program has failed or was ended. Each program says which
peers are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import machine

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    words: str                         # a script of this folder, or a program of BUILD/benchmarks; BUILD and FOLDER are replaced
    limit: int                         # seconds


OPS_ON_TWO_THREADS = "gelu,log,matmul_1024,bmm_scores,bmm_context,sum_all,sum_rows,sum_columns,conv3_64_8x8,conv3_64_56x56,conv1_256_64"
TABLES = (
    Table("float32", "Training steps in float32", "run.py --rounds 5 --patience 5", 420),
    Table("bfloat16", "In bfloat16", "run.py --precision bfloat16 --rounds 5 --patience 5 "
          "--rows mlp_sgd,mlpbig_sgd,lenet5,resnet20,ngram,lstm,widedeep_sgd,widedeep_adam,deepfm_adam", 300),
    Table("mixed", "In mixed precision", "run.py --precision mixed --rounds 5 --patience 5 --threads 1 --rows mlpbig_sgd,lenet5,resnet20",
          60),
    Table("ops", "Single operators, one thread", "ops.py --rounds 5 --record", 300),
    Table("ops2", "Single operators, two threads", f"ops.py --rounds 5 --threads 2 --ops {OPS_ON_TWO_THREADS}", 90),
    Table("executor", "The executor", "executor.py --rounds 9", 60),
    Table("imports", "Imports", "imports.py --rounds 9 --peers", 90),
    Table("feeds", "Reading text", "feeds.py", 60),
    Table("wire", "Dense parameters on the wire", "bench_transport.py BUILD --rounds 5", 120),
    Table("job", "A job's steps", "ps.py --rounds 2 --batches 512", 120),
    Table("start", "A job's start", "start.py --rounds 7", 60),
    Table("parameters", "Many parameters", "many_parameters.py --rounds 1", 60),
    Table("many_tables", "Many tables", "many_tables.py --rounds 2", 60),
    Table("tables", "Sparse tables", "bench_table.py BUILD --rounds 3", 180),
    Table("checkpoint", "Checkpoints", "bench_checkpoint FOLDER 256 5", 60),
    Table("table_checkpoint", "Checkpoints of tables", "bench_table_checkpoint FOLDER 1 5", 60),
    Table("serve", "Requests to a model server", "serve.py --rounds 3", 120),
    Table("growth", "Growth", "growth.py --rounds 3", 120),
    Table("compress", "Compression", "bench_compress", 30),
)


def command(table: Table, build: Path, folder: str) -> list[str]:
    program, *words = [{"BUILD": str(build), "FOLDER": folder}.get(word, word) for word in table.words.split()]
    if program.endswith(".py"):
        return [sys.executable, str(HERE / program), *words]
    return [str(build / "benchmarks" / program), *words]


def run(table: Table, build: Path, env: dict[str, str]) -> tuple[str, str]:
    """Return what a program has printed, and what went wrong, or an empty text."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as said:
        words = command(table, build, folder)
        if not Path(words[0]).exists():
            return "", f"there is no {words[0]}: build it with TR_BENCHMARKS"
        process = subprocess.Popen(words, stdout=printed, stderr=said, env=env, start_new_session=True)
        try:
            wrong = f"exit code {process.returncode}" if process.wait(table.limit) else ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)          # a launcher ends its ranks
            process.wait()
            wrong = f"ended after {table.limit} s"
        printed.seek(0)
        said.seek(0)
        return printed.read(), wrong and wrong + "\n" + said.read()[-1000:]


def shown(printed: str) -> str:
    """Return what a program has printed as Markdown: lines of JSON as a table, a table as it is, other text as it stands."""
    lines = [line for line in printed.splitlines() if line.strip()]
    if lines and all(line.startswith("{") for line in lines):
        rows = [json.loads(line) for line in lines]
        keys = list(dict.fromkeys(key for row in rows for key in row))
        return "\n".join(["| " + " | ".join(keys) + " |", "|" + "---|" * len(keys),
                          *("| " + " | ".join(str(row.get(key, "")) for key in keys) + " |" for row in rows)])
    return printed.strip() if any(line.startswith("|---") for line in lines) else f"```text\n{printed.strip()}\n```"


def section(table: Table, printed: str, wrong: str, seconds: float) -> str:
    kind = "python benchmarks/" if table.words.split()[0].endswith(".py") else "BUILD/benchmarks/"
    text = f"## {table.title}\n\n    {kind}{table.words}\n\n{shown(printed)}\n\n({seconds:.0f} s)\n"
    return text + (f"\nFailed: {wrong}\n" if wrong else "")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("build", type=Path, nargs="?", default=Path("build/release"), help="a build with TR_BENCHMARKS: %(default)s")
    options.add_argument("--out", type=Path, default=Path("tables.md"), help="the file to write: %(default)s")
    options.add_argument("--only", help="names of tables, separated by commas (default: all)")
    options.add_argument("--list", action="store_true", help="print the names and what they run")
    options.add_argument("--peer-python", help="the Python that has torch and jax")
    options = options.parse_args()
    names = options.only.split(",") if options.only else [table.name for table in TABLES]
    unknown = set(names) - {table.name for table in TABLES}
    if unknown:
        sys.exit(f"no such tables: {', '.join(sorted(unknown))}; there are {', '.join(table.name for table in TABLES)}")
    if options.list:
        print("\n".join(f"{table.name:18}{table.words}" for table in TABLES))
        return 0
    build = options.build.resolve()
    env = {**os.environ, "PYTHONPATH": str(build / "python"),
           **({"TRIREME_PEER_PYTHON": options.peer_python} if options.peer_python else {})}
    head = (f"{date.today()}, {machine.cpu_name()}, {machine.describe()['cpus']} CPUs, load {machine.describe()['load']}, "
            f"{machine.versions()}\n")
    sections, has_failed = [head], False
    for table in (table for table in TABLES if table.name in names):
        start = time.monotonic()
        printed, wrong = run(table, build, env)
        has_failed |= bool(wrong)
        sections.append(section(table, printed, wrong, time.monotonic() - start))
        options.out.write_text("\n".join(sections))
        print(f"{table.name}: {time.monotonic() - start:.0f} s{': ' + wrong.splitlines()[0] if wrong else ''}", flush=True)
    return 1 if has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
