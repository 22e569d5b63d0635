"""A batch cut into one slice for each replica, and what they fetched put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import InvalidArgumentError, ShapeError, user_line
from .framework import Block
from .tensor import LoDTensor, SelectedRows, as_fetched, lengths_to_offsets, samples_of

Feed = dict[str, Any]


def _batched(block: Block, feed: Feed) -> tuple[dict[str, int], int]:
    """Return the samples of the feeds that are cut, and of the batch. A feed that declares its first dimension is cut when it has
    as many rows as the batch; else every replica gets all of it."""
    sizes = {name: samples_of(value) for name, value in feed.items()}
    fixed = {name for name, value in feed.items() if not (isinstance(value, LoDTensor) and value.lod())
             and block.has_var(name) and (block.var(name).desc.shape() or [0])[0] >= 0}
    open = {name: size for name, size in sizes.items() if name not in fixed}
    total = next(iter(open.values())) if open else max(sizes.values(), default=0)
    for name, size in open.items():
        if size != total:
            raise ShapeError(f"feed {name!r} has {size} samples, feed {next(iter(open))!r} has {total}: a batch that is cut into slices has one "
                             f"number of them. Declare the first dimension of what every replica needs whole\n  your line: {user_line()}")
    return {name: size for name, size in sizes.items() if name in open or (size == total and size > 1)}, total


def cut(block: Block, feed: Feed, places: int) -> list[tuple[Feed, int]]:
    """Return a feed and its number of samples for each of at most ``places`` replicas; none gets no sample. The first ones get one
    more where the batch does not divide."""
    batched, total = _batched(block, feed)
    if not feed:
        return [({}, 1)] * places
    count = min(places, total)
    bounds = [total * i // count for i in range(count + 1)] if total % count == 0 else _uneven(total, count)
    return [({name: slice_of(value, begin, end) if name in batched else value for name, value in feed.items()}, end - begin)
            for begin, end in zip(bounds, bounds[1:])]


def _uneven(total: int, count: int) -> list[int]:
    each, more = divmod(total, count)
    return [each * i + min(i, more) for i in range(count + 1)]


def slice_of(value: Any, begin: int, end: int) -> Any:
    """Return samples [begin, end)."""
    if not isinstance(value, LoDTensor):
        return np.asarray(value)[begin:end]
    lod = value.lod()
    if not lod:
        return value.numpy()[begin:end]
    levels = []
    for level in lod:
        offsets = level[begin:end + 1]
        levels.append([offset - offsets[0] for offset in offsets])
        begin, end = offsets[0], offsets[-1]
    part = LoDTensor()
    part.set(value.numpy()[begin:end])
    part.set_lod(levels)
    return part


def joined_feeds(feeds: Sequence[Feed]) -> Feed:
    """Return one feed of what was fed to each place."""
    return {name: joined([feed[name] for feed in feeds]) for name in feeds[0]}


def check_feeds(feeds: Sequence[Any], places: int) -> None:
    """A list has a dict for each place, of the same names."""
    if len(feeds) != places:
        raise InvalidArgumentError(f"feed is a list of {len(feeds)}, there are {places} places: give one dict for each, or one dict for all\n"
                                   f"  your line: {user_line()}")
    for feed in feeds:
        if not isinstance(feed, dict) or feed.keys() != feeds[0].keys():
            raise TypeError(f"feed must be a list of dicts of the same names to arrays, got {feed!r}\n  your line: {user_line()}")


def joined(values: Sequence[Any]) -> Any:
    """Return what the replicas have one after the other. A value without dimensions becomes one of one dimension."""
    if len(values) == 1:
        return values[0]
    if isinstance(values[0], SelectedRows):
        rows = SelectedRows()
        rows.set(np.concatenate([value.numpy() for value in values]), sum([value.rows() for value in values], []), values[0].height())
        return rows
    arrays = [np.atleast_1d(value.numpy() if isinstance(value, LoDTensor) else np.asarray(value)) for value in values]
    array = np.concatenate(arrays)
    if not isinstance(values[0], LoDTensor):
        return array
    tensor = LoDTensor()
    tensor.set(array)
    if values[0].lod():
        tensor.set_lod(lengths_to_offsets([sum(level, []) for level in zip(*[value.recursive_sequence_lengths() for value in values])]))
    return tensor


def as_asked(value: Any, name: str, return_numpy: bool) -> Any:
    """Return a fetched LoDTensor as the script wants it."""
    if not return_numpy or isinstance(value, SelectedRows):
        return value
    if value.lod():
        raise ValueError(f"{name!r} has sequence offsets, which a NumPy array would lose: fetch it with return_numpy=False")
    return as_fetched(value.numpy())


__all__ = ["cut", "joined", "joined_feeds", "check_feeds", "samples_of", "as_asked"]
