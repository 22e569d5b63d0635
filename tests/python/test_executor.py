"""Running: feeds, fetches, scopes, what a prepared run costs."""

import gc
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import trireme as fluid
from trireme import core, layers


def test_feeds_and_fetches(exe):
    x = layers.data("x", [2])
    y = layers.scale(x, scale=2.0)
    a = np.array([[1.0, 2.0]], "float32")
    by_var, by_name = exe.run(feed={"x": a}, fetch_list=[y, "scale_0.tmp_0"])
    assert by_var.tolist() == by_name.tolist() == [[2.0, 4.0]]
    assert exe.run(feed={"x": a}) == []
    assert exe.run(feed={"x": [[3, 4]]}, fetch_list=[y])[0].tolist() == [[6.0, 8.0]]      # a list is converted


def test_one_element_is_a_number(exe):
    loss, count = layers.fill_constant([1], "float32", 2.5), layers.fill_constant([1, 1], "int64", 3)
    loss, count, many = exe.run(fetch_list=[loss, count, layers.fill_constant([2], "float32", 0.5)])
    assert float(loss) == 2.5 and int(count) == 3 and "%.1f %d" % (loss, count) == "2.5 3"    # noqa: UP031 - what a script may do
    assert float(2 * loss + count) == 8.0
    assert repr(loss) == "array([2.5], dtype=float32)" and loss.tolist() == [2.5]
    assert isinstance(loss.sum(), np.float32) and isinstance(loss[0], np.float32)
    assert type(pickle.loads(pickle.dumps(loss))) is np.ndarray
    with pytest.raises(ValueError, match="size 1"):
        float(np.repeat(loss, 2))
    assert type(many) is np.ndarray


def test_a_new_batch_size_is_no_new_program(exe):
    x = layers.data("x", [2])
    y = layers.reduce_sum(x, dim=1)
    for n in (1, 5, 0, 3, 5):
        out, = exe.run(feed={"x": np.ones((n, 2), "float32")}, fetch_list=[y])
        assert out.tolist() == [2.0] * n


def test_an_array_that_is_not_contiguous_is_understood(exe):
    x = layers.data("x", [3])
    a = np.arange(12, dtype="float32").reshape(3, 4)[:, :3]
    out, = exe.run(feed={"x": a}, fetch_list=[layers.scale(x, 1.0)])
    assert np.array_equal(out, a)
    out, = exe.run(feed={"x": np.asfortranarray(a)}, fetch_list=["scale_0.tmp_0"])
    assert np.array_equal(out, a)


def test_a_fetched_array_stays_as_it_is(exe):
    x = layers.data("x", [2])
    y = layers.scale(x, scale=1.0)
    kept = [exe.run(feed={"x": np.full((1, 2), i, "float32")}, fetch_list=[y, x]) for i in range(5)]
    for i, (a, b) in enumerate(kept):
        assert a.tolist() == b.tolist() == [[i, i]]


def test_a_fetched_feed_is_no_window_into_the_callers_array(exe):
    x = layers.data("x", [2])
    a = np.zeros((1, 2), "float32")
    out, = exe.run(feed={"x": a}, fetch_list=[x])
    a[:] = 7
    assert out.tolist() == [[0, 0]]


def test_fetched_parameters_stay_when_training_goes_on(exe):
    x = layers.data("x", [2])
    loss = layers.mean(layers.fc(x, 1, bias_attr=False, param_attr="w"))
    fluid.optimizer.SGD(0.5).minimize(loss)
    exe.run(fluid.default_startup_program())
    feed = {"x": np.ones((1, 2), "float32")}
    first = exe.run(feed=feed, fetch_list=["w"])[0]
    copy = first.copy()
    second = exe.run(feed=feed, fetch_list=["w"])[0]
    assert np.array_equal(first, copy) and not np.array_equal(first, second)


def test_values_live_in_scopes(exe):
    layers.create_parameter([2], "float32", name="w", default_initializer=fluid.initializer.Constant(3.0))
    one, two = fluid.Scope(), fluid.Scope()
    exe.run(fluid.default_startup_program(), scope=one)
    assert one.find_var("w").get_tensor().numpy().tolist() == [3, 3]
    assert two.find_var("w") is None and "w" not in fluid.global_scope()
    with fluid.scope_guard(two):
        exe.run(fluid.default_startup_program())
        assert fluid.fetch_var("w").tolist() == [3, 3]
    one.find_var("w").get_tensor().set(np.array([1, 2], "float32"))
    assert exe.run(fetch_list=["w"], scope=one)[0].tolist() == [1, 2]
    assert exe.run(fetch_list=["w"], scope=two)[0].tolist() == [3, 3]


def test_a_variable_that_was_never_written_has_no_value(exe):
    scope = fluid.Scope()
    var = scope.var("w")
    assert var.kind() is None
    with pytest.raises(fluid.core.NotFoundError, match="no variable 'w' with a value"):
        fluid.fetch_var("w", scope)
    with pytest.raises(fluid.core.NotFoundError, match="no variable 'w' with a value"):
        fluid.op.Operator("scale", X="w", Out="y").run(scope, fluid.CPUPlace())
    var.get_tensor().set(np.ones((0, 2), "float32"))
    assert var.kind() == fluid.core.VarDesc.VarType.LOD_TENSOR and fluid.fetch_var("w", scope).shape == (0, 2)


def test_a_changed_program_is_planned_anew(exe):
    x = layers.data("x", [1])
    y = layers.scale(x, 2.0)
    feed = {"x": np.ones((1, 1), "float32")}
    assert exe.run(feed=feed, fetch_list=[y])[0] == 2
    y.op._set_attr("scale", 5.0)
    assert exe.run(feed=feed, fetch_list=[y])[0] == 5


def test_an_erased_variable_is_looked_up_anew(exe):
    w = layers.create_parameter([1], "float32", name="w", default_initializer=fluid.initializer.Constant(1.0))
    exe.run(fluid.default_startup_program())
    exe.run(fetch_list=[w])
    fluid.global_scope().erase(["w"])
    exe.run(fluid.default_startup_program())
    assert exe.run(fetch_list=[w])[0] == 1


def test_sequences_travel(exe):
    x = layers.data("x", [1], lod_level=1)
    y = layers.scale(x, 2.0)
    tensor = fluid.create_lod_tensor(np.arange(5, dtype="float32").reshape(5, 1), [[2, 3]])
    out, = exe.run(feed={"x": tensor}, fetch_list=[y], return_numpy=False)
    assert out.recursive_sequence_lengths() == [[2, 3]] and out.numpy().ravel().tolist() == [0, 2, 4, 6, 8]
    with pytest.raises(ValueError, match="has sequence offsets, which a NumPy array would lose"):
        exe.run(feed={"x": tensor}, fetch_list=[y])


def test_sparse_gradients_are_fetched_as_rows(exe):
    ids = layers.data("ids", [1], dtype="int64")
    table = layers.embedding(ids, [10, 2], is_sparse=True, param_attr="table")
    fluid.backward.append_backward(layers.mean(table))
    exe.run(fluid.default_startup_program())
    grad, = exe.run(feed={"ids": np.array([[3], [7], [3]])}, fetch_list=["table@GRAD"])
    assert isinstance(grad, fluid.SelectedRows) and grad.height() == 10
    want = np.zeros((10, 2))
    want[3], want[7] = 2 / 6, 1 / 6
    np.testing.assert_allclose(grad.to_dense(), want, rtol=1e-6)


def test_the_seed_decides_the_first_values(exe):
    def first(seed):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            fluid.default_startup_program().random_seed = seed
            layers.create_parameter([50], "float32", name="a")
            layers.create_parameter([50], "float32", name="b")
            exe.run(fluid.default_startup_program(), scope=(scope := fluid.Scope()))
            return [fluid.fetch_var(name, scope).copy() for name in "ab"]

    a, b = first(1)
    assert not np.array_equal(a, b)
    assert np.array_equal(a, first(1)[0]) and not np.array_equal(a, first(2)[0])


def test_loops_and_conditions(exe):
    i = layers.fill_constant([1], "int64", 0)
    limit = layers.data("limit", [1], append_batch_size=False, dtype="int64")
    total = layers.fill_constant([1], "float32", 0.0)
    cond = layers.less_than(i, limit)
    loop = layers.While(cond)
    with loop.block():
        layers.assign(total + layers.cast(i, "float32"), total)
        layers.increment(i, 1)
        layers.less_than(i, limit, cond=cond)
    for n in (4, 0, 10):
        out, = exe.run(feed={"limit": np.array([n])}, fetch_list=[total])
        assert out == sum(range(n))


def test_a_plan_prints_itself(exe):
    x = layers.data("x", [4])
    y = layers.fc(x, 2)
    text = exe.plan(feed=["x"], fetch_list=[y])
    assert text.startswith("plan of 1 steps") and "fc(Input=x" in text


def test_programs_run_in_threads(exe):
    def work(results):
        program = fluid.Program()
        block = program.global_block()
        x = block.create_var(name="x", shape=[1], dtype="float32")
        y = block.create_var(name="y")
        block.append_op(type="scale", inputs={"X": x}, outputs={"Out": y}, attrs={"scale": 2.0})
        mine, scope = fluid.Executor(), fluid.Scope()
        for i in range(200):
            results.append(float(mine.run(program, feed={"x": np.array([i], "float32")}, fetch_list=["y"],
                                          scope=scope)[0][0]))

    lists = [[] for _ in range(4)]
    threads = [threading.Thread(target=work, args=[one]) for one in lists]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one == [2.0 * i for i in range(200)] for one in lists)


@pytest.mark.parametrize("how", [(), ("--own",), ("--own", "--prepare")])
def test_threads_that_share_a_program_take_turns(how):
    """Two in a run of one Executor at once ended the process by a signal."""
    script = Path(__file__).parent / "jobs" / "threads.py"
    done = subprocess.run([sys.executable, script, *how], capture_output=True, text=True, timeout=90, check=False)
    count = 240 if "--prepare" in how else 241
    assert done.returncode == 0 and f"{count} steps, the last {count}, {count} numbers" in done.stdout, done.stdout + done.stderr


def test_results_do_not_depend_on_the_number_of_threads(exe, rng):
    x = layers.data("x", [300])
    y = layers.softmax(layers.fc(x, 200, act="tanh"))
    exe.run(fluid.default_startup_program())
    feed = {"x": rng.standard_normal((64, 300)).astype("float32")}
    before = core.num_threads()
    try:
        results = []
        for count in (1, 2, 3):
            core.set_num_threads(count)
            results.append(exe.run(feed=feed, fetch_list=[y])[0])
        assert all(np.array_equal(results[0], one) for one in results[1:])
    finally:
        core.set_num_threads(before)


def test_memory_is_given_back(exe):
    x = layers.data("x", [1000])
    y = layers.scale(x, 2.0)
    a = np.ones((1000, 1000), "float32")

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    for _ in range(5):
        exe.run(feed={"x": a}, fetch_list=[y])
    gc.collect()
    before = resident()
    for _ in range(100):
        exe.run(feed={"x": a}, fetch_list=[y])
    gc.collect()
    assert resident() - before < 20 << 20                # one leaked fetch a run would be 400 MB
