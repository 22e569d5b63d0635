"""Layers compute what their documentation says, against NumPy."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers


def softmax(a, axis=-1):
    e = np.exp(a - a.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def erf(a):
    from math import erf
    return np.vectorize(erf)(a)


UNARY = {
    "abs": abs, "acos": np.arccos, "asin": np.arcsin, "atan": np.arctan, "ceil": np.ceil, "cos": np.cos, "exp": np.exp,
    "floor": np.floor, "sign": np.sign, "sin": np.sin, "square": np.square, "tanh": np.tanh, "sigmoid": sigmoid,
    "brelu": lambda a: np.clip(a, 0, 24), "relu": lambda a: np.maximum(a, 0), "relu6": lambda a: np.clip(a, 0, 6),
    "erf": erf, "elu": lambda a: np.where(a > 0, a, np.exp(a) - 1), "gelu": lambda a: a * (1 + erf(a / np.sqrt(2))) / 2,
    "hard_shrink": lambda a: np.where(abs(a) > 0.5, a, 0), "hard_sigmoid": lambda a: np.clip(0.2 * a + 0.5, 0, 1),
    "leaky_relu": lambda a: np.where(a > 0, a, 0.02 * a), "logsigmoid": lambda a: np.log(sigmoid(a)),
    "reciprocal": lambda a: 1 / a, "soft_relu": lambda a: np.log(1 + np.exp(a)), "round": np.round,
    "softplus": lambda a: np.log(1 + np.exp(a)), "softsign": lambda a: a / (1 + abs(a)),
    "swish": lambda a: a * sigmoid(a), "tanh_shrink": lambda a: a - np.tanh(a),
    "softshrink": lambda a: np.sign(a) * np.maximum(abs(a) - 0.5, 0),
    "selu": lambda a: 1.0507009873554805 * np.where(a > 0, a, 1.6732632423543772 * (np.exp(a) - 1)),
    "stanh": lambda a: 1.7159 * np.tanh(2 * a / 3), "thresholded_relu": lambda a: np.where(a > 1, a, 0),
}
POSITIVE = {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a), "pow": lambda a: a}


def test_every_activation_is_listed():
    assert {*UNARY, *POSITIVE, "softmax"} == set(layers.ops.activations)


@pytest.mark.parametrize("name", [*UNARY, *POSITIVE])
def test_element_functions(name, exe, rng):
    a = rng.uniform(-0.95, 0.95, (4, 33)).astype("float32")
    a = abs(a) + 0.1 if name in POSITIVE else a
    y = getattr(layers, name)(layers.data("x", [33]))
    got, = exe.run(feed={"x": a}, fetch_list=[y])
    want = (UNARY.get(name) or POSITIVE[name])(a.astype(np.float64))
    np.testing.assert_allclose(got, want, rtol=3e-6, atol=1e-6)


def test_options_of_element_functions(run, rng):
    a = rng.uniform(-3, 3, (2, 5)).astype("float32")
    x = layers.data("x", [5])
    got = run({"x": a}, [layers.leaky_relu(x, alpha=0.3), layers.elu(x, 0.5), layers.pow(x, factor=2.0),
                         layers.brelu(x, -1.0, 1.0), layers.softshrink(x, alpha=1.0), layers.relu(x, name="named")])
    wants = [np.where(a > 0, a, 0.3 * a), np.where(a > 0, a, 0.5 * (np.exp(a) - 1)), a * a, np.clip(a, -1, 1),
             np.sign(a) * np.maximum(abs(a) - 1, 0), np.maximum(a, 0)]
    for one, want in zip(got, wants):
        np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-6)
    assert fluid.default_main_program().global_block().has_var("named.tmp_0")


def value(name):
    return fluid.fetch_var(name).astype(np.float64)


def test_fc(run, rng):
    a = rng.standard_normal((5, 2, 3)).astype("float32")
    x = layers.data("x", [2, 3])
    flat, rows = layers.fc(x, 4, act="relu"), layers.fc(x, 4, num_flatten_dims=2, bias_attr=False)
    assert rows.shape == (None, 2, 4)
    got, got_rows = run({"x": a}, [flat, rows])
    want = np.maximum(a.reshape(5, 6) @ value("fc_0.w_0") + value("fc_0.b_0"), 0)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got_rows, a @ value("fc_1.w_0"), rtol=1e-4, atol=1e-6)


def test_fc_of_several_inputs(run, rng):
    a, b = (rng.standard_normal((5, n)).astype("float32") for n in (3, 7))
    y = layers.fc([layers.data("a", [3]), layers.data("b", [7])], 2, act="tanh")
    got, = run({"a": a, "b": b}, [y])
    want = np.tanh(a @ value("fc_0.w_0") + b @ value("fc_0.w_1") + value("fc_0.b_0"))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_fc_as_the_design_documents_call_it():
    data = layers.data("x", [56])
    hd = layers.fc_layer(input=data, size=56, with_bias=True, activation="sigmoid")
    assert hd.op.type == "sigmoid"
    assert layers.fc_layer(data, 3, with_bias=False).op.type == "mul"
    assert fluid.layer.fc(data, 4, act="relu").op.type == "relu"
    params = [p.name for p in fluid.default_main_program().all_parameters()]
    assert params == ["fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_2.w_0", "fc_2.b_0"]


def test_operators_compose_as_functions(run):
    x = layers.data("x", [3])
    w = layers.create_parameter([3, 2], "float32", name="w")
    b = layers.create_parameter([2], "float32", name="b", is_bias=True)
    y = fluid.operator.add(fluid.operator.mul(x, w), b)
    z = fluid.operator.create_operator("mul", input=[x, w], output=layers.create_tensor("float32", name="out"))
    a = np.ones((2, 3), "float32")
    got, same = run({"x": a}, [y, z])
    assert z.name == "out" and z.shape == (None, 2)
    np.testing.assert_allclose(got, a @ value("w"), rtol=1e-6)
    assert np.array_equal(got, same)


def test_generated_functions_document_themselves():
    doc = fluid.operator.pool2d.__doc__
    for word in ("Inputs:", "X: ", "Outputs:", "Attributes:", "pooling_type (STRING, required, one of", "default"):
        assert word in doc, word
    assert "mul" in dir(fluid.operator) and fluid.operator.mul is fluid.operator.mul


def test_embedding(run):
    ids = layers.data("ids", [1], dtype="int64")
    table = layers.embedding(ids, [6, 2], padding_idx=-1)
    got, = run({"ids": np.array([[0], [5], [3], [0]])}, [table])
    w = value("embedding_0.w_0")
    assert np.array_equal(got, np.stack([w[0], np.zeros(2), w[3], w[0]]))


def test_one_table_for_two_inputs():
    a, b = (layers.data(name, [1], dtype="int64") for name in "ab")
    for ids in (a, b):
        layers.embedding(ids, [6, 2], param_attr="shared")
    assert [p.name for p in fluid.default_main_program().all_parameters()] == ["shared"]
    assert len(fluid.default_startup_program().global_block().ops) == 1
    with pytest.raises(ValueError, match="'shared' exists as float32"):
        layers.embedding(a, [7, 2], param_attr="shared")


def conv2d(x, w, stride, pad, dilation=1):
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    kh, kw = (w.shape[2] - 1) * dilation + 1, (w.shape[3] - 1) * dilation + 1
    oh, ow = (x.shape[2] - kh) // stride + 1, (x.shape[3] - kw) // stride + 1
    out = np.zeros((x.shape[0], w.shape[0], oh, ow))
    for i in range(oh):
        for j in range(ow):
            window = x[:, :, i * stride:i * stride + kh:dilation, j * stride:j * stride + kw:dilation]
            out[:, :, i, j] = np.einsum("nchw,ochw->no", window, w)
    return out


@pytest.mark.parametrize("stride, pad, dilation", [(1, 0, 1), (2, 1, 1), (1, 2, 2)])
def test_conv2d(run, rng, stride, pad, dilation):
    a = rng.standard_normal((2, 3, 7, 8)).astype("float32")
    y = layers.conv2d(layers.data("x", [3, 7, 8]), 4, 3, stride, pad, dilation,
                      bias_attr=fluid.initializer.Constant(0.5))
    got, = run({"x": a}, [y])
    np.testing.assert_allclose(got, conv2d(a, value("conv2d_0.w_0"), stride, pad, dilation) + 0.5, rtol=1e-3, atol=1e-5)


def test_grouped_convolutions(run, rng):
    a = rng.standard_normal((2, 4, 5, 5)).astype("float32")
    x = layers.data("x", [4, 5, 5])
    pairs, each = layers.conv2d(x, 6, 3, groups=2, bias_attr=False), layers.conv2d(x, 4, 3, groups=4, bias_attr=False)
    assert each.op.type == "depthwise_conv2d"
    got, got_each = run({"x": a}, [pairs, each])
    w = value("conv2d_0.w_0")
    want = np.concatenate([conv2d(a[:, 2 * g:2 * g + 2], w[3 * g:3 * g + 3], 1, 0) for g in range(2)], axis=1)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)
    w = value("conv2d_1.w_0")
    want = np.concatenate([conv2d(a[:, g:g + 1], w[g:g + 1], 1, 0) for g in range(4)], axis=1)
    np.testing.assert_allclose(got_each, want, rtol=1e-3, atol=1e-5)


def test_pool2d(run, rng):
    a = rng.standard_normal((2, 3, 6, 6)).astype("float32")
    x = layers.data("x", [3, 6, 6])
    largest, mean, whole = run({"x": a}, [layers.pool2d(x, 2, "max", 2), layers.pool2d(x, 3, "avg", 3),
                                          layers.pool2d(x, pool_type="avg", global_pooling=True)])
    assert np.array_equal(largest, a.reshape(2, 3, 3, 2, 3, 2).max(axis=(3, 5)))
    np.testing.assert_allclose(mean, a.reshape(2, 3, 2, 3, 2, 3).mean(axis=(3, 5)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(whole[:, :, 0, 0], a.mean(axis=(2, 3)), rtol=1e-5, atol=1e-6)


def test_batch_norm_in_training_and_tests(exe, rng):
    a = rng.standard_normal((8, 3, 4, 4)).astype("float32") * 3 + 1
    y = layers.batch_norm(layers.data("x", [3, 4, 4]), momentum=0.8, moving_mean_name="mean",
                          moving_variance_name="variance")
    test = fluid.default_main_program().clone(for_test=True)
    exe.run(fluid.default_startup_program())
    got, = exe.run(feed={"x": a}, fetch_list=[y])
    mean, var = a.mean(axis=(0, 2, 3)), a.var(axis=(0, 2, 3))

    def normal(mean, var):
        return (a - mean[:, None, None]) / np.sqrt(var[:, None, None] + 1e-5)

    np.testing.assert_allclose(got, normal(mean, var), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(value("mean"), 0.2 * mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(value("variance"), 0.8 + 0.2 * var, rtol=1e-4)
    got, = exe.run(test, feed={"x": a}, fetch_list=[y])
    np.testing.assert_allclose(got, normal(value("mean"), value("variance")), rtol=1e-3, atol=1e-4)


def test_layer_norm(run, rng):
    a = rng.standard_normal((4, 5, 6)).astype("float32")
    got, = run({"x": a}, [layers.layer_norm(layers.data("x", [5, 6]), begin_norm_axis=2)])
    want = (a - a.mean(axis=2, keepdims=True)) / np.sqrt(a.var(axis=2, keepdims=True) + 1e-5)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["downgrade_in_infer", "upscale_in_train"])
def test_dropout(exe, kind):
    a = np.ones((200, 100), "float32")
    y = layers.dropout(layers.data("x", [100]), 0.25, dropout_implementation=kind)
    test = fluid.default_main_program().clone(for_test=True)
    first, second = (exe.run(feed={"x": a}, fetch_list=[y])[0] for _ in range(2))
    kept = 1.0 if kind == "downgrade_in_infer" else 1 / 0.75
    assert set(np.unique(first)) == {np.float32(0), np.float32(kept)}
    assert abs((first == 0).mean() - 0.25) < 0.02 and not np.array_equal(first, second)
    out, = exe.run(test, feed={"x": a}, fetch_list=[y])
    np.testing.assert_allclose(out, 0.75 if kind == "downgrade_in_infer" else 1.0, rtol=1e-6)


def test_losses(run, rng):
    a = rng.standard_normal((6, 5)).astype("float32")
    p = softmax(a)
    soft = softmax(rng.standard_normal((6, 5))).astype("float32")
    hard = rng.integers(0, 5, (6, 1))
    yes = rng.integers(0, 2, (6, 5)).astype("float32")
    x, s, y = (layers.data(name, [5]) for name in "xsy")
    label = layers.data("label", [1], dtype="int64")
    picked = -np.log(np.take_along_axis(p, hard, 1))
    cases = [
        (layers.cross_entropy(layers.softmax(x), label), picked),
        (layers.cross_entropy(layers.softmax(x), s, soft_label=True), -(soft * np.log(p)).sum(1, keepdims=True)),
        (layers.softmax_with_cross_entropy(x, label), picked),
        (layers.softmax_with_cross_entropy(x, s, soft_label=True), -(soft * np.log(p)).sum(1, keepdims=True)),
        (layers.softmax_with_cross_entropy(x, label, return_softmax=True)[1], p),
        (layers.sigmoid_cross_entropy_with_logits(x, y),
         -yes * np.log(sigmoid(a)) - (1 - yes) * np.log(1 - sigmoid(a))),
        (layers.square_error_cost(x, y), (a - yes) ** 2),
        (layers.huber_loss(x, y, 1.0), np.where(abs(a - yes) <= 1, (a - yes) ** 2 / 2, abs(a - yes) - 0.5)),
    ]
    got = run({"x": a, "label": hard, "s": soft, "y": yes}, [case[0] for case in cases])
    for one, (var, want) in zip(got, cases):
        np.testing.assert_allclose(one, want, rtol=1e-4, atol=1e-5, err_msg=var.name)


def test_products_and_reductions(run, rng):
    a, b = (rng.standard_normal((2, 3, 4)).astype("float32") for _ in range(2))
    x, y = layers.data("x", [3, 4]), layers.data("y", [3, 4])
    cases = [
        (layers.matmul(x, y, transpose_y=True, alpha=0.5), 0.5 * a @ b.transpose(0, 2, 1)),
        (layers.elementwise_add(x, y), a + b), (layers.elementwise_max(x, y), np.maximum(a, b)),
        (layers.elementwise_min(x, y, act="relu"), np.maximum(np.minimum(a, b), 0)),
        (layers.elementwise_mul(x, layers.fill_constant([3], "float32", 2.0), axis=1), 2 * a),
        (layers.reduce_sum(x), a.sum().reshape(1)), (layers.reduce_mean(x, dim=[1, 2]), a.mean(axis=(1, 2))),
        (layers.reduce_max(x, dim=-1, keep_dim=True), a.max(axis=-1, keepdims=True)),
        (layers.reduce_min(x, dim=1), a.min(axis=1)), (layers.reduce_prod(x, dim=2), a.prod(axis=2)),
        (layers.mean(x), a.mean().reshape(1)), (layers.scale(x, 2.0, 1.0, bias_after_scale=False), 2 * (a + 1)),
        (layers.sums([x, y, x]), 2 * a + b), (layers.clip(x, -0.5, 0.5), np.clip(a, -0.5, 0.5)),
        (layers.clip_by_norm(x, 1.0), a / np.linalg.norm(a)),
        (layers.l2_normalize(x, axis=-1), a / np.linalg.norm(a, axis=-1, keepdims=True)),
        (layers.l2_normalize(x, axis=1), a / np.linalg.norm(a, axis=1, keepdims=True)),
        (layers.argmax(x, axis=1), a.argmax(axis=1)), (layers.argmax(x, axis=-1), a.argmax(axis=-1)),
        (layers.argmin(x, axis=0), a.argmin(axis=0)),
        (layers.cos_sim(layers.flatten(x), layers.flatten(y)),
         ((a * b).sum((1, 2)) / np.sqrt((a * a).sum((1, 2)) * (b * b).sum((1, 2)))).reshape(2, 1)),
        (layers.label_smooth(x, epsilon=0.2), 0.8 * a + 0.05), (layers.label_smooth(x, y, 0.2), 0.8 * a + 0.2 * b),
        (layers.softmax(x), softmax(a)), (layers.softmax(x, axis=1), softmax(a, 1)),
    ]
    got = run({"x": a, "y": b}, [case[0] for case in cases])
    for one, (var, want) in zip(got, cases):
        assert one.shape == want.shape, var.name
        np.testing.assert_allclose(one, want, rtol=1e-4, atol=1e-5, err_msg=var.name)


def test_shapes_and_orders(run, rng):
    a = rng.standard_normal((2, 3, 4)).astype("float32")
    x, one = layers.data("x", [3, 4]), layers.data("one", [1, 4])
    parts = layers.split(x, 2, dim=-1)
    cases = [
        (layers.reshape(x, [0, -1]), a.reshape(2, 12)), (layers.reshape(x, [-1, 2, 6], act="relu"),
                                                          np.maximum(a.reshape(-1, 2, 6), 0)),
        (layers.transpose(x, [2, 0, 1]), a.transpose(2, 0, 1)), (layers.flatten(x), a.reshape(2, 12)),
        (layers.squeeze(one, [1]), a[:, 0]), (layers.unsqueeze(x, [1]), a[:, None]),
        (layers.concat([x, x], axis=1), np.concatenate([a, a], 1)), (parts[0], a[..., :2]), (parts[1], a[..., 2:]),
        (layers.stack([x, x], axis=1), np.stack([a, a], 1)), (layers.unstack(x, axis=1)[2], a[:, 2]),
        (layers.expand(x, [1, 2, 1]), np.tile(a, (1, 2, 1))),
        (layers.slice(x, [1, 2], [0, 1], [2, -1]), a[:, 0:2, 1:-1]),
        (layers.shape(x), np.array([2, 3, 4])), (layers.cast(x, "int32"), a.astype("int32")),
        (layers.zeros_like(x), 0 * a), (layers.assign(x), a),
        (layers.gather(x, layers.assign(np.array([1, 1, 0], "int32"))), a[[1, 1, 0]]),
    ]
    got = run({"x": a, "one": a[:, :1]}, [case[0] for case in cases])
    for one, (var, want) in zip(got, cases):
        assert np.array_equal(one, want), var.name


def test_constants(run):
    x = layers.data("x", [3])
    cases = [
        (layers.fill_constant([2, 2], "float64", 1.5), np.full((2, 2), 1.5)), (layers.zeros([3], "int32"), np.zeros(3)),
        (layers.ones([2], "bool"), np.array([True, True])),
        (layers.fill_constant_batch_size_like(x, [-1, 4], "int64", 7), np.full((2, 4), 7)),
        (layers.one_hot(layers.assign(np.array([[2], [0]], "int32")).astype("int64"), 3), np.eye(3)[[2, 0]]),
        (layers.assign(np.array([1.5, 2.5], "float32")), np.array([1.5, 2.5])),
    ]
    got = run({"x": np.zeros((2, 3), "float32")}, [case[0] for case in cases])
    for one, (var, want) in zip(got, cases):
        assert one.dtype == var.dtype.dtype and np.array_equal(one, want), var.name


def test_numbers_in_a_row_and_finite_ones(run):
    x = layers.data("x", [2])
    row = layers.range(1, 10, 3, "int64")
    for a in ([1.0, 2.0], [1.0, np.inf], [np.nan, 1.0]):
        a = np.array([a], "float32")
        got = run({"x": a}, [row, layers.isfinite(x), layers.has_inf(x), layers.has_nan(x)])
        assert got[0].tolist() == [1, 4, 7]
        assert [bool(one[0]) for one in got[1:]] == [np.isfinite(a).all(), np.isinf(a).any(), np.isnan(a).any()]


def test_random_numbers_have_their_distribution(run):
    uniform, normal = layers.uniform_random([400, 100], min=2.0, max=4.0), layers.gaussian_random([400, 100], 1.0, 3.0)
    u, n = run({}, [uniform, normal])
    assert 2 <= u.min() < 2.01 and 3.99 < u.max() < 4 and abs(u.mean() - 3) < 0.01
    assert abs(n.mean() - 1) < 0.05 and abs(n.std() - 3) < 0.05


@pytest.mark.parametrize("make, std, limit", [
    (lambda: fluid.initializer.Xavier(), np.sqrt(2 / 700), np.sqrt(6 / 700)),
    (lambda: fluid.initializer.Xavier(uniform=False), np.sqrt(2 / 700), None),
    (lambda: fluid.initializer.Xavier(fan_in=100, fan_out=200), np.sqrt(2 / 300), np.sqrt(6 / 300)),
    (lambda: fluid.initializer.MSRA(), np.sqrt(2 / 400), np.sqrt(6 / 400)),
    (lambda: fluid.initializer.MSRA(uniform=False), np.sqrt(2 / 400), None),
    (lambda: fluid.initializer.Normal(0.0, 0.3), 0.3, None),
    (lambda: fluid.initializer.TruncatedNormal(0.0, 0.3), 0.3 * 0.8796, 0.6),
    (lambda: fluid.initializer.Uniform(-0.2, 0.2), 0.2 / np.sqrt(3), 0.2),
])
def test_initializers(run, make, std, limit):
    w = layers.create_parameter([400, 300], "float32", default_initializer=make())
    got, = run({}, [w])
    assert abs(got.mean()) < 0.02 * std + 1e-3 and abs(got.std() / std - 1) < 0.02
    if limit is not None:
        assert abs(got).max() <= limit * 1.000001 and abs(got).max() > 0.99 * limit


def test_fans_of_filters(run):
    w = layers.create_parameter([20, 10, 5, 5], "float32", default_initializer=fluid.initializer.Xavier())
    got, = run({}, [w])
    limit = np.sqrt(6 / (10 * 25 + 20 * 25))
    assert 0.98 * limit < abs(got).max() <= limit


def test_ranking_and_accuracy(run, rng):
    a = rng.permuted(np.tile(np.arange(10, dtype="float32"), (50, 1)), axis=1)
    label = rng.integers(0, 10, (50, 1))
    x, y = layers.data("x", [10]), layers.data("y", [1], dtype="int64")
    values, places = layers.topk(x, 3)
    v, p, top1, top3 = run({"x": a, "y": label}, [values, places, layers.accuracy(x, y), layers.accuracy(x, y, k=3)])
    order = np.argsort(-a, axis=1)
    assert np.array_equal(p, order[:, :3]) and np.array_equal(v, np.take_along_axis(a, order[:, :3], 1))
    assert top1 == np.float32((order[:, :1] == label).mean())
    assert top3 == np.float32((order[:, :3] == label).any(axis=1).mean())


def test_auc_grows_over_runs(exe, rng):
    x, y = layers.data("x", [2]), layers.data("y", [1], dtype="int64")
    total, batch, _ = layers.auc(x, y)
    exe.run(fluid.default_startup_program())
    metric = fluid.metrics.Auc()
    for _ in range(3):
        p = rng.uniform(size=50)
        label = (p + rng.normal(0, 0.3, 50) > 0.5).astype("int64").reshape(50, 1)
        a = np.stack([1 - p, p], 1).astype("float32")
        got, here = exe.run(feed={"x": a, "y": label}, fetch_list=[total, batch])
        metric.update(a, label)
        alone = fluid.metrics.Auc()
        alone.update(a, label)
        assert abs(float(got[0]) - metric.eval()) < 1e-3 and abs(float(here[0]) - alone.eval()) < 1e-3
        order = [(q > r) + 0.5 * (q == r) for q in a[label.ravel() == 1, 1] for r in a[label.ravel() == 0, 1]]
        assert abs(alone.eval() - np.mean(order)) < 1e-3


def test_logic(run):
    x, y = layers.data("x", [4], dtype="bool"), layers.data("y", [4], dtype="bool")
    a, b = np.array([[0, 0, 1, 1]], bool), np.array([[0, 1, 0, 1]], bool)
    got = run({"x": a, "y": b}, [layers.logical_and(x, y), layers.logical_or(x, y), layers.logical_xor(x, y),
                                 layers.logical_not(x)])
    for one, want in zip(got, (a & b, a | b, a ^ b, ~a)):
        assert np.array_equal(one, want)


def test_print_prints(exe, capfd):
    x = layers.data("x", [2])
    y = layers.Print(x, message="here it is")
    out, = exe.run(feed={"x": np.array([[1.5, 2.5]], "float32")}, fetch_list=[y])
    printed = "".join(capfd.readouterr())
    assert "here it is" in printed and "1.5" in printed and out.tolist() == [[1.5, 2.5]]


def test_groups_of_layers(run, rng):
    q = layers.data("q", [5, 8])
    got, = run({"q": rng.standard_normal((2, 5, 8)).astype("float32")},
               [fluid.nets.scaled_dot_product_attention(q, q, q, num_heads=2)])
    assert got.shape == (2, 5, 8)
    image = layers.data("image", [3, 16, 16])
    out = fluid.nets.img_conv_group(image, [4, 8], 2, conv_act="relu", conv_with_batchnorm=True,
                                    conv_batchnorm_drop_rate=[0.3, 0], pool_stride=2)
    assert out.shape == (None, 8, 8, 8)
    kinds = [op.type for op in fluid.default_main_program().global_block().ops]
    assert kinds.count("batch_norm") == 2 and kinds.count("dropout") == 1


# -- attributes that are not honoured --------------------------------------------------------------

IMAGES = {"conv2d": ("Input", "Output", {}), "pool2d": ("X", "Out", {"pooling_type": "max", "ksize": [2, 2]})}
NEUTRAL = [("conv2d", "data_format", "NHWC", "AnyLayout, NCHW: transpose the images"), ("pool2d", "data_format", "NHWC", "AnyLayout, NCHW"),
           ("conv2d", "fuse_relu", True, "false: add the operator relu"), ("conv2d", "use_quantizer", True, "false"),
           ("conv2d", "Scale_in", 2.0, r"1\.0"), ("pool2d", "use_quantizer", True, "false")]


def image_op(type, attrs):
    image = fluid.layers.data("image", [2, 4, 4])
    slot, out, needed = IMAGES[type]
    block = image.block
    inputs = {slot: image}
    if type == "conv2d":
        inputs["Filter"] = fluid.layers.create_parameter([3, 2, 2, 2], "float32")
    return block.append_op(type=type, inputs=inputs, outputs={out: block.create_var(name="out", dtype="float32")},
                           attrs={**needed, **attrs})


@pytest.mark.parametrize("type, name, value, supported", NEUTRAL)
def test_an_attribute_that_is_not_honoured_takes_its_neutral_value_alone(exe, type, name, value, supported):
    said = f"{type}: attribute '{name}' is .*, but this version supports only {supported}"
    with pytest.raises(fluid.errors.TriremeError, match=said):
        image_op(type, {name: value})
    op = image_op(type, {})
    exe.run(fluid.default_startup_program())
    op._set_attr(name, value)                            # a program that another system has saved
    program = fluid.Program.parse_from_string(fluid.default_main_program().serialize_to_string())
    with pytest.raises(fluid.errors.TriremeError, match=said):
        exe.run(program, feed={"image": np.zeros((1, 2, 4, 4), "float32")}, fetch_list=["out"])


@pytest.mark.parametrize("name, value", [("use_cudnn", True), ("workspace_size_MB", 7), ("is_test", True), ("data_format", "NCHW")])
def test_an_attribute_on_which_no_result_depends_takes_any_value(exe, name, value):
    image_op("conv2d", {name: value})
    exe.run(fluid.default_startup_program())
    assert exe.run(feed={"image": np.ones((1, 2, 4, 4), "float32")}, fetch_list=["out"])[0].shape == (1, 3, 3, 3)
