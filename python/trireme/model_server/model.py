"""The model that a server runs: its tensors in the words of the protocol, and a run of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..native.dtypes import NUMPY_DTYPES, VarType
from ..native.errors import InvalidArgumentError
from ..native.tensor import LoDTensor
from ..serving.predictor import End, Predictor

_DATATYPES = {VarType.BOOL: "BOOL", VarType.INT8: "INT8", VarType.INT16: "INT16", VarType.INT32: "INT32", VarType.INT64: "INT64",
              VarType.UINT8: "UINT8", VarType.SIZE_T: "UINT64", VarType.FP16: "FP16", VarType.BF16: "BF16", VarType.FP32: "FP32",
              VarType.FP64: "FP64"}
OFFSETS = ".offsets"                   # after the name of a tensor of sequences


@dataclass(frozen=True)
class Spec:
    """A tensor of the protocol. ``dtype`` is NumPy's type of its elements; -1 in ``shape`` is any size.

    Where ``hash`` is above 0, texts may come in the place of ids, which are their hashes below this number.
    """

    name: str
    datatype: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    lod_level: int = 0
    hash: int = 0

    def offsets(self) -> list[Spec]:
        """Return the tensors with the offsets of the sequences, one for each level, named as in exports to ONNX."""
        return [Spec(f"{self.name}{OFFSETS}{f'.{level}' if self.lod_level > 1 else ''}", "INT64", np.dtype("int64"), (-1,))
                for level in range(self.lod_level)]


class Value(NamedTuple):
    """A result: an array, and the offsets of its sequences for each level, none where it has no sequences."""

    array: np.ndarray
    lod: Sequence[Sequence[int]] = ()


class Model(Protocol):
    """What the server needs of a model. Any number of threads call ``run``."""

    feeds: list[Spec]
    fetches: list[Spec]

    @property
    def version(self) -> int: ...

    @property
    def step(self) -> int: ...

    def run(self, feed: Mapping[str, Any]) -> tuple[list[Value], int]: ...


class ServedPredictor:
    """A Predictor as the server's model."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        feeds, fetches = predictor.ends()
        self.slots = {slot.name: slot for slot in predictor.slots}
        hashes = {name: slot.hash for name, slot in self.slots.items()}
        self.feeds = [replace(_spec_of(end), hash=hashes.get(end.name, 0)) for end in feeds]
        self.fetches = [_spec_of(end, is_fetch=True) for end in fetches]
        self.values_of_row = sum(math.prod(slot.shape[1:]) for slot in self.slots.values() if not slot.lod_level)
        for ends in (self.feeds, self.fetches):
            _refuse_equal_names(ends)

    @property
    def version(self) -> int:
        return self._predictor.version

    @property
    def step(self) -> int:
        return self._predictor.step

    def run(self, feed: Mapping[str, Any]) -> tuple[list[Value], int]:
        """Run it once; return the results and the version of the parameters that made them."""
        has_sequences = any(fetch.lod_level for fetch in self.fetches)
        results, version = self._predictor.run_version(feed, return_numpy=not has_sequences)
        if not has_sequences:
            return [Value(array) for array in results], version
        return [Value(np.asarray(tensor), tensor.lod() if spec.lod_level else ()) for spec, tensor in zip(self.fetches, results)], version

    def feed_of(self, rows: Any) -> dict[str, Any]:
        """Return the feed that rows of raw values make."""
        return self._predictor.feed_of(rows)

    def close(self) -> None:
        self._predictor.close()


def sequences(array: np.ndarray, lod: Sequence[Sequence[int]]) -> LoDTensor:
    """Return an array as a feed of sequences."""
    tensor = LoDTensor()
    tensor.set(array)
    tensor.set_lod([list(level) for level in lod])
    return tensor


def _spec_of(end: End, is_fetch: bool = False) -> Spec:
    code = end.code
    if is_fetch and code == VarType.BF16:              # results of bfloat16 come as float32
        code = int(VarType.FP32)
    if code not in _DATATYPES:
        raise InvalidArgumentError(f"trireme serve: {end.name!r} is of the type {VarType(code)}, which the protocol does not have")
    return Spec(end.name, _DATATYPES[VarType(code)], NUMPY_DTYPES[code], tuple(end.shape), end.lod_level)


def _refuse_equal_names(ends: Sequence[Spec]) -> None:
    names = [spec.name for end in ends for spec in (end, *end.offsets())]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgumentError(f"trireme serve: two tensors of the model would be called {name!r}; rename the variable")
