"""The slots that a model is saved with: what a row of the training's data had for each feed.

They lie beside the program, in the file ``__model__.slots``, which the core reads (serving/raw_slots.h). So a model that is served takes
rows of raw values: the core fills its feeds from them as the reader of the training's data does.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ..feeding.feeds import Dataset
from ..feeding.slots import Slot
from ..native.dtypes import NUMPY_DTYPES, VarType
from ..native.errors import InvalidArgumentError, TriremeError, user_line
from ..native.suggest import did_you_mean
from ..program import Variable

Given = Dataset | Sequence[Slot | Variable | str] | None


def slots_of(what: str, given: Given, feeds: Sequence[str], block: Any) -> list[Slot]:
    """Return the slots of the feeds, in their order: those of ``given``, a Dataset or slots. InvalidArgumentError: they do not fit.

    ``what`` is the function that was given them, ``block`` the program's first one.
    """
    slots = _slots_of_data(what, given, feeds) if isinstance(given, Dataset) else _slots_of_list(what, given)
    names = [slot.name for slot in slots]
    for name in feeds:
        if name not in names:
            raise InvalidArgumentError(f"{what}: slots= has no slot of the feed {name!r}; it has {', '.join(names)}"
                                       f"{did_you_mean(name, names)}\n  your line: {user_line()}")
    chosen = [slots[names.index(name)] for name in feeds]
    for slot in chosen:
        _check_fit(what, slot, block.var(slot.name))
    checked = Dataset(slots=chosen)
    with checked._made():                                  # the reader's own checks
        return chosen


def fitting(dataset: Dataset | None, feeds: Sequence[str], block: Any) -> Dataset | None:
    """Return the data if their rows, as they stand there, have a slot for each feed."""
    if dataset is None:
        return None
    try:
        slots_of("", dataset, feeds, block)
    except TriremeError:
        return None
    return dataset


def text_of(slots: Sequence[Slot]) -> bytes:
    """Return the file."""
    lines = ["trireme-slots 1"]
    for slot in slots:
        rules = [f"hash fnv1a64 {slot.hash}"] * (slot.hash > 0)
        rules += [f"missing {float(slot.missing)!r}"] if slot.missing is not None else []
        shape = "x".join(map(str, slot.shape))
        lines.append(" ".join(["slot", str(NUMPY_DTYPES[int(slot.dtype)]), str(slot.lod_level), shape, *rules, ":", slot.name]))
    return "".join(f"{line}\n" for line in lines).encode()


def _slots_of_list(what: str, given: Any) -> list[Slot]:
    if isinstance(given, (str, Slot, Variable)) or not isinstance(given, Sequence):
        raise TypeError(f"{what}: slots= is a Dataset, or a list of slots and variables; got {given!r}")
    return [one if isinstance(one, Slot) else Slot(one) for one in given]


def _slots_of_data(what: str, dataset: Dataset, feeds: Sequence[str]) -> list[Slot]:
    """Return a data set's slots. Only CSV and tables have texts and missing values; in other formats a slot's rules for them do nothing."""
    shifted = _shifted(dataset, feeds)
    if shifted:
        raise InvalidArgumentError(f"{what}: {shifted[0]!r} has indices of libsvm files, which begin at first_index there and at 0 in "
                                   f"feeds; give slots=[...], and let rows have indices from 0\n  your line: {user_line()}")
    slots = [copy.copy(slot) for slot in dataset.slots if slot is not None]
    if dataset._given["format"] in ("multislot", "libsvm"):
        for slot in slots:
            slot.hash, slot.missing = 0, None
    return slots


def _shifted(dataset: Dataset, feeds: Sequence[str]) -> list[str]:
    """Return the feeds whose values are other numbers than those in the files: indices of libsvm."""
    if dataset._given["format"] != "libsvm" or not dataset._given["first_index"]:
        return []
    return [slot.name for slot in dataset.slots[1:] if slot is not None and slot.dtype == VarType.INT64 and slot.name in feeds]


def _check_fit(what: str, slot: Slot, var: Any) -> None:
    want = var.desc.shape()
    same = len(want) == len(slot.shape) and all(a < 0 or a == b for a, b in zip(want[1:], slot.shape[1:]))
    if slot.dtype != var.dtype or slot.lod_level != var.lod_level or not same:
        raise InvalidArgumentError(f"{what}: {slot!r} does not fit the feed, {Slot(var)!r}\n  your line: {user_line()}")
