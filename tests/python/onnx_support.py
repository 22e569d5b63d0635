"""What the tests of ONNX share: inputs, operators without a layer, and the comparison with onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trireme as fluid
from trireme import formats
from trireme.layer_helper import LayerHelper

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


def assert_same(make: Callable[[], Any], folder: Path, batches: Sequence[int]) -> None:
    """Compare what onnxruntime makes of the targets with what the executor does: of one model, whose batch is free."""
    fluid.default_startup_program().random_seed = 3
    made = make()
    targets = list(made) if isinstance(made, (list, tuple)) else [made]
    block, exe = fluid.default_main_program().global_block(), fluid.Executor()
    exe.run(fluid.default_startup_program())
    feeds = sorted({name for name, var in block.vars.items() if var.is_data})
    program, path = fluid.default_main_program().clone(for_test=True), folder / "m.onnx"
    formats.export_onnx(path, feeds, targets, exe)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    random = np.random.RandomState(5)
    for batch in batches:
        values = {name: random.randn(*[batch if dim < 0 else dim for dim in block.var(name).desc.shape()]).astype("float32") for name in feeds}
        expected = exe.run(program, feed=values, fetch_list=targets)
        for want, got in zip(expected, session.run(None, values), strict=True):
            assert got.shape == want.shape
            assert got.dtype == want.dtype
            assert np.allclose(got, want, rtol=1e-5, atol=1e-6)
