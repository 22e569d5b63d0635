"""Flowers of 102 kinds (Nilsback and Zisserman, 2008): photographs, 6149 to train, 1020 to test, 1020 to validate.

``102flowers.tgz``, ``imagelabels.mat`` and ``setid.mat`` are looked for in the folder ``flowers`` (see ``dataset.common``). Reading them
takes the libraries Pillow and SciPy.
"""

from __future__ import annotations

import functools
import io
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..native import optional
from ..reader import buffered, xmap_readers
from . import common

URL = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/"
FILES = {"102flowers.tgz": "52808999861908f626f3c1f4e79d11fa", "imagelabels.mat": "e0620be6f572b9609742df49c70aed4d",
         "setid.mat": "a5357ecc9cb78c4bef273ce3793fc85c"}
_MEAN = np.array([103.94, 116.78, 123.68], np.float32)         # blue, green, red
_SHORT, _SIDE = 256, 224

Reader = Callable[[], Iterator[tuple[Any, int]]]


def _path(name: str) -> str:
    return common.archive("flowers", name, URL + name, FILES[name])


def _picture(data: bytes, is_train: bool) -> np.ndarray:
    """Return a photograph's 3 x 224 x 224 values, blue first: its short side becomes 256, of which a part is cut out. In training the place
    of the part is random, and half of the parts are mirrored."""
    image = optional.load("PIL.Image", "dataset.flowers").open(io.BytesIO(data)).convert("RGB")
    scale = _SHORT / min(image.size)
    image = image.resize([max(_SHORT, round(side * scale)) for side in image.size])
    free = [side - _SIDE for side in image.size]
    left, top = [random.randint(0, most) if is_train else most // 2 for most in free]
    pixels = np.asarray(image, np.float32)[top:top + _SIDE, left:left + _SIDE, ::-1]
    if is_train and random.random() < 0.5:
        pixels = pixels[:, ::-1]
    return (pixels - _MEAN).transpose(2, 0, 1)


def default_mapper(is_train: bool, sample: tuple[bytes, int]) -> tuple[np.ndarray, int]:
    """Return (values of the picture in a row, label) of a ``sample``, (bytes of a JPEG file, label).

    ``is_train`` says whether the picture is cut and mirrored at random.

    >>> mapper = fluid.dataset.flowers.default_mapper
    """
    data, label = sample
    return np.ascontiguousarray(_picture(data, is_train)).ravel(), label


train_mapper = functools.partial(default_mapper, True)
test_mapper = functools.partial(default_mapper, False)


@functools.lru_cache(maxsize=3)
def _labels(part: str) -> dict[str, int]:
    """Return the labels, from 0 on, of a part's pictures by the names of their files."""
    read = optional.load("scipy.io", "dataset.flowers").loadmat
    labels = read(_path("imagelabels.mat"))["labels"].ravel()
    return {f"jpg/image_{number:05d}.jpg": int(labels[number - 1]) - 1 for number in read(_path("setid.mat"))[part].ravel()}


def _reader(part: str, mapper: Callable[[Any], Any] | None, size: int, use_xmap: bool, cycle: bool) -> Reader:
    def samples() -> Iterator[tuple[bytes, int]]:
        while True:
            labels = _labels(part)
            with common.members(_path("102flowers.tgz")) as files:
                for name, read in files:
                    if name in labels:
                        yield read(), labels[name]
            if not cycle:
                return

    if mapper is None:
        return samples
    if use_xmap:
        return xmap_readers(mapper, samples, 2, size, order=True)
    return buffered(lambda: map(mapper, samples()), size)


def train(mapper: Callable[[Any], Any] | None = train_mapper, buffered_size: int = 1024, use_xmap: bool = True,
          cycle: bool = False) -> Reader:
    """Return a reader of (3 x 224 x 224 values in a row, kind of the flower from 0 on). Fluid trains on the larger part, ``tstid``.

    ``mapper`` makes a sample of (bytes of a JPEG file, label); None: samples are these pairs. ``buffered_size`` samples are made ahead,
    with ``use_xmap`` by two threads. ``cycle`` True: the reader begins again at its end.

    >>> reader = fluid.dataset.flowers.train()
    """
    return _reader("tstid", mapper, buffered_size, use_xmap, cycle)


def test(mapper: Callable[[Any], Any] | None = test_mapper, buffered_size: int = 1024, use_xmap: bool = True,
         cycle: bool = False) -> Reader:
    """Return a reader of the test pictures. The arguments ``mapper``, ``buffered_size``, ``use_xmap`` and ``cycle`` are those of ``train``.

    >>> reader = fluid.dataset.flowers.test()
    """
    return _reader("trnid", mapper, buffered_size, use_xmap, cycle)


def valid(mapper: Callable[[Any], Any] | None = test_mapper, buffered_size: int = 1024, use_xmap: bool = True) -> Reader:
    """Return a reader of the pictures to validate. ``mapper``, ``buffered_size`` and ``use_xmap`` are those of ``train``.

    >>> reader = fluid.dataset.flowers.valid()
    """
    return _reader("valid", mapper, buffered_size, use_xmap, False)


__all__ = ["train", "test", "valid", "default_mapper"]
