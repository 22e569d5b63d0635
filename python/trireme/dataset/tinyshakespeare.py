"""Tiny Shakespeare (Karpathy, 2015): 40 000 lines of plays as one text of 1 115 394 characters, 65 different ones.

For models of language by characters. The last tenth of the text is for tests. A character's id is its place in
``characters()``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from . import common

URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
TRAIN_CHARACTERS = 1003854

Reader = Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]


@functools.lru_cache(maxsize=1)
def text() -> str:
    """Return the whole text.

    >>> fluid.dataset.tinyshakespeare.text()[:14]
    'First Citizen:'
    """
    return common.read("tinyshakespeare", "input.txt", URL, SHA256).decode("ascii")


@functools.lru_cache(maxsize=1)
def characters() -> str:
    """Return the 65 characters of the text in the order of their codes.

    >>> len(fluid.dataset.tinyshakespeare.characters())
    65
    """
    return "".join(sorted(set(text())))


def encode(words: str) -> np.ndarray:
    """Return the ids, int64 [n], of the characters of ``words``; a ValueError names one that Tiny Shakespeare does not use.

    ``words`` is any text of those characters.

    >>> fluid.dataset.tinyshakespeare.encode("Love").tolist()
    [24, 53, 60, 43]
    """
    known = characters()
    unknown = sorted(set(words) - set(known))
    if unknown:
        raise ValueError(f"the character {unknown[0]!r} is not one of {known!r}")
    codes = np.frombuffer(words.encode("ascii"), np.uint8)
    return np.searchsorted(np.frombuffer(known.encode("ascii"), np.uint8), codes).astype(np.int64)


def decode(ids: Iterable[int]) -> str:
    """Return the text of characters' ids.

    ``ids`` are whole numbers from 0 to 64.

    >>> tiny = fluid.dataset.tinyshakespeare
    >>> tiny.decode(tiny.encode("To be"))
    'To be'
    """
    known = characters()
    return "".join(known[i] for i in ids)


@functools.lru_cache(maxsize=1)
def _ids() -> np.ndarray:
    return encode(text())


def arrays() -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of (the text to train on, int64 [1003854], the held-out end, int64 [111540]).

    >>> train, test = fluid.dataset.tinyshakespeare.arrays()
    >>> train.shape, test.shape, train.dtype
    ((1003854,), (111540,), dtype('int64'))
    """
    return _ids()[:TRAIN_CHARACTERS], _ids()[TRAIN_CHARACTERS:]


def _reader(part: int, length: int, step: int | None) -> Reader:
    step = length if step is None else step
    if length < 1 or step < 1:
        raise ValueError(f"a window's length and step must be at least 1, got {length} and {step}")

    def reader() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        ids = arrays()[part]
        for i in range(0, len(ids) - length, step):
            yield ids[i:i + length], ids[i + 1:i + 1 + length]

    return reader


def train(length: int = 128, step: int | None = None) -> Reader:
    """Return a reader of (``length`` ids of the text, the ids that follow each of them), both int64 [length].

    A window begins ``step`` characters after the one before it: by default where that ends. What is left at the
    end is left out.

    ``length`` and ``step`` are whole numbers from 1 on; others are a ValueError.

    >>> ids, following = next(fluid.dataset.tinyshakespeare.train(length=16)())
    >>> fluid.dataset.tinyshakespeare.decode(ids), fluid.dataset.tinyshakespeare.decode(following)[-1]
    ('First Citizen:\\nB', 'e')
    """
    return _reader(0, length, step)


def test(length: int = 128, step: int | None = None) -> Reader:
    """Return a reader of windows of the held-out text.

    A window has ``length`` characters, and begins ``step`` characters after the one before (None: ``length``, so that none is in two
    windows).

    >>> windows = fluid.dataset.tinyshakespeare.test(length=1000)
    >>> len(list(windows()))
    111
    """
    return _reader(1, length, step)


__all__ = ["train", "test", "arrays", "text", "characters", "encode", "decode", "TRAIN_CHARACTERS"]
