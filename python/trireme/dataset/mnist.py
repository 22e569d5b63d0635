"""MNIST (LeCun, Cortes and Burges): handwritten digits of 28 x 28 pixels, 60000 to train and 10000 to test."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator

import numpy as np

from . import common

URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
FILES = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


def _idx(name: str, magic: int, header: int) -> bytes:
    data = common.read("mnist", name, f"{URL}{name}.gz", FILES[name])
    if struct.unpack(">I", data[:4])[0] != magic:
        raise common.DataSetError(f"{name} does not begin with {magic}")
    return data[header:]


@functools.lru_cache(maxsize=2)
def arrays(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (images float32 [n, 784] in [-1, 1], labels int64 [n]) of ``"train"`` or ``"t10k"``.

    ``part`` is that name.

    >>> images, labels = fluid.dataset.mnist.arrays("t10k")
    >>> images.shape, labels[:5].tolist()
    ((10000, 784), [7, 2, 1, 0, 4])
    """
    pixels = np.frombuffer(_idx(f"{part}-images-idx3-ubyte", 2051, 16), np.uint8).reshape(-1, 784)
    labels = np.frombuffer(_idx(f"{part}-labels-idx1-ubyte", 2049, 8), np.uint8).astype(np.int64)
    return pixels.astype(np.float32) / 127.5 - 1.0, labels


def _reader(part: str) -> Callable[[], Iterator[tuple[np.ndarray, int]]]:
    def reader() -> Iterator[tuple[np.ndarray, int]]:
        images, labels = arrays(part)
        yield from zip(images, labels.tolist())

    return reader


def train() -> Callable[[], Iterator[tuple[np.ndarray, int]]]:
    """Return a reader of (784 pixels in [-1, 1], digit).

    >>> pixels, digit = next(fluid.dataset.mnist.train()())
    >>> pixels.shape, digit
    ((784,), 5)
    """
    return _reader("train")


def test() -> Callable[[], Iterator[tuple[np.ndarray, int]]]:
    """Return a reader of the test images.

    >>> pixels, digit = next(fluid.dataset.mnist.test()())
    >>> pixels.shape, digit
    ((784,), 7)
    """
    return _reader("t10k")


__all__ = ["train", "test", "arrays"]
