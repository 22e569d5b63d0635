"""The Penn Treebank, as Mikolov's language models use it: 42068 lines to train, 3370 to validate.

The archive ``simple-examples.tgz`` is looked for in the folder ``imikolov`` (see ``dataset.common``).
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import common

URL = "http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz"
MD5 = "30177ea32e27c525793142b6bf2c8e2d"


class DataType:
    """What a reader yields: ``NGRAM``, the words of a window; ``SEQ``, whole lines.

    >>> fluid.dataset.imikolov.DataType.NGRAM, fluid.dataset.imikolov.DataType.SEQ
    (1, 2)
    """

    NGRAM = 1
    SEQ = 2


@functools.lru_cache(maxsize=2)
def _lines(part: str) -> list[list[str]]:
    path = common.archive("imikolov", "simple-examples.tgz", URL, MD5)
    wanted = f"simple-examples/data/ptb.{part}.txt"
    with common.members(path) as files:
        for name, read in files:
            if name.removeprefix("./") == wanted:
                return [line.split() for line in read().decode("utf-8").splitlines()]
    raise common.DataSetError(f"{path} holds no {wanted}")


def build_dict(min_word_freq: int = 50) -> dict[str, int]:
    """Return the ids of the words that the lines use more than ``min_word_freq`` times, frequent ones first.

    ``"<s>"`` and ``"<e>"``, the ends of a line, are among them. The last id is that of ``"<unk>"``, all other words.

    >>> build = fluid.dataset.imikolov.build_dict      # len(build()) is 2074
    """
    counts: collections.Counter[str] = collections.Counter()
    for part in ("train", "valid"):
        for words in _lines(part):
            counts.update([*words, "<s>", "<e>"])
    counts.pop("<unk>", None)                          # the text has it for rare words
    kept = sorted((-count, word) for word, count in counts.items() if count > min_word_freq)
    ids = {word: i for i, (_, word) in enumerate(kept)}
    ids["<unk>"] = len(ids)
    return ids


def _reader(part: str, word_idx: Mapping[str, int], n: int, data_type: int) -> Callable[[], Iterator[Any]]:
    if data_type not in (DataType.NGRAM, DataType.SEQ):
        raise ValueError(f"data_type must be DataType.NGRAM or DataType.SEQ, got {data_type!r}")
    if data_type == DataType.NGRAM and n < 1:
        raise ValueError(f"n must be the length of a window, at least 1, got {n!r}")

    def reader() -> Iterator[Any]:
        unknown = word_idx["<unk>"]
        for words in _lines(part):
            ids = [word_idx.get(word, unknown) for word in words]
            if data_type == DataType.SEQ:
                source, target = [word_idx.get("<s>", unknown), *ids], [*ids, word_idx.get("<e>", unknown)]
                if n <= 0 or len(source) <= n:
                    yield source, target
                continue
            ids = [word_idx.get("<s>", unknown), *ids, word_idx.get("<e>", unknown)]
            for end in range(n, len(ids) + 1):
                yield tuple(ids[end - n:end])

    return reader


def train(word_idx: Mapping[str, int], n: int, data_type: int = DataType.NGRAM) -> Callable[[], Iterator[Any]]:
    """Return a reader of windows of ``n`` ids, or of lines of at most ``n`` ids (0: any) as (from <s> on, up to <e>).

    ``word_idx`` numbers the words, as ``build_dict`` returns it; ``data_type`` is one of `DataType`.

    >>> reader = fluid.dataset.imikolov.train({"<unk>": 0}, 5)
    """
    return _reader("train", word_idx, n, data_type)


def test(word_idx: Mapping[str, int], n: int, data_type: int = DataType.NGRAM) -> Callable[[], Iterator[Any]]:
    """Return a reader of the lines to validate, as ``train`` does. ``word_idx``, ``n`` and ``data_type`` are its arguments.

    >>> reader = fluid.dataset.imikolov.test({"<unk>": 0}, 0, fluid.dataset.imikolov.DataType.SEQ)
    """
    return _reader("valid", word_idx, n, data_type)


__all__ = ["DataType", "build_dict", "train", "test"]
