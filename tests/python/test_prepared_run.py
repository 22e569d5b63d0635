"""Executor.prepare: a handle runs what Executor.run runs, with feeds of other shapes, from several threads, and explains mistakes."""

import threading

import numpy as np
import pytest

import trireme as fluid
from trireme.errors import InvalidArgumentError, NotFoundError, ShapeError

layers = fluid.layers


@pytest.fixture(autouse=True)
def fresh():
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        yield


def regression():
    x, y = layers.data("x", [3]), layers.data("y", [1])
    loss = layers.mean(layers.square_error_cost(layers.fc(x, 1, param_attr=fluid.ParamAttr(initializer=fluid.initializer.Constant(0.5))),
                                                y))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    return exe, loss


def batches(count, rows=4):
    random = np.random.default_rng(0)
    return [{"x": random.random((rows, 3), np.float32), "y": random.random((rows, 1), np.float32)} for _ in range(count)]


def losses_of(run, feeds):
    return [run(feed)[0] for feed in feeds]


def test_a_handle_trains_as_run_does():
    feeds = batches(6) + batches(2, rows=7) + batches(3)
    exe, loss = regression()
    start = {var.name: np.array(fluid.fetch_var(var.name)) for var in fluid.default_main_program().all_parameters()}
    want = losses_of(lambda feed: exe.run(feed=feed, fetch_list=[loss]), feeds)
    for name, value in start.items():
        fluid.global_scope().find_var(name).get_tensor().set(value)
    step = exe.prepare(feed=["x", "y"], fetch_list=[loss])
    got = losses_of(step.run, feeds)
    assert [one.tobytes() for one in got] == [one.tobytes() for one in want]
    assert float(got[0]) > 0 and got[0].shape == (1,)


def test_results_stay_what_they_were():
    """The next run overwrites no array that was returned, small or large."""
    x = layers.data("x", [-1], append_batch_size=False)
    small, large = layers.reduce_sum(x), layers.scale(x, scale=2.0)
    for fetched in ([small], [large], [small, large]):
        step = fluid.Executor().prepare(feed=[x], fetch_list=fetched)
        values = [np.full(3000, i, "float32") for i in range(5)]
        results = [step.run({"x": value}) for value in values]
        for value, result in zip(values, results):
            for var, array in zip(fetched, result):
                np.testing.assert_array_equal(array, value.sum() if var is small else 2 * value)


def test_feeds_of_other_shapes_types_and_layouts():
    x = layers.data("x", [4])
    step = fluid.Executor().prepare(feed=["x"], fetch_list=[layers.scale(x, scale=2.0)])
    for rows in (1, 3, 3, 1, 300, 2):
        value = np.arange(4 * rows, dtype="float32").reshape(rows, 4)
        np.testing.assert_array_equal(step.run({"x": value})[0], 2 * value)
        np.testing.assert_array_equal(step.run({"x": np.asfortranarray(value)})[0], 2 * value)
        np.testing.assert_array_equal(step.run({"x": value.tolist()})[0], 2 * value)


def test_shapes_that_depend_on_values():
    x = layers.data("x", [1], dtype="int64")
    step = fluid.Executor().prepare(feed=["x"], fetch_list=[layers.sequence_mask(x)])
    for lengths in ([1, 2], [1, 2], [3, 1], [2, 2], [2, 0]):
        got = step.run({"x": np.array(lengths).reshape(-1, 1)})[0]
        assert got.reshape(2, max(lengths)).sum(1).tolist() == lengths


def test_sequences():
    x = layers.data("x", [1], lod_level=1)
    step = fluid.Executor().prepare(feed=["x"], fetch_list=[layers.sequence_pool(x, "sum")])
    for lengths in ([2, 1], [1, 2], [3]):
        fed = fluid.create_lod_tensor(np.array([[1], [2], [4]], "float32"), [lengths], fluid.CPUPlace())
        ends = np.cumsum(lengths)
        want = [sum([1, 2, 4][end - length:end]) for length, end in zip(lengths, ends)]
        assert step.run({"x": fed})[0][:, 0].tolist() == want
    with pytest.raises(ValueError, match="sequence offsets"):
        fluid.Executor().prepare(feed=["x"], fetch_list=[layers.scale(x)]).run({"x": fed})
    assert step.run({"x": fed}, return_numpy=False)[0].numpy().tolist() == [[7]]


def test_a_changed_program_or_scope_is_prepared_anew():
    x = layers.data("x", [1])
    y = layers.scale(x, scale=2.0)
    step = fluid.Executor().prepare(feed=["x"], fetch_list=[y])
    one = {"x": np.ones((1, 1), "float32")}
    assert step.run(one)[0].item() == 2
    layers.assign(layers.scale(x, scale=5.0), y)
    assert step.run(one)[0].item() == 5
    fluid.global_scope().erase(["none"])
    assert step.run(one)[0].item() == 5


def test_threads_take_turns():
    exe, loss = regression()
    step, feeds, seen = exe.prepare(feed=["x", "y"], fetch_list=[loss]), batches(4), []

    def work():
        for i in range(50):
            seen.append(float(step.run(feeds[i % 4])[0]))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(seen) == 150 and np.isfinite(seen).all()


def test_mistakes_are_explained():
    exe, loss = regression()
    with pytest.raises(NotFoundError, match="feed 'z' is no variable of the program"):
        exe.prepare(feed=["x", "z"], fetch_list=[loss])
    with pytest.raises(NotFoundError, match="nowhere"):
        exe.prepare(feed=["x", "y"], fetch_list=["nowhere"])
    with pytest.raises(TypeError, match="Executor.prepare: feed must be a list of variables or names, got 'x'"):
        exe.prepare(feed="x", fetch_list=[loss])
    with pytest.raises(TypeError, match="Executor.prepare: program must be a Program, got 3"):
        exe.prepare(3)
    step, feed = exe.prepare(feed=["x", "y"], fetch_list=[loss]), batches(1)[0]
    for wrong in ({"x": feed["x"]}, {**feed, "z": feed["x"]}, {"x": feed["x"], "z": feed["y"]}):
        with pytest.raises(InvalidArgumentError, match=r"prepared with the feeds \['x', 'y'\], got"):
            step.run(wrong)
    with pytest.raises(TypeError, match="feed must be a dict of names to arrays, got \\[1, 2\\]"):
        step.run([1, 2])
    with pytest.raises(ShapeError, match="feed 'x' has the shape"):
        step.run({**feed, "x": feed["x"][0]})
    assert np.isfinite(step.run(feed)[0]).all()
