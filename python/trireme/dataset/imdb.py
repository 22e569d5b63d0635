"""Film reviews of IMDB (Maas et al., 2011): does a review praise or blame the film? 25000 to train, 25000 to test.

The archive ``aclImdb_v1.tar.gz`` is looked for in the folder ``imdb`` (see ``dataset.common``).
"""

from __future__ import annotations

import collections
import functools
import re
import string
from collections.abc import Callable, Iterator, Mapping

from . import common

URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
MD5 = "7c2ac02c03563afcf9b574c7e56c153a"
_ALL = r"aclImdb/((train)|(test))/((pos)|(neg))/.*\.txt$"
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Reader = Callable[[], Iterator[tuple[list[int], int]]]


@functools.lru_cache(maxsize=1)
def _texts(path: str) -> dict[str, str]:
    """Return all reviews by the names of their files."""
    with common.members(path) as files:
        return {name: read().decode("utf-8") for name, read in files if re.match(_ALL, name)}


def tokenize(pattern: str) -> Iterator[list[str]]:
    """Yield the words of each review whose file's name matches the regular expression ``pattern``: in lower case, without punctuation.

    >>> words = fluid.dataset.imdb.tokenize(r"aclImdb/train/pos/.*\\.txt$")
    """
    for name, text in _texts(common.archive("imdb", "aclImdb_v1.tar.gz", URL, MD5)).items():
        if re.match(pattern, name):
            yield text.rstrip("\n\r").translate(_NO_PUNCTUATION).lower().split()


def build_dict(pattern: str, cutoff: int) -> dict[str, int]:
    """Return the ids of the words that the reviews which match ``pattern`` use more than ``cutoff`` times, frequent ones first.

    The last id is that of ``"<unk>"``, all other words.

    >>> build = fluid.dataset.imdb.build_dict          # build(r"aclImdb/train/.*\\.txt$", cutoff=150)
    """
    counts = collections.Counter(word for words in tokenize(pattern) for word in words)
    kept = sorted((-count, word) for word, count in counts.items() if count > cutoff)
    ids = {word: i for i, (_, word) in enumerate(kept)}
    ids["<unk>"] = len(ids)
    return ids


@functools.lru_cache(maxsize=1)
def word_dict() -> Mapping[str, int]:
    """Return the ids of the words that all reviews use more than 150 times.

    >>> ids_of = fluid.dataset.imdb.word_dict          # ids_of()["the"] is 0
    """
    return build_dict(_ALL, 150)


def _reader(part: str, word_idx: Mapping[str, int]) -> Reader:
    def reader() -> Iterator[tuple[list[int], int]]:
        unknown = word_idx["<unk>"]
        for label, kind in enumerate(("pos", "neg")):
            for words in tokenize(rf"aclImdb/{part}/{kind}/.*\.txt$"):
                yield [word_idx.get(word, unknown) for word in words], label

    return reader


def train(word_idx: Mapping[str, int]) -> Reader:
    """Return a reader of (ids of a review's words, 0 for praise or 1 for blame). ``word_idx`` numbers the words, as ``word_dict`` returns
    it.

    >>> reader = fluid.dataset.imdb.train({"<unk>": 0})
    """
    return _reader("train", word_idx)


def test(word_idx: Mapping[str, int]) -> Reader:
    """Return a reader of the test reviews, as ``train`` does. ``word_idx`` numbers the words.

    >>> reader = fluid.dataset.imdb.test({"<unk>": 0})
    """
    return _reader("test", word_idx)


__all__ = ["build_dict", "tokenize", "word_dict", "train", "test"]
