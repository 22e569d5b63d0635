"""A reader may fill the same arrays again for its next item: whatever holds items keeps copies. And what a feed cannot hold is refused."""

import numpy as np
import pytest

import trireme as fluid

COUNT = 7


def samples():
    buffer, label = np.zeros(3, "float32"), [0]
    for i in range(COUNT):
        buffer[:], label[0] = i, i
        yield buffer, label


def feeds():
    x, tensor = np.zeros((2, 3), "float32"), fluid.LoDTensor()
    for i in range(COUNT):
        x[:] = i
        tensor.set(np.full((1, 1), i), fluid.CPUPlace())
        yield {"x": x, "y": tensor}


def firsts(items):
    return [(float(x[0]), label[0]) for x, label in items]


WANT = [(float(i), i) for i in range(COUNT)]


@pytest.mark.parametrize("hold", [
    lambda reader: fluid.reader.buffered(reader, 4),
    lambda reader: fluid.reader.cache(reader),
    lambda reader: fluid.reader.shuffle(reader, 5, seed=3),
    lambda reader: fluid.reader.xmap_readers(lambda sample: sample, reader, 2, 4, order=True),
    lambda reader: fluid.reader.multiprocess_reader([reader], queue_size=4),
    lambda reader: lambda: (sample for batch in fluid.batch(reader, 3)() for sample in batch),
], ids=["buffered", "cache", "shuffle", "xmap_readers", "multiprocess_reader", "batch"])
def test_a_reader_of_readers_holds_copies(hold):
    assert sorted(firsts(list(hold(samples)()))) == WANT


@pytest.mark.parametrize("iterable", [False, True])
def test_a_py_reader_holds_copies(iterable):
    x, y = fluid.layers.data("x", [3]), fluid.layers.data("y", [1], dtype="int64")
    reader = fluid.io.PyReader([x, y], capacity=4, iterable=iterable)
    reader.decorate_batch_generator(feeds)
    exe, seen = fluid.Executor(), []
    if iterable:
        seen = [(float(np.asarray(feed["x"])[0, 0]), int(np.asarray(feed["y"])[0, 0])) for feed, in list(reader())]
    else:
        reader.start()
        with pytest.raises(fluid.core.EOFException):
            while True:
                got = exe.run(fetch_list=[x, y])
                seen.append((float(got[0][0, 0]), int(got[1][0, 0])))
    assert seen == WANT


def test_prefetched_holds_copies():
    got = list(fluid.distributed.prefetched(feeds()))
    assert [(float(feed["x"][0, 0]), int(np.asarray(feed["y"])[0, 0])) for feed in got] == WANT
    pairs = fluid.distributed.prefetched(((i, feed) for i, feed in enumerate(feeds())), lambda item: item[1])
    assert [(number, float(feed["x"][0, 0])) for number, feed in pairs] == [(i, float(i)) for i in range(COUNT)]


def fed(dtype, value):
    x = fluid.layers.data("x", [1], dtype=dtype)
    return fluid.Executor().run(feed={"x": value}, fetch_list=[x])[0].tolist()


@pytest.mark.parametrize("dtype, value, want", [
    ("int64", [[1.0]], [[1]]), ("int64", [[True]], [[1]]), ("int64", [["3"]], [[3]]), ("float32", [[1]], [[1.0]]),
    ("float32", [["1.5"]], [[1.5]]),
    ("bool", [[1]], [[True]]), ("int64", [[-(2 ** 63)]], [[-(2 ** 63)]]), ("uint8", [[255]], [[255]]),
    ("float32", [[float("inf")]], [[float("inf")]]),
])
def test_a_feed_of_a_list_takes_what_its_type_holds(dtype, value, want):
    assert fed(dtype, value) == want


@pytest.mark.parametrize("dtype, value, what", [
    ("int64", [[0.7]], "0.7"), ("int64", [[float("nan")]], "nan"), ("int32", [[2 ** 40]], "1099511627776"),
    ("int64", [[2 ** 70]], "1180591620717411303424"),
    ("uint8", [[300]], "300"), ("uint8", [[-1]], "-1"), ("bool", [[2]], "2"), ("bool", [[0.5]], "0.5"), ("float32", [[None]], "None"),
    ("int64", [[None]], "None"), ("float32", [[1e39]], "1e+39"), ("float32", [[1j]], "1j"),
])
def test_a_feed_of_a_list_refuses_what_its_type_does_not_hold(dtype, value, what):
    with pytest.raises(fluid.errors.DTypeError) as caught:
        fed(dtype, value)
    assert what in str(caught.value) and f"feed 'x' is {dtype}, which cannot hold" in str(caught.value)


def test_labels_with_fractions_are_refused_wherever_they_come_from(tmp_path):
    x, y = fluid.layers.data("x", [2]), fluid.layers.data("y", [1], dtype="int64")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(x, 3, act="softmax"), y))
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    path = tmp_path / "f.csv"
    path.write_text("1,2,1.7\n")
    tensor = fluid.LoDTensor()
    tensor.set(np.array([[1.7]]), fluid.CPUPlace())
    row = np.ones((1, 2), "float32")
    for call in (lambda: exe.run(feed={"x": row, "y": np.array([[1.7]], "float32")}, fetch_list=[loss]),
                 lambda: exe.run(feed={"x": row, "y": tensor}, fetch_list=[loss]),
                 lambda: fluid.DataFeeder([x, y]).feed([([1, 2], 1.7)]),
                 lambda: exe.infer_from_dataset(dataset=fluid.Dataset(path, "csv", slots=[x, y]), fetch_list=[loss]),
                 lambda: exe.infer_from_dataset(dataset=fluid.Dataset(path, "csv", slots=[x, fluid.Slot("y", "float32", [-1, 1])]),
                                                fetch_list=[loss])):
        with pytest.raises((fluid.errors.EnforceNotMet, ValueError)) as caught:
            call()
        assert "int64" in str(caught.value) or "expected an integer, got '1.7'" in str(caught.value)


@pytest.mark.parametrize("dtype, value", [("int64", 1.7), ("int64", 2 ** 24 + 1), ("uint8", 300), ("int32", 2 ** 40), ("float32", 1e39)])
def test_a_constant_that_would_become_another_number_is_refused(dtype, value):
    with pytest.raises(fluid.errors.DTypeError, match="cannot hold by this operator"):
        fluid.layers.fill_constant([1], dtype, value)
    with pytest.raises(fluid.errors.DTypeError, match="cannot hold by this operator"):
        fluid.layers.fill_constant_batch_size_like(fluid.layers.data("x", [1]), [-1, 1], dtype, value)
    with pytest.raises(fluid.errors.DTypeError, match="cannot hold by this operator"):
        fluid.layers.create_global_var([1], value, dtype)
