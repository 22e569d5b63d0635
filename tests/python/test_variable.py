"""Variables: shapes with unknown dimensions, arithmetic, types."""

import operator

import numpy as np
import pytest

import trireme as fluid
from trireme import core, layers


def test_unknown_dimensions_are_none():
    x = fluid.default_main_program().global_block().create_var(name="x", shape=[-1, None, 3], dtype="float32")
    assert x.shape == (None, None, 3) and x.ndim == 3
    assert x.desc.shape() == [-1, -1, 3]


def test_a_variable_can_be_made_by_itself():
    x = fluid.Variable([None, 4], "int64", name="x")
    assert x.block is fluid.default_main_program().global_block()
    assert (x.shape, x.dtype) == ((None, 4), "int64")
    assert fluid.Variable(shape=[2], dtype="float32").name == "unknown_0"
    assert fluid.Variable(shape=[2], dtype="float32", prefix="w").name == "w_0"
    assert fluid.Variable([2]).dtype == "float32"


def test_data_types_compare_with_names_and_numpy():
    x = layers.data("x", [2], dtype="int64")
    assert x.dtype == "int64" and x.dtype == np.int64 and x.dtype == np.dtype("int64")
    assert x.dtype == core.VarDesc.VarType.INT64 and x.dtype == 3
    assert x.dtype != "float32" and x.dtype != np.float32
    assert np.zeros(1, dtype=x.dtype.dtype).dtype == np.int64
    for text in ("float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"):
        assert str(core.convert_dtype(text)) == text == core.numpy_dtype(text).name


def test_attributes_of_a_variable():
    x = layers.data("x", [2], lod_level=1)
    assert x.stop_gradient and x.is_data and x.lod_level == 1 and not x.persistable
    x.persistable = True
    assert x.desc.persistable()
    assert repr(x) == "Variable('x', float32[?, 2])"
    assert x.type == core.VarDesc.VarType.LOD_TENSOR


def test_creating_again_returns_the_same_or_says_what_differs():
    block = fluid.default_main_program().global_block()
    x = block.create_var(name="x", shape=[2], dtype="float32")
    assert block.create_var(name="x", shape=[2], dtype="float32") is x
    with pytest.raises(ValueError, match=r"'x' exists with shape \[2\], now \[3\] is wanted"):
        block.create_var(name="x", shape=[3])
    with pytest.raises(ValueError, match="'x' exists with dtype float32, now int64 is wanted"):
        block.create_var(name="x", dtype="int64")


BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow]
COMPARE = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


@pytest.mark.parametrize("op", BINARY + COMPARE)
def test_arithmetic_is_that_of_numpy(op, exe, rng):
    a = rng.uniform(0.5, 2.0, (3, 4)).astype("float32")
    b = np.where(rng.uniform(size=(3, 4)) < 0.5, a, rng.uniform(0.5, 2.0, (3, 4))).astype("float32")
    x, y = layers.data("x", [4]), layers.data("y", [4])
    results = exe.run(feed={"x": a, "y": b}, fetch_list=[op(x, y), op(x, 1.5), op(1.5, x)])
    for got, want in zip(results, (op(a, b), op(a, np.float32(1.5)), op(np.float32(1.5), a))):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=2e-6)


def test_more_arithmetic(exe):
    a = np.array([[1.0, -2.0, 3.0]], "float32")
    x = layers.data("x", [3])
    fetches = [-x, abs(x), (-2.0) ** layers.data("n", [3]), x @ layers.data("m", [3, 2], append_batch_size=False),
               x[:, 1:], x[0], x[:, -1]]
    results = exe.run(feed={"x": a, "n": np.array([[2.0, 3.0, 0.0]], "float32"), "m": np.ones((3, 2), "float32")},
                      fetch_list=fetches)
    wants = [-a, abs(a), np.array([[4.0, -8.0, 1.0]]), a @ np.ones((3, 2)), a[:, 1:], a[0], a[:, -1]]
    for got, want in zip(results, wants):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_whole_numbers_stay_whole(exe):
    i = layers.data("i", [3], dtype="int64")
    a = np.array([[7, 8, 9]])
    results = exe.run(feed={"i": a}, fetch_list=[i + 1, i * 2, 10 - i, i // 2, i % 4, i > 7])
    for got, want in zip(results, (a + 1, a * 2, 10 - a, a // 2, a % 4, a > 7)):
        assert got.dtype == want.dtype and np.array_equal(got, want)
    with pytest.raises(TypeError, match=r"i holds int64, which has no 0.5; use i.astype\('float32'\)"):
        i * 0.5
    assert (i.astype("float32") * 0.5).dtype == "float32"


def test_a_variable_has_no_truth_value():
    x = layers.data("x", [3])
    with pytest.raises(TypeError, match="has no truth value while the program is built"):
        bool(x > 0.0)
    assert (x == "x") is False and (x == None) is False   # noqa: E711
    assert {x: 1}[x] == 1
    with pytest.raises(TypeError, match="is not iterable"):
        list(x)


def test_the_producer_is_known():
    y = layers.exp(layers.data("x", [2]))
    assert y.op.type == "exp" and y.op.output("Out") == [y.name]


def test_tensors_come_and_go():
    tensor = core.LoDTensor()
    with pytest.raises(ValueError, match="was never set"):
        tensor._dtype()
    array = np.arange(6, dtype="float32").reshape(2, 3)
    tensor.set(array, fluid.CPUPlace())
    array[:] = 0
    assert tensor.numpy().tolist() == [[0, 1, 2], [3, 4, 5]] and tensor.shape() == [2, 3]
    view = np.asarray(tensor)
    tensor.set(np.zeros((9, 9), "float32"))
    assert view.tolist() == [[0, 1, 2], [3, 4, 5]]           # it keeps its memory
    tensor.set(np.float64(2.5))
    assert tensor.numpy().shape == () and tensor.numpy() == 2.5
    tensor.set(np.zeros((0, 3), "int64"))
    assert tensor.numpy().shape == (0, 3)
    tensor.set(np.arange(6.0)[::2])
    assert tensor.numpy().tolist() == [0, 2, 4]


def test_sequences_of_a_tensor():
    tensor = fluid.create_lod_tensor(np.zeros((6, 1), "float32"), [[2, 1], [1, 3, 2]], fluid.CPUPlace())
    assert tensor.lod() == [[0, 2, 3], [0, 1, 4, 6]]
    assert tensor.recursive_sequence_lengths() == [[2, 1], [1, 3, 2]]
    with pytest.raises(core.InvalidArgumentError):
        tensor.set_lod([[0, 5]])
    assert tensor.lod() == [[0, 2, 3], [0, 1, 4, 6]]


def test_scopes_look_outward():
    scope = fluid.Scope()
    scope.var("w").get_tensor().set(np.ones(2, "float32"))
    child = scope.new_scope()
    child.var("v")
    assert "w" in child and child.local_var_names() == ["v"] and "v" not in scope
    assert child.find_var("w").get_tensor().numpy().tolist() == [1, 1]
    scope.erase(["w"])
    assert scope.find_var("w") is None
