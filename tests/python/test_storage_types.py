"""Tensors stored in bfloat16 and float16: how they are fed, fetched, saved and computed with."""

import numpy as np
import pytest

import trireme as fluid
from trireme.errors import DTypeError

layers = fluid.layers
HALVES = ["bfloat16", "float16"]


def rounded(x, dtype):
    """Round to a type of 16 bits; return float32."""
    x = np.asarray(x, "float32")
    if dtype == "float16":
        return x.astype("float16").astype("float32")
    bits = x.view("uint32").astype("uint64")
    return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).astype("uint32").view("float32")


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def test_the_bits_of_bfloat16_are_rounded_to_nearest_even_and_read_back():
    x = np.array([1, -2.5, 1 + 2**-8, 1 + 3 * 2**-8, 3.4e38, np.inf, -np.inf, np.nan, 1e-40, 0], "float32")
    bits = fluid.core.bfloat16_bits(x)
    assert bits.dtype == np.uint16
    np.testing.assert_array_equal(fluid.core.floats_of_bfloat16(bits),
                                  rounded(np.where(np.isnan(x), 0, x), "bfloat16") + np.where(np.isnan(x), x, 0))
    assert fluid.core.bfloat16_bits(bits) is bits
    with pytest.raises(TypeError, match="bfloat16 is made of floating-point numbers, got an array of int64"):
        fluid.core.bfloat16_bits(np.array([1]))


def test_floats_are_fed_to_bfloat16_and_fetched_as_floats():
    x = layers.data("x", [3], dtype="bfloat16")
    y = layers.relu(x)
    assert y.dtype == "bfloat16"
    value, exe = numbers(5, 3), fluid.Executor()
    for fed in (value, fluid.core.bfloat16_bits(value), value.astype("float64")):
        got, = exe.run(feed={"x": fed}, fetch_list=[y])
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, np.maximum(rounded(value, "bfloat16"), 0))
    tensor, = exe.run(feed={"x": value}, fetch_list=[y], return_numpy=False)
    assert repr(tensor) == "LoDTensor(bfloat16[5, 3])"
    np.testing.assert_array_equal(np.asarray(tensor), got)
    with pytest.raises(DTypeError, match="feed 'x' is int64"):
        exe.run(feed={"x": np.ones((5, 3), "int64")}, fetch_list=[y])


def test_a_type_named_bfloat16_of_another_package_is_taken():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = layers.data("x", [3], dtype="bfloat16")
    value = numbers(2, 3).astype(ml_dtypes.bfloat16)
    got, = fluid.Executor().run(feed={"x": value}, fetch_list=[layers.scale(x, 1.0)])
    np.testing.assert_array_equal(got, value.astype("float32"))


def test_a_tensor_of_bfloat16_stays_one_when_floats_are_set_into_it():
    tensor = fluid.core.LoDTensor()
    tensor.set(fluid.core.bfloat16_bits(np.zeros(2, "float32")))
    tensor.set(np.array([1.001, 2], "float32"))
    assert repr(tensor) == "LoDTensor(bfloat16[2])" and tensor.numpy().tolist() == [1, 2]


@pytest.mark.parametrize("dtype", HALVES)
def test_a_net_of_16_bits_is_the_float_net_rounded_after_each_operator(dtype):
    x = layers.data("x", [4, 6], dtype=dtype)
    steps = [x]
    for layer in (lambda v: layers.scale(v, 1.7), lambda v: layers.elementwise_mul(v, x), layers.tanh,
                  lambda v: layers.softmax(v), lambda v: layers.layer_norm(v, begin_norm_axis=2), lambda v: layers.transpose(v, [0, 2, 1]),
                  lambda v: layers.concat([v, v], axis=2), lambda v: layers.reduce_sum(v, dim=[1])):
        steps.append(layer(steps[-1]))
    assert all(step.dtype == dtype for step in steps)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    got = exe.run(feed={"x": rounded(numbers(3, 4, 6), dtype).astype("float16" if dtype == "float16" else "float32")}, fetch_list=steps)
    want = [np.asarray(value, "float32") for value in got]
    expected = [want[0] * np.float32(1.7), want[1] * want[0], np.tanh(want[2]),
                np.exp(want[3]) / np.exp(want[3]).sum(-1, keepdims=True),
                (want[4] - want[4].mean(-1, keepdims=True)) / np.sqrt(want[4].var(-1, keepdims=True) + 1e-5),
                want[5].transpose(0, 2, 1), np.concatenate([want[6], want[6]], 2), want[7].sum(1)]
    for value, exact in zip(want[1:], expected):
        np.testing.assert_allclose(value, exact, rtol=2**-7 if dtype == "bfloat16" else 2**-10, atol=1e-3)


def test_parameters_and_statistics_of_norms_are_float32():
    x = layers.data("x", [3, 4, 4], dtype="bfloat16")
    y = layers.batch_norm(layers.conv2d(x, 5, 3))
    z = layers.layer_norm(y)
    assert y.dtype == z.dtype == "bfloat16"
    kinds = {param.name.split(".")[0].rsplit("_", 1)[0]: str(param.dtype) for param in fluid.default_main_program().all_parameters()}
    assert kinds == {"conv2d": "bfloat16", "batch_norm": "float32", "layer_norm": "float32"}
    loss = layers.mean(layers.cast(z, "float32"))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    assert np.isfinite(exe.run(feed={"x": numbers(2, 3, 4, 4)}, fetch_list=[loss])[0])


@pytest.mark.parametrize("dtype", HALVES)
def test_variables_of_16_bits_are_saved_and_loaded(dtype, tmp_path):
    w = layers.create_parameter([3, 2], dtype, name="w")
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    before = np.asarray(fluid.fetch_var("w"))
    assert str(w.dtype) == dtype and before.any()
    fluid.io.save_params(exe, str(tmp_path))
    tensor = fluid.global_scope().find_var("w").get_tensor()
    tensor.set(np.zeros((3, 2), "float16" if dtype == "float16" else "float32"))
    fluid.io.load_params(exe, str(tmp_path))
    np.testing.assert_array_equal(np.asarray(fluid.fetch_var("w")), before)
    assert str(tensor._dtype()) == dtype


def test_the_same_bits_for_any_number_of_threads():
    x = layers.data("x", [512], dtype="bfloat16")
    y = layers.fc(layers.gelu(layers.elementwise_add(x, x)), 128, act="relu")
    exe, value = fluid.Executor(), numbers(300, 512)
    exe.run(fluid.default_startup_program())
    found = []
    for threads in (1, 4):
        fluid.core.set_num_threads(threads)
        found.append(exe.run(feed={"x": value}, fetch_list=[y])[0])
    fluid.core.set_num_threads(0)
    np.testing.assert_array_equal(*found)


def test_other_types_have_no_kernel():
    with pytest.raises(DTypeError, match="Y must be float32, got bfloat16"):
        layers.elementwise_add(layers.data("x", [3]), layers.data("y", [3], dtype="bfloat16"))
