"""What the tests of ONNX share: inputs, operators without a layer, and the comparison with onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trireme as fluid
from trireme import formats
from trireme.parameters.layer_helper import LayerHelper

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
layers = fluid.layers


def data(*shape: int, dtype: str = "float32", name: str = "x") -> Any:
    return layers.data(name, list(shape), dtype=dtype)


def made(type: str, *inputs: Any, slots: tuple[str, ...] = ("X", "Y"), **attrs: Any) -> Any:
    """The output of an operator for which no layer stands, or not under its own name."""
    return LayerHelper(type).append(type, {slot: var if isinstance(var, list) else [var] for slot, var in zip(slots, inputs)}, attrs)


def parameter(*shape: int) -> Any:
    return layers.create_parameter(list(shape), "float32")


def classes(name: str = "label") -> Any:
    return layers.cast(layers.scale(layers.sigmoid(data(1, name=name)), 5.0), "int64")


def signs(name: str, width: int = 4) -> Any:
    return layers.greater_than(data(width, name=name), layers.fill_constant([1], "float32", 0.0))


def whole(name: str, *shape: int) -> Any:
    """Whole numbers from -6 on, or lengths from 0 to 4 where a shape is given."""
    if shape:
        return layers.reshape(layers.cast(layers.scale(layers.sigmoid(data(*shape, name=name)), 5.0), "int64"), [-1])
    return layers.cast(layers.scale(data(4, name=name), 5.0), "int64")


def output_of(type: str, slot: str, outputs: dict[str, str], inputs: dict[str, Any], **attrs: Any) -> Any:
    """One output of an operator that has several."""
    helper = LayerHelper(type)
    made = {name: helper.create_variable_for_type_inference(dtype) for name, dtype in outputs.items()}
    helper.append_op(type, {name: [var] for name, var in inputs.items()}, {name: [var] for name, var in made.items()}, attrs)
    return made[slot]


def exported(make: Callable[[], Any], folder: Path) -> tuple[list[Any], list[Any], Any, Callable[[dict[str, Any]], list[Any]]]:
    """Export what ``make`` returns; give the variables to feed, the targets, a session of onnxruntime, and a function that runs the program
    here."""
    fluid.default_startup_program().random_seed = 3
    made = make()
    targets = list(made) if isinstance(made, (list, tuple)) else [made]
    exe, path = fluid.Executor(), folder / "m.onnx"
    exe.run(fluid.default_startup_program())
    feeds = sorted((var for var in fluid.default_main_program().global_block().vars.values() if var.is_data), key=lambda var: var.name)
    program = fluid.default_main_program().clone(for_test=True)
    formats.export_onnx(path, [var.name for var in feeds], targets, exe)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return feeds, targets, session, lambda values: exe.run(program, feed=values, fetch_list=targets, return_numpy=False)


def assert_close(got: Any, want: Any) -> None:
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    assert np.allclose(got, want, rtol=1e-5, atol=1e-6)


def assert_same(make: Callable[[], Any], folder: Path, batches: Sequence[int]) -> None:
    """Compare what onnxruntime makes of the targets with what the executor does: of one model, whose batch is free."""
    feeds, _, session, run = exported(make, folder)
    random = np.random.RandomState(5)
    for batch in batches:
        values = {var.name: random.randn(*[batch if dim < 0 else dim for dim in var.desc.shape()]).astype("float32") for var in feeds}
        for want, got in zip(run(values), session.run(None, values), strict=True):
            assert_close(got, np.array(want))


def assert_same_of_sequences(make: Callable[[], Any], folder: Path, lengths: Sequence[dict[str, list[list[int]]]]) -> None:
    """The same of what has sequences, for these lengths of each variable, level by level; a variable that is not named has a row for each
    sequence of x."""
    feeds, targets, session, run = exported(make, folder)
    random = np.random.RandomState(5)
    for each in lengths:
        ours, theirs = {}, {}
        for var in feeds:
            levels = each.get(var.name, each["x"]) if var.lod_level else []
            rows = sum(levels[-1]) if levels else len(each["x"][0])
            value = random.randn(*[rows if dim < 0 else dim for dim in var.desc.shape()]).astype("float32")
            ours[var.name] = fluid.create_lod_tensor(value, levels) if levels else value
            theirs[var.name] = value
            for level, counts in enumerate(levels):
                theirs[f"{var.name}.offsets" if len(levels) == 1 else f"{var.name}.offsets.{level}"] = np.cumsum([0, *counts])
        got, names = session.run(None, theirs), [info.name for info in session.get_outputs()]
        for target, want in zip(targets, run(ours), strict=True):
            at = next(i for i, name in enumerate(names) if name in (target.name, f"{target.name}.out"))
            assert_close(got[at], np.array(want))
            offsets = [value.tolist() for name, value in zip(names, got) if name.startswith(f"{names[at]}.offsets")]
            assert offsets == [list(level) for level in want.lod()], (target.name, offsets, want.lod())
