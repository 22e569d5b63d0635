"""What scripts of Fluid give operators: other types, ranks and shapes than the obvious ones."""

import numpy as np
import pytest

import trireme as fluid
from trireme.errors import TriremeError

L = fluid.layers
IMAGE = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)


def data(name, shape, **how):
    var = L.data(name, shape, append_batch_size=False, **how)
    var.stop_gradient = False
    return var


def made(type, inputs, attrs):
    out = fluid.default_main_program().global_block().create_var(name="out", dtype="float32")
    fluid.default_main_program().global_block().append_op(type=type, inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
    return out


def run(feed, *fetches):
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    return exe.run(feed=feed, fetch_list=list(fetches))


@pytest.mark.parametrize("resize", [L.resize_nearest, L.resize_bilinear])
def test_images_of_bytes_are_resized_as_floats_are_and_cut_off(resize):
    image = np.random.default_rng(0).integers(0, 256, (2, 3, 5, 7)).astype("uint8")
    got, want = run({"x": image, "y": image.astype("float32")}, resize(data("x", [-1, 3, 5, 7], dtype="uint8"), [9, 4]),
                    resize(data("y", [-1, 3, 5, 7]), [9, 4]))
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, np.floor(want))


def test_the_paddings_of_pad2d_are_an_input_alone():
    x, paddings = data("x", [1, 1, 4, 4]), data("paddings", [4], dtype="int32")
    out = made("pad2d", {"X": [x], "Paddings": [paddings]}, {"paddings": [], "mode": "constant", "pad_value": 0.5})
    grad, = fluid.backward.gradients(L.reduce_sum(out), [x])
    got, slope = run({"x": IMAGE, "paddings": np.int32([1, 0, 2, 1])}, out, grad)
    np.testing.assert_array_equal(got, np.pad(IMAGE, [(0, 0), (0, 0), (1, 0), (2, 1)], constant_values=0.5))
    np.testing.assert_array_equal(slope, np.ones_like(IMAGE))


def test_the_true_size_of_a_single_image_does_not_count_for_im2sequence():
    y = data("y", [-1, 2])
    out = L.im2sequence(data("x", [-1, 1, 4, 4]), 2, 2, 0, y, 1)
    exe = fluid.Executor()
    for images, rows in ((1, 4), (2, 4)):
        feed = {"x": np.concatenate([IMAGE] * images), "y": np.float32([[2, 4]] * images)}
        assert exe.run(feed=feed, fetch_list=[out], return_numpy=False)[0].shape() == [rows, 4]


@pytest.mark.parametrize("shape", [[3, 2], [3, 2, 1], [3, 2, 1, 1], [3, 1, 2]])
def test_ids_of_any_rank_are_looked_up_and_summed(shape):
    ids = fluid.create_lod_tensor(np.arange(6).reshape(shape), [[2, 1]])
    table = np.arange(20, dtype="float32").reshape(10, 2)
    weights = L.create_parameter([10, 2], "float32", "table")
    out = made("fused_embedding_seq_pool", {"W": [weights], "Ids": [L.data("ids", shape[1:], dtype="int64", lod_level=1)]},
               {"combiner": "sum"})
    got, = fluid.Executor().run(feed={"ids": ids, "table": table}, fetch_list=[out])
    rows = table[np.arange(6)].reshape(3, 4)
    np.testing.assert_array_equal(got, [rows[0] + rows[1], rows[2]])


def test_a_distribution_that_the_sampler_does_not_draw_from_is_not_looked_at():
    cost = L.nce(data("x", [2, 3]), data("y", [2, 1], dtype="int64"), 5, custom_dist=[0.2] * 5, num_neg_samples=2)
    assert run({"x": np.ones((2, 3), "float32"), "y": np.ones((2, 1), "int64")}, cost)[0].shape == (2, 1)


def test_the_shapes_that_are_fed_count():
    x, y = L.data("x", [2, 4]), L.data("y", [3, 4])
    out = L.elementwise_add(x, y)
    exe = fluid.Executor()
    assert exe.run(feed={"x": np.ones((2, 3, 4), "float32"), "y": np.ones((2, 3, 4), "float32")}, fetch_list=[out])[0].shape == (2, 3, 4)
    with pytest.raises(TriremeError, match="Y's dimension 1 must be 2"):
        exe.run(feed={"x": np.ones((2, 2, 4), "float32"), "y": np.ones((2, 3, 4), "float32")}, fetch_list=[out])


def test_labels_that_are_declared_as_floats_are_fed_as_numbers():
    x, label, word = L.data("x", [3]), L.data("label", [1]), L.data("word", [1])
    cost = L.cross_entropy(L.softmax(x), label)
    hits, rows = L.accuracy(L.softmax(x), label), L.embedding(word, [5, 2])
    numbers = np.int64([[2], [0]])
    got = run({"x": np.zeros((2, 3), "float32"), "label": numbers, "word": numbers}, cost, hits, rows)
    np.testing.assert_allclose(got[0], np.full((2, 1), np.log(3)), rtol=1e-6)
    assert got[2].shape == (2, 2)
    with pytest.raises(TriremeError, match="int64"):
        run({"x": np.zeros((2, 3), "float32"), "label": np.float32(numbers), "word": numbers}, cost)


def test_soft_labels_and_numbers_that_others_read_stay_floats():
    x, soft, shared = L.data("x", [3]), L.data("soft", [3]), L.data("shared", [1])
    L.cross_entropy(L.softmax(x), soft, soft_label=True)
    L.scale(shared, 2.0)
    assert soft.dtype == fluid.core.VarDesc.VarType.FP32
    with pytest.raises(TriremeError, match="int64"):
        L.cross_entropy(L.softmax(x), shared)
    assert shared.dtype == fluid.core.VarDesc.VarType.FP32


@pytest.mark.parametrize("name, harmless, other", [("padding_algorithm", "EXPLICIT", "SAME"), ("keepdims", False, True),
                                                   ("Scale_out", 1.0, 0.5)])
def test_an_attribute_of_a_later_version_that_changes_the_result_is_refused(name, harmless, other, tmp_path):
    out = L.pool2d(data("x", [1, 1, 4, 4]), 2, "max", 2)
    for value in (harmless, other):
        program = fluid.default_main_program().clone()
        program.global_block().ops[0].desc.set_attr(name, value)
        if value == harmless:
            assert fluid.Executor().run(program, feed={"x": IMAGE}, fetch_list=[out.name])[0].shape == (1, 1, 2, 2)
        else:
            with pytest.raises(TriremeError, match=f"pool2d: attribute '{name}', which a later version of Fluid has, is"):
                fluid.Executor().run(program, feed={"x": IMAGE}, fetch_list=[out.name])
