"""Readers: order, errors, early ends, and threads that are gone afterwards."""

import gc
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from job_support import LIMIT

import trireme as fluid
from trireme import reader


def numbers(n):
    return lambda: iter(range(n))


def failing(n):
    def samples():
        yield from range(n)
        raise OSError("the disk is gone")

    return samples


def own_threads():
    return {thread for thread in threading.enumerate() if thread.name.startswith("trireme-")}


def await_end_of_threads(others=frozenset()):
    gc.collect()
    end = time.monotonic() + LIMIT
    while own_threads() - others and time.monotonic() < end:
        time.sleep(0.01)
    assert own_threads() <= others


@pytest.fixture(autouse=True)
def no_thread_is_left():
    others = own_threads()                             # what other tests of this process have left
    yield
    await_end_of_threads(others)


def test_batches():
    assert list(reader.batch(numbers(7), 3)()) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(reader.batch(numbers(7), 3, drop_last=True)()) == [[0, 1, 2], [3, 4, 5]]
    assert list(fluid.batch(numbers(0), 3)()) == []


def test_shuffle_keeps_all_and_moves_within_its_buffer():
    out = list(reader.shuffle(numbers(100), 10, seed=3)())
    assert sorted(out) == list(range(100)) and out != list(range(100))
    assert all(sorted(out[i:i + 10]) == list(range(i, i + 10)) for i in range(0, 100, 10))
    assert out == list(reader.shuffle(numbers(100), 10, seed=3)())


def test_a_reader_can_be_read_again():
    for make in (lambda: reader.batch(numbers(4), 2), lambda: reader.map_readers(abs, numbers(4)),
                 lambda: reader.chain(numbers(2), numbers(3)), lambda: reader.firstn(numbers(9), 4),
                 lambda: reader.buffered(numbers(5), 2), lambda: reader.cache(numbers(5)),
                 lambda: reader.compose(numbers(3), numbers(3)),
                 lambda: reader.xmap_readers(abs, numbers(9), 2, 2, order=True)):
        one = make()
        assert list(one()) == list(one()) != []


def test_compose_lines_readers_up():
    pairs = reader.compose(lambda: iter([(1, 2), (3, 4)]), numbers(2))
    assert list(pairs()) == [(1, 2, 0), (3, 4, 1)]
    with pytest.raises(reader.ComposeNotAligned, match=r"readers \[0\] of 2 ended after 2 samples, others go on"):
        list(reader.compose(numbers(2), numbers(3))())
    assert len(list(reader.compose(numbers(2), numbers(3), check_alignment=False)())) == 2


def test_cache_reads_once():
    reads = []

    def source():
        reads.append(1)
        return iter(range(3))

    cached = reader.cache(source)
    assert reads == [] and list(cached()) == list(cached()) == [0, 1, 2] and reads == [1]


@pytest.mark.parametrize("order", [True, False])
@pytest.mark.parametrize("threads", [1, 3])
def test_xmap_maps_all(order, threads):
    out = list(reader.xmap_readers(lambda x: x * x, numbers(200), threads, 5, order)())
    assert (out if order else sorted(out)) == [x * x for x in range(200)]


@pytest.mark.parametrize("make", [
    lambda r: reader.buffered(r, 2),
    lambda r: reader.xmap_readers(lambda x: x, r, 2, 2),
    lambda r: reader.xmap_readers(lambda x: x, r, 2, 2, order=True),
])
def test_an_error_of_the_reader_comes_out(make):
    with pytest.raises(OSError, match="the disk is gone"):
        for _ in make(failing(5))():
            pass


def test_an_error_of_the_mapper_comes_out():
    with pytest.raises(ZeroDivisionError):
        list(reader.xmap_readers(lambda x: 1 // (x - 50), numbers(100), 3, 4)())


@pytest.mark.parametrize("make", [
    lambda r: reader.buffered(r, 2),
    lambda r: reader.xmap_readers(lambda x: x, r, 3, 2),
])
def test_stopping_early_ends_the_threads(make):
    others = own_threads()
    for i, _ in enumerate(make(numbers(10**6))()):
        if i == 3:
            break
    gc.collect()
    assert own_threads() <= others


def test_sequences_become_lod_tensors():
    words, label = fluid.layers.data("words", [1], dtype="int64", lod_level=1), fluid.layers.data("label", [1])
    feed = fluid.DataFeeder([words, label]).feed([([1, 2, 3], 0.0), ([4], 1.0)])
    assert feed["words"].recursive_sequence_lengths() == [[3, 1]] and feed["words"].shape() == [4, 1]
    assert feed["label"].tolist() == [[0.0], [1.0]] and feed["label"].dtype == np.float32


def available(load):
    """Call ``load``, or skip when the data set is not on this machine (and cannot be fetched)."""
    try:
        return load()
    except (fluid.dataset.common.DataSetError, ImportError) as error:
        pytest.skip(str(error))


def test_uci_housing():
    rows = available(lambda: list(fluid.dataset.uci_housing.train()()))
    test = list(fluid.dataset.uci_housing.test()())
    assert (len(rows), len(test)) == (404, 102)
    x, y = (np.array(column) for column in zip(*(rows + test)))
    assert x.shape == (506, 13) and abs(x.mean(axis=0)).max() < 1e-12 and np.allclose(np.ptp(x, axis=0), 1)
    assert abs(y.mean() - 22.5328) < 1e-4
    # Least squares on the first 404 rows, as is known for this set.
    a = np.hstack([x, np.ones((506, 1))])
    w = np.linalg.lstsq(a[:404], y[:404], rcond=None)[0]
    errors = (a @ w - y) ** 2
    assert abs(errors[:404].mean() - 22.778) < 1e-3 and abs(errors[404:].mean() - 32.800) < 1e-3


def test_mnist():
    images, labels = available(lambda: fluid.dataset.mnist.arrays("t10k"))
    assert images.shape == (10000, 784) and images.dtype == np.float32 and labels.dtype == np.int64
    assert images.min() == -1 and images.max() == 1 and abs((images.mean() + 1) * 127.5 - 33.791) < 1e-2
    image, label = next(fluid.dataset.mnist.test()())
    assert np.array_equal(image, images[0]) and label == 7


def test_digits():
    images, labels = available(fluid.dataset.digits.arrays)
    assert images.shape == (1797, 64) and set(labels) == set(range(10))
    assert len(list(fluid.dataset.digits.train()())) == 1437


def test_adult():
    dense, ids, labels = available(lambda: fluid.dataset.adult.arrays("train"))
    assert dense.shape == (32561, 6) and ids.shape == (32561, 8) and labels.sum() == 7841
    assert abs(dense.mean(axis=0)).max() < 1e-3 and ids.min() >= 1
    _, ids, labels = fluid.dataset.adult.arrays("test")
    assert len(labels) == 16281 and labels.sum() == 3846 and ids.min() >= 0
    sizes = {name: len(words) for name, words in fluid.dataset.adult.vocabularies().items()}
    assert sizes["sex"] == 2 and sizes["education"] == 16


def test_tinyshakespeare():
    plays = fluid.dataset.tinyshakespeare
    ids, held_out = available(plays.arrays)
    assert (len(ids), len(held_out)) == (1003854, 111540) and ids.dtype == np.int64
    assert len(plays.characters()) == 65 and set(ids) == set(range(65))
    assert plays.decode(ids[:14]) == "First Citizen:" and np.array_equal(plays.encode("First Citizen:"), ids[:14])
    assert len(plays.encode("")) == 0
    with pytest.raises(ValueError, match="the character '#' is not one of"):
        plays.encode("#1")
    windows = list(plays.test(100)())
    assert len(windows) == 1115
    assert np.array_equal(np.concatenate([x for x, _ in windows]), held_out[:111500])
    assert np.array_equal(np.concatenate([y for _, y in windows]), held_out[1:111501])
    assert np.array_equal(next(plays.train(100)())[0], ids[:100])
    starts = [x[0] for x, _ in plays.test(100, step=7)()]
    assert np.array_equal(starts, held_out[:111440:7])
    with pytest.raises(ValueError, match="at least 1, got 0"):
        plays.train(0)


def test_a_data_set_that_is_not_there_says_where_it_was_looked_for(monkeypatch, tmp_path):
    common = fluid.dataset.common
    monkeypatch.setenv("TRIREME_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    url = (tmp_path / "origin.txt").as_uri()
    with pytest.raises(common.DataSetError, match="(?s)x.txt is not in .*home/set and .*cache.*cannot be fetched"):
        common.read("set", "x.txt", url, "0")
    (tmp_path / "origin.txt").write_bytes(b"hello")
    digest = common.sha256_of(b"hello")
    with pytest.raises(common.DataSetError, match="gave a file with the SHA-256"):
        common.read("set", "x.txt", url, "0" * 64)
    assert common.read("set", "x.txt", url, digest) == b"hello"
    (tmp_path / "origin.txt").unlink()
    assert common.read("set", "x.txt", url, digest) == b"hello"           # from the cache
    (tmp_path / "cache/trireme/data/set/x.txt").write_bytes(b"hullo")
    with pytest.raises(common.DataSetError, match="is not the file that is expected"):
        common.read("set", "x.txt", url, digest)


# -- of other processes ----------------------------------------------------------------------------


def test_readers_run_in_processes_of_their_own():
    import os

    samples = list(fluid.reader.multiprocess_reader([lambda: iter([os.getpid()]), lambda: ((i, np.ones(2)) for i in range(50))],
                                                    queue_size=3)())
    pids = [one for one in samples if isinstance(one, int)]
    assert len(samples) == 51 and pids != [os.getpid()]
    assert [one[0] for one in samples if not isinstance(one, int)] == list(range(50))


def test_a_reader_in_a_process_that_fails_or_dies_ends_the_iteration():
    import os

    def fails():
        yield 1
        raise OSError("no such line")

    def dies():
        yield 1
        os._exit(3)

    with pytest.raises(RuntimeError, match="a reader failed with OSError: no such line"):
        list(fluid.reader.multiprocess_reader([fails])())
    with pytest.raises(RuntimeError, match="ended with exit code 3"):
        list(fluid.reader.multiprocess_reader([dies])())
    with pytest.raises(RuntimeError, match="a process ended with exit code 0 before its reader was done"):
        list(fluid.reader.multiprocess_reader([lambda: os._exit(0)])())
    with pytest.raises(TypeError, match="readers must be a list of readers"):
        fluid.reader.multiprocess_reader([])


def test_the_processes_of_readers_end_with_an_iteration_that_stops_early():
    import multiprocessing

    reading = fluid.io.multiprocess_reader([lambda: iter(range(10 ** 9))], queue_size=2)()
    assert next(reading) == 0
    reading.close()
    assert not multiprocessing.active_children()


def test_the_processes_of_readers_end_although_the_script_catches_the_signal_that_asks_for_an_end():
    script = """
        import multiprocessing, signal, sys, trireme as fluid
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        reading = fluid.io.multiprocess_reader([lambda: iter(range(10 ** 9))], queue_size=2)()
        assert next(reading) == 0
        reading.close()
        assert not multiprocessing.active_children()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=LIMIT)


def test_lines_come_out_of_a_command(tmp_path):
    import gzip

    (tmp_path / "lines").write_text("one\ntwo\nthr\u00e9\u00e9\n")
    (tmp_path / "lines.gz").write_bytes(gzip.compress(b"four\nfive"))
    assert list(fluid.reader.PipeReader(f"cat {tmp_path / 'lines'}", bufsize=3).get_line()) == ["one", "two", "thr\u00e9\u00e9"]
    assert list(fluid.reader.PipeReader(f"cat {tmp_path / 'lines.gz'}", file_type="gzip").get_line()) == ["four", "five"]
    with pytest.raises(RuntimeError, match="ended with exit code 1"):
        list(fluid.reader.PipeReader("cat /no/such/file").get_line())
    with pytest.raises(ValueError, match="'plain' or 'gzip'"):
        fluid.reader.PipeReader("cat x", file_type="zip")


def test_a_reader_that_repeats_its_first_sample():
    calls = []
    fake = fluid.reader.Fake()(lambda: iter([calls.append(1) or 5, 6]), 3)
    assert list(fake()) == list(fake()) == [5, 5, 5] and len(calls) == 1
