"""``trireme predict MODEL < lines``: what a model makes of lines of text, a line for each."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

import numpy as np

from ..errors import FormatError, InvalidArgumentError
from ..suggest import did_you_mean
from ..tensor import LoDTensor
from .predictor import Predictor, _Feed

FORMATS = ("json", "csv", "multislot")


def command(folder: str, form: str, batch: int, delimiter: str, follow: float | None) -> int:
    """Read standard input to its end; return the exit code."""
    with Predictor(folder) as predictor:
        if follow is not None:
            predictor.follow(follow)
        for lines in batches(sys.stdin, batch):
            parsed = [_parse(predictor._feeds, form, delimiter, number, line) for number, line in lines]
            for text in predict(predictor, parsed):
                print(text)
            sys.stdout.flush()
    return 0


def batches(source: TextIO, most: int) -> Iterator[list[tuple[int, str]]]:
    """Give lines that are not empty with their numbers, up to ``most`` at a time: as many as there are, so that nobody who types waits."""
    held: list[tuple[int, str]] = []
    for number, line in enumerate(_unbuffered(source), 1):
        if line is not None and line.strip():
            held.append((number, line.rstrip("\n")))
        if held and (line is None or len(held) >= most or not _has_more(source)):
            yield held
            held = []
    if held:
        yield held


_rest = b""


def _has_more(source: TextIO) -> bool:
    """Whether a line is there, or will be at once: a file always has one."""
    if b"\n" in _rest:
        return True
    try:
        return bool(select.select([source.fileno()], [], [], 0)[0])
    except (OSError, ValueError):                      # no descriptor: a test's text
        return True


def _unbuffered(source: TextIO) -> Iterator[str]:
    """Give lines as soon as they are complete."""
    global _rest
    try:
        fd = source.fileno()
    except (OSError, ValueError):
        yield from source
        return
    _rest = b""
    while data := os.read(fd, 1 << 16):
        _rest += data
        while b"\n" in _rest:
            line, _, _rest = _rest.partition(b"\n")
            yield line.decode("utf-8", "replace") + "\n"
    if _rest:
        last, _rest = _rest, b""
        yield last.decode("utf-8", "replace")


def _parse(feeds: Sequence[_Feed], form: str, delimiter: str, number: int, line: str) -> list[np.ndarray]:
    """Return the values of one line: an array for each feed, without the dimension of the batch."""
    try:
        if form == "json":
            return _from_json(feeds, _json(feeds, line))
        fields = line.split(delimiter) if form == "csv" else line.split()
        return _from_numbers(feeds, fields, counts=form == "multislot")
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise FormatError(f"standard input, line {number}: {error}") from None


def _json(feeds: Sequence[_Feed], line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        form = ", ".join(f'"{feed.name}": ...' for feed in feeds)
        raise ValueError(f"{line[:40]!r} is no JSON ({error}); expected {{{form}}}, or give --format csv or multislot") from None


def _from_json(feeds: Sequence[_Feed], value: Any) -> list[np.ndarray]:
    if isinstance(value, dict):
        names = [feed.name for feed in feeds]
        for name in value:
            if name not in names:
                raise ValueError(f"{name!r} is no feed of the model, which is fed {', '.join(names)}{did_you_mean(name, names)}")
        missing = [name for name in names if name not in value]
        if missing:
            raise ValueError(f"{missing[0]!r} is missing; the model is fed {', '.join(names)}")
        value = [value[name] for name in names]
    elif len(feeds) == 1:
        value = [value]
    if not isinstance(value, list) or len(value) != len(feeds):
        raise ValueError(f"an object with the feeds by name, or a list of {len(feeds)} is expected")
    return [_shaped(feed, _typed(feed, one)) for feed, one in zip(feeds, value)]


def _typed(feed: _Feed, value: Any) -> np.ndarray:
    """Return JSON's numbers in the type of the feed. An id with a fraction is a mistake, never rounded."""
    array = np.array(value)
    if array.size and (array.dtype.kind not in "iufb" or array.dtype.kind in "uf" and np.dtype(feed.dtype).kind == "i"):
        raise ValueError(f"{feed.name!r} is of the type {feed.dtype}, got {json.dumps(value)}")
    return np.array(value, feed.dtype)


def _from_numbers(feeds: Sequence[_Feed], fields: Sequence[str], counts: bool) -> list[np.ndarray]:
    found, at = [], 0
    for feed in feeds:
        size = int(np.prod([dim for dim in feed.shape[1:]] or [1]))
        if counts:
            size, at = int(fields[at]), at + 1
        elif feed.lod_level or size < 0:
            raise ValueError(f"{feed.name!r} has any number of values, which the format csv cannot tell: take json or multislot")
        if len(fields) < at + size:
            raise ValueError(f"{len(fields)} values, {feed.name!r} needs {at + size}")
        found.append(_shaped(feed, np.array(fields[at:at + size]).astype(feed.dtype)))
        at += size
    if at != len(fields):
        raise ValueError(f"{len(fields)} values, the model takes {at}")
    return found


def _shaped(feed: _Feed, array: np.ndarray) -> np.ndarray:
    """Give what is written as a list the dimensions of the feed after that of the batch; a sequence has its length first."""
    inner = feed.shape[1:]
    if feed.lod_level:
        inner = [-1, *inner]
    return array.reshape(inner)


def predict(predictor: Predictor, rows: Sequence[Sequence[np.ndarray]]) -> Iterable[str]:
    """Give a line of JSON for each row."""
    feed = {}
    for i, one in enumerate(predictor._feeds):
        column = [row[i] for row in rows]
        if one.lod_level == 0:
            feed[one.name] = np.stack(column)
            continue
        if one.lod_level > 1:
            raise InvalidArgumentError(f"feed {one.name!r} has sequences of sequences: write a script with Predictor.run")
        tensor = LoDTensor()
        tensor.set(np.concatenate(column))
        tensor.set_recursive_sequence_lengths([[len(value) for value in column]])
        feed[one.name] = tensor
    results = predictor.run(feed)
    for name, result in zip(predictor.fetches, results):
        if result.ndim == 0 or len(result) != len(rows):
            raise InvalidArgumentError(f"the model gives {name!r} of the shape {list(result.shape)} for {len(rows)} lines, which is not a row for each: "
                                       "write a script with Predictor.run")
    for i in range(len(rows)):
        values = [_plain(result[i]) for result in results]
        yield json.dumps(values[0] if len(values) == 1 else dict(zip(predictor.fetches, values)))


def _plain(value: Any) -> Any:
    """Return a row as JSON has it; one of a single number as that."""
    array = np.asarray(value)
    if array.dtype == np.float32:                      # nine digits tell any two of them apart
        array = np.array([float(f"{one:.9g}") for one in array.reshape(-1)]).reshape(array.shape)
    return array.reshape(-1)[0].item() if array.size == 1 else array.tolist()


__all__ = ["FORMATS", "batches", "command", "predict"]
