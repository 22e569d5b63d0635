"""Draw curves of a CSV file, or of the JSON lines that an example prints, as an SVG line chart.

    python docs/plot_curve.py curve.csv out.svg --x step --y loss [--series column]

--x and --y name columns (keys, of JSON lines). --y may be given several times, for a curve each; --series makes a curve
of each value of a column instead. Lines of a JSON file that hold no object with both keys, such as a progress report
between them, are passed over; so are rows of a CSV file where either is empty. --log draws y by its logarithm,
--smooth N draws means of N neighbouring points, --title and the labels (--x-label, --y-label) say what is shown.

Needs nothing beyond Python's standard library. The same points give the same bytes, so that a chart can be committed.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 72          # of the box that the curves are drawn in, from the edges
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")

Curves = dict[str, list[tuple[float, float]]]


# -- what is drawn ---------------------------------------------------------------------------------------------------


def read_rows(path: Path) -> list[dict]:
    """Return the rows of a CSV file, or the objects of a file of JSON lines."""
    text = path.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.lstrip().startswith("{")]
    return [json.loads(line) for line in lines] if lines else list(csv.DictReader(text.splitlines()))


def curves_of(rows: list[dict], x: str, ys: list[str], series: str | None = None) -> Curves:
    """Return the points of each curve by its name, in the order of the rows.

    Raises ValueError where no row has the columns: it names those that there are.
    """
    curves: Curves = {}
    for row in rows:
        for y in ys:
            name = y if series is None else str(row.get(series, ""))
            if series is not None and len(ys) > 1:
                name = f"{name}, {y}"
            if row.get(x) not in (None, "") and row.get(y) not in (None, ""):
                curves.setdefault(name, []).append((float(row[x]), float(row[y])))
    if not curves:
        there = sorted({key for row in rows for key in row if key})
        raise ValueError(f"no row has both {x!r} and {' or '.join(map(repr, ys))}; columns: {', '.join(there) or 'none'}")
    return curves


def smoothed(points: list[tuple[float, float]], count: int) -> list[tuple[float, float]]:
    """Return the means of each `count` neighbouring points; what is left over makes a last one."""
    parts = [points[i:i + count] for i in range(0, len(points), count)]
    return [(sum(x for x, _ in part) / len(part), sum(y for _, y in part) / len(part)) for part in parts]


# -- axes ------------------------------------------------------------------------------------------------------------


def ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Return about `count` round numbers from `low` to `high`."""
    rough = (high - low) / count or 1.0
    unit = 10.0 ** math.floor(math.log10(rough))
    step = min((unit * factor for factor in (1, 2, 5, 10)), key=lambda one: abs(one - rough))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten from `low` to `high`; where they are too few, round numbers."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [factor * 10.0 ** power for power in powers for factor in (1, 2, 5)
             if low * (1 - 1e-9) <= factor * 10.0 ** power <= high * (1 + 1e-9)]
    return found if len(found) > 2 else ticks(low, high)


class Axis:
    """Numbers from `low` to `high` as pixels from `start` to `end`."""

    def __init__(self, values: list[float], start: float, end: float, log: bool = False) -> None:
        if log and min(values) <= 0:
            raise ValueError(f"a logarithmic axis has no place for {min(values):g}")
        self.log, self.start, self.end = log, start, end
        low, high = min(values), max(values)
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
        self.low, self.high = low, high
        self.ticks = log_ticks(low, high) if log else ticks(low, high)

    def place(self, value: float) -> float:
        low, high, value = (map(math.log, (self.low, self.high, value)) if self.log else (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)


# -- drawing ---------------------------------------------------------------------------------------------------------


def text(x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def grid(x: Axis, y: Axis) -> list[str]:
    """The lines of the round numbers, and the numbers."""
    parts = []
    for value in x.ticks:
        at = x.place(value)
        parts += [f'<path d="M{at:.1f} {y.end:.1f}V{y.start:.1f}" class="grid"/>', text(at, y.start + 16, f"{value:g}")]
    for value in y.ticks:
        at = y.place(value)
        parts += [f'<path d="M{x.start:.1f} {at:.1f}H{x.end:.1f}" class="grid"/>',
                  text(x.start - 6, at + 4, f"{value:g}", "end")]
    return parts


def legend(names: list[str]) -> list[str]:
    parts, at = [], float(LEFT)
    for name, colour in zip(names, COLOURS):
        parts += [f'<path d="M{at:.1f} {HEIGHT - 14}h20" stroke="{colour}" stroke-width="3"/>',
                  text(at + 26, HEIGHT - 10, name, "start")]
        at += 46 + 7 * len(name)
    return parts


def draw(curves: Curves, *, title: str = "", x_label: str = "", y_label: str = "", log: bool = False) -> str:
    """Return the chart of up to eight curves as SVG text.

    Raises ValueError for more, and for numbers that are not finite or, with `log`, not positive.
    """
    if len(curves) > len(COLOURS):
        raise ValueError(f"{len(curves)} curves in one chart; at most {len(COLOURS)} can be told apart")
    points = [point for curve in curves.values() for point in curve]
    if not all(math.isfinite(value) for point in points for value in point):
        raise ValueError("a point is not finite")
    x = Axis([point[0] for point in points], LEFT, WIDTH - RIGHT)
    y = Axis([point[1] for point in points], HEIGHT - BOTTOM, TOP, log)
    parts = [(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
              'font-family="sans-serif" font-size="12" fill="#222">'),
             '<style>.grid{stroke:#ddd} .curve{fill:none;stroke-width:2;stroke-linejoin:round}</style>',
             '<rect width="100%" height="100%" fill="white"/>', *grid(x, y)]
    for (name, curve), colour in zip(curves.items(), COLOURS):
        line = " ".join(f"{x.place(a):.1f},{y.place(b):.1f}" for a, b in curve)
        parts.append(f'<polyline points="{line}" class="curve" stroke="{colour}"><title>{escape(name)}</title></polyline>')
        if len(curve) <= 40:
            parts += [f'<circle cx="{x.place(a):.1f}" cy="{y.place(b):.1f}" r="2.5" fill="{colour}"/>' for a, b in curve]
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts += [text(WIDTH / 2, 24, title, more=' font-size="15"'),
              text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 36, x_label),
              text(16, middle, y_label, more=f' transform="rotate(-90 16 {middle:.1f})"')]
    if len(curves) > 1:
        parts += legend(list(curves))
    return "\n".join([*parts, "</svg>", ""])


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path, help="a CSV file with a line of names, or JSON lines")
    options.add_argument("out", type=Path, help="the SVG file to write")
    options.add_argument("--x", required=True)
    options.add_argument("--y", required=True, action="append")
    options.add_argument("--series")
    options.add_argument("--title", default="")
    options.add_argument("--x-label")
    options.add_argument("--y-label")
    options.add_argument("--log", action="store_true")
    options.add_argument("--smooth", type=int, default=1, metavar="N")
    options = options.parse_args(arguments)
    try:
        curves = curves_of(read_rows(options.data), options.x, options.y, options.series)
        curves = {name: smoothed(points, max(options.smooth, 1)) for name, points in curves.items()}
        picture = draw(curves, title=options.title, x_label=options.x_label or options.x,
                       y_label=options.y_label or (options.y[0] if len(options.y) == 1 else ""), log=options.log)
    except (OSError, ValueError) as failure:
        sys.exit(f"{options.data}: {failure}")
    options.out.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
