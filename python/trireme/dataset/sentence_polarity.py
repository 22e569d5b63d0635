"""Sentence polarity (Pang and Lee, 2005): does a sentence of a film review praise or blame the film?

5331 sentences of either kind, in lower case, words apart by blanks. Every tenth of each kind is for tests: 9594
sentences to train, 1068 to test.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterator

from ..native.errors import check_whole
from . import common

URL = "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/sentence_polarity.zip"
FILES = {"rt-polarity.neg": "614274f81185a850e5a88d533d4679f916d6f62e9af6f0b4ec71fb94bf466ea5",
         "rt-polarity.pos": "c2dc6b2f55bcf725725372916287cc3f8f9b19402edaa9167de5287cb3ade421"}
UNKNOWN = 0                                      # the id of a word that is not in the dictionary

Reader = Callable[[], Iterator[tuple[list[int], int]]]


@functools.lru_cache(maxsize=1)
def sentences() -> tuple[list[list[str]], list[list[str]]]:
    """Return the words of all sentences: those that blame, those that praise.

    >>> blame, praise = fluid.dataset.sentence_polarity.sentences()
    >>> len(blame), len(praise), blame[0][:4]
    (5331, 5331, ['simplistic', ',', 'silly', 'and'])
    """
    blame, praise = (common.read("sentence_polarity", name, URL, digest).decode("utf-8").splitlines() for name, digest in FILES.items())
    return [line.split() for line in blame], [line.split() for line in praise]


def _part(is_test: bool) -> Iterator[tuple[list[str], int]]:
    for i, pair in enumerate(zip(*sentences())):
        if (i % 10 == 0) == is_test:
            yield from zip(pair, (0, 1))


def word_dict(at_least: int = 2) -> dict[str, int]:
    """Return the ids, from 1 on, of words that the training sentences use ``at_least`` so often, frequent ones first.

    >>> words = fluid.dataset.sentence_polarity.word_dict()
    >>> words["."], min(words.values())
    (1, 1)
    """
    return _word_dict(check_whole("word_dict: at_least", at_least))


@functools.lru_cache(maxsize=4)
def _word_dict(at_least: int) -> dict[str, int]:
    counts = collections.Counter(word for words, _ in _part(is_test=False) for word in words)
    kept = sorted((-count, word) for word, count in counts.items() if count >= at_least)
    return {word: i + 1 for i, (_, word) in enumerate(kept)}


def _reader(is_test: bool, words: dict[str, int] | None) -> Reader:
    def reader() -> Iterator[tuple[list[int], int]]:
        ids = word_dict() if words is None else words
        for sentence, label in _part(is_test):
            yield [ids.get(word, UNKNOWN) for word in sentence], label

    return reader


def train(words: dict[str, int] | None = None) -> Reader:
    """Return a reader of (ids of a sentence's words, 1 for praise or 0).

    ``words`` numbers the words, as ``word_dict`` returns it; None: ``word_dict()``. Other words are 0.

    >>> words = fluid.dataset.sentence_polarity.word_dict(at_least=5)
    >>> ids, label = next(fluid.dataset.sentence_polarity.train(words)())
    >>> label, max(ids) <= len(words)
    (0, True)
    """
    return _reader(False, words)


def test(words: dict[str, int] | None = None) -> Reader:
    """Return a reader of the test sentences.

    ``words`` numbers the words, as ``word_dict`` returns it; None: ``word_dict()``.

    >>> sum(1 for _ in fluid.dataset.sentence_polarity.test()())
    1068
    """
    return _reader(True, words)


__all__ = ["train", "test", "word_dict", "sentences", "UNKNOWN"]
