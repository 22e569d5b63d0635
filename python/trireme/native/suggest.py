"""What a misspelled name was perhaps meant to be: the one place that compares names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def near(name: Any, names: Iterable[str], most: int = 3) -> list[str]:
    """Return those of ``names`` that are most like ``name``, the likest first.

    >>> near("softmx", ["softmax", "relu"])
    ['softmax']
    """
    import difflib  # 2 ms, which only a mistake costs

    text = str(name)
    known = list(dict.fromkeys(names))
    lower = {one.lower(): one for one in reversed(known)}
    return [lower[match] for match in difflib.get_close_matches(text.lower(), lower, most)]


def did_you_mean(name: Any, names: Iterable[str]) -> str:
    """Return ``"; did you mean 'softmax'?"``, or ``""`` where no name is like it.

    >>> did_you_mean("softmx", ["softmax", "relu"])
    "; did you mean 'softmax'?"
    """
    found = near(name, names)
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""
