"""Metrics of sequences: chunks and edit distances, as operators and over many batches."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers


def column(values, *lengths, dtype="int64"):
    return fluid.create_lod_tensor(np.array(values, dtype).reshape(-1, 1), list(lengths), fluid.CPUPlace())


def two(dtype="int64"):
    return (layers.data(name, [1], dtype=dtype, lod_level=1) for name in ("found", "real"))


def test_edit_distances_of_ragged_sequences(exe):
    found, real = two()
    plain, count = layers.edit_distance(found, real, normalized=False)
    share, _ = layers.edit_distance(found, real)
    feed = {"found": column([1, 2, 3, 4, 4], [3, 0, 2]), "real": column([1, 3, 3, 5, 4], [3, 1, 1])}
    got = exe.run(feed=feed, fetch_list=[plain, share, count])
    np.testing.assert_array_equal(got[0], [[1], [1], [1]])
    np.testing.assert_allclose(got[1], [[1 / 3], [1], [1]], rtol=1e-6)
    assert got[2].tolist() == [3] and got[2].dtype == np.int64 and got[0].dtype == np.float32


def test_ignored_tokens_count_on_neither_side(exe):
    found, real = two("int32")
    distance, _ = layers.edit_distance(found, real, normalized=True, ignored_tokens=[0, 9])
    feed = {"found": column([0, 1, 2, 9, 3], [4, 1], dtype="int32"), "real": column([1, 0, 0, 2, 9, 4], [4, 2], dtype="int32")}
    np.testing.assert_array_equal(exe.run(feed=feed, fetch_list=[distance])[0], [[0], [1]])


def test_a_normalized_distance_wants_references_that_are_not_empty(exe):
    found, real = two()
    distance, _ = layers.edit_distance(found, real, ignored_tokens=[0])
    with pytest.raises(ValueError, match="sequence 1 of Refs .* is empty"):
        exe.run(feed={"found": column([1, 1], [1, 1]), "real": column([1, 0], [1, 1])}, fetch_list=[distance])


@pytest.mark.parametrize("scheme, found, real, expected", [
    ("IOB", [0, 1, 6, 4, 5, 5, 6, 2], [0, 1, 6, 4, 4, 5, 6, 2], (3, 4, 2)),
    ("IOE", [0, 1, 6, 5, 5, 2, 3, 6], [0, 1, 6, 4, 5, 2, 3, 6], (4, 3, 2)),
    ("IOBES", [0, 2, 12, 7, 8, 9, 10, 12], [0, 2, 12, 7, 8, 9, 9, 10], (3, 3, 2)),
    ("plain", [0, 0, 3, 1, 1, 2, 2, 3], [0, 0, 3, 1, 1, 1, 2, 2], (3, 3, 1)),
])
def test_chunks_of_each_scheme(exe, scheme, found, real, expected):
    fetches = layers.chunk_eval(*two(), scheme, num_chunk_types=3)
    feed = {"found": column(found, [8]), "real": column(real, [8])}
    precision, recall, f1, *counts = exe.run(feed=feed, fetch_list=list(fetches))
    assert tuple(int(one[0]) for one in counts) == expected
    a, b, right = expected
    np.testing.assert_allclose([precision[0], recall[0], f1[0]], [right / a, right / b, 2 * right / (a + b)], rtol=1e-6)
    assert all(one.dtype == np.int64 for one in counts) and precision.dtype == np.float32


def test_excluded_types_are_not_counted(exe):
    counts = layers.chunk_eval(*two(), "IOB", num_chunk_types=3, excluded_chunk_types=[2])[3:]
    feed = {"found": column([0, 1, 6, 4, 5, 5, 6, 2], [5, 3]), "real": column([0, 1, 6, 4, 4, 5, 6, 2], [5, 3])}
    assert [int(one[0]) for one in exe.run(feed=feed, fetch_list=list(counts))] == [2, 2, 2]


def test_wrong_arguments_of_chunk_eval_are_refused(exe, line):
    found, real = two()
    with pytest.raises(ValueError, match="7 of excluded_chunk_types is none of the 3 types") as info:
        layers.chunk_eval(found, real, "IOB", num_chunk_types=3, excluded_chunk_types=[7])
    assert line(-1) in str(info.value)
    precision = layers.chunk_eval(found, real, "IOB", num_chunk_types=3)[0]
    with pytest.raises(fluid.core.RangeError, match="7 in row 1 of 'real' must be in 0 .. 6"):
        exe.run(feed={"found": column([0, 1], [2]), "real": column([0, 7], [2])}, fetch_list=[precision])


def test_chunks_over_batches_are_those_of_all_at_once(exe, rng):
    counts = layers.chunk_eval(*two(), "IOB", num_chunk_types=3)
    rows = [rng.integers(0, 7, size=(2, 20)) for _ in range(3)]
    metric = fluid.metrics.ChunkEvaluator()
    for found, real in rows:
        metric.update(*exe.run(feed={"found": column(found, [20]), "real": column(real, [20])}, fetch_list=list(counts[3:])))
    found, real = np.concatenate(rows, axis=1)
    whole = exe.run(feed={"found": column(found, [20] * 3), "real": column(real, [20] * 3)}, fetch_list=list(counts[:3]))
    np.testing.assert_allclose(metric.eval(), np.ravel(whole), rtol=1e-6)
    assert metric.num_label_chunks > metric.num_correct_chunks > 0


def test_metrics_without_data():
    assert fluid.metrics.ChunkEvaluator().eval() == (0, 0, 0)
    with pytest.raises(ValueError, match="there was no data"):
        fluid.metrics.EditDistance().eval()
    with pytest.raises(ValueError, match="3 correct chunks of 2 found"):
        fluid.metrics.ChunkEvaluator().update(2, 4, 3)
    with pytest.raises(ValueError, match="2 distances, but seq_num is 3"):
        fluid.metrics.EditDistance().update(np.zeros((2, 1)), 3)
