"""Adult, or census income (Becker and Kohavi, UCI 1996): does a person earn more than 50000 $ a year?

For wide and deep models: 6 numbers and 8 categories a person, 32561 persons to train and 16281 to test.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from . import common

URL = "https://raw.githubusercontent.com/jbrownlee/Datasets/master/"
FILES = {"adult-train.csv": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
         "adult-test.csv": "72567b94f5c1a6f8501377dd80f93892c3848ff071cf91ba47e00b0785a28074"}
COLUMNS = ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
           "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "label"]
DENSE = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
CATEGORIES = ["workclass", "education", "marital-status", "occupation", "relationship", "race", "sex",
              "native-country"]


@functools.lru_cache(maxsize=2)
def _columns(name: str) -> dict[str, list[str]]:
    text = common.read("adult", name, URL + name, FILES[name]).decode("ascii")
    rows = [line.split(", ") if ", " in line else line.split(",") for line in text.splitlines() if line]
    return dict(zip(COLUMNS, map(list, zip(*rows))))


@functools.lru_cache(maxsize=1)
def vocabularies() -> dict[str, dict[str, int]]:
    """Return, for each category's column, its words in the training data and their ids; 0 is any other word.

    >>> words = fluid.dataset.adult.vocabularies()
    >>> words["sex"], len(words["native-country"])
    ({'Female': 1, 'Male': 2}, 42)
    """
    columns = _columns("adult-train.csv")
    return {name: {word: i + 1 for i, word in enumerate(sorted(set(columns[name])))} for name in CATEGORIES}


@functools.lru_cache(maxsize=2)
def arrays(part: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (dense float32 [n, 6], ids int64 [n, 8], labels int64 [n]) of ``"train"`` or ``"test"``.

    Dense columns have mean 0 and variance 1 in the training data.

    ``part`` is that name.

    >>> dense, ids, labels = fluid.dataset.adult.arrays("train")
    >>> dense.shape, ids.shape, round(float(labels.mean()), 3)
    ((32561, 6), (32561, 8), 0.241)
    """
    training = np.array([_columns("adult-train.csv")[name] for name in DENSE], np.float64).T
    columns = _columns(f"adult-{part}.csv")
    dense = (np.array([columns[name] for name in DENSE], np.float64).T - training.mean(axis=0)) / training.std(axis=0)
    words = vocabularies()
    ids = np.array([[words[name].get(word, 0) for word in columns[name]] for name in CATEGORIES], np.int64).T
    labels = np.array([label.startswith(">50K") for label in columns["label"]], np.int64)
    return dense.astype(np.float32), np.ascontiguousarray(ids), labels


def _reader(part: str) -> Callable[[], Iterator[tuple[np.ndarray, np.ndarray, int]]]:
    def reader() -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
        dense, ids, labels = arrays(part)
        yield from zip(dense, ids, labels.tolist())

    return reader


def train() -> Callable[[], Iterator[tuple[np.ndarray, np.ndarray, int]]]:
    """Return a reader of (6 numbers, 8 ids, 0 or 1).

    >>> numbers, ids, label = next(fluid.dataset.adult.train()())
    >>> numbers.shape, ids.shape, label
    ((6,), (8,), 0)
    """
    return _reader("train")


def test() -> Callable[[], Iterator[tuple[np.ndarray, np.ndarray, int]]]:
    """Return a reader of the test data.

    >>> sum(1 for _ in fluid.dataset.adult.test()())
    16281
    """
    return _reader("test")


__all__ = ["train", "test", "arrays", "vocabularies", "DENSE", "CATEGORIES"]
