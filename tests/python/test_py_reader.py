"""Readers inside programs: passes, errors of the script's generator, threads that end, replicas and jobs."""

import threading
import traceback

import numpy as np
import pytest
from job_support import SCRIPT, alone, launch, needs_mpi, results

import trireme as fluid
from trireme import core, layers

READERS = SCRIPT.with_name("readers.py")


_others: set[threading.Thread] = set()                 # what other tests of this process have left


@pytest.fixture(autouse=True)
def of_this_test_alone():
    _others.update(threading.enumerate())


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "trireme-reader" and thread not in _others]


def net():
    x, y = layers.data("x", [3]), layers.data("y", [1], dtype="int64")
    return x, y, layers.reduce_sum(x)


def arrays(count=4, size=2):
    for i in range(count):
        yield [np.full((size, 3), i, "float32"), np.full((size, 1), i, "int64")]


def run_pass(exe, reader, fetch, program=None):
    found = []
    reader.start()
    with pytest.raises(core.EOFException, match=r"the pass is over; reset\(\)"):
        while True:
            found.append(float(np.sum(exe.run(program, fetch_list=[fetch])[0])))
    reader.reset()
    return found


# -- passes ----------------------------------------------------------------------------------------


def test_each_run_takes_a_batch_until_the_pass_is_over(exe):
    reader = layers.py_reader(capacity=2, shapes=[[-1, 3], [-1, 1]], dtypes=["float32", "int64"], name="r")
    assert layers.double_buffer(reader) is reader
    x, y = layers.read_file(reader)
    assert (x.name, x.shape, y.dtype) == ("r_slot_0", (None, 3), core.VarType.INT64)
    total = layers.reduce_sum(x)
    reader.decorate_tensor_provider(arrays)
    for _ in range(3):
        assert run_pass(exe, reader, total) == [0, 6, 12, 18]
    assert not threads()


def test_samples_lists_of_samples_and_batches(exe):
    x, y, total = net()
    reader = layers.create_py_reader_by_data(capacity=3, feed_list=[x, y])
    assert [var.name for var in layers.read_file(reader)] == ["x", "y"]
    samples = [([i] * 3, [i]) for i in range(5)]
    reader.decorate_paddle_reader(fluid.batch(lambda: iter(samples), 2))
    assert run_pass(exe, reader, total) == [3, 15, 12]
    reader.decorate_sample_generator(lambda: iter(samples), batch_size=2)
    assert run_pass(exe, reader, total) == [3, 15]
    reader.decorate_batch_generator(lambda: iter([{"x": np.ones((1, 3), "float32"), "y": np.ones((1, 1), "int64")}]))
    assert run_pass(exe, reader, total) == [3]


def test_sequences_come_as_they_are(exe):
    words = layers.data("words", [1], dtype="int64", lod_level=1)
    reader = fluid.io.PyReader([words], capacity=2)
    pooled = layers.sequence_pool(layers.cast(words, "float32"), "sum")
    reader.decorate_sample_list_generator(lambda: iter([[([1, 2],), ([3],)], [([4, 5, 6],)]]))
    assert run_pass(exe, reader, layers.reduce_sum(pooled)) == [6, 15]


def test_a_script_that_feeds_reads_no_batch_of_the_reader(exe):
    x, y, total = net()
    reader = fluid.io.PyReader([x, y], capacity=2)
    test = fluid.default_main_program().clone(for_test=True)
    feed = {"x": np.ones((1, 3), "float32"), "y": np.ones((1, 1), "int64")}
    assert exe.run(test, feed=feed, fetch_list=[total])[0] == 3
    reader.decorate_batch_generator(arrays)
    reader.start()
    assert [float(exe.run(program, fetch_list=[total])[0]) for program in (None, test, None)] == [0, 6, 12]      # one queue for both
    reader.reset()


def test_a_reader_that_is_iterated_over(exe):
    x, y, total = net()
    reader = fluid.io.PyReader(feed_list=[x, y], capacity=2, iterable=True)
    reader.decorate_batch_generator(arrays, places=fluid.CPUPlace())
    for _ in range(2):
        assert [float(exe.run(feed=data, fetch_list=[total])[0]) for data in reader()] == [0, 6, 12, 18]
    lists = fluid.io.PyReader(feed_list=[x, y], capacity=2, iterable=True, return_list=True)
    lists.decorate_batch_generator(arrays, places=fluid.cpu_places(2))
    assert [[place[1][0, 0] for place in data] for data in lists] == [[0, 1], [2, 3]]
    for data in reader():    # noqa: B007 - a batch that outlives its pass
        break
    del data
    assert not threads()


def test_replicas_take_a_batch_each(exe):
    x, y, total = net()
    weight = layers.create_parameter([1], "float32", name="w", default_initializer=fluid.initializer.Constant(1.0))
    loss = layers.mean(layers.elementwise_mul(layers.reduce_sum(x, dim=1, keep_dim=True), weight))
    fluid.optimizer.SGD(0.1).minimize(loss)
    reader = fluid.io.PyReader([x, y], capacity=4)
    reader.decorate_batch_generator(lambda: arrays(3))
    exe.run(fluid.default_startup_program())
    compiled = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss_name=loss.name, places=fluid.cpu_places(2))
    reader.start()
    sums = []
    with pytest.raises(core.EOFException):
        while True:
            sums.append(exe.run(compiled, fetch_list=[total])[0].tolist())
    assert sums == [[0, 6], [12]]
    assert fluid.executor.fetch_var("w") == pytest.approx(1 - 0.1 * 1.5 - 0.1 * 6)
    iterable = fluid.io.PyReader(feed_list=[x, y], capacity=2, iterable=True)
    iterable.decorate_batch_generator(arrays, places=fluid.cpu_places(2))
    reader.reset()
    assert [exe.run(compiled, feed=data, fetch_list=[total])[0].tolist() for data in iterable()] == [[0, 6], [12, 18]]


# -- errors ----------------------------------------------------------------------------------------


def broken():
    yield from arrays(2)
    raise KeyError("the script's own mistake")


def test_an_error_of_the_generator_has_its_own_traceback(exe):
    x, y, total = net()
    reader = fluid.io.PyReader([x, y], capacity=8)
    reader.decorate_batch_generator(broken)
    for _ in range(2):
        reader.start()
        exe.run(fetch_list=[total])
        exe.run(fetch_list=[total])
        for _ in range(2):                             # as often as it is asked
            with pytest.raises(KeyError, match="the script's own mistake") as caught:
                exe.run(fetch_list=[total])
            assert "broken" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        reader.reset()
    loop = fluid.io.PyReader([x, y], capacity=8, iterable=True)
    loop.decorate_batch_generator(broken)
    with pytest.raises(KeyError, match="the script's own mistake"):
        for _ in loop():
            pass
    assert not threads()


def test_batches_that_do_not_fit_are_named(exe):
    x, y, total = net()
    reader = fluid.io.PyReader([x, y], capacity=2)
    for batch, error, text in (([np.ones((1, 3), "float32")], ValueError, "a batch has 1 arrays, the reader has 2 variables: x, y"),
                               ({"x": 1}, ValueError, r"a batch has \['x'\], the reader's variables are \['x', 'y'\]"),
                               ([np.ones((1, 4, 1), "float32"), np.ones((1, 1), "int64")], core.ShapeError, "feed 'x' has the shape"),
                               ([np.ones((1, 3)), np.ones((1, 1), "int64")], core.DTypeError, r"x.astype\('float32'\)")):
        reader.decorate_batch_generator(lambda batch=batch: iter([batch]))
        reader.start()
        with pytest.raises(error, match=text):
            exe.run(fetch_list=[total])
        reader.reset()


def test_calls_out_of_order_say_what_to_do(exe):
    x, y, total = net()
    reader = fluid.io.PyReader([x, y], capacity=2)
    with pytest.raises(core.InvalidArgumentError, match="start.. needs data: give a generator"):
        reader.start()
    reader.decorate_batch_generator(arrays)
    with pytest.raises(core.InvalidArgumentError, match=r"was not started: call start\(\) before each pass"):
        exe.run(fetch_list=[total])
    reader.start()
    with pytest.raises(core.InvalidArgumentError, match=r"a pass is running already; reset\(\) ends it"):
        reader.start()
    with pytest.raises(core.InvalidArgumentError, match=r"it is running|the reader is running; call reset\(\) first"):
        reader.decorate_batch_generator(arrays)
    with pytest.raises(core.InvalidArgumentError, match="iterable=True"):
        reader()
    reader.reset()
    loop = fluid.io.PyReader([x, y], capacity=2, iterable=True)
    with pytest.raises(core.InvalidArgumentError, match="iterated over"):
        loop.start()
    with pytest.raises(core.InvalidArgumentError, match="an iteration needs data"):
        loop()
    with pytest.raises(TypeError, match="a function without arguments"):
        loop.decorate_batch_generator([1])
    with pytest.raises(TypeError, match="feed_list must be a list of variables"):
        fluid.io.PyReader(capacity=2)
    with pytest.raises(core.InvalidArgumentError, match="capacity=0"):
        fluid.io.PyReader([x, y], capacity=0)
    with pytest.raises(core.InvalidArgumentError, match="1 shapes, 2 dtypes"):
        layers.py_reader(2, [[-1, 3]], ["float32", "int64"])


def test_a_pass_ends_in_its_middle_and_a_stuck_generator_keeps_nobody(exe, monkeypatch):
    x, y, total = net()
    release = threading.Event()

    def stuck():
        yield from arrays(1)
        release.wait()

    monkeypatch.setattr("trireme.reader.ahead._PATIENCE", 0.2)
    reader = fluid.io.PyReader([x, y], capacity=2)
    reader.decorate_batch_generator(stuck)
    reader.start()
    exe.run(fetch_list=[total])
    stuck_ones = threads()
    reader.reset()
    assert threads() == stuck_ones                     # reset() has come back, and the generator is still stuck
    reader.decorate_batch_generator(lambda: arrays(1000))
    reader.start()
    assert exe.run(fetch_list=[total])[0] == 0
    reader.reset()
    release.set()
    for thread in threads():
        thread.join()
    assert not threads()


# -- files and random numbers ----------------------------------------------------------------------


def write(path, count=7):
    x, words = layers.data("x", [2]), layers.data("words", [1], dtype="int64", lod_level=1)
    feeder = fluid.DataFeeder([x, words], fluid.CPUPlace())
    samples = [([i, i + 0.5], list(range(i % 3 + 1))) for i in range(count)]
    return fluid.recordio_writer.convert_reader_to_recordio_file(str(path), fluid.batch(lambda: iter(samples), 2), feeder,
                                                                 max_num_records=3)


def test_files_are_read_record_by_record(exe, tmp_path):
    assert write(tmp_path / "a.recordio") == 4 and write(tmp_path / "b.recordio", 2) == 1
    files = [str(tmp_path / name) for name in ("a.recordio", "b.recordio")]
    reader = layers.open_files(files, [[-1, 2], [-1, 1]], [0, 1], ["float32", "int64"], pass_num=2)
    x, words = layers.read_file(layers.double_buffer(reader))
    total, sums = layers.reduce_sum(x), layers.sequence_pool(layers.cast(words, "float32"), "sum")
    for _ in range(2):
        found = []
        with pytest.raises(core.EOFException):
            while True:
                value, counts = exe.run(fetch_list=[total, sums])
                found.append((float(value[0]), counts.ravel().tolist()))
        assert found == [(3, [0, 1]), (11, [3, 0]), (19, [1, 3]), (12.5, [0]), (3, [0, 1])] * 2
        reader.reset()
    raw = list(fluid.reader.creator.recordio(files)())
    assert len(raw) == 5 and raw[0][0].tolist() == [[0, 0.5], [1, 1.5]] and raw[0][1].recursive_sequence_lengths() == [[1, 2]]


def test_records_are_batched_and_shuffled(exe, tmp_path):
    write(tmp_path / "a.recordio", 12)
    reader = layers.batch(layers.shuffle(layers.open_files(str(tmp_path / "a.recordio"), [[-1, 2], [-1, 1]], [0, 1], ["float32", "int64"]),
                                         100), 4)
    x, words = layers.read_file(reader)
    rows, first = layers.shape(x), layers.slice(x, [1], [0], [1])
    passes = []
    for _ in range(2):
        found = []
        with pytest.raises(core.EOFException):
            while True:
                found.append(exe.run(fetch_list=[first])[0].ravel().tolist())
        passes.append(found)
        reader.reset()
    assert [len(batch) for batch in passes[0]] == [8, 4] and sorted(sum(passes[0], [])) == list(range(12)) and passes[0] == passes[1]
    assert sum(passes[0], []) != list(range(12)) and rows is not None


def test_several_files_of_records(tmp_path):
    x = layers.data("x", [1])
    feeder = fluid.DataFeeder([x], fluid.CPUPlace())
    reader = fluid.batch(lambda: iter([([i],) for i in range(5)]), 1)
    counts = fluid.recordio_writer.convert_reader_to_recordio_files(str(tmp_path / "n.recordio"), 2, reader, feeder)
    assert counts == [2, 2, 1] and sorted(path.name for path in tmp_path.iterdir()) == [f"n-{i:05d}.recordio" for i in range(3)]
    with pytest.raises(ValueError, match="ends with '.recordio'"):
        fluid.recordio_writer.convert_reader_to_recordio_files(str(tmp_path / "n"), 2, reader, feeder)
    with pytest.raises(ValueError, match=r"feed_order has \['z'\]"):
        fluid.recordio_writer.convert_reader_to_recordio_file(str(tmp_path / "m"), reader, feeder, feed_order=["z"])
    assert not (tmp_path / "m").exists()


def test_damaged_files_are_refused(tmp_path):
    from trireme.reader import recordio

    path = tmp_path / "a.recordio"
    write(path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for damaged, text in ((data[:-1], "cut off"), (data[:10], "10 bytes of 20"), (b"x" + data[1:], "no chunk"),
                          (data[:30] + b"\xff" + data[31:], "checksum"), (data[:12] + b"\1" + data[13:], "compressed by Snappy")):
        path.write_bytes(damaged)
        with pytest.raises(core.EnforceNotMet, match=text):
            list(recordio.read(path))
    import struct
    import zlib
    magic, records, _, _, size = struct.unpack("<5I", data[:20])
    body = bytearray(data[20:20 + size])
    for _ in range(300):                               # after a checksum that fits
        damaged = bytearray(body)
        damaged[rng.integers(len(body))] = rng.integers(256)
        path.write_bytes(struct.pack("<5I", magic, records, zlib.crc32(damaged), 0, size) + damaged)
        try:
            list(recordio.read(path))
        except core.EnforceNotMet:
            pass
    with pytest.raises(core.FileError, match="cannot open"):
        list(recordio.read(tmp_path / "none"))


def test_random_numbers_without_data(exe):
    reader = layers.random_data_generator(low=2.0, high=3.0, shapes=[[4, 2], [4, 1]], lod_levels=[0, 0])
    x, y = layers.read_file(reader)
    first, second = (exe.run(fetch_list=[x, y])[0] for _ in range(2))
    assert first.shape == (4, 2) and ((first >= 2) & (first < 3)).all() and (first != second).any()
    reader.reset()
    np.testing.assert_array_equal(exe.run(fetch_list=[x])[0], first)
    reader.reset()
    with pytest.raises(core.InvalidArgumentError, match="low must be below high"):
        layers.random_data_generator(1, 1, [[2]])
    with pytest.raises(core.InvalidArgumentError, match="every dimension"):
        layers.random_data_generator(0, 1, [[-1, 2]])


# -- text files by Fluid's names -------------------------------------------------------------------

PROTO = '''name: "MultiSlotDataFeed"
batch_size: 2
multi_slot_desc {   # what a line has
  slots { name: "words" type: "uint64" is_dense: false is_used: true }
  slots { name: "unused" type: "float" is_dense: false is_used: false }
  slots { name: "label" type: "float" is_dense: true is_used: true }
}
'''


def test_text_files_are_trained_over_by_fluids_executor(exe, tmp_path, capsys):
    (tmp_path / "feed.proto").write_text(PROTO)
    (tmp_path / "a.txt").write_text("".join(f"2 {i % 4} {i % 3} 1 0.5 1 {i % 2}\n" for i in range(40)))
    words, label = layers.data("words", [1], dtype="int64", lod_level=1), layers.data("label", [1])
    guess = layers.fc(layers.sequence_pool(layers.embedding(words, [4, 3]), "sum"), 1)
    loss = layers.mean(layers.square_error_cost(guess, label))
    fluid.optimizer.SGD(0.05).minimize(loss)
    exe.run(fluid.default_startup_program())
    before = fluid.executor.fetch_var("fc_0.w_0")
    desc = fluid.DataFeedDesc(str(tmp_path / "feed.proto"))
    desc.set_batch_size(4)
    assert desc.desc().splitlines()[1] == "batch_size: 4"
    fluid.AsyncExecutor(fluid.CPUPlace()).run(fluid.default_main_program(), desc, [str(tmp_path / "a.txt")], thread_num=2, fetch=[loss],
                                              debug=True)
    assert "10 steps, 40 samples" in capsys.readouterr().out
    assert (fluid.executor.fetch_var("fc_0.w_0") != before).any()
    with pytest.raises(core.InvalidArgumentError, match="no slot 'word'; did you mean 'words'"):
        desc.set_use_slots(["word"])
    with pytest.raises(TypeError, match="data_feed must be a DataFeedDesc"):
        fluid.AsyncExecutor().run(None, PROTO, [], 1, [])
    for text, message in (("name: ", "|slots"), ("name { ", "'}' is missing"), ('batch_size: 2', "no slots"),
                          ("?", "line 1: '\\?' is not understood"),
                          ('multi_slot_desc { slots { name: "a" type: "text" } }', "a name and a type"),
                          ('name: "Other"', "MultiSlotDataFeed is possible")):
        (tmp_path / "bad.proto").write_text(text)
        with pytest.raises(core.FormatError, match=message):
            fluid.DataFeedDesc(str(tmp_path / "bad.proto"))


def test_names_of_fluid():
    assert fluid.dataset.InMemoryDataset is fluid.feeds.InMemoryDataset and fluid.dataset.DatasetFactory().create_dataset()
    assert fluid.io.batch is fluid.batch and fluid.io.shuffle is fluid.reader.shuffle


# -- jobs ------------------------------------------------------------------------------------------


@needs_mpi
@pytest.mark.mpi
def test_readers_feed_the_trainers_of_a_job(tmp_path):
    alone("--out", tmp_path / "alone.npz", script=READERS)
    launch(2, 2, "--out", tmp_path / "job.npz", script=READERS)
    want, got = results(tmp_path / "alone.npz"), results(tmp_path / "job.npz")
    np.testing.assert_allclose(got["weight"], want["weight"], rtol=1e-4, atol=1e-6)
