"""Numbers as text, with units."""

from __future__ import annotations


def in_ms(value: float) -> str:
    """Return milliseconds, or seconds where there are many.

    >>> from trireme.launch.units import in_ms
    >>> in_ms(0.0213), in_ms(21500.0)
    ('0.0213 ms', '21.5 s')
    """
    return f"{value / 1e3:.3g} s" if value >= 1000 else f"{value:.3g} ms"


def in_bytes(count: float) -> str:
    """Return bytes in powers of 1000.

    >>> from trireme.launch.units import in_bytes
    >>> in_bytes(17), in_bytes(1536), in_bytes(2.5e9)
    ('17 B', '1.54 kB', '2.5 GB')
    """
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def in_times(times: float) -> str:
    """Return a factor.

    >>> from trireme.launch.units import in_times
    >>> in_times(2.46), in_times(float("inf"))
    ('2.5x', 'over 100x')
    """
    return f"{times:.1f}x" if times < 100 else "over 100x"
