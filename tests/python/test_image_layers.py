"""Layers on images and tensors: what they compute, what they refuse, and that a saved model of them runs."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers

RANDOM = np.random.default_rng(3)


def image(*shape):
    return RANDOM.normal(size=(2, *shape)).astype("float32")


def data(name, array):
    return layers.data(name, list(array.shape[1:]))


def windows(x, rows, columns, take):
    """Return ``take`` of adaptive windows."""
    def cuts(n, extent):
        return [slice(i * extent // n, -(-(i + 1) * extent // n)) for i in range(n)]
    return np.stack([np.stack([take(x[:, :, r, c], axis=(2, 3)) for c in cuts(columns, x.shape[3])], -1)
                     for r in cuts(rows, x.shape[2])], -2)


def spread(x, w, stride):
    """Return a transposed convolution without padding."""
    n, _, height, width = x.shape
    out = np.zeros((n, w.shape[1], (height - 1) * stride + w.shape[2], (width - 1) * stride + w.shape[3]))
    for i in range(height):
        for j in range(width):
            out[:, :, i * stride:i * stride + w.shape[2], j * stride:j * stride + w.shape[3]] += np.einsum(
                "nc,cohw->nohw", x[:, :, i, j], w)
    return out


X = image(4, 6, 5)
VIDEO = image(2, 4, 4, 6)
FRAMES = RANDOM.normal(size=(6, 8, 2, 2)).astype("float32")
PICTURE = image(8, 4, 4)


def shifted(x, frames):
    x = x.reshape(-1, frames, *x.shape[1:])
    out = np.zeros_like(x)
    out[:, 1:, :2], out[:, :-1, 2:4], out[:, :, 4:] = x[:, :-1, :2], x[:, 1:, 2:4], x[:, :, 4:]
    return out.reshape(-1, *x.shape[2:])


# name: (layer of a variable, what is fed, what comes out)
CASES = {
    "adaptive_pool2d": (lambda x: layers.adaptive_pool2d(x, [4, 3], "avg"), X, lambda x: windows(x, 4, 3, np.mean)),
    "adaptive_pool2d with index": (lambda x: layers.adaptive_pool2d(x, 2, require_index=True)[0], X,
                                   lambda x: windows(x, 2, 2, np.max)),
    "adaptive_pool3d": (lambda x: layers.adaptive_pool3d(x, 2, "avg"), VIDEO,
                        lambda x: x.reshape(2, 2, 2, 2, 2, 2, 2, 3).mean(axis=(3, 5, 7))),
    "pool3d": (lambda x: layers.pool3d(x, 2, "max", 2), VIDEO, lambda x: x.reshape(2, 2, 2, 2, 2, 2, 3, 2).max(axis=(3, 5, 7))),
    "pool3d of all": (lambda x: layers.pool3d(x, global_pooling=True, pool_type="avg"), VIDEO,
                      lambda x: x.mean(axis=(2, 3, 4), keepdims=True)),
    "maxout": (lambda x: layers.maxout(x, 2), X, lambda x: x.reshape(2, 2, 2, 6, 5).max(axis=2)),
    "pad2d": (lambda x: layers.pad2d(x, [1, 2, 0, 3], "reflect"), X, lambda x: np.pad(x, [(0, 0), (0, 0), (1, 2), (0, 3)], "reflect")),
    "pad2d, channels last": (lambda x: layers.pad2d(x, [1, 0, 2, 0], "edge", data_format="NHWC"), X,
                             lambda x: np.pad(x, [(0, 0), (1, 0), (2, 0), (0, 0)], "edge")),
    "pixel_shuffle": (lambda x: layers.pixel_shuffle(x, 2), X,
                      lambda x: x.reshape(2, 1, 2, 2, 6, 5).transpose(0, 1, 4, 2, 5, 3).reshape(2, 1, 12, 10)),
    "shuffle_channel": (lambda x: layers.shuffle_channel(x, 2), X,
                        lambda x: x.reshape(2, 2, 2, 6, 5).swapaxes(1, 2).reshape(2, 4, 6, 5)),
    "space_to_depth": (lambda x: layers.space_to_depth(x, 2), PICTURE,
                       lambda x: x.reshape(2, 2, 2, 2, 4, 4).transpose(0, 3, 4, 1, 5, 2).reshape(2, 32, 2, 2)),
    "temporal_shift": (lambda x: layers.temporal_shift(x, 3), FRAMES, lambda x: shifted(x, 3)),
    "pad": (lambda x: layers.pad(x, [0, 1, 0, 0, 2, 0, 0, 3], 0.5), X,
            lambda x: np.pad(x, [(0, 1), (0, 0), (2, 0), (0, 3)], constant_values=0.5)),
    "crop": (lambda x: layers.crop(x, [-1, 2, 3, 5], [0, 1, 2, 0]), X, lambda x: x[:, 1:3, 2:5]),
}


@pytest.fixture
def exe():
    with fluid.scope_guard(fluid.Scope()), fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield fluid.Executor(fluid.CPUPlace())


@pytest.mark.parametrize("name", CASES)
def test_values(exe, name):
    layer, fed, expected = CASES[name]
    out = layer(data("x", fed))
    value, = exe.run(feed={"x": fed}, fetch_list=[out])
    np.testing.assert_allclose(value, expected(fed), rtol=1e-5, atol=1e-6)
    assert tuple(-1 if n is None else n for n in out.shape)[1:] == value.shape[1:]


def test_a_model_of_them_is_saved_and_runs(exe, tmp_path):
    """All of them at once, with a convolution of each kind: what the loaded model gives is what it gave."""
    feeds = {f"x{i}": fed for i, (_, fed, _) in enumerate(CASES.values())}
    outs = [layer(data(f"x{i}", fed)) for i, (layer, fed, _) in enumerate(CASES.values())]
    outs += [layers.conv3d(data("video", VIDEO), 3, 3, padding=1, act="relu"),
             layers.conv2d_transpose(data("x", X), 3, filter_size=3, stride=2, groups=1),
             layers.conv2d_transpose(data("x", X), 4, filter_size=3, groups=4),
             layers.conv3d_transpose(data("video", VIDEO), 3, filter_size=2, stride=2)]
    feeds |= {"x": X, "video": VIDEO}
    exe.run(fluid.default_startup_program())
    before = exe.run(feed=feeds, fetch_list=outs)
    fluid.io.save_inference_model(str(tmp_path), list(feeds), outs, exe)
    with fluid.scope_guard(fluid.Scope()):
        program, names, fetches = fluid.io.load_inference_model(str(tmp_path), exe)
        for a, b in zip(before, exe.run(program, feed={name: feeds[name] for name in names}, fetch_list=fetches)):
            np.testing.assert_array_equal(a, b)


def test_a_transposed_convolution(exe):
    x = data("x", X)
    out = layers.conv2d_transpose(x, 3, filter_size=[3, 2], stride=2, param_attr=fluid.ParamAttr(name="w"),
                                  bias_attr=fluid.ParamAttr(name="b", initializer=fluid.initializer.Constant(0.5)))
    exe.run(fluid.default_startup_program())
    value, w = exe.run(feed={"x": X}, fetch_list=[out, "w"])
    assert w.shape == (4, 3, 3, 2)
    np.testing.assert_allclose(value, spread(X, w, 2) + 0.5, rtol=1e-4, atol=1e-5)


def test_the_filter_follows_from_the_output_size(exe):
    x = data("x", X)
    out = layers.conv2d_transpose(x, 3, output_size=[13, 12], stride=2, padding=1)
    assert out.shape == (None, 3, 13, 12)
    assert fluid.default_main_program().all_parameters()[0].shape == (4, 3, 5, 6)
    with pytest.raises(ValueError, match="conv2d_transpose: give filter_size"):
        layers.conv2d_transpose(x, 3)


def test_layers_on_images_train(exe):
    """An encoder and a decoder that learn to give back what they get."""
    x = layers.data("x", [1, 8, 8])
    code = layers.adaptive_pool2d(layers.conv2d(x, 8, 3, padding=1, act="relu"), 4)
    back = layers.conv2d_transpose(code, 8, filter_size=4, stride=2, padding=1, act="relu")
    back = layers.conv2d(back, 1, 3, padding=1)
    loss = layers.reduce_mean(layers.square(back - x))
    fluid.optimizer.Adam(0.01).minimize(loss)
    exe.run(fluid.default_startup_program())
    fed = np.random.default_rng(0).normal(size=(4, 1, 8, 8)).astype("float32")
    losses = [exe.run(feed={"x": fed}, fetch_list=[loss])[0].item() for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]


def test_random_crops_differ_from_run_to_run(exe):
    x = layers.data("x", [8, 8])
    fed = np.arange(64, dtype="float32").reshape(1, 8, 8).repeat(4, axis=0)
    for seed in (None, 7):
        out = layers.random_crop(x, [3, 3], seed=seed)
        exe.run(fluid.default_startup_program())
        runs = [exe.run(feed={"x": fed}, fetch_list=[out])[0] for _ in range(3)]
        assert runs[0].shape == (4, 3, 3)
        assert not (runs[0] == runs[1]).all() and not (runs[1] == runs[2]).all()
        for box in runs[0]:
            np.testing.assert_array_equal(box - box[0, 0], np.arange(3)[None] + 8 * np.arange(3)[:, None])


def test_pads_that_are_fed(exe):
    out = layers.pad2d(data("x", X), layers.data("pads", [4], dtype="int32", append_batch_size=False), "constant", 2.0)
    for pads in ([1, 0, 2, 0], [0, 3, 0, 1]):
        value, = exe.run(feed={"x": X, "pads": np.array(pads, "int32")}, fetch_list=[out])
        np.testing.assert_array_equal(value, np.pad(X, [(0, 0), (0, 0), pads[:2], pads[2:]], constant_values=2.0))


def test_crops_like_another_variable(exe):
    small = image(3, 4, 2)
    out = layers.crop(data("x", X), layers.data("y", [3, 4, 2]), layers.data("at", [4], dtype="int32", append_batch_size=False))
    value, = exe.run(feed={"x": X, "y": small, "at": np.array([0, 1, 2, 3], "int32")}, fetch_list=[out])
    np.testing.assert_array_equal(value, X[:, 1:4, 2:6, 3:5])


def test_crops_what_is_behind_a_place_that_is_fed(exe):
    out = layers.crop(data("x", X), [len(X), -1, 2, -1], layers.data("at", [4], dtype="int32", append_batch_size=False))
    for at in ([0, 1, 2, 3], [0, 0, 1, 2]):
        value, = exe.run(feed={"x": X, "at": np.array(at, "int32")}, fetch_list=[out])
        np.testing.assert_array_equal(value, X[:, at[1]:, at[2]:at[2] + 2, at[3]:])


@pytest.mark.parametrize(("make", "message"), [
    (lambda x: layers.conv3d(x, 3, 3), "conv3d: input must be"),
    (lambda x: layers.conv2d_transpose(x, 3, filter_size=3, groups=2), "cannot be cut into 2 groups"),
    (lambda x: layers.conv2d_transpose(x, 3, filter_size=[3]), "filter_size must be an int or 2 of them"),
    (lambda x: layers.pool3d(x, 2, "sum"), "pool_type must be 'max' or 'avg'"),
    (lambda x: layers.pool3d(x), "pool3d: give pool_size"),
    (lambda x: layers.adaptive_pool2d(x, 2, "avg", require_index=True), "a mean has no index"),
    (lambda x: layers.crop(x), "crop: shape must be"),
    (lambda x: layers.pixel_shuffle(x, 3), "must be a multiple of 9"),
    (lambda x: layers.maxout(x, 3), "cannot be cut into groups of 3"),
    (lambda x: layers.pad2d(x, [1, 2]), "four numbers"),
])
def test_mistakes(exe, make, message):
    with pytest.raises(ValueError, match=message):
        make(data("x", X))
