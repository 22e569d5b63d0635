"""Arrays of other libraries: safetensors in and out, DLPack both ways without a copy."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

import trireme as fluid
from trireme.native import errors
from trireme import formats
from trireme.reader import recordio
from trireme.formats.safetensors import read_safetensors


def net() -> fluid.Executor:
    fluid.layers.fc(fluid.layers.fc(fluid.layers.data("x", [3]), 4, name="a"), 2, name="b")
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    return exe


def test_written_safetensors_are_read_by_their_library_and_by_ours(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    net()
    path = tmp_path / "m.safetensors"
    names = formats.save_safetensors(path)
    assert names == ["a.b_0", "a.w_0", "b.b_0", "b.w_0"]
    theirs, before = library.load_file(path), {name: np.array(fluid.fetch_var(name)) for name in names}
    assert all(np.array_equal(theirs[name], before[name]) for name in names)
    for name in names:
        fluid.global_scope().find_var(name).get_tensor().set(np.zeros_like(before[name]))
    library.save_file({f"net.{name}": array.astype("float64") for name, array in before.items()}, path)
    assert formats.load_safetensors(path, names={f"net.{name}": name for name in names}) == names
    assert all(np.array_equal(fluid.fetch_var(name), before[name]) for name in names)


def test_weights_that_do_not_fit_change_nothing(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    net()
    before, path = np.array(fluid.fetch_var("a.w_0")), tmp_path / "m.safetensors"
    good = {name: np.array(fluid.fetch_var(name)) * 2 for name in ("a.b_0", "a.w_0", "b.b_0", "b.w_0")}
    for change, kind, text in [({"b.w_0": good["b.w_0"].T.copy()}, errors.ShapeError,
                                r"'b\.w_0' .* has the shape \[2, 4\], the program wants \[4, 2\]"),
                               ({"b.w_0": good["b.w_0"].astype("int64")}, errors.DTypeError, "is int64, the program wants float32"),
                               ({"b.w_1": good["b.w_0"]}, errors.NotFoundError, r"no variable 'b\.w_1'.*did you mean")]:
        library.save_file({**good, **change}, path)
        with pytest.raises(kind, match=text):
            formats.load_safetensors(path)
        assert np.array_equal(fluid.fetch_var("a.w_0"), before)
    library.save_file({"a.w_0": good["a.w_0"]}, path)
    with pytest.raises(errors.NotFoundError, match="has no array for parameter"):
        formats.load_safetensors(path)
    assert formats.load_safetensors(path, strict=False) == ["a.w_0"]


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    net()
    path = tmp_path / "m.safetensors"
    formats.save_safetensors(path)
    good = path.read_bytes()
    for bad in (b"", good[:4], b"\xff" * 8 + good[8:], good[:-4], good.replace(b"F32", b"F33", 1),
                good.replace(b"[0,", b"[9,", 1).replace(b"[0, ", b"[9, ", 1)):
        path.write_bytes(bad)
        with pytest.raises(errors.FormatError, match="m.safetensors"):
            read_safetensors(path)


class Foreign:
    """An array of another library, which speaks DLPack alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **how: object) -> object:
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_dlpack_goes_both_ways_without_a_copy() -> None:
    x = fluid.layers.data("x", [3])
    y = fluid.layers.scale(x, 2.0)
    exe = fluid.Executor()
    given = np.arange(6, dtype="float32").reshape(2, 3)
    found = exe.run(feed={"x": Foreign(given)}, fetch_list=[y], return_numpy=False)[0]
    array = np.from_dlpack(found)
    assert np.array_equal(array, 2 * given) and np.shares_memory(array, found.numpy())


def safetensors(path, header, data=b"\0" * 24):
    """Write a file with any header: a text, or what JSON makes of it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def facts(begin=0, end=24, shape=(2, 3), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape) if isinstance(shape, tuple) else shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize("header, what", [
    ([], r"header must be an object, got \[\]"),
    (b"3", "header must be an object, got 3"),
    (b"null", "header must be an object"),
    (b"[" * 100000, "its header is no JSON"),
    (b'{"a": ', "its header is no JSON"),
    (b"\xff\xfe", "its header is no JSON"),
    ({"a": 3}, "array 'a': an object with dtype, shape and data_offsets is expected, got 3"),
    ({"a": {**facts(), "more": 1}}, "array 'a': an object with dtype"),
    ({"a": facts(shape=["2", "3"])}, r"array 'a': its shape must be a list of at most 9 whole numbers from 0, got \['2', '3'\]"),
    ({"a": facts(shape=[2.0, 3])}, "array 'a': its shape must be"),
    ({"a": facts(shape=[True, 6])}, "array 'a': its shape must be"),
    ({"a": facts(shape=[-2, -3])}, "array 'a': its shape must be"),
    ({"a": facts(shape=[1] * 40 + [6])}, "array 'a': its shape must be"),
    ({"a": facts(shape="23")}, "array 'a': its shape must be"),
    ({"a": facts(shape=[1 << 40, 1 << 40])}, "array 'a': F32 .* has [0-9]+ bytes, and its data_offsets are 0 and 24"),
    ({"a": facts(begin=0.0)}, "array 'a': its data_offsets must be two whole numbers from 0"),
    ({"a": {**facts(), "data_offsets": [0, 12, 24]}}, "array 'a': its data_offsets must be"),
    ({"a": facts(begin=24, end=0)}, "array 'a': F32"),
    ({"a": facts(dtype=["F32"])}, "array 'a' has the type"),
    ({"a": facts(dtype="Q4")}, "array 'a' has the type 'Q4'"),
    (b'{"a": %s, "a": %s}' % ((json.dumps(facts()).encode(),) * 2), "its header has the name 'a' twice"),
    ({"a": facts(0, 16, (4,)), "b": facts(8, 24, (4,))},
     "array 'b': it lies in bytes 8 to 24, and overlaps array 'a', which ends at byte 16"),
    ({"a": facts(0, 8, (2,)), "b": facts(16, 24, (2,))}, "array 'b': it lies in bytes 16 to 24, and leaves a gap after array 'a'"),
    ({"a": facts(8, 24, (4,))}, "array 'a': .* leaves a gap after the header"),
    ({"a": facts(0, 16, (4,))}, "its arrays end at byte 16 of 24"),
    ({"a": facts(0, 48, (12,))}, "its arrays end at byte 48 of 24"),
    ({"__metadata__": [], "a": facts()}, "'__metadata__' must be an object of texts"),
    ({"__metadata__": {"x": 1}, "a": facts()}, "'__metadata__' must be an object of texts"),
])
def test_a_strange_header_of_safetensors_is_refused_by_file_and_array(tmp_path, header, what):
    with pytest.raises(errors.FormatError, match=f"m.safetensors.*{what}"):
        read_safetensors(safetensors(tmp_path / "m.safetensors", header))


def test_every_valid_safetensors_header_is_read(tmp_path):
    header = {"b": facts(16, 24, (2,)), "none": facts(16, 16, (0, 5)), "a": facts(0, 16, (2, 2)), "__metadata__": {"by": "me"}}
    text = json.dumps(header).encode() + b"   "
    found = read_safetensors(safetensors(tmp_path / "m", text, np.arange(6, dtype="<f4").tobytes()))
    assert list(found) == ["b", "none", "a"] and found["a"].tolist() == [[0, 1], [2, 3]] and found["b"].tolist() == [4, 5]
    assert found["none"].shape == (0, 5)
    safetensors(tmp_path / "x", {"a": facts(0, 8, (), "F64")}, np.float64(2).tobytes())
    assert read_safetensors(tmp_path / "x")["a"].shape == ()


ODD = [None, True, False, -1, 0, 1, 2, 1.5, 1e300, float("nan"), 1 << 31, 1 << 62, 1 << 64, "", "F32", "BF16", "2", [], [0], [0, 8], {},
       {"a": 1}]


def odder(value, random):
    """Return a value of JSON with something in it replaced."""
    if random.rand() < 0.3 or not isinstance(value, (dict, list)) or not value:
        return ODD[random.randint(len(ODD))]
    if isinstance(value, list):
        at = random.randint(len(value))
        return [*value[:at], odder(value[at], random), *value[at + 1:]]
    name = sorted(value)[random.randint(len(value))]
    return {**{key: one for key, one in value.items() if random.rand() < 0.95}, name: odder(value[name], random)}


def test_strange_headers_are_refused_or_read_as_they_say(tmp_path):
    random = np.random.RandomState(0)
    good = {"a": facts(0, 16, (2, 2)), "b": facts(16, 24, (1, 2)), "__metadata__": {"x": "y"}}
    for _ in range(1200):
        header = good
        for _ in range(random.randint(1, 4)):
            header = odder(header, random)
        path = safetensors(tmp_path / "m.safetensors", header)
        try:
            found = read_safetensors(path)
        except errors.FormatError as error:
            assert "m.safetensors" in str(error)
            continue
        for name, array in found.items():
            assert array.nbytes == header[name]["data_offsets"][1] - header[name]["data_offsets"][0] or header[name]["dtype"] == "BF16"
            assert list(array.shape) == header[name]["shape"]


def test_two_arrays_for_one_variable_are_refused(exe, tmp_path):
    fluid.layers.fc(fluid.layers.data("x", [2]), 2, name="a", bias_attr=False)
    path = safetensors(tmp_path / "m.safetensors", {"p": facts(0, 16, (2, 2)), "q": facts(16, 32, (2, 2))}, b"\0" * 32)
    with pytest.raises(errors.InvalidArgumentError, match="names= leads two arrays of .*m.safetensors' to the variable 'a.w_0'"):
        formats.load_safetensors(path, names={"p": "a.w_0", "q": "a.w_0"})


def test_damaged_records_are_refused_by_file(tmp_path):
    tensor = fluid.create_lod_tensor(np.arange(10, dtype="int64").reshape(5, 2), [[2, 3]])
    with open(tmp_path / "r", "wb") as file:
        writer = recordio.Writer(file)
        writer.write([tensor, np.ones((2, 2), "float32")])
        writer.write([tensor, np.zeros(0, "float32")])
        writer.flush()
    data = (tmp_path / "r").read_bytes()
    random = np.random.RandomState(0)
    for _ in range(1200):
        body = bytearray(data[20:])
        for _ in range(random.randint(1, 4)):
            body[random.randint(len(body))] = random.choice([0, 1, 2, 127, 128, 255, random.randint(256)])
        head = struct.pack("<5I", 0x01020304, 2, zlib.crc32(body), 0, len(body))
        (tmp_path / "d").write_bytes(head + body)
        try:
            records = list(recordio.read(tmp_path / "d"))
        except errors.TriremeError as error:
            assert isinstance(error, errors.FormatError) and f"{tmp_path}/d" in str(error), error
            continue
        assert len(records) == 2
