"""Layers that order, pick, normalize or join tensors: what they compute, what they refuse, and that a saved model of them runs."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers

RANDOM = np.random.default_rng(11)
X = RANDOM.normal(size=(3, 4, 5)).astype("float32")
ROWS = RANDOM.normal(size=(4, 6)).astype("float32")
PICTURE = RANDOM.normal(size=(2, 4, 3, 6)).astype("float32")
TRUTH = RANDOM.random((4, 3)) > 0.5
IDS = RANDOM.integers(0, 1000, (5, 2)).astype("int32")


def data(name, array):
    return layers.data(name, list(array.shape[1:]), dtype=str(array.dtype))


def grouped(x, groups):
    y = x.reshape(x.shape[0], groups, -1).astype("float64")
    return ((y - y.mean(2, keepdims=True)) / np.sqrt(y.var(2, keepdims=True) + 1e-5)).reshape(x.shape)


def neighbours(x, n, k, alpha, beta):
    squares = np.pad(x.astype("float64") ** 2, [(0, 0), ((n - 1) // 2, n - 1 - (n - 1) // 2), (0, 0), (0, 0)])
    total = sum(squares[:, i:i + x.shape[1]] for i in range(n))
    return x * (k + alpha * total) ** -beta


def along(axis, places, x):
    """Return what lies at ``places`` along an axis, mixed of the two nearest elements."""
    return np.apply_along_axis(lambda line: np.interp(places, np.arange(len(line)), line), axis, x)


def nearest(axis, count, x):
    """Return ``count`` elements along an axis whose first and last are those of ``x``."""
    places = np.floor(np.arange(count) * (x.shape[axis] - 1) / (count - 1) + 0.5).astype(int)
    return np.take(x, places, axis)


# name: (layer of a variable, what is fed, what comes out)
CASES = {
    "cumsum": (lambda x: layers.cumsum(x, axis=1, reverse=True), X, lambda x: x[:, ::-1].cumsum(1)[:, ::-1]),
    "cumsum of the last": (lambda x: layers.cumsum(x), X, lambda x: x.cumsum(-1)),
    "reverse": (lambda x: layers.reverse(x, [1, 2]), X, lambda x: x[:, ::-1, ::-1]),
    "argsort": (lambda x: layers.argsort(x, 1)[1], X, lambda x: x.argsort(1, kind="stable")),
    "argsort, sorted": (lambda x: layers.argsort(x)[0], X, lambda x: np.sort(x)),
    "multiplex": (lambda x: layers.multiplex([x, 2.0 * x], layers.assign(np.array([[1], [0], [1]], "int32"))), X,
                  lambda x: x * np.array([2, 1, 2], "float32")[:, None, None]),
    "scatter": (lambda x: layers.scatter(x, layers.assign(np.array([3, 0, 3], "int32")), x[:3] * 0.5, overwrite=False), ROWS,
                lambda x: np.stack([x[1] / 2, x[1], x[2], x[0] / 2 + x[2] / 2])),
    "gather_nd": (lambda x: layers.gather_nd(x, layers.assign(np.array([[2, 3], [0, 1]], "int32"))), X, lambda x: x[[2, 0], [3, 1]]),
    "scatter_nd_add": (lambda x: layers.scatter_nd_add(x, layers.assign(np.array([[1], [1]], "int32")), x[2:] * 0.5), ROWS,
                       lambda x: np.stack([x[0], x[1] + x[2] / 2 + x[3] / 2, x[2], x[3]])),
    "scatter_nd": (lambda x: layers.scatter_nd(layers.assign(np.array([[5], [0], [5], [2]], "int32")), x, [6, 6]), ROWS,
                   lambda x: np.stack([x[1], 0 * x[0], x[3], 0 * x[0], 0 * x[0], x[0] + x[2]])),
    "reduce_all": (lambda x: layers.reduce_all(x, dim=1), TRUTH, lambda x: x.all(1)),
    "reduce_any": (lambda x: layers.reduce_any(x, dim=[0], keep_dim=True), TRUTH, lambda x: x.any(0, keepdims=True)),
    "rank": (lambda x: layers.rank(x), X, lambda x: [3]),
    "linspace": (lambda x: layers.linspace(layers.reduce_min(x), 2.0, 7, "float32"), X, lambda x: np.linspace(x.min(), 2, 7)),
    "image_resize": (lambda x: layers.image_resize(x, [3, 11]), PICTURE,
                     lambda x: along(3, np.linspace(0, 5, 11), x)),
    "resize_bilinear": (lambda x: layers.resize_bilinear(x, scale=2.0, align_corners=False, align_mode=0)[:, :, :, 1:-1], PICTURE,
                        lambda x: along(3, np.arange(0.25, 5, 0.5), along(2, np.arange(6) / 2 - 0.25, x))),
    "resize_nearest": (lambda x: layers.resize_nearest(x, [6, 12], align_corners=False), PICTURE, lambda x: x.repeat(2, 2).repeat(2, 3)),
    "image_resize_short": (lambda x: layers.image_resize_short(x, 6, "NEAREST"), PICTURE, lambda x: nearest(3, 12, nearest(2, 6, x))),
    "grid_sampler": (lambda x: layers.grid_sampler(x, layers.affine_grid(
        layers.assign(np.array([[[1, 0, 0], [0, -1, 0]]] * 2, "float32")), [2, 4, 3, 6])), PICTURE, lambda x: x[:, :, ::-1]),
    "group_norm": (lambda x: layers.group_norm(x, 2, param_attr=False, bias_attr=False), PICTURE, lambda x: grouped(x, 2)),
    "instance_norm": (lambda x: layers.instance_norm(x), PICTURE, lambda x: grouped(x, 4)),
    "lrn": (lambda x: layers.lrn(x, 3, 1.0, 0.5, 0.75), PICTURE, lambda x: neighbours(x, 3, 1.0, 0.5, 0.75)),
    "prelu": (lambda x: layers.prelu(x, "channel"), PICTURE, lambda x: np.where(x > 0, x, x / 4)),
    "fsp_matrix": (lambda x: layers.fsp_matrix(x, x[:, :2]), PICTURE, lambda x: np.einsum("nchw,ndhw->ncd", x, x[:, :2]) / 18),
    "ones_like": (lambda x: layers.ones_like(x), X, np.ones_like),
    "eye": (lambda x: x * layers.eye(4, 5), X, lambda x: x * np.eye(4, 5)),
    "diag": (lambda x: layers.diag(layers.reduce_sum(layers.reduce_sum(x, 2), 0)), X, lambda x: np.diag(x.sum((0, 2)))),
    "size": (lambda x: layers.size(x), X, lambda x: [60]),
    "hash": (lambda x: layers.hash(x, 1000, 3)[:, :, 0] < layers.fill_constant([1], "int64", 1000), IDS, lambda x: np.ones((5, 3), bool)),
}


@pytest.fixture
def exe():
    with fluid.scope_guard(fluid.Scope()), fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield fluid.Executor(fluid.CPUPlace())


@pytest.mark.parametrize("name", CASES)
def test_values(exe, name):
    layer, fed, expected = CASES[name]
    out = layer(data("x", fed))
    exe.run(fluid.default_startup_program())
    value, = exe.run(feed={"x": fed}, fetch_list=[out])
    np.testing.assert_allclose(value, expected(fed), rtol=1e-4, atol=1e-5)


def test_a_model_of_them_is_saved_and_runs(exe, tmp_path):
    feeds = {f"x{i}": fed for i, (_, fed, _) in enumerate(CASES.values())}
    outs = [layer(data(f"x{i}", fed)) for i, (layer, fed, _) in enumerate(CASES.values())]
    outs += [layers.similarity_focus(data("picture", PICTURE), 1, [0, 2]), layers.data_norm(data("rows", ROWS)),
             layers.spectral_norm(layers.create_parameter([4, 6], "float32"), power_iters=3),
             layers.bilinear_tensor_product(data("rows", ROWS), data("rows", ROWS), 3),
             layers.tree_conv(data("rows3", X), data("edges", np.zeros((3, 3, 2), "int32")), 2)]
    feeds |= {"picture": PICTURE, "rows": ROWS, "rows3": X, "edges": np.array([[[1, 2], [1, 3], [3, 4]]] * 3, "int32")}
    exe.run(fluid.default_startup_program())
    program = fluid.default_main_program().clone(for_test=True)
    before = exe.run(program, feed=feeds, fetch_list=outs)
    fluid.io.save_inference_model(str(tmp_path), list(feeds), outs, exe)
    with fluid.scope_guard(fluid.Scope()):
        program, names, fetches = fluid.io.load_inference_model(str(tmp_path), exe)
        for a, b in zip(before, exe.run(program, feed={name: feeds[name] for name in names}, fetch_list=fetches)):
            np.testing.assert_array_equal(a, b)


def test_data_norm_adds_batches_up_while_it_trains(exe):
    out = layers.data_norm(data("x", ROWS), name="norm", param_attr={"batch_size": 2.0, "batch_sum": 1.0, "batch_square": 8.0})
    test = fluid.default_main_program().clone(for_test=True)
    exe.run(fluid.default_startup_program())
    for program in (test, None, test):
        size, total, squares = (fluid.executor.fetch_var(f"norm.batch_{part}") for part in ("size", "sum", "square_sum"))
        value, = exe.run(program, feed={"x": ROWS}, fetch_list=[out])
        np.testing.assert_allclose(value, (ROWS - total / size) * np.sqrt(size / squares), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(size, 6.0, rtol=1e-5)
    np.testing.assert_allclose(total, 1 + ROWS.sum(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(squares, 8 + ((ROWS - 0.5) ** 2 + 1e-5).sum(0), rtol=1e-4)


def test_a_spectral_norm_is_one(exe):
    w = layers.create_parameter([6, 2, 3], "float32", name="w")
    out = layers.spectral_norm(w, dim=1, power_iters=50)
    exe.run(fluid.default_startup_program())
    value, first = exe.run(fetch_list=[out, "w"])
    matrix = value.transpose(1, 0, 2).reshape(2, -1)
    assert abs(np.linalg.svd(matrix)[1][0] - 1) < 1e-4
    np.testing.assert_allclose(value / value[0, 0, 0], first / first[0, 0, 0], rtol=1e-4)


def test_samples_differ_from_run_to_run_but_for_a_seed(exe):
    x = data("x", ROWS)
    free, fixed = layers.sampling_id(x), layers.sampling_id(x, seed=5)
    fed = {"x": np.full((64, 6), 1 / 6, "float32")}
    (a, b), (c, d) = (exe.run(feed=fed, fetch_list=[free, fixed]) for _ in range(2))
    assert (a != c).any() and (b == d).all() and set(a) == set(range(6))


def test_random_numbers_have_the_size_of_the_batch(exe):
    x = data("x", ROWS)
    outs = [layers.uniform_random_batch_size_like(x, [3, -1], output_dim_idx=1, min=2.0, max=3.0),
            layers.gaussian_random_batch_size_like(x, [-1, 50], mean=7.0, std=0.1)]
    uniform, normal = exe.run(feed={"x": ROWS}, fetch_list=outs)
    assert uniform.shape == (3, 4) and normal.shape == (4, 50)
    assert uniform.min() >= 2 and uniform.max() < 3 and abs(normal.mean() - 7) < 0.05


def test_rows_of_a_sparse_gradient(exe):
    ids = layers.data("ids", [1], dtype="int64")
    table = layers.embedding(ids, [9, 2], is_sparse=True, param_attr="table")
    fluid.backward.append_backward(layers.reduce_sum(table))
    grad = fluid.default_main_program().global_block().var("table@GRAD")
    values = layers.get_tensor_from_selected_rows(layers.merge_selected_rows(grad))
    exe.run(fluid.default_startup_program())
    value, = exe.run(feed={"ids": np.array([[4], [1], [4]])}, fetch_list=[values])
    np.testing.assert_array_equal(value, [[1, 1], [2, 2]])


@pytest.mark.parametrize("dim", [None, 0, -1])
def test_weights_of_a_length_and_a_direction(exe, dim):
    attr = fluid.WeightNormParamAttr(dim=dim, name="w", initializer=fluid.initializer.Normal(0.0, 1.0))
    out = layers.fc(data("x", ROWS), 3, param_attr=attr, bias_attr=False)
    loss = layers.mean(layers.square(out))
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe.run(fluid.default_startup_program())
    axes = None if dim is None else 1 if dim == 0 else 0
    for step in range(3):
        v, g = (np.array(fluid.executor.fetch_var(f"w_{part}")).astype("float64") for part in "vg")
        length = np.sqrt((v * v).sum(axes, keepdims=True))
        if step == 0:
            np.testing.assert_allclose(g, length, rtol=1e-5)
        w = v / length * g
        value, = exe.run(test, feed={"x": ROWS}, fetch_list=[out])
        np.testing.assert_allclose(value, ROWS @ w, rtol=1e-4, atol=1e-5)
        exe.run(feed={"x": ROWS}, fetch_list=[loss])


def test_the_size_may_be_fed(exe):
    out = layers.resize_nearest(data("x", PICTURE), [2, 2], actual_shape=layers.data("size", [2], dtype="int32", append_batch_size=False))
    for size in ([3, 3], [5, 1]):
        value, = exe.run(feed={"x": PICTURE, "size": np.array(size, "int32")}, fetch_list=[out])
        assert value.shape == (2, 4, *size)


@pytest.mark.parametrize(("make", "message"), [
    (lambda x: layers.image_resize(x), "image_resize: give out_shape or scale"),
    (lambda x: layers.image_resize(x, [2, 2], resample="CUBIC"), "resample must be 'LINEAR', 'BILINEAR', 'TRILINEAR' or 'NEAREST'"),
    (lambda x: layers.image_resize(x, [2]), "out_shape must be"),
    (lambda x: layers.image_resize_short(layers.data("y", [3, -1, 4]), 4), "with known sides"),
    (lambda x: layers.group_norm(x, 3), "cannot be cut into 3 groups"),
    (lambda x: layers.group_norm(x, 2, data_layout="NHWC"), "data_layout must be 'NCHW'"),
    (lambda x: layers.prelu(x, "some"), "mode must be 'all', 'channel' or 'element'"),
    (lambda x: layers.similarity_focus(x, 0, [0]), "axis must be 1, 2 or 3"),
    (lambda x: layers.similarity_focus(x, 1, []), "indexes must be"),
    (lambda x: layers.bilinear_tensor_product(x, x, 3), "with a known width"),
    (lambda x: layers.multiplex([x], x), "two variables or more"),
    (lambda x: layers.cumsum(x, axis=4), "axis"),
    (lambda x: layers.gather_nd(x, layers.assign(np.zeros([2, 5], "int32"))), r"a line of Index \[2, 5\] has 5 numbers"),
    (lambda x: layers.scatter_nd(layers.assign(np.zeros([2, 1], "int32")), x, [3, 4]), "Updates must be"),
    (lambda x: layers.spectral_norm(x), "a known shape"),
    (lambda x: layers.diag(x), "diagonal must be"),
    (lambda x: layers.fc(x, 2, param_attr=fluid.WeightNormParamAttr(dim=2)), "dim 2, but the weight is"),
])
def test_mistakes(exe, make, message):
    with pytest.raises(ValueError, match=message):
        make(data("x", PICTURE))
