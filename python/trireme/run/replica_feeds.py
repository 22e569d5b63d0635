"""A batch cut into one slice for each replica, and what they fetched put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..native.errors import InvalidArgumentError, ShapeError, user_line
from ..native.tensor import LoDTensor, as_fetched, lengths_to_offsets, samples_of
from ..native.selected_rows import SelectedRows
from ..program import Block

Feed = dict[str, Any]


class Cutter:
    """Cuts the batches of one program."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._declares: dict[str, bool] = {}           # by the name of a feed: whether it declares its first dimension

    def _is_whole(self, name: str, value: Any) -> bool:
        """Whether it declares how many rows it has. Sequences have as many as they have."""
        found = self._declares.get(name)
        if found is None:
            found = self._declares[name] = self._block.has_var(name) and (self._block.var(name).desc.shape() or [0])[0] >= 0
        return found and not (isinstance(value, LoDTensor) and value.lod())

    def _samples(self, feed: Feed, sizes: dict[str, int]) -> int:
        """Return the samples of the batch; only feeds that are cut stay in ``sizes``. A feed that declares its first dimension is cut when
        it has as many rows as the batch; else every replica gets all of it."""
        whole = [name for name, value in feed.items() if self._is_whole(name, value)]
        first = next(iter(sizes)) if not whole else next((name for name in sizes if name not in whole), None)
        total = max(sizes.values()) if first is None else sizes[first]
        for name in whole:
            if sizes[name] != total or total <= 1:
                del sizes[name]
        for name, size in sizes.items():
            if size != total:
                raise ShapeError(f"feed {name!r} has {size} samples, feed {first!r} has {total}: a batch that is cut into slices has one "
                                 "number of them. Declare the first dimension of what every replica needs whole\n  your line: "
                                 f"{user_line()}")
        return total

    def cut(self, feed: Feed, places: int) -> list[tuple[Feed, int]]:
        """Return a feed and its number of samples for each of at most ``places`` replicas; none gets no sample. The first ones get one
        more where the batch does not divide."""
        if not feed:
            return [({}, 1)] * places
        sizes = {name: samples_of(value) for name, value in feed.items()}
        total = self._samples(feed, sizes)
        each, more = divmod(total, min(places, total))
        slices: list[tuple[dict[str, Any], int]] = []
        end = 0
        while end < total:
            begin, end = end, end + each + (len(slices) < more)
            slices.append(({name: slice_of(value, begin, end) if name in sizes else value for name, value in feed.items()}, end - begin))
        return slices


def slice_of(value: Any, begin: int, end: int) -> Any:
    """Return samples [begin, end)."""
    if type(value) is np.ndarray or not isinstance(value, LoDTensor):
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
        raise InvalidArgumentError(f"feed is a list of {len(feeds)}, there are {places} places: give one dict for each, or one dict for "
                                   f"all\n  your line: {user_line()}")
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
    arrays = [value.numpy() if isinstance(value, LoDTensor) else np.asarray(value) for value in values]
    array = np.concatenate(arrays if arrays[0].ndim else [one.reshape(1) for one in arrays])
    if not all([isinstance(value, LoDTensor) for value in values]):
        return array
    tensor = LoDTensor()
    tensor.set(array)
    if values[0].lod():
        tensor.set_lod(lengths_to_offsets([sum(level, []) for level in zip(*[value.recursive_sequence_lengths() for value in values])]))
    return tensor


def as_asked(value: Any, name: str, return_numpy: bool) -> Any:
    """Return a fetched LoDTensor as the script wants it; an array is that already."""
    if not return_numpy or not isinstance(value, LoDTensor):
        return value
    if value.lod():
        raise ValueError(f"{name!r} has sequence offsets, which a NumPy array would lose: fetch it with return_numpy=False")
    return as_fetched(value.numpy())


__all__ = ["Cutter", "joined", "joined_feeds", "check_feeds", "samples_of", "as_asked"]
