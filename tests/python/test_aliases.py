"""A persistable variable that one operator reads and writes: the result is that of two variables."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers


def value_of(name):
    return np.array(fluid.global_scope().var(name).get_tensor())


def persistable(name, value):
    value = np.asarray(value)
    var = layers.create_global_var(list(value.shape), 0.0, str(value.dtype), persistable=True, name=name)
    return var, value


def run_once(exe, values, feed=None, fetch=()):
    exe.run(fluid.default_startup_program())
    for name, value in values.items():
        fluid.global_scope().var(name).get_tensor().set(value, fluid.CPUPlace())
    return exe.run(feed=feed, fetch_list=list(fetch))


SQUARE = np.arange(9, dtype="float32").reshape(3, 3)
CASES = {
    "mul": (dict(X="p", Y="p"), {}, lambda p: p @ p),
    "matmul": (dict(X="p", Y="q"), {}, lambda p: p @ (p + 1)),
    "transpose2": (dict(X="p"), {"axis": [1, 0]}, lambda p: p.T),
    "elementwise_sub": (dict(X="q", Y="p"), {}, lambda p: np.ones_like(p)),
    "sum": (dict(X=["q", "p"]), {}, lambda p: 2 * p + 1),
    "softmax": (dict(X="p"), {}, lambda p: np.exp(p) / np.exp(p).sum(1, keepdims=True)),
    "reduce_sum": (dict(X="p"), {"dim": [0], "keep_dim": True}, lambda p: p.sum(0, keepdims=True)),
    "concat": (dict(X=["p", "q", "p"]), {"axis": 0}, lambda p: np.concatenate([p, p + 1, p])),
    "stack": (dict(X=["p", "p"]), {"axis": 0}, lambda p: np.stack([p, p])),
    "slice": (dict(Input="p"), {"axes": [0], "starts": [1], "ends": [3]}, lambda p: p[1:3]),
}


@pytest.mark.parametrize("type", list(CASES))
def test_an_output_that_is_an_input(exe, type):
    inputs, attrs, formula = CASES[type]
    persistable("p", SQUARE), persistable("q", SQUARE)
    block = fluid.default_main_program().global_block()
    before = layers.scale(block.var("p"), 1.0)
    out = "Y" if type == "stack" else "Out"
    block.append_op(type=type, inputs=inputs, outputs={out: "p"}, attrs=attrs)
    after = layers.scale(block.var("p"), 1.0)
    for _ in range(3):                                   # the second time with a plan that is there already
        got = run_once(exe, {"p": SQUARE, "q": SQUARE + 1}, fetch=[before, after])
        np.testing.assert_array_equal(got[0], SQUARE)
        np.testing.assert_allclose(got[1], formula(SQUARE), rtol=1e-6)
        np.testing.assert_allclose(value_of("p"), formula(SQUARE), rtol=1e-6)


def test_a_sum_of_a_list_that_names_its_output_often(exe):
    p, _ = persistable("p", SQUARE)
    p.block.append_op(type="sum", inputs={"X": ["p", "p", "p"]}, outputs={"Out": "p"})
    run_once(exe, {"p": SQUARE})
    np.testing.assert_array_equal(value_of("p"), 3 * SQUARE)


def test_a_chain_that_is_fused_into_one_operator(exe):
    p, _ = persistable("p", SQUARE)
    persistable("q", SQUARE)
    block = p.block
    product = layers.mul(p, p)
    block.append_op(type="elementwise_add", inputs={"X": product, "Y": "q"}, outputs={"Out": "p"}, attrs={"axis": -1})
    run_once(exe, {"p": SQUARE, "q": SQUARE})
    np.testing.assert_array_equal(value_of("p"), SQUARE @ SQUARE + SQUARE)


def test_a_variable_that_grows_with_each_run(exe):
    """Steps before the growth read the old rows, steps after it the new ones; no layout is for all runs."""
    p, start = persistable("p", np.ones((1, 2), "float32"))
    old = layers.scale(p, 2.0)
    p.block.append_op(type="concat", inputs={"X": ["p", "p"]}, outputs={"Out": "p"}, attrs={"axis": 0})
    new = layers.scale(p, 3.0)
    exe.run(fluid.default_startup_program())
    fluid.global_scope().var("p").get_tensor().set(start, fluid.CPUPlace())
    for rows in (1, 2, 4, 8):
        got = exe.run(fetch_list=[old, new])
        np.testing.assert_array_equal(got[0], np.full((rows, 2), 2.0))
        np.testing.assert_array_equal(got[1], np.full((2 * rows, 2), 3.0))


def test_a_loop_may_write_what_it_multiplies(exe):
    """The variable belongs to the block around."""
    p = layers.assign(np.array([[1.0, 1.0], [0.0, 1.0]], "float32"))
    i, n = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 3)
    cond = layers.less_than(i, n)
    with layers.While(cond).block():
        fluid.default_main_program().current_block().append_op(type="mul", inputs={"X": p, "Y": p}, outputs={"Out": p})
        layers.increment(i)
        layers.less_than(i, n, cond=cond)
    np.testing.assert_array_equal(exe.run(fetch_list=[p])[0], [[1.0, 8.0], [0.0, 1.0]])
