"""A loss curve as text for the terminal and as an SVG picture."""

import numpy as np

BLOCKS = " ▁▂▃▄▅▆▇█"


def _resampled(values, count):
    """At most `count` means of neighbouring values."""
    values = np.asarray(values, float)
    return np.array([part.mean() for part in np.array_split(values, min(count, len(values)))])


def draw_text(values, width=72, height=8):
    """Return the lines of a bar chart."""
    bars = _resampled(values, width)
    eighths = np.rint(bars / bars.max() * height * 8).astype(int)
    lines = []
    for row in range(height - 1, -1, -1):
        label = f"{bars.max() * (row + 1) / height:7.3f} " if row in (height - 1, 0) else " " * 8
        lines.append(label + "".join(BLOCKS[min(max(eighth - row * 8, 0), 8)] for eighth in eighths))
    return lines + [" " * 8 + f"loss over {len(values)} steps"]


def draw_svg(values, path, width=640, height=320):
    """Write the curve and return the path."""
    points = _resampled(values, width)
    top, margin = points.max() * 1.05, 40
    x = margin + np.arange(len(points)) * (width - 2 * margin) / max(len(points) - 1, 1)
    y = height - margin - points / top * (height - 2 * margin)
    curve = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y))
    ticks = "".join(f'<text x="{margin - 6}" y="{height - margin - f * (height - 2 * margin) + 4:.0f}" '
                    f'text-anchor="end">{f * top:.2f}</text>' for f in (0, 0.25, 0.5, 0.75, 1))
    with open(path, "w", encoding="utf-8") as out:
        out.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
                  f'font-size="11"><rect width="100%" height="100%" fill="white"/>{ticks}'
                  f'<text x="{width / 2}" y="{height - 10}" text-anchor="middle">step (of {len(values)})</text>'
                  f'<polyline points="{curve}" fill="none" stroke="#1f77b4" stroke-width="1.5"/></svg>\n')
    return path
