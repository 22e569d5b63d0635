"""What the values of options may be."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def whole_from(least: int) -> Callable[[str], int]:
    """Return what understands a whole number that is not smaller."""
    def read(text: str) -> int:
        value = int(text) if text.strip().lstrip("+-").isdecimal() else least - 1
        if not least <= value < 1 << 31:
            raise argparse.ArgumentTypeError(f"{text!r}; a whole number from {least} on is possible")
        return value

    return read


def threads(text: str) -> int:
    """Understand a number of threads, or ``auto``, which is 0."""
    if text == "auto":
        return 0
    if not (text.isdecimal() and 1 <= int(text) <= 256):
        raise argparse.ArgumentTypeError(f"{text!r}; auto, or a whole number from 1 to 256, is possible")
    return int(text)


def number_from(least: float, is_above: bool = False) -> Callable[[str], float]:
    """Return what understands a number that is not smaller, or above it; NaN and infinity are none."""
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and (value > least or value == least and not is_above)):
            raise argparse.ArgumentTypeError(f"{text!r}; a number {'above' if is_above else 'from'} {least:g}{'' if is_above else ' on'} "
                                             "is possible")
        return value

    return read


def text_of(what: str) -> Callable[[str], str]:
    """Return what refuses "", which is mostly a variable of a shell that was never set."""
    def read(text: str) -> str:
        if not text:
            raise argparse.ArgumentTypeError(f"{text!r} is no {what}")
        return text

    return read
