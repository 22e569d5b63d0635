"""Attention, Transformer layers, dense recurrent layers, blocks of networks for images: values, masks, training, mistakes."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(2, 4, 6)).astype("float32")
MEMORY = RANDOM.normal(size=(2, 3, 8)).astype("float32")


@pytest.fixture
def exe():
    with fluid.scope_guard(fluid.Scope()), fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield fluid.Executor(fluid.CPUPlace())


def data(name, array):
    return layers.data(name, list(array.shape[1:]), dtype=str(array.dtype))


def value_of(name):
    return np.array(fluid.executor.fetch_var(name)).astype("float64")


def attention(q, k, heads, allowed, name="att"):
    """Return what the parameters of layer ``name`` make of queries and keys; ``allowed`` is [n, q, k]."""
    def projected(x, part):
        return x @ value_of(f"{name}.{part}.w") + value_of(f"{name}.{part}.b")

    def cut(x):
        return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = cut(projected(q, "q")), cut(projected(k, "k")), cut(projected(k, "v"))
    scores = np.where(allowed[:, None], q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1]), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    out = (weights / weights.sum(-1, keepdims=True)) @ v
    return projected(out.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1), "out")


SEEN = np.array([[1, 1, 0], [1, 0, 0]])
EACH = RANDOM.random((2, 4, 3)) > 0.4
EACH[:, :, 0] = True


@pytest.mark.parametrize(("mask", "dtype"), [(None, None), (SEEN, "float32"), (SEEN, "int64"), (EACH, "bool")])
def test_attention_is_that_of_numpy(exe, mask, dtype):
    fed = {"x": X, "m": MEMORY}
    if mask is not None:
        fed["mask"] = mask.astype(dtype)
    out = layers.multi_head_attention(data("x", X), data("m", MEMORY), size=6, num_heads=3, name="att",
                                      mask=None if mask is None else data("mask", fed["mask"]))
    exe.run(fluid.default_startup_program())
    value, = exe.run(feed=fed, fetch_list=[out])
    allowed = np.broadcast_to(True if mask is None else mask[:, None] if mask.ndim == 2 else mask, (2, 4, 3)).astype(bool)
    np.testing.assert_allclose(value, attention(X, MEMORY, 3, allowed), rtol=1e-4, atol=1e-5)


def test_a_causal_query_sees_no_later_key(exe):
    seen = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "float32")
    out = layers.multi_head_attention(data("x", X), num_heads=2, causal=True, mask=data("seen", seen), name="att")
    exe.run(fluid.default_startup_program())
    value, = exe.run(feed={"x": X, "seen": seen}, fetch_list=[out])
    allowed = (np.tril(np.ones((4, 4)))[None] * seen[:, None]).astype(bool)
    np.testing.assert_allclose(value, attention(X, X, 2, allowed), rtol=1e-4, atol=1e-5)


def test_places_are_learnt(exe):
    out = layers.learned_position_encoding(data("x", X), 9, name="places")
    exe.run(fluid.default_startup_program())
    value, = exe.run(feed={"x": X}, fetch_list=[out])
    np.testing.assert_allclose(value, X + value_of("places.w")[:4], rtol=1e-5, atol=1e-6)


def test_a_transformer_learns_to_turn_sequences_round(exe):
    """An encoder and a decoder with masks, of 2 lengths; the program for tests gets them right."""
    x, last = layers.data("x", [-1, -1], dtype="int64"), layers.data("last", [-1, -1], dtype="int64")
    seen, wanted = layers.data("seen", [-1, -1]), layers.data("wanted", [-1, -1, 1], dtype="int64")

    def embedded(ids, name):
        rows = layers.embedding(layers.unsqueeze(ids, [2]), [12, 16], param_attr=name)
        return layers.learned_position_encoding(rows, 8, name=f"{name}.places")

    memory = layers.transformer_encoder_layer(embedded(x, "in"), 4, 32, mask=seen, dropout_rate=0.0, normalize_before=True)
    out = layers.transformer_decoder_layer(embedded(last, "out"), memory, 4, 32, memory_mask=seen, dropout_rate=0.0)
    scores = layers.fc(out, 12, num_flatten_dims=2)
    test = fluid.default_main_program().clone(for_test=True)
    loss = layers.mean(layers.softmax_with_cross_entropy(scores, wanted))
    fluid.optimizer.Adam(0.01).minimize(loss)
    fluid.default_startup_program().random_seed = 1
    exe.run(fluid.default_startup_program())
    random = np.random.RandomState(0)

    def batch(length):
        words = random.randint(2, 12, (32, length))
        turned = words[:, ::-1]
        return {"x": words, "seen": np.ones((32, length), "float32"), "wanted": turned[..., None].copy(),
                "last": np.concatenate([np.ones((32, 1), "int64"), turned[:, :-1]], 1)}

    losses = [exe.run(feed=batch(4 + step % 2), fetch_list=[loss])[0].item() for step in range(120)]
    assert losses[-1] < 0.25 * losses[0]
    fed = batch(5)
    value, = exe.run(test, feed=fed, fetch_list=[scores])
    assert (value.argmax(-1) == fed["wanted"][..., 0]).mean() > 0.8


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, h, c, layers_count, directions, size):
    last_h, last_c = [], []
    for layer in range(layers_count):
        outs = []
        for way in range(directions):
            w, u, b = (value_of(f"rnn.{layer}.{way}.{part}") for part in "wub")
            at = layer * directions + way
            hidden, cell, steps = h[at], c[at], []
            for row in x[::-1] if way else x:
                gates = row @ w + b + hidden @ u
                i, f, o = (sigmoid(gates[:, k * size:(k + 1) * size]) for k in range(3))
                cell = f * cell + i * np.tanh(gates[:, 3 * size:])
                hidden = o * np.tanh(cell)
                steps.append(hidden)
            last_h.append(hidden)
            last_c.append(cell)
            outs.append(np.array(steps[::-1] if way else steps))
        x = np.concatenate(outs, 2)
    return x, np.array(last_h), np.array(last_c)


@pytest.mark.parametrize(("count", "both"), [(1, False), (2, True)])
def test_lstm_is_that_of_numpy(exe, count, both):
    states = count * (2 if both else 1)
    fed = {"x": RANDOM.normal(size=(5, 3, 4)).astype("float32"), "h": RANDOM.normal(size=(states, 3, 2)).astype("float32"),
           "c": RANDOM.normal(size=(states, 3, 2)).astype("float32")}
    x, h, c = (layers.data(name, list(array.shape), append_batch_size=False) for name, array in fed.items())
    outs = layers.lstm(x, h, c, 5, hidden_size=2, num_layers=count, is_bidirec=both, name="rnn")
    loss = layers.mean(layers.square(outs[0]))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe.run(fluid.default_startup_program())
    want = lstm(fed["x"], fed["h"], fed["c"], count, 2 if both else 1, 2)
    *got, first = exe.run(feed=fed, fetch_list=[*outs, loss])
    for value, expected in zip(got, want):
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)
    assert exe.run(feed=fed, fetch_list=[loss])[0].item() < first.item()


def test_blocks_for_images_train(exe):
    image, label = layers.data("image", [8, 8, 8]), layers.data("label", [1], dtype="int64")
    x = fluid.nets.residual_block(image, 8, squeeze_reduction=4)
    x = fluid.nets.residual_block(x, 8, stride=2, bottleneck=True)
    assert x.shape == (None, 32, 4, 4)
    loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(x, 3), label))
    fluid.optimizer.Momentum(0.02, 0.9).minimize(loss)
    exe.run(fluid.default_startup_program())
    fed = {"image": RANDOM.normal(size=(6, 8, 8, 8)).astype("float32"), "label": RANDOM.integers(0, 3, (6, 1))}
    losses = [exe.run(feed=fed, fetch_list=[loss])[0].item() for _ in range(15)]
    assert losses[-1] < 0.5 * losses[0]


def test_channels_are_weighed(exe):
    image = RANDOM.normal(size=(2, 4, 3, 3)).astype("float32")
    out = fluid.nets.squeeze_excite(data("x", image), reduction=2, name="se")
    exe.run(fluid.default_startup_program())
    value, = exe.run(feed={"x": image}, fetch_list=[out])
    inner = np.maximum(image.mean((2, 3)) @ value_of("se.squeeze.w") + value_of("se.squeeze.b"), 0)
    weights = sigmoid(inner @ value_of("se.excite.w") + value_of("se.excite.b"))
    np.testing.assert_allclose(value, image * weights[:, :, None, None], rtol=1e-4, atol=1e-5)


def test_the_bilinear_initializer_enlarges_images(exe):
    image = np.arange(4, dtype="float32").repeat(4).reshape(1, 1, 4, 4).repeat(2, 1)
    w = fluid.ParamAttr(initializer=fluid.initializer.Bilinear(), learning_rate=0.0)
    out = layers.conv2d_transpose(data("x", image), 2, filter_size=4, stride=2, padding=1, groups=2, param_attr=w, bias_attr=False)
    exe.run(fluid.default_startup_program())
    value, = exe.run(feed={"x": image}, fetch_list=[out])
    np.testing.assert_allclose(value[0, 0, 1:7, 3], np.arange(0.25, 3, 0.5), rtol=1e-5)
    with pytest.raises(ValueError, match="Bilinear"):
        layers.create_parameter([3, 2], "float32", default_initializer=fluid.initializer.Bilinear())


@pytest.mark.parametrize(("make", "message"), [
    (lambda x: layers.multi_head_attention(x, num_heads=4), "cannot be cut into 4 heads"),
    (lambda x: layers.multi_head_attention(layers.data("y", [6])), "queries must be"),
    (lambda x: layers.learned_position_encoding(layers.data("y", [6]), 4), "x must be"),
    (lambda x: layers.lstm(x, x, x, 4, 2, 0), "num_layers must be at least 1"),
    (lambda x: fluid.nets.squeeze_excite(x, 0), "reduction at least 1"),
])
def test_mistakes(exe, make, message):
    with pytest.raises(ValueError, match=message):
        make(data("x", X))
