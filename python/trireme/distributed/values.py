"""Values that travel between trainers: arrays, numbers and small objects as bytes, without code in them.

The bytes are a line of JSON that describes the values, followed by the arrays' memory in order, little-endian.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ..native.errors import InvalidArgumentError, RangeError

LIMIT = 1 << 18                                        # bytes of one trainer's value: TR_JOB_POST_LIMIT
_KINDS = "biufcSU"


def encode(value: Any, call: str) -> bytes:
    """Return the bytes of a value; ``call`` is the script's call, for errors."""
    parts: list[bytes] = []
    head = json.dumps(_described(value, parts, call), separators=(",", ":"))
    data = b"".join([head.encode(), b"\n", *parts])
    if len(data) > LIMIT:
        raise RangeError(f"{call}: the value takes {len(data)} bytes; a trainer's value may take {LIMIT}. Gradients and parameters travel "
                         "by training steps, files by a shared folder")
    return data


def decode(data: bytes) -> Any:
    """Return the value of these bytes."""
    head, _, rest = data.partition(b"\n")
    return _value(json.loads(head), memoryview(rest), [0])


def _described(value: Any, parts: list[bytes], call: str) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, bytes):
        parts.append(value)
        return {"b": len(value)}
    if isinstance(value, (np.ndarray, np.generic)):
        return _described_array(np.asarray(value), parts, call)
    if isinstance(value, (list, tuple)):
        return [_described(item, parts, call) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"d": {key: _described(item, parts, call) for key, item in value.items()}}
    raise InvalidArgumentError(f"{call}: a value is an array, a number, None, a str, bool or bytes, or a list, tuple or dict (with keys of "
                               f"str) of such; got {value!r}")


def _described_array(array: np.ndarray, parts: list[bytes], call: str) -> Any:
    if array.dtype.kind not in _KINDS:
        raise InvalidArgumentError(f"{call}: arrays hold numbers, bools or texts, got one of {array.dtype}")
    array = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).reshape(array.shape)
    parts.append(array.tobytes())
    return {"a": array.dtype.str, "s": list(array.shape)}


def _value(described: Any, memory: memoryview, at: list[int]) -> Any:
    if isinstance(described, list):
        return [_value(item, memory, at) for item in described]
    if not isinstance(described, dict):
        return described
    if "d" in described:
        return {key: _value(item, memory, at) for key, item in described["d"].items()}
    if "b" in described:
        return bytes(_take(described["b"], memory, at))
    dtype = np.dtype(described["a"])
    count = int(np.prod(described["s"], dtype=np.int64))
    array = np.frombuffer(_take(count * dtype.itemsize, memory, at), dtype, count).reshape(described["s"]).copy()
    return array if described["s"] else array[()]


def _take(size: int, memory: memoryview, at: list[int]) -> memoryview:
    at[0] += size
    return memory[at[0] - size:at[0]]
