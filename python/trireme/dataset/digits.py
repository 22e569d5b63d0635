"""Handwritten digits of 8 x 8 pixels (Alpaydin and Kaynak, UCI), as scikit-learn carries them: 1797 images.

Needs no file: ``pip install scikit-learn``. The first 1437 images train, the other 360 test.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

TRAIN_ROWS = 1437


def _loaded() -> tuple[np.ndarray, np.ndarray]:
    """Return images and labels as scikit-learn's load_digits does, from its file: importing scikit-learn takes two seconds."""
    spec = importlib.util.find_spec("sklearn")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if file.exists():
            rows = np.loadtxt(file, delimiter=",")
            return rows[:, :-1], rows[:, -1]
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError("dataset.digits takes its images from scikit-learn: pip install scikit-learn") from error
    images, labels = load_digits(return_X_y=True)
    return images, labels


@functools.lru_cache(maxsize=1)
def arrays() -> tuple[np.ndarray, np.ndarray]:
    """Return (images float32 [1797, 64] in [-1, 1], labels int64 [1797]).

    ImportError: scikit-learn is not installed.

    >>> images, labels = fluid.dataset.digits.arrays()
    >>> images.shape, labels[:5].tolist()
    ((1797, 64), [0, 1, 2, 3, 4])
    """
    images, labels = _loaded()
    return (images / 8.0 - 1.0).astype(np.float32), labels.astype(np.int64)


def _reader(rows: slice) -> Callable[[], Iterator[tuple[np.ndarray, int]]]:
    def reader() -> Iterator[tuple[np.ndarray, int]]:
        images, labels = arrays()
        yield from zip(images[rows], labels[rows].tolist())

    return reader


def train() -> Callable[[], Iterator[tuple[np.ndarray, int]]]:
    """Return a reader of (64 pixels in [-1, 1], digit).

    >>> pixels, digit = next(fluid.dataset.digits.train()())
    >>> pixels.shape, digit
    ((64,), 0)
    """
    return _reader(slice(None, TRAIN_ROWS))


def test() -> Callable[[], Iterator[tuple[np.ndarray, int]]]:
    """Return a reader of the test images.

    >>> batches = fluid.batch(fluid.dataset.digits.test(), batch_size=64)
    >>> len(list(batches()))
    6
    """
    return _reader(slice(TRAIN_ROWS, None))


__all__ = ["train", "test", "arrays"]
