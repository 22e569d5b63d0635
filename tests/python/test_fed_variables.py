"""A variable that persists and is fed keeps its value in the scope, as in Fluid, whose feeds are operators that write variables."""

import numpy as np
import pytest

import trireme as fluid

TABLE = np.float32([[7, 8], [9, 10], [11, 12]])


def build():
    """Rows of a table, which has random numbers at first, by a matrix of weights."""
    x = fluid.layers.data("x", [3])
    table = fluid.layers.create_parameter([3, 2], "float32", "table")
    return fluid.layers.matmul(x, table)


@pytest.fixture
def started():
    out, exe = build(), fluid.Executor()
    exe.run(fluid.default_startup_program())
    return exe, out


def batch(rows=4):
    return {"x": np.eye(rows, 3, dtype="float32")}


def test_a_fed_parameter_keeps_its_value_after_the_run(started):
    exe, out = started
    first, = exe.run(feed={**batch(), "table": TABLE}, fetch_list=[out])
    later, = exe.run(feed=batch(), fetch_list=[out])
    np.testing.assert_array_equal(first[:3], TABLE)
    np.testing.assert_array_equal(later, first)
    np.testing.assert_array_equal(np.array(fluid.global_scope().find_var("table").get_tensor()), TABLE)


def test_a_fed_parameter_that_no_operator_reads_keeps_its_value(started):
    exe, out = started
    other = fluid.Program()
    with fluid.program_guard(other, fluid.Program()):
        other.global_block().create_var(name="table", shape=[3, 2], dtype="float32", persistable=True)
        exe.run(other, feed={"table": TABLE})
    np.testing.assert_array_equal(exe.run(feed=batch(), fetch_list=[out])[0][:3], TABLE)


def test_a_fed_parameter_needs_no_value_before():
    out, exe = build(), fluid.Executor()
    exe.run(feed={**batch(), "table": TABLE}, fetch_list=[out])
    np.testing.assert_array_equal(exe.run(feed=batch(), fetch_list=[out])[0][:3], TABLE)


def test_the_array_that_was_fed_is_not_the_variable(started):
    exe, out = started
    fed = TABLE.copy()
    exe.run(feed={**batch(), "table": fed}, fetch_list=[out])
    fed[:] = 0
    np.testing.assert_array_equal(exe.run(feed=batch(), fetch_list=[out])[0][:3], TABLE)


def test_its_own_value_may_be_fed(started):
    exe, out = started
    tensor = fluid.global_scope().find_var("table").get_tensor()
    before = np.array(tensor)
    for value in (tensor, np.asarray(tensor)):
        np.testing.assert_array_equal(exe.run(feed={**batch(), "table": value}, fetch_list=[out])[0][:3], before)


def test_an_optimizer_goes_on_from_it():
    x = fluid.layers.data("x", [2])
    loss = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr="w", bias_attr=False))
    fluid.optimizer.SGD(0.5).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    exe.run(feed={"x": np.float32([[1, 2]]), "w": np.float32([[3], [4]])}, fetch_list=[loss])
    np.testing.assert_array_equal(np.array(fluid.global_scope().find_var("w").get_tensor()), [[2.5], [3.0]])


def test_a_rate_that_is_fed_stays():
    rate = fluid.layers.create_global_var([1], 0.0, "float32", persistable=True, name="rate")
    x = fluid.layers.data("x", [1])
    loss = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr="w", bias_attr=False))
    fluid.optimizer.SGD(rate).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    exe.run(feed={"x": np.ones((1, 1), "float32"), "w": np.zeros((1, 1), "float32"), "rate": np.float32([0.25])})
    exe.run(feed={"x": np.ones((1, 1), "float32")})
    np.testing.assert_array_equal(np.array(fluid.global_scope().find_var("w").get_tensor()), [[-0.5]])


def test_a_prepared_run_keeps_it(started):
    exe, out = started
    exe.prepare(feed=["x", "table"], fetch_list=[out]).run({**batch(), "table": TABLE})
    np.testing.assert_array_equal(exe.prepare(feed=["x"], fetch_list=[out]).run(batch())[0][:3], TABLE)


@pytest.mark.parametrize("as_list", [False, True], ids=["one feed", "a feed for each place"])
def test_replicas_share_it(started, as_list):
    """It is no part of the batch, which is cut."""
    exe, out = started
    replicas = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(places=2)
    feed = [{"table": TABLE, **batch(3)}] * 2 if as_list else {"table": TABLE, **batch(4)}
    got, = exe.run(replicas, feed=feed, fetch_list=[out])
    np.testing.assert_array_equal(got[:3], TABLE)
    np.testing.assert_array_equal(exe.run(feed=batch(), fetch_list=[out])[0][:3], TABLE)
    np.testing.assert_array_equal(exe.run(replicas, feed=batch(4), fetch_list=[out])[0][:3], TABLE)


def test_a_feeder_keeps_it(started):
    exe, out = started
    feeder = fluid.DataFeeder([fluid.default_main_program().global_block().var("x")], fluid.CPUPlace())
    exe.run(feed={**feeder.feed([(row,) for row in np.eye(3, dtype="float32")]), "table": TABLE}, fetch_list=[out])
    np.testing.assert_array_equal(exe.run(feed=batch(), fetch_list=[out])[0][:3], TABLE)


def test_a_predictor_is_fed_it_in_each_run(started, tmp_path):
    exe, out = started
    fluid.io.save_inference_model(str(tmp_path), ["x", "table"], [out], exe)
    with fluid.serving.Predictor(str(tmp_path)) as predictor:
        for factor in (1, 2):
            got = predictor.run({**batch(), "table": factor * TABLE})
            np.testing.assert_array_equal(got[0][:3], factor * TABLE)
