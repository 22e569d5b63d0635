"""An exported model gives in onnxruntime what the program gives here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trireme as fluid
from trireme import errors, formats
from trireme.layer_helper import LayerHelper

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
layers = fluid.layers


def data(*shape: int, dtype: str = "float32", name: str = "x") -> Any:
    return layers.data(name, list(shape), dtype=dtype)


ACTIVATIONS = ["abs", "atan", "ceil", "cos", "exp", "floor", "relu", "sigmoid", "sin", "softplus", "softsign", "tanh", "square", "tanh_shrink", "logsigmoid", "round",
               "relu6", "swish", "gelu", "elu", "leaky_relu", "hard_sigmoid", "selu", "brelu", "sign"]
POSITIVE = ["log", "sqrt", "rsqrt", "reciprocal"]



def made(type: str, *inputs: Any, slots: tuple[str, ...] = ("X", "Y"), **attrs: Any) -> Any:
    """The output of an operator for which no layer stands, or not under its own name."""
    return LayerHelper(type).append(type, {slot: [var] for slot, var in zip(slots, inputs)}, attrs)


def signs(name: str) -> Any:
    return layers.greater_than(data(4, name=name), layers.fill_constant([1], "float32", 0.0))


CASES: list[tuple[str, Callable[[], Any]]] = [
    *[(name, lambda name=name: getattr(layers, name)(data(3, 4))) for name in ACTIVATIONS if hasattr(layers, name)],
    *[(name, lambda name=name: getattr(layers, name)(layers.exp(data(3)))) for name in POSITIVE if hasattr(layers, name)],
    ("pow", lambda: layers.pow(layers.exp(data(3)), 2.5)),
    ("clip", lambda: layers.clip(data(5), -0.5, 0.25)),
    ("softmax", lambda: layers.softmax(data(4, 5))),
    ("scale", lambda: layers.scale(data(3), 2.0, 1.0)),
    ("scale_after", lambda: layers.scale(data(3), 2.0, 1.0, bias_after_scale=False)),
    ("cast", lambda: layers.cast(data(3), "int64")),
    ("sums", lambda: layers.sums([data(3), data(3, name="y")])),
    *[(f"elementwise_{kind}", lambda kind=kind: getattr(layers, f"elementwise_{kind}")(data(3, 4), layers.exp(data(3, 4, name="y"))))
      for kind in ("add", "sub", "mul", "div", "max", "min")],
    ("elementwise_axis", lambda: layers.elementwise_add(data(3, 4), layers.fill_constant([3], "float32", 2.0), axis=1)),
    *[(kind, lambda kind=kind: layers.cast(getattr(layers, kind)(layers.round(data(6)), layers.round(data(6, name="y"))), "float32"))
      for kind in ("less_than", "equal", "less_equal", "greater_than", "greater_equal", "not_equal")],
    ("fc", lambda: layers.fc(data(3, 4), 5, num_flatten_dims=1)),
    ("fc_of_sequences", lambda: layers.fc(data(3, 4), 5, num_flatten_dims=2)),
    ("matmul", lambda: layers.matmul(data(3, 4), data(5, 4, name="y"), transpose_y=True, alpha=0.5)),
    ("reshape", lambda: layers.reshape(data(3, 4), [-1, 6, 2])),
    ("flatten", lambda: layers.flatten(data(3, 4, 2), axis=2)),
    ("squeeze", lambda: layers.squeeze(data(1, 4), [1])),
    ("unsqueeze", lambda: layers.unsqueeze(data(4), [1, 2])),
    ("transpose", lambda: layers.transpose(data(3, 4), [0, 2, 1])),
    ("concat", lambda: layers.concat([data(3, 4), data(2, 4, name="y")], axis=1)),
    ("stack", lambda: layers.stack([data(3), data(3, name="y")], axis=1)),
    ("split", lambda: layers.concat(layers.split(data(6), 3, dim=1)[::-1], axis=1)),
    ("split_sections", lambda: layers.split(data(6), [1, 5], dim=1)[1]),
    ("slice", lambda: layers.slice(data(5, 6), axes=[1, 2], starts=[1, -3], ends=[4, 6])),
    ("expand", lambda: layers.expand(data(2, 3), [1, 2, 3])),
    ("pad", lambda: layers.pad(data(3), [0, 0, 1, 2], 0.5)),
    ("pad2d", lambda: layers.pad2d(data(1, 4, 4), [1, 0, 2, 1], mode="reflect")),
    ("gather", lambda: layers.gather(data(3), layers.fill_constant([2], "int64", 1))),
    ("top_k", lambda: layers.topk(data(6), 3)[0]),
    *[(f"reduce_{kind}", lambda kind=kind: getattr(layers, f"reduce_{kind}")(data(3, 4), dim=[1])) for kind in ("sum", "mean", "max", "min", "prod")],
    ("reduce_keeps", lambda: layers.reduce_sum(data(3, 4), dim=[1, 2], keep_dim=True)),
    ("mean", lambda: layers.mean(data(3, 4))),
    ("conv2d", lambda: layers.conv2d(data(2, 8, 8), 4, 3, stride=2, padding=1, act="relu")),
    ("conv2d_groups", lambda: layers.conv2d(data(4, 8, 8), 4, 3, dilation=2, groups=2)),
    ("conv3d", lambda: layers.conv3d(data(1, 4, 5, 6), 2, 2)),
    ("conv2d_transpose", lambda: layers.conv2d_transpose(data(2, 5, 5), 3, filter_size=3, stride=2, padding=1)),
    ("pool_max", lambda: layers.pool2d(data(2, 8, 8), 3, "max", 2, 1)),
    ("pool_average", lambda: layers.pool2d(data(2, 8, 8), 3, "avg", 2, 1)),
    ("pool_average_with_padding", lambda: layers.pool2d(data(2, 8, 8), 3, "avg", 2, 1, exclusive=False)),
    ("pool_global", lambda: layers.pool2d(data(2, 8, 8), pool_type="avg", global_pooling=True)),
    ("batch_norm", lambda: layers.batch_norm(data(3, 4, 4))),
    ("layer_norm", lambda: layers.layer_norm(data(3, 4), begin_norm_axis=1)),
    ("dropout", lambda: layers.dropout(data(5), 0.3)),
    ("dropout_upscale", lambda: layers.dropout(data(5), 0.3, dropout_implementation="upscale_in_train")),
    ("embedding", lambda: layers.embedding(layers.cast(layers.clip(layers.abs(data(3, 1) * 3.0), 0.0, 9.0), "int64"), [10, 4], padding_idx=2)),
    ("one_hot", lambda: layers.one_hot(layers.cast(layers.clip(layers.abs(data(1) * 3.0), 0.0, 4.0), "int64"), 5)),
    *[(name, lambda name=name: getattr(layers, name)(layers.tanh(data(3)))) for name in ("acos", "asin", "erf")],
    *[(name, lambda name=name: made(name, data(3, 4))) for name in ("hard_shrink", "softshrink", "thresholded_relu", "stanh")],
    *[(f"prelu_{mode}", lambda mode=mode: layers.prelu(data(3, 4, 4), mode)) for mode in ("all", "channel", "element")],
    *[(name, lambda name=name: made(name, signs("x"), signs("y"))) for name in ("logical_and", "logical_or", "logical_xor")],
    ("logical_not", lambda: made("logical_not", signs("x"))),
    ("shape", lambda: made("shape", data(3, 4), slots=("Input",))),
    ("minus", lambda: made("minus", data(3), data(3, name="y"))),
    ("elementwise_pow", lambda: layers.elementwise_pow(layers.exp(data(3)), data(3, name="y"))),
    ("old_reshape", lambda: made("reshape", data(3, 4), shape=[-1, 6, 2])),
    ("old_flatten", lambda: made("flatten", data(3, 4), axis=2)),
    ("old_squeeze", lambda: made("squeeze", data(1, 4), axes=[1])),
    ("old_unsqueeze", lambda: made("unsqueeze", data(4), axes=[1])),
    ("old_transpose", lambda: made("transpose", data(3, 4), axis=[0, 2, 1])),
    ("gather_nd", lambda: layers.gather_nd(data(3, 4), layers.assign(np.array([[0, 1], [3, 2]], "int32")))),
    *[(name, lambda name=name: made(name, data(3, 4), axis=1)) for name in ("arg_max", "arg_min")],
    ("cumsum", lambda: layers.cumsum(data(3, 4), axis=1, exclusive=True, reverse=True)),
    ("cumsum_of_the_last", lambda: layers.cumsum(data(3, 4))),
    ("depthwise_conv2d", lambda: layers.conv2d(data(4, 8, 8), 4, 3, groups=4, use_cudnn=False)),
    ("pool3d", lambda: layers.pool3d(data(2, 4, 6, 6), 2, "avg", 2)),
    ("written_twice", lambda: layers.assign(layers.relu(data(3)), layers.sigmoid(data(3)))),
]


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in CASES])
def test_onnxruntime_gives_the_same(make: Callable[[], Any], tmp_path: Path) -> None:
    fluid.default_startup_program().random_seed = 3
    target = make()
    block, exe = fluid.default_main_program().global_block(), fluid.Executor()
    exe.run(fluid.default_startup_program())
    feeds = sorted({name for name, var in block.vars.items() if var.is_data})
    random = np.random.RandomState(5)
    values = {name: random.randn(*[4 if dim < 0 else dim for dim in block.var(name).desc.shape()]).astype("float32") for name in feeds}
    expected = exe.run(fluid.default_main_program().clone(for_test=True), feed=values, fetch_list=[target])[0]
    path = tmp_path / "m.onnx"
    formats.export_onnx(path, feeds, [target], exe)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    got = session.run(None, values)[0]
    assert got.shape == expected.shape
    assert np.allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_each_operator_that_is_exported_is_in_a_case() -> None:
    used = set()
    for _, make in CASES:
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            make()
            used |= {op.type for op in fluid.default_main_program().global_block().ops}
    assert sorted(set(formats.onnx_operators()) - used) == []


def test_what_onnx_lacks_is_named(tmp_path: Path) -> None:
    exe = fluid.Executor()
    ids = layers.data("ids", [1], dtype="int64", lod_level=1)
    pooled = layers.sequence_pool(layers.embedding(ids, [10, 4]), "sum")
    exe.run(fluid.default_startup_program())
    with pytest.raises(errors.UnsupportedError, match="'ids' has sequences"):
        formats.export_onnx(tmp_path / "m.onnx", ["ids"], [pooled], exe)
    rows = layers.embedding(layers.data("keys", [1], dtype="int64"), [10, 4], is_distributed=True)
    with pytest.raises(errors.UnsupportedError, match=r"operator \d+ \(lookup_sparse_table\) has no counterpart"):
        formats.export_onnx(tmp_path / "m.onnx", ["keys"], [rows], exe)
    with pytest.raises(errors.InvalidArgumentError, match=r"NAME\.onnx"):
        formats.export_onnx(tmp_path / "model", ["keys"], [rows], exe)


def test_saving_to_a_file_of_onnx_says_what_to_call() -> None:
    x = data(2)
    exe = fluid.Executor()
    y = layers.fc(x, 1)
    with pytest.raises(errors.InvalidArgumentError, match=r"fluid\.formats\.export_onnx\('m\.onnx', \['x'\]"):
        fluid.io.save_inference_model("m.onnx", ["x"], [y], exe)
