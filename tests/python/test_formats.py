"""Arrays of other libraries: safetensors in and out, DLPack both ways without a copy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import trireme as fluid
from trireme import errors, formats
from trireme.formats.safetensors import read_safetensors


def net() -> fluid.Executor:
    fluid.layers.fc(fluid.layers.fc(fluid.layers.data("x", [3]), 4, name="a"), 2, name="b")
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    return exe


def test_what_is_written_is_read_by_their_library_and_by_us(tmp_path: Path) -> None:
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


def test_what_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    net()
    before, path = np.array(fluid.fetch_var("a.w_0")), tmp_path / "m.safetensors"
    good = {name: np.array(fluid.fetch_var(name)) * 2 for name in ("a.b_0", "a.w_0", "b.b_0", "b.w_0")}
    for change, kind, text in [({"b.w_0": good["b.w_0"].T.copy()}, errors.ShapeError, r"'b\.w_0' .* has the shape \[2, 4\], the program wants \[4, 2\]"),
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
    for bad in (b"", good[:4], b"\xff" * 8 + good[8:], good[:-4], good.replace(b"F32", b"F33", 1), good.replace(b"[0,", b"[9,", 1).replace(b"[0, ", b"[9, ", 1)):
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
