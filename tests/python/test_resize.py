"""Lines, images and volumes in another size, against NumPy: values, gradients, and sizes that are fed."""

import numpy as np
import pytest

import trireme as fluid

layers = fluid.layers
METHODS = {"linear": [5], "bilinear": [3, 4], "nearest": [3, 4], "bicubic": [3, 5], "trilinear": [2, 3, 4]}


def keys(d):
    return 1.25 * d**3 - 2.25 * d**2 + 1 if d <= 1 else -0.75 * d**3 + 3.75 * d**2 - 6 * d + 3 if d < 2 else 0


def matrix(method, m, n, corners, mode):
    """Return [n, m]: what each old element counts for in each new one."""
    step = 0 if n == 1 else (m - 1) / (n - 1) if corners else m / n
    at_halves = not corners and (method == "bicubic" or (method != "nearest" and mode == 0))
    weights = np.zeros((n, m))
    for k in range(n):
        s = (k + 0.5) * step - 0.5 if at_halves else k * step
        if method == "nearest":
            weights[k, int(np.floor(s + 0.5 * corners + 1e-9))] = 1
            continue
        s = s if method == "bicubic" else max(s, 0)
        for i in range(-3, m + 3):                     # beyond an end its last element stands
            weights[k, min(max(i, 0), m - 1)] += keys(abs(s - i)) if method == "bicubic" else max(0, 1 - abs(s - i))
    return weights


def resized(x, method, sizes, corners, mode, back=False):
    for axis, n in enumerate(sizes, start=2):
        weights = matrix(method, x.shape[axis] if not back else back[axis - 2], n, corners, mode)
        x = np.moveaxis(np.tensordot(weights.T if back else weights, x, (1, axis)), 0, axis)
    return x


def operator(type, inputs, dtype, **attrs):
    block = fluid.default_main_program().global_block()
    out = block.create_var(name=fluid.unique_name.generate("out"), dtype=dtype)
    block.append_op(type=type, inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
    return out


@pytest.fixture(autouse=True)
def fresh():
    with fluid.scope_guard(fluid.Scope()), fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield


def data(x, name="x"):
    var = layers.data(name, list(x.shape), dtype=str(x.dtype), append_batch_size=False)
    var.stop_gradient = x.dtype.kind != "f"
    return var


@pytest.mark.parametrize("form", ["", "_v2"])
@pytest.mark.parametrize("method", METHODS)
def test_values_and_gradients_are_those_of_numpy(method, form):
    extents = METHODS[method]
    x = np.random.default_rng(0).normal(size=[2, 3, *extents])
    fed, outs, wanted, d = data(x), [], [], []
    for corners, mode in ((True, 1), (False, 1), (False, 0)):
        for sizes in ([7, 5, 6], [2, 1, 3], [1, 8, 2]):
            sizes = sizes[:len(extents)]
            given = dict(zip(("out_w", "out_h", "out_d"), reversed(sizes)))
            outs.append(operator(f"{method}_interp{form}", {"X": [fed]}, "float64", align_corners=corners, align_mode=mode,
                                 interp_method=method, **{"out_h": -1, "out_w": -1, **given}))
            wanted.append(resized(x, method, sizes, corners, mode))
            d.append((np.random.default_rng(len(outs)).normal(size=wanted[-1].shape), sizes, corners, mode))
    weights = [data(each, f"d{i}") for i, (each, *_) in enumerate(d)]
    gradients = [fluid.gradients([out], [fed], [weight])[0] for out, weight in zip(outs, weights)]
    got = fluid.Executor().run(feed={"x": x, **{f"d{i}": each for i, (each, *_) in enumerate(d)}}, fetch_list=[*outs, *gradients])
    for value, expected in zip(got, wanted):
        np.testing.assert_allclose(value, expected, atol=1e-12)
    for value, (each, sizes, corners, mode) in zip(got[len(outs):], d):
        np.testing.assert_allclose(value, resized(each, method, sizes, corners, mode, back=extents), atol=1e-12)


def test_sizes_are_fed_as_tensors():
    x = np.random.default_rng(1).normal(size=[1, 2, 4, 5]).astype("float32")
    fed = data(x)
    three, scale = layers.fill_constant([1], "int32", 3), layers.fill_constant([1], "float32", 1.5)
    outs = [layers.resize_bilinear(fed, [three, 7]), layers.resize_nearest(fed, scale=scale),
            layers.image_resize(fed, layers.assign(np.array([3, 7], "int32"))),
            operator("bicubic_interp_v2", {"X": [fed], "Scale": [layers.assign(np.array([1.5, 0.5], "float32"))]}, "float32",
                     align_corners=False),
            layers.image_resize(fed, [three, 2], actual_shape=layers.assign(np.array([3, 7], "int32")))]
    got = fluid.Executor().run(feed={"x": x}, fetch_list=outs)
    assert [value.shape[2:] for value in got] == [(3, 7), (6, 7), (3, 7), (6, 2), (3, 7)]
    for value in (got[0], got[2], got[4]):
        np.testing.assert_allclose(value, resized(x, "bilinear", [3, 7], True, 1), atol=1e-5)
    np.testing.assert_allclose(got[1], resized(x, "nearest", [6, 7], True, 1))
    with pytest.raises(fluid.errors.TriremeError, match="SizeTensor 'none' is 0 for dimension 3"):
        bad = operator("bilinear_interp",
                       {"X": [fed],
                        "SizeTensor": [three, layers.fill_constant([1], "int32", 0, out=layers.create_tensor("int32", name="none"))]},
                       "float32", out_h=0, out_w=0)
        fluid.Executor().run(feed={"x": x}, fetch_list=[bad])


def test_lines_and_volumes_are_resized_by_layers():
    line, volume = (np.random.default_rng(2).normal(size=[1, 2, *extents]).astype("float32") for extents in ([4], [2, 3, 4]))
    outs = [layers.resize_linear(data(line, "line"), [7]), layers.resize_trilinear(data(volume, "volume"), scale=2.0, align_corners=False,
                                                                                   align_mode=0),
            layers.image_resize(data(line, "another"), scale=2, resample="LINEAR", data_format="NCW")]
    got = fluid.Executor().run(feed={"line": line, "volume": volume, "another": line}, fetch_list=outs)
    np.testing.assert_allclose(got[0], resized(line, "linear", [7], True, 1), atol=1e-5)
    np.testing.assert_allclose(got[1], resized(volume, "trilinear", [4, 6, 8], False, 0), atol=1e-5)
    np.testing.assert_allclose(got[2], resized(line, "linear", [8], True, 1), atol=1e-5)
    with pytest.raises(ValueError, match="must be 'NCDHW', got 'NDHWC'"):
        layers.resize_trilinear(data(volume, "last"), [1, 2, 3], data_format="NDHWC")


def test_images_of_bytes_stay_within_a_byte():
    image = np.array([[0, 255, 0, 255, 255, 0]], "uint8").reshape(1, 1, 1, 6).repeat(6, 2)
    out = operator("bicubic_interp", {"X": [data(image)]}, "uint8", out_h=11, out_w=13, align_corners=False)
    value, = fluid.Executor().run(feed={"x": image}, fetch_list=[out])
    assert np.abs(value.astype(int) - np.clip(resized(image.astype(float), "bicubic", [11, 13], False, 1), 0, 255)).max() <= 1


def test_one_is_chosen_of_two_and_gradients_follow():
    rng = np.random.default_rng(3)
    x, y, d, flags = rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), rng.random((4, 3)) < 0.5
    out = operator("where", {"Condition": [data(flags, "flags")], "X": [data(x)], "Y": [data(y, "y")]}, "float64")
    block = fluid.default_main_program().global_block()
    dx, dy = fluid.gradients([out], [block.var("x"), block.var("y")], [data(d, "d")])
    got = fluid.Executor().run(feed={"flags": flags, "x": x, "y": y, "d": d}, fetch_list=[out, dx, dy])
    for value, expected in zip(got, (np.where(flags, x, y), np.where(flags, d, 0), np.where(flags, 0, d))):
        np.testing.assert_array_equal(value, expected)


def test_a_tensor_becomes_as_large_as_another():
    x = np.arange(6.0).reshape(2, 1, 3)
    small, like = data(x), layers.data("like", [-1, 4, 6], dtype="float64", append_batch_size=False)
    tiled = layers.expand_as(small, like)
    wide = operator("expand_as_v2", {"X": [small], "target_tensor": [layers.fill_constant([2, 2, 4, 3], "float32", 0.0)]}, "float64")
    dx, = fluid.gradients([tiled, wide], [small])
    got = fluid.Executor().run(feed={"x": x, "like": np.zeros((4, 4, 6))}, fetch_list=[tiled, wide, dx])
    np.testing.assert_array_equal(got[0], np.tile(x, (2, 4, 2)))
    np.testing.assert_array_equal(got[1], np.broadcast_to(x, (2, 2, 4, 3)))
    np.testing.assert_array_equal(got[2], np.full_like(x, 16 + 8))
