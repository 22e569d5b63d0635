"""Requests and answers of the Open Inference Protocol, as JSON with the extension of binary tensors.

Nothing here trusts a request. A size that it declares is compared with the bytes that are there before anything of that size is made.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from .._core import ffi, lib
from ..native.errors import FormatError, error_of
from ..native.files import each_name_once
from ..native.suggest import did_you_mean
from .budget import RequestError
from .model import Model, Spec, Value, sequences

_MOST_RANK = 8
_POSSIBLE: dict[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}}          # of JSON, for a kind of NumPy's types


@dataclass
class Request:
    """What a client asks: values of feeds, and which results it wants in which form."""

    feed: dict[str, Any]
    outputs: list[tuple[str, bool]]    # names of tensors, in order, and whether each shall come as binary data
    id: str | None = None


@dataclass
class Tensor:
    """A tensor of a request, before it is compared with the model."""

    name: str
    datatype: str
    shape: list[int]
    data: Any                          # bytes, or JSON's lists


@dataclass
class Wanted:
    """The outputs that a request names."""

    names: list[str] | None = None     # None: all
    binary: dict[str, bool] = field(default_factory=dict)
    is_binary: bool = False            # of outputs that ``binary`` does not have


def refuse(text: str) -> NoReturn:
    raise RequestError(400, text)


# -- JSON -------------------------------------------------------------------------------------------------------------


def parse(body: bytes | memoryview, json_size: int, model: Model) -> Request:
    """Return the request of a body whose first ``json_size`` bytes are JSON, and the rest binary tensors."""
    view = memoryview(body)
    found = _object(bytes(view[:json_size]))
    tensors = _inputs(found, view[json_size:])
    wanted = _wanted(found)
    return Request(feed_of(tensors, model), outputs_of(wanted, model), _id_of(found))


def parse_rows(body: bytes | memoryview, model: Model) -> tuple[list[Any], list[tuple[str, bool]], str | None]:
    """Return the raw rows of a body, which outputs it wants, and its id."""
    found = _object(bytes(body))
    rows, request_id = found.get("rows"), _id_of(found)
    if not isinstance(rows, list):
        refuse(f"'rows' is a list of objects, each with a value for each slot; got {_short(rows)}")
    for name in found:
        if name not in ("rows", "outputs", "id", "parameters"):
            refuse(f"a request of rows has 'rows', and perhaps 'outputs', 'id' and 'parameters'; got {name[:60]!r}")
    return rows, outputs_of(_wanted(found), model), request_id


def _id_of(found: Mapping[str, Any]) -> str | None:
    request_id = found.get("id")
    if request_id is not None and not isinstance(request_id, str):
        refuse(f"'id' is a text, got {_short(request_id)}")
    return request_id


def _object(text: bytes) -> dict[str, Any]:
    def no_number(name: str) -> NoReturn:
        refuse(f"the request is no JSON: {name} is no number; send such values as binary data")

    try:
        found = json.loads(text.decode(), parse_constant=no_number, object_pairs_hook=each_name_once)
    except UnicodeDecodeError as error:
        refuse(f"the request is no JSON: {error.reason} at byte {error.start}")
    except FormatError as error:
        refuse(f"the request {error}")
    except RecursionError:
        refuse("the request is nested too deeply")
    except RequestError:
        raise
    except ValueError as error:                        # JSONDecodeError, and a number of more digits than Python reads
        refuse(f"the request is no JSON: {error}")
    if not isinstance(found, dict):
        refuse(f"the request is no JSON object: {_short(found)}")
    return found


def _inputs(found: Mapping[str, Any], binary: memoryview) -> list[Tensor]:
    """Return the tensors, and check that they take all binary data."""
    tensors, at = [], 0
    for one in _objects(found, "inputs"):
        name, shape, datatype, options = one.get("name"), one.get("shape"), one.get("datatype"), _options(one)
        if not isinstance(name, str) or not isinstance(datatype, str) or not isinstance(shape, list):
            refuse(f"an input has a text 'name', a text 'datatype' and a list 'shape', got {_short(one)}")
        size = options.get("binary_data_size")
        if "shared_memory_region" in options:
            refuse(f"input {name!r}: this server has no shared memory; send the data")
        if size is None:
            if "data" not in one:
                refuse(f"input {name!r} has neither 'data' nor the parameter 'binary_data_size'")
            tensors.append(Tensor(name, datatype, shape, one["data"]))
            continue
        if type(size) is not int or not 0 <= size <= len(binary) - at:
            refuse(f"input {name!r}: its binary_data_size is {_short(size)}, and {len(binary) - at} bytes of binary data are left")
        if "data" in one:
            refuse(f"input {name!r} has 'data' and the parameter 'binary_data_size'")
        tensors.append(Tensor(name, datatype, shape, binary[at:at + size]))
        at += size
    if at != len(binary):
        refuse(f"the inputs take {at} bytes of binary data, {len(binary)} came")
    return tensors


def _wanted(found: Mapping[str, Any]) -> Wanted:
    wanted = Wanted(is_binary=_flag(_options(found), "binary_data_output", False))
    if found.get("outputs") is None:
        return wanted
    wanted.names = []
    for one in _objects(found, "outputs"):
        name, options = one.get("name"), _options(one)
        if not isinstance(name, str):
            refuse(f"an output has a text 'name', got {_short(one)}")
        for option in ("classification", "shared_memory_region"):
            if option in options:
                refuse(f"output {name!r}: this server does not have {option!r}")
        wanted.names.append(name)
        if "binary_data" in options:
            wanted.binary[name] = _flag(options, "binary_data", False)
    return wanted


def _objects(found: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = found.get(key)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        refuse(f"{key!r} is a list of objects, got {_short(value)}")
    return value


def _options(found: Mapping[str, Any]) -> dict[str, Any]:
    value = found.get("parameters", {})
    if not isinstance(value, dict):
        refuse(f"'parameters' is an object, got {_short(value)}")
    return value


def _flag(options: Mapping[str, Any], name: str, default: bool) -> bool:
    value = options.get(name, default)
    if not isinstance(value, bool):
        refuse(f"the parameter {name!r} is true or false, got {_short(value)}")
    return value


def _short(value: Any) -> str:
    """Return the beginning of a value's text, without making all of it."""
    if isinstance(value, (list, dict)):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    return "null" if value is None else f"{str(value)[:60]!r}" if isinstance(value, str) else f"{value}"[:60]


# -- tensors ----------------------------------------------------------------------------------------------------------


def feed_of(tensors: Sequence[Tensor], model: Model) -> dict[str, Any]:
    """Return the feed that a request's tensors make."""
    specs = {spec.name: spec for feed in model.feeds for spec in (feed, *feed.offsets())}
    arrays: dict[str, np.ndarray] = {}
    for tensor in tensors:
        if tensor.name not in specs:
            refuse(f"{tensor.name[:60]!r} is no input of the model, which has {', '.join(specs)}"
                   f"{did_you_mean(tensor.name[:60], list(specs))}")
        if tensor.name in arrays:
            refuse(f"input {tensor.name!r} is there twice")
        arrays[tensor.name] = _array(tensor, specs[tensor.name])
    for name in specs:
        if name not in arrays:
            refuse(f"input {name!r} is missing; the model has {', '.join(specs)}")
    return {feed.name: sequences(arrays[feed.name], _lod(feed, arrays)) if feed.lod_level else arrays[feed.name] for feed in model.feeds}


def outputs_of(wanted: Wanted, model: Model) -> list[tuple[str, bool]]:
    """Return the names of the tensors of the answer, and which come as binary data."""
    possible = [spec.name for fetch in model.fetches for spec in (fetch, *fetch.offsets())]
    names = possible if wanted.names is None else wanted.names
    for i, name in enumerate(names):
        if name not in possible:
            refuse(f"{name[:60]!r} is no output of the model, which has {', '.join(possible)}{did_you_mean(name[:60], possible)}")
        if name in names[:i]:
            refuse(f"output {name!r} is there twice")
    return [(name, wanted.binary.get(name, wanted.is_binary)) for name in names]


def _array(tensor: Tensor, spec: Spec) -> np.ndarray:
    if spec.hash and tensor.datatype == "BYTES":
        shape = _shape(tensor, spec)
        return _ids(tensor.data, spec, shape, math.prod(shape)).reshape(shape)
    if tensor.datatype != spec.datatype:
        refuse(f"input {spec.name!r} is of the datatype {tensor.datatype[:20]!r}, the model wants {spec.datatype}")
    shape = _shape(tensor, spec)
    count = math.prod(shape)
    if isinstance(tensor.data, (bytes, memoryview)):
        return _from_bytes(tensor.data, spec, shape, count)
    values = _flat(tensor.data, spec, shape, count)
    return _typed(values, spec).reshape(shape)


def _shape(tensor: Tensor, spec: Spec) -> list[int]:
    shape = tensor.shape
    if len(shape) > _MOST_RANK or not all(type(size) is int and 0 <= size < 1 << 40 for size in shape):
        refuse(f"input {spec.name!r}: its shape is a list of at most {_MOST_RANK} sizes from 0 on, got {str(shape[:9])[:120]}")
    fits = len(shape) == len(spec.shape) and all(want < 0 or want == got for want, got in zip(spec.shape, shape))
    if not fits:
        want = ", ".join("?" if size < 0 else str(size) for size in spec.shape)
        refuse(f"input {spec.name!r} has the shape {shape}, the model wants [{want}]")
    if math.prod(size or 1 for size in shape) > 1 << 32:               # [0, huge]: no data, but a result may have that size
        refuse(f"input {spec.name!r}: the shape {shape} is larger than what this server takes")
    return shape


def _from_bytes(data: bytes | memoryview, spec: Spec, shape: list[int], count: int) -> np.ndarray:
    if len(data) != count * spec.dtype.itemsize:
        refuse(f"input {spec.name!r} has {len(data)} bytes, the shape {shape} of {spec.datatype} takes {count * spec.dtype.itemsize}")
    array = np.frombuffer(data, spec.dtype.newbyteorder("<")).astype(spec.dtype, copy=False)
    if spec.datatype == "BOOL" and array.view("uint8").max(initial=0) > 1:
        refuse(f"input {spec.name!r}: a BOOL is 0 or 1")
    return array.reshape(shape)


def _ids(data: Any, spec: Spec, shape: list[int], count: int) -> np.ndarray:
    """Return the ids of texts: of a list, or of bytes in which each text lies behind its size."""
    if not isinstance(data, (bytes, memoryview)):
        data = packed(_text(value, spec) for value in _flat(data, spec, shape, count))
    if len(data) < 4 * count:
        refuse(f"input {spec.name!r} has {len(data)} bytes, the shape {shape} of BYTES takes {4 * count} at least")
    ids = np.empty(count, "int64")
    status = lib.tr_raw_ids(ffi.from_buffer("int64_t[]", ids), count, spec.hash, ffi.from_buffer("char[]", data), len(data))
    if status:
        refuse(f"input {spec.name!r}: {error_of(status).args[0].partition(chr(10))[0]}")
    return ids


def packed(texts: Iterable[bytes]) -> bytes:
    """Return texts as the protocol has them in binary data: each behind its size."""
    return b"".join(part for text in texts for part in (len(text).to_bytes(4, "little"), text))


def _text(value: Any, spec: Spec) -> bytes:
    if not isinstance(value, str):
        refuse(f"input {spec.name!r} is of the datatype BYTES, whose values are texts, got {_short(value)}")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        refuse(f"input {spec.name!r}: expected texts in UTF-8, got {value[:60]!r} ({error.reason})")


def _flat(data: Any, spec: Spec, shape: list[int], count: int) -> list[Any]:
    """Return the values of a list, which may be nested as the shape is."""
    values, level = data, 0
    if not isinstance(values, list):
        refuse(f"input {spec.name!r}: 'data' is a list, got {_short(data)}")
    while values and isinstance(values[0], list):
        level += 1
        if level >= len(shape) or len(values) != math.prod(shape[:level]) or any(type(one) is not list for one in values) \
           or {len(one) for one in values} != {shape[level]}:
            refuse(f"input {spec.name!r}: the lists of 'data' do not have the shape {shape}")
        values = list(itertools.chain.from_iterable(values))
    if len(values) != count and not (level == 0 and count == 0 and _is_empty(values, shape)):
        refuse(f"input {spec.name!r} has {len(values)} values, the shape {shape} takes {count}")
    return values if count else []


def _is_empty(values: list[Any], shape: list[int]) -> bool:
    """Whether these are the lists without values of a shape such as [2, 0]."""
    return len(values) == shape[0] and all(one == [] for one in values)


def _typed(values: list[Any], spec: Spec) -> np.ndarray:
    """Return JSON's numbers in the type of the tensor. A fraction where the type has none is a mistake, never rounded."""
    kinds, kind = {type(value) for value in values}, spec.dtype.kind
    if spec.datatype == "BF16":
        refuse(f"input {spec.name!r}: send BF16 as binary data")
    possible = _POSSIBLE[kind]
    if not kinds <= possible:
        wrong = next(value for value in values if type(value) not in possible)
        refuse(f"input {spec.name!r} is of the datatype {spec.datatype}, got {_short(wrong)}")
    if kind in "iu" and values:
        about = np.iinfo(spec.dtype)
        for extreme in (min(values), max(values)):
            if not about.min <= extreme <= about.max:
                refuse(f"input {spec.name!r} is of the datatype {spec.datatype}, which does not hold {_short(extreme)}")
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, "float64" if kind == "f" else spec.dtype).astype(spec.dtype)
    except OverflowError:
        refuse(f"input {spec.name!r}: a number is too large for {spec.datatype}")
    if kind == "f" and not np.isfinite(array).all():
        refuse(f"input {spec.name!r}: a number is too large for {spec.datatype}; infinite values are sent as binary data")
    return array


def _lod(feed: Spec, arrays: Mapping[str, np.ndarray]) -> list[list[int]]:
    """Return the offsets of a feed's sequences; each level divides what the next one has, the last one the rows."""
    levels = [arrays[spec.name] for spec in feed.offsets()]
    ends = [len(level) - 1 for level in levels[1:]] + [arrays[feed.name].shape[0]]
    for spec, level, end in zip(feed.offsets(), levels, ends):
        if len(level) < 1 or level[0] != 0 or level[-1] != end or (np.diff(level) < 0).any():
            refuse(f"input {spec.name!r}: offsets begin with 0, do not fall, and end with {end}")
    return [level.tolist() for level in levels]


# -- answers ----------------------------------------------------------------------------------------------------------


def tensors_of(values: Sequence[Value], model: Model, names: Sequence[str]) -> list[tuple[Spec, np.ndarray]]:
    """Return the tensors of an answer, with the offsets of sequences."""
    found: dict[str, tuple[Spec, np.ndarray]] = {}
    for fetch, value in zip(model.fetches, values):
        found[fetch.name] = fetch, value.array
        for spec, level in zip(fetch.offsets(), value.lod):
            found[spec.name] = spec, np.asarray(level, "int64")
    return [found[name] for name in names if name in found]            # a result without sequences has no offsets


def answer(request: Request, values: Sequence[Value], version: int, model: Model, name: str) -> tuple[bytes, int | None]:
    """Return the body of an answer, and how many of its bytes are JSON where binary data follow."""
    is_binary, outputs, binary = dict(request.outputs), [], []
    for spec, array in tensors_of(values, model, [name for name, _ in request.outputs]):
        one: dict[str, Any] = {"name": spec.name, "datatype": spec.datatype, "shape": list(array.shape)}
        if is_binary[spec.name]:
            data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
            one["parameters"] = {"binary_data_size": len(data)}
            binary.append(data)
        else:
            one["data"] = _numbers(array)
        outputs.append(one)
    found: dict[str, Any] = {"model_name": name, "model_version": str(version)}
    if request.id is not None:
        found["id"] = request.id
    text = json.dumps({**found, "outputs": outputs}, allow_nan=False, separators=(",", ":")).encode()
    if not binary:
        return text, None
    return b"".join([text, *binary]), len(text)


def _numbers(array: np.ndarray) -> list[Any]:
    """Return numbers that JSON has; NaN and infinite values, which it does not have, are null."""
    flat = array.reshape(-1)
    numbers: list[Any] = flat.tolist()
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        numbers = [one if math.isfinite(one) else None for one in numbers]
    return numbers
