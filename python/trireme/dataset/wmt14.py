"""A part of WMT 2014, French to English, that Fluid's book translates: pairs of sentences and the dictionaries of both languages.

The archive ``wmt14.tgz`` is looked for in the folder ``wmt14`` (see ``dataset.common``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import common

URL = "http://paddlemodels.bj.bcebos.com/wmt/wmt14.tgz"
MD5 = "0791583d57d5beb693b9414c5b36798c"
START, END, UNK, UNK_IDX = "<s>", "<e>", "<unk>", 2
_LONGEST = 80                                          # words of a training sentence

Reader = Callable[[], Iterator[tuple[list[int], list[int], list[int]]]]


def _archive() -> str:
    return common.archive("wmt14", "wmt14.tgz", URL, MD5)


def _dicts(dict_size: int) -> tuple[dict[str, int], dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    path = _archive()
    with common.members(path) as files:
        for name, read in files:
            for ending in ("src.dict", "trg.dict"):
                if name.endswith(ending):
                    lines = read().decode("utf-8").split("\n")[:dict_size]
                    found[ending] = {line.strip(): i for i, line in enumerate(lines)}
    if len(found) < 2:
        raise common.DataSetError(f"{path} holds no src.dict and trg.dict")
    return found["src.dict"], found["trg.dict"]


def get_dict(dict_size: int, reverse: bool = True) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return the first ``dict_size`` words of the source language and of the target language: ids to words, or words to ids where
    ``reverse`` is False.

    >>> words_of = fluid.dataset.wmt14.get_dict        # words_of(30000)[0][0] is '<s>'
    """
    source, target = _dicts(dict_size)
    if not reverse:
        return source, target
    return {i: word for word, i in source.items()}, {i: word for word, i in target.items()}


def _reader(part: str, dict_size: int) -> Reader:
    def reader() -> Iterator[tuple[list[int], list[int], list[int]]]:
        source, target = _dicts(dict_size)
        with common.members(_archive()) as files:
            for name, read in files:
                if name.endswith(part):
                    yield from _pairs(read().decode("utf-8"), source, target)

    return reader


def _pairs(text: str, source: dict[str, int], target: dict[str, int]) -> Iterator[tuple[list[int], list[int], list[int]]]:
    for line in text.split("\n"):
        parts = line.strip().split("\t")
        if len(parts) != 2:
            continue
        ids = [source.get(word, UNK_IDX) for word in [START, *parts[0].split(), END]]
        translated = [target.get(word, UNK_IDX) for word in parts[1].split()]
        if len(ids) <= _LONGEST and len(translated) <= _LONGEST:
            yield ids, [target.get(START, UNK_IDX), *translated], [*translated, target.get(END, UNK_IDX)]


def train(dict_size: int) -> Reader:
    """Return a reader of (ids of the source, of the target from <s> on, of the target up to <e>).

    ``dict_size`` is how many words of each language have an id of their own; other words are ``UNK_IDX``.

    >>> reader = fluid.dataset.wmt14.train(30000)
    """
    return _reader("train/train", dict_size)


def test(dict_size: int) -> Reader:
    """Return a reader of the test pairs, as ``train`` does. ``dict_size`` is its argument.

    >>> reader = fluid.dataset.wmt14.test(30000)
    """
    return _reader("test/test", dict_size)


def gen(dict_size: int) -> Reader:
    """Return a reader of the pairs on which a trained model is shown, as ``train`` does. ``dict_size`` is its argument.

    >>> reader = fluid.dataset.wmt14.gen(30000)
    """
    return _reader("gen/gen", dict_size)


__all__ = ["train", "test", "gen", "get_dict", "START", "END", "UNK", "UNK_IDX"]
