"""Operators that are made of others: in loops, in saved programs, and without what they are made of in the program."""

import numpy as np
import pytest

import trireme as fluid


@pytest.fixture
def exe():
    with fluid.scope_guard(fluid.Scope()), fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield fluid.Executor(fluid.CPUPlace())


def numeric_gradient(exe, feed, name, loss, step=1e-6):
    base, gradient = feed[name], np.zeros_like(feed[name])
    for place in np.ndindex(base.shape):
        values = []
        for sign in (1, -1):
            moved = base.copy()
            moved[place] += sign * step
            values.append(exe.run(feed={**feed, name: moved}, fetch_list=[loss])[0].item())
        gradient[place] = (values[0] - values[1]) / (2 * step)
    return gradient


def test_a_composite_in_a_recurrent_network_has_its_gradient(exe):
    x = fluid.layers.data("x", [3, 2, 4], dtype="float64", append_batch_size=False)
    y = fluid.layers.data("y", [2, 4], dtype="float64", append_batch_size=False)
    x.stop_gradient = y.stop_gradient = False
    rnn = fluid.layers.StaticRNN()
    with rnn.step():
        row = rnn.step_input(x)
        before = rnn.memory(shape=[-1, 1], batch_ref=y, ref_batch_dim_idx=0, init_value=0.5)
        after = fluid.layers.elementwise_add(before, fluid.layers.cos_sim(row, y))
        rnn.update_memory(before, after)
        rnn.step_output(after)
    loss = fluid.layers.reduce_sum(fluid.layers.square(rnn()))
    grads = fluid.backward.gradients([loss], [x, y])
    random = np.random.default_rng(0)
    feed = {"x": random.normal(size=(3, 2, 4)), "y": random.normal(size=(2, 4))}
    dx, dy = exe.run(feed=feed, fetch_list=grads)
    np.testing.assert_allclose(dx, numeric_gradient(exe, feed, "x", loss), atol=1e-6)
    np.testing.assert_allclose(dy, numeric_gradient(exe, feed, "y", loss), atol=1e-6)


def test_a_saved_program_keeps_the_operator_and_runs(exe, tmp_path):
    x, y = fluid.layers.data("x", [4]), fluid.layers.data("y", [4])
    out = fluid.layers.label_smooth(fluid.layers.fc(x, 3, act="softmax"), epsilon=0.25)
    cosine = fluid.layers.cos_sim(x, y)
    exe.run(fluid.default_startup_program())
    feed = {name: np.random.default_rng(i).normal(size=(5, 4)).astype("float32") for i, name in enumerate("xy")}
    before = exe.run(feed=feed, fetch_list=[out, cosine])
    fluid.io.save_inference_model(str(tmp_path), ["x", "y"], [out, cosine], exe)
    program, feeds, fetches = fluid.io.load_inference_model(str(tmp_path), exe)
    types = [op.type for op in program.global_block().ops]
    assert "label_smooth" in types and "cos_sim" in types and "reduce_sum" not in types
    for a, b in zip(before, exe.run(program, feed=feed, fetch_list=fetches)):
        np.testing.assert_array_equal(a, b)


def test_the_number_of_classes_is_that_of_the_feed(exe):
    label = fluid.layers.data("label", [5])
    out = fluid.layers.label_smooth(label, epsilon=0.5)
    for classes in (5, 2, 10):
        value, = exe.run(feed={"label": np.eye(classes, dtype="float32")}, fetch_list=[out])
        np.testing.assert_allclose(value, 0.5 * np.eye(classes) + 0.5 / classes, rtol=1e-6)


def test_a_plan_is_of_the_parts(exe):
    x, y = fluid.layers.data("x", [4]), fluid.layers.data("y", [4])
    fluid.layers.cos_sim(x, y)
    assert [op.type for op in fluid.default_main_program().global_block().ops] == ["cos_sim"]
    expanded = fluid.default_main_program().expand()
    assert expanded.global_block().ops[-1].type == "elementwise_div"
    assert fluid.core.op_proto("cos_sim").is_composite and not fluid.core.op_proto("mul").is_composite
