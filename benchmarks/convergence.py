"""Do nets learn in bfloat16 what they learn in float32? The examples, in one process and in jobs of 2 servers and 2 trainers.

    python benchmarks/convergence.py                          all data; prints the table of docs/precision.md
    python benchmarks/convergence.py --data census tagger
    python benchmarks/convergence.py --table                  the table of what was recorded, without a run
    python benchmarks/convergence.py --curves characters      its recorded curves, for docs/plot_curve.py

`bfloat16` computes products in bfloat16; in a job gradients and parameters also travel in it. `mixed` trains by mixed_precision.decorate,
which also stores activations and their gradients in bfloat16; in a job gradients and parameters travel as before. Each example runs with
the same seed, so runs of one column are the same but for the precision. Results and curves are recorded in benchmarks/convergence.jsonl.
The exit code is 1 when a metric is more than 0.3 points, or 0.01 nats, apart from that in float32.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORD = Path(__file__).with_suffix(".jsonl")
POINTS, NATS = 0.3, 0.01
PLACES = {"one process": [], "2 + 2": ["--servers", "2", "--trainers", "2", "--standbys", "0", "--progress", "0"]}
TRAVELS = ["--compress", "bf16", "--compress-parameters", "bf16"]
PRECISIONS = {"float32": [], "bfloat16": ["--matmul-precision", "bfloat16", *TRAVELS], "mixed": TRAVELS}     # words of a launch


@dataclass(frozen=True)
class Row:
    name: str
    line: str                          # of the example, behind examples/
    metric: str
    found_by: str                      # a regular expression for the metric in what the example prints
    unit: str = "points"
    scale: float = 1.0

    @property
    def limit(self) -> float:
        return NATS if self.unit == "nats" else POINTS


ROWS = {row.name: row for row in (
    Row("digits", "recognize_digits/train.py --network conv --epochs 1 --curve 25", "test accuracy, %", r"test accuracy: ([\d.]+) %"),
    Row("census", "wide_and_deep.py --epochs 2 --at-least 0 --curve 10", "test accuracy, %", r"test accuracy: ([\d.]+) %"),
    Row("polarity", "sentence_polarity/train.py --at-least 0", "test cost, nats", r"sentences; cost ([\d.]+)", "nats"),
    Row("characters", "char_lm/train.py --steps 150 --width 96 --length 64 --report 50 --write 1", "held-out text, nats",
        r"held-out text: ([\d.]+) nats", "nats"),
    Row("tagger", "tagger/train.py --at-least 0", "F1 score, %", r"f1 ([\d.]+) %"),
    Row("clicks", "deepfm/train.py --tables --steps 300 --keys 100000 --every 50 --held-out 20000", "AUC, %",
        r'"step": 300, .*"auc": ([\d.]+)', scale=100.0),
)}


def command(row: Row, place: str, precision: str) -> tuple[list[str], dict[str, str]]:
    """Return what runs an example, and its environment."""
    script, *words = row.line.split()
    words = [str(ROOT / "examples" / script), *words, *(["--mixed"] if precision == "mixed" else [])]
    env = {**os.environ, "TRIREME_NUM_THREADS": "1"}
    for name in ("TRIREME_MATMUL_PRECISION", "TRIREME_COMPRESS", "TRIREME_COMPRESS_PARAMETERS"):
        env.pop(name, None)
    if place != "one process":
        return [sys.executable, "-m", "trireme", "launch", *PLACES[place], *PRECISIONS[precision], *words], env
    return [sys.executable, *words], {**env, "TRIREME_MATMUL_PRECISION": "bfloat16" if precision == "bfloat16" else "float32"}


def read(row: Row, text: str) -> tuple[float, list[dict[str, Any]]]:
    """Return the metric and the curve that an example has printed."""
    found = re.findall(row.found_by, text)
    if not found:
        raise SystemExit(f"{row.name}: no metric ({row.metric}) in what the example has printed:\n{text[-2000:]}")
    lines = [json.loads(line) for line in re.findall(r"^\{.*\}$", text, re.M)]
    keys = ("step", "loss", "train", "cost", "held_out", "auc")
    curve = [{key: line[key] for key in keys if key in line} for line in lines if "step" in line]
    return row.scale * float(found[-1]), curve


def run(row: Row, place: str, precision: str) -> dict[str, Any]:
    words, env = command(row, place, precision)
    done = subprocess.run(words, check=False, env=env, capture_output=True, text=True, timeout=3600)
    if done.returncode != 0:
        raise SystemExit(f"{row.name}: {' '.join(words)}: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    metric, curve = read(row, done.stdout)
    return {"data": row.name, "place": place, "precision": precision, "line": row.line, "metric": round(metric, 4), "curve": curve}


def recorded(path: Path = RECORD) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def record(new: dict[str, Any], path: Path = RECORD) -> None:
    """Put a run in the place of the older one of its kind."""
    order = list(ROWS)
    kept = [old for old in recorded(path) if any(old[key] != new[key] for key in ("data", "place", "precision"))]
    kept.append(new)
    kept.sort(key=lambda one: (order.index(one["data"]), list(PLACES).index(one["place"]), list(PRECISIONS).index(one["precision"])))
    path.write_text("".join(json.dumps(one) + "\n" for one in kept))


def metrics_of(runs: list[dict[str, Any]], name: str) -> dict[tuple[str, str], float]:
    return {(one["place"], one["precision"]): one["metric"] for one in runs if one["data"] == name}


def too_far(runs: list[dict[str, Any]]) -> list[str]:
    """Return a line for each metric that bfloat16 moves by more than its limit."""
    wrong = []
    for row in ROWS.values():
        for (place, precision), rough in metrics_of(runs, row.name).items():
            exact = metrics_of(runs, row.name).get((place, "float32"))
            if exact is not None and abs(rough - exact) > row.limit:
                what = "mixed precision" if precision == "mixed" else precision
                wrong.append(f"{row.name}, {place}: {row.metric} {rough:g} in {what}, {exact:g} in float32: apart by more than {row.limit} "
                             f"{row.unit}")
    return wrong


def table(runs: list[dict[str, Any]]) -> str:
    columns = [f"{precision}, {place}" if precision == "float32" else precision for place in PLACES for precision in PRECISIONS]
    lines = [f"| data, example | metric | {' | '.join(columns)} |", "|---|---|" + "---|" * len(columns)]
    for row in ROWS.values():
        found = metrics_of(runs, row.name)
        digits = 4 if row.unit == "nats" else 2
        cells = [f"{found[key]:.{digits}f}" if (key := (place, precision)) in found else "" for place in PLACES for precision in PRECISIONS]
        if any(cells):
            lines.append(f"| {row.name}, `{row.line}` | {row.metric} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--data", nargs="+", choices=ROWS, default=list(ROWS), help="what to run (default: all)")
    options.add_argument("--place", choices=PLACES, help="where to run it (default: both)")
    options.add_argument("--precision", choices=PRECISIONS, help="what to run it in (default: all)")
    options.add_argument("--table", action="store_true", help="print the table of what was recorded")
    options.add_argument("--curves", choices=ROWS, help="print the recorded curves of this one as lines of JSON")
    options.add_argument("--record", type=Path, default=RECORD, help="file of the results")
    options = options.parse_args()
    if options.curves:
        for one in recorded(options.record):
            for point in one["curve"] if one["data"] == options.curves else []:
                print(json.dumps({"run": f"{one['precision']}, {one['place']}", **point}))
        return 0
    for name in [] if options.table else options.data:
        for place in [options.place] if options.place else PLACES:
            for precision in [options.precision] if options.precision else PRECISIONS:
                new = run(ROWS[name], place, precision)
                record(new, options.record)
                print(f"{name}, {place}, {precision}: {ROWS[name].metric} {new['metric']}", file=sys.stderr, flush=True)
    runs = recorded(options.record)
    wrong = too_far(runs)
    print(table(runs))
    print("".join(f"{line}\n" for line in wrong), end="", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
