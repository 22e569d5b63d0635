"""``trireme predict MODEL < lines``: what a model makes of lines of text, a line of strict JSON for each."""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn, TextIO

import numpy as np

from ..native.errors import FileError, FormatError, InvalidArgumentError, NotFoundError
from ..native.files import each_name_once, open_regular
from ..native.suggest import did_you_mean
from ..native.tensor import LoDTensor
from .predictor import Predictor, _Feed

FORMATS = ("json", "csv", "multislot")
_MOST_LINE = 1 << 28                   # bytes


def command(folder: str, form: str, batch: int, delimiter: str, follow: float | None, wait: float = 0.0, raw: str | None = None) -> int:
    """Read standard input, or the file ``raw``, to its end; return the exit code. ``raw``: rows of raw values, "-" is standard input."""
    if sys.stdout is None or sys.stdin is None and raw in (None, "-"):
        raise FileError("predict reads standard input and writes standard output: one of them is closed")
    with _source(raw) as (source, name), Predictor(folder, wait=wait) as predictor, _answers_alone() as out:
        if follow is not None:
            predictor.follow(follow)
        for lines in batches(source, batch, name, "replace" if raw is None else "surrogateescape"):
            if raw is not None:
                feed = _feed_of_rows(predictor, name, lines)
            else:
                feed = _feed_of(predictor, [_parse(predictor._feeds, form, delimiter, number, line) for number, line in lines])
            _write(out, "".join(f"{text}\n" for text in _answers(predictor, feed, len(lines))))
    return 0


@contextlib.contextmanager
def _source(raw: str | None) -> Iterator[tuple[TextIO, str]]:
    """Open what has the lines; yield it and its name."""
    if raw is None or raw == "-":
        yield sys.stdin, "standard input"
        return
    with open_regular(raw) as data, io.TextIOWrapper(data, "utf-8", "surrogateescape") as source:
        yield source, raw


@contextlib.contextmanager
def _answers_alone() -> Iterator[TextIO]:
    """Give standard output for answers. What else writes there, such as a model's operator ``print``, goes to standard error."""
    try:
        fd = sys.stdout.fileno()
    except (OSError, ValueError):                      # no descriptor: a test's text
        yield sys.stdout
        return
    sys.stdout.flush()
    with open(os.dup(fd), "w", encoding="utf-8") as out:
        os.dup2(2, fd)
        try:
            yield out
        finally:
            sys.stdout.flush()
            with contextlib.suppress(OSError):         # the rest of a full disk's answers, which an error was raised for
                out.flush()
            os.dup2(out.fileno(), fd)
            _drop(out)


def _drop(out: TextIO) -> None:
    """Let what a failed write has left in the buffer go nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, out.fileno())
    os.close(null)


def _write(out: TextIO, text: str) -> None:
    try:
        out.write(text)
        out.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FileError(f"cannot write standard output: {error.strerror}") from None


# -- lines ------------------------------------------------------------------------------------------------------------


def batches(source: TextIO, most: int, name: str = "standard input", errors: str = "replace") -> Iterator[list[tuple[int, str]]]:
    """Give lines that are not empty, with their numbers. Up to ``most`` come together. Lines that are there are given at once: a
    person who types them gets an answer to each.

    ``errors``: what becomes of bytes that are no UTF-8, as ``bytes.decode`` takes it.
    """
    held: list[tuple[int, str]] = []
    lines = _Lines(source, name, errors)
    for number, line in enumerate(lines, 1):
        if line.strip():
            held.append((number, line.rstrip("\n")))
        if held and (len(held) >= most or not lines.has_more()):
            yield held
            held = []
    if held:
        yield held


class _Lines:
    """The lines of a stream, each as soon as it is complete."""

    def __init__(self, source: TextIO, name: str = "standard input", errors: str = "replace") -> None:
        self._source, self._name, self._errors = source, name, errors
        self._whole: list[bytes] = []                  # complete lines that were read and not given yet, the next one last
        self._parts: list[bytes] = []                  # the beginning of the line after them
        self._fd = -1
        with contextlib.suppress(OSError, ValueError):  # no descriptor: a test's text
            self._fd = source.fileno()

    def has_more(self) -> bool:
        """Whether a line is there, or will be at once: a file always has one."""
        if self._whole or self._fd < 0:
            return True
        return bool(select.select([self._fd], [], [], 0)[0])

    def __iter__(self) -> Iterator[str]:
        if self._fd < 0:
            yield from self._source
            return
        number = 0
        while self._whole or self._read(number + 1):
            number += 1
            yield self._whole.pop().decode("utf-8", self._errors)

    def _read(self, number: int) -> bool:
        """Read until a line is complete; False: there is none any more."""
        size = 0
        while True:
            try:
                data = os.read(self._fd, 1 << 16)
            except OSError as error:
                raise FileError(f"cannot read {self._name}: {error.strerror}") from None
            if not data:
                self._whole, self._parts = [b"".join(self._parts)] if self._parts else [], []
                return bool(self._whole)
            first, *others = data.split(b"\n")
            self._parts.append(first)
            size += len(first)
            if size > _MOST_LINE:
                raise FormatError(f"{self._name}, line {number}: it is longer than {_MOST_LINE} bytes")
            if others:
                self._whole = [*others[:-1][::-1], b"".join(self._parts)]
                self._parts = [others[-1]] if others[-1] else []
                return True


# -- values -----------------------------------------------------------------------------------------------------------


def _parse(feeds: Sequence[_Feed], form: str, delimiter: str, number: int, line: str) -> list[np.ndarray]:
    """Return the values of one line: an array for each feed, without the dimension of the batch."""
    try:
        if form == "json":
            return _from_json(feeds, _json(f"{_form(feed.name for feed in feeds)}, or give --format csv or multislot", line))
        fields = line.split(delimiter) if form == "csv" else line.split()
        return _from_numbers(feeds, fields, counts=form == "multislot")
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise FormatError(f"standard input, line {number}: {error}") from None


def _json(form: str, line: str) -> Any:
    """Return the value of a line; ``form`` says what is expected."""
    def refuse(why: object) -> NoReturn:
        raise ValueError(f"{line[:40]!r} is no JSON ({why}); expected {form}") from None

    try:
        return json.loads(line, parse_constant=lambda name: refuse(f"{name} is no number"), object_pairs_hook=each_name_once)
    except FormatError as error:
        raise ValueError(f"the line {error}") from None
    except json.JSONDecodeError as error:
        refuse(error)
    except RecursionError:
        refuse("it is nested too deeply")


def _form(names: Iterable[str]) -> str:
    return f"{{{', '.join(f'{json.dumps(name)}: ...' for name in names)}}}"


def _feed_of_rows(predictor: Predictor, name: str, lines: Sequence[tuple[int, str]]) -> dict[str, Any]:
    """Return the feed of lines with raw values."""
    form, rows = _form(slot.name for slot in predictor.slots), []
    for number, line in lines:
        try:
            rows.append(_json(form, line))
        except ValueError as error:
            raise FormatError(f"{name}, line {number}: {error}") from None
    try:
        return predictor.feed_of(rows)
    except (InvalidArgumentError, NotFoundError):
        for (number, _), row in zip(lines, rows):          # which one is it?
            try:
                predictor.feed_of([row])
            except (InvalidArgumentError, NotFoundError) as error:
                raise FormatError(f"{name}, line {number}: {str(error).partition(chr(10))[0]}") from None
        raise


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
    try:
        array = np.array(value)
    except ValueError:
        raise ValueError(f"{feed.name!r}: its lists differ in length, got {json.dumps(value):.80}") from None
    if array.dtype == object and np.dtype(feed.dtype).kind == "f" and all(type(one) in (int, float) for one in array.flat):
        array = array.astype("float64")                # integers of more than 64 bits
    if array.size and (array.dtype.kind not in "iufb" or array.dtype.kind in "uf" and np.dtype(feed.dtype).kind == "i"):
        raise ValueError(f"{feed.name!r} is of the type {feed.dtype}, got {json.dumps(value):.80}")
    return _finite(feed, array)


def _finite(feed: _Feed, array: np.ndarray) -> np.ndarray:
    """Return values in the type of the feed; ValueError for one that this type does not have."""
    with np.errstate(over="ignore"):
        typed = array.astype(feed.dtype)
    if typed.dtype.kind == "f" and not np.isfinite(typed).all():
        bad = array.reshape(-1)[int(np.argmin(np.isfinite(typed.reshape(-1))))]
        raise ValueError(f"{feed.name!r} is of the type {feed.dtype}, and {bad} is no finite number of that")
    if typed.dtype.kind in "iu" and array.dtype.kind in "iu" and not np.array_equal(typed, array):
        raise ValueError(f"{feed.name!r} is of the type {feed.dtype}, which does not hold "
                         f"{array.reshape(-1)[int(np.argmax((typed != array).reshape(-1)))]}")
    return typed


def _from_numbers(feeds: Sequence[_Feed], fields: Sequence[str], counts: bool) -> list[np.ndarray]:
    found, at = [], 0
    for feed in feeds:
        size = int(np.prod(feed.shape[1:]))
        if counts:
            size, at = int(fields[at]), at + 1
        elif feed.lod_level or size < 0:
            raise ValueError(f"{feed.name!r} has any number of values, which the format csv cannot tell: take json or multislot")
        if len(fields) < at + size:
            raise ValueError(f"{len(fields)} values, {feed.name!r} needs {at + size}")
        found.append(_shaped(feed, _finite(feed, np.array(fields[at:at + size]))))
        at += size
    if at != len(fields):
        raise ValueError(f"{len(fields)} values, the model takes {at}")
    return found


def _shaped(feed: _Feed, array: np.ndarray) -> np.ndarray:
    """Give what is written as a list the dimensions of the feed after that of the batch; a sequence has its length first."""
    inner = feed.shape[1:]
    if feed.lod_level:
        inner = [-1, *inner]
    try:
        return array.reshape(inner)
    except ValueError:
        wanted = " x ".join("?" if size < 0 else str(size) for size in inner)
        raise ValueError(f"{feed.name!r} has {array.size} values; a line is one sample, of {wanted or 'one'}") from None


def predict(predictor: Predictor, rows: Sequence[Sequence[np.ndarray]]) -> Iterable[str]:
    """Give a line of JSON for each row, which has an array for each feed."""
    return _answers(predictor, _feed_of(predictor, rows), len(rows))


def _feed_of(predictor: Predictor, rows: Sequence[Sequence[np.ndarray]]) -> dict[str, Any]:
    feed: dict[str, Any] = {}
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
    return feed


def _answers(predictor: Predictor, feed: dict[str, Any], count: int) -> Iterable[str]:
    """Give a line of JSON for each of the rows of a feed."""
    results = predictor.run(feed)
    for name, result in zip(predictor.fetches, results):
        if result.ndim == 0 or len(result) != count:
            raise InvalidArgumentError(f"the model gives {name!r} of the shape {list(result.shape)} for {count} lines, which is not a "
                                       "row for each: write a script with Predictor.run")
    for i in range(count):
        values = [_plain(result[i]) for result in results]
        yield json.dumps(values[0] if len(values) == 1 else dict(zip(predictor.fetches, values)), allow_nan=False)


def _plain(value: Any) -> Any:
    """Return a row as JSON has it; one of a single number as that. NaN and infinite values, which JSON does not have, are null."""
    array = np.asarray(value)
    if array.dtype.kind == "f":
        short = array.dtype.itemsize <= 4                                  # nine digits tell any two of them apart
        numbers = [(float(f"{one:.9g}") if short else one) if np.isfinite(one) else None for one in array.reshape(-1).tolist()]
        array = np.array(numbers, object).reshape(array.shape)
    values = array.reshape(-1).tolist()
    return values[0] if len(values) == 1 else array.tolist()
