"""Boston housing (Harrison and Rubinfeld 1978): 13 facts of a district, and its median house price in 1000 $.

A small set for trying things out. One of its columns is built from race; draw no conclusions from it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from . import common

URL = "https://raw.githubusercontent.com/jbrownlee/Datasets/master/housing.data"
SHA256 = "e3e36f7b9e5435f9eb8320e106aebad00031fefa3064527da0c71dec59e49b76"
feature_names = ["CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT"]
TRAIN_ROWS = 404


@functools.lru_cache(maxsize=1)
def _rows() -> np.ndarray:
    """Return [506, 14]: features less their mean, divided by their range; then the price."""
    text = common.read("housing", "housing.data", URL, SHA256)
    rows = np.array(text.split(), dtype=np.float64).reshape(-1, 14)
    features = rows[:, :13]
    rows[:, :13] = (features - features.mean(axis=0)) / (features.max(axis=0) - features.min(axis=0))
    return rows


def _reader(rows: slice) -> Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]:
    def reader() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for row in _rows()[rows]:
            yield row[:13], row[13:]

    return reader


def train() -> Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]:
    """Return a reader of the first 404 districts: (13 features, [price]).

    >>> features, price = next(fluid.dataset.uci_housing.train()())
    >>> features.shape, price.tolist()
    ((13,), [24.0])
    """
    return _reader(slice(None, TRAIN_ROWS))


def test() -> Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]:
    """Return a reader of the other 102.

    >>> sum(1 for _ in fluid.dataset.uci_housing.test()())
    102
    """
    return _reader(slice(TRAIN_ROWS, None))


__all__ = ["train", "test", "feature_names"]
