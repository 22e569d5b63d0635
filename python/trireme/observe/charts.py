"""Line charts and bars as SVG, with nothing but the standard library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
_WIDTH, _HEIGHT = 960, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 12, 40

Curves = Mapping[str, Sequence[tuple[float, float]]]


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers between two."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def _number(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (limit if unit != 'k' else 1e3):.3g} {unit}"
    return f"{value:.4g}"


def _columns(names: Iterable[str]) -> int:
    """Return how many names of a legend stand beside each other: a letter takes about 6 units, a coloured square 24."""
    return max(1, min(4, (_WIDTH - _LEFT) // (24 + 6 * max(map(len, names)))))


def _svg(height: int) -> str:
    """Return the tag that begins a picture of this height."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" '
            'font-family="sans-serif" font-size="11">')


def line_chart(curves: Curves, x_label: str, y_label: str, from_zero: bool = False) -> str:
    """Return a chart of curves by their names; "" where no curve has two finite points."""
    drawn = {name: [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)] for name, points in curves.items()}
    drawn = {name: points for name, points in drawn.items() if len(points) > 1}
    if not drawn:
        return ""
    xs, ys = [x for points in drawn.values() for x, _ in points], [y for points in drawn.values() for _, y in points]
    low, high = (min(0.0, *ys) if from_zero else min(ys)), max(ys)
    if high == low:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    left, right = min(xs), max(*xs, min(xs) + 1e-9)

    def at(x: float, y: float) -> tuple[float, float]:
        across, up = (x - left) / (right - left), (y - low) / (high - low)
        return _LEFT + across * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)

    columns = _columns(drawn)
    legend = 18 * math.ceil(len(drawn) / columns) if len(drawn) > 1 else 0
    parts = [f"{_svg(_HEIGHT + legend)}<title>{escape(y_label)}</title>"]
    for y in ticks(low, high):
        _, v = at(left, y)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{v:.1f}" y2="{v:.1f}" stroke="#ddd"/><text x="{_LEFT - 6}" '
                     f'y="{v + 4:.1f}" text-anchor="end">{_number(y)}</text>')
    for x in ticks(left, right, 8):
        u, _ = at(x, low)
        parts.append(f'<text x="{u:.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{_number(x)}</text>')
    parts.append(f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>'
                 f'<text transform="translate(12 {_HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    for number, (name, points) in enumerate(drawn.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{u:.1f},{v:.1f}" for u, v in (at(x, y) for x, y in points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        if legend:
            u, v = _LEFT + number % columns * ((_WIDTH - _LEFT) // columns), _HEIGHT + 12 + 18 * (number // columns)
            parts.append(f'<rect x="{u}" y="{v - 9}" width="10" height="10" fill="{colour}"/><text x="{u + 14}" '
                         f'y="{v}">{escape(name)}</text>')
    return "".join(parts) + "</svg>"


def stacked_bars(rows: Sequence[tuple[str, Mapping[str, float]]], unit: str) -> str:
    """Return a horizontal bar for each row, cut into its parts; "" where there is nothing to show."""
    names = list(dict.fromkeys(name for _, parts in rows for name in parts))
    most = max((sum(parts.values()) for _, parts in rows), default=0.0)
    if most <= 0:
        return ""
    height = 26 * len(rows) + 18 * math.ceil(len(names) / 2) + 30
    parts = [_svg(height)]
    for number, (label, values) in enumerate(rows):
        y, x = 26 * number + 4, 90.0
        parts.append(f'<text x="84" y="{y + 14}" text-anchor="end">{escape(label)}</text>')
        for name, value in values.items():
            width = value / most * (_WIDTH - 90 - 80)
            parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="20" '
                         f'fill="{COLOURS[names.index(name) % len(COLOURS)]}"><title>{escape(name)}: {value:.3g} {unit}</title></rect>')
            x += width
        parts.append(f'<text x="{x + 5:.1f}" y="{y + 14}">{sum(values.values()):.3g} {unit}</text>')
    for number, name in enumerate(names):
        u, v = 90 + number % 2 * 250, 26 * len(rows) + 24 + 18 * (number // 2)
        parts.append(f'<rect x="{u}" y="{v - 9}" width="10" height="10" fill="{COLOURS[number % len(COLOURS)]}"/><text x="{u + 14}" '
                     f'y="{v}">{escape(name)}</text>')
    return "".join(parts) + "</svg>"
