"""A Transformer (Vaswani et al., 2017): an encoder, a decoder, and attention of several heads, over letters in padded batches.

Texts stand in arrays of one length; what is after a text's end gets a bias of -1e9, so that nobody looks there.
"""

import numpy as np

import trireme as fluid
from tasks import COUNT

layers = fluid.layers
FAR = -1e9                                       # added to the score of what must not be looked at


def named(x, size, name, act=None):
    """A fully connected layer over the last dimension, whose parameters other programs find by name."""
    return layers.fc(x, size, num_flatten_dims=2, act=act, param_attr=f"{name}.w", bias_attr=f"{name}.b")


def positions(length, width):
    """Sines and cosines of lengths that grow, [1, length, width]."""
    rate = 10000.0 ** (-np.arange(0, width, 2) / width)
    angle = np.arange(length)[:, None] * rate
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(1, length, width).astype("float32")


def embedded(ids, length, width, name, dropout):
    """Letters with their places, [batch, length, width]."""
    rows = layers.embedding(ids, [COUNT, width],
                            param_attr=fluid.ParamAttr(name=name, initializer=fluid.initializer.Normal(0.0, width ** -0.5)))
    rows = layers.elementwise_add(layers.scale(rows, scale=width ** 0.5), layers.assign(positions(length, width)))
    return layers.dropout(rows, dropout, dropout_implementation="upscale_in_train") if dropout else rows


def attention(queries, memory, bias, width, heads, name):
    """Each query looks at all of the memory, with each head in another way."""
    def split(x, what):
        x = layers.reshape(named(x, width, f"{name}.{what}"), [0, 0, heads, width // heads])
        return layers.transpose(x, [0, 2, 1, 3])

    query, key, value = split(queries, "query"), split(memory, "key"), split(memory, "value")
    scores = layers.matmul(query, key, transpose_y=True, alpha=(width // heads) ** -0.5)
    weights = layers.softmax(layers.elementwise_add(scores, bias))
    found = layers.transpose(layers.matmul(weights, value), [0, 2, 1, 3])
    return named(layers.reshape(found, [0, 0, width]), width, f"{name}.out")


def added(x, change, name, dropout):
    """The sum of a layer's input and output, normalized."""
    if dropout:
        change = layers.dropout(change, dropout, dropout_implementation="upscale_in_train")
    return layers.layer_norm(layers.elementwise_add(x, change), begin_norm_axis=2, param_attr=f"{name}.scale", bias_attr=f"{name}.shift")


def forward(x, width, name):
    return named(named(x, 4 * width, f"{name}.1", act="relu"), width, f"{name}.2")


def encoder(given, bias, length, sizes, dropout=0.0):
    """What the decoder looks at, [batch, length, width]."""
    width, heads, depth = sizes
    bias = layers.expand(bias, [1, heads, length, 1])
    x = embedded(given, length, width, "given.letters", dropout)
    for i in range(depth):
        x = added(x, attention(x, x, bias, width, heads, f"encoder{i}.self"), f"encoder{i}.norm1", dropout)
        x = added(x, forward(x, width, f"encoder{i}.forward"), f"encoder{i}.norm2", dropout)
    return x


def decoder(before, memory, bias, length, sizes, dropout=0.0):
    """A score of each letter after each letter of the answer so far, [batch, length, COUNT]. No place sees those after it."""
    width, heads, depth = sizes
    bias = layers.expand(bias, [1, heads, length, 1])
    behind = layers.assign(np.triu(np.full((length, length), FAR, "float32"), 1))
    x = embedded(before, length, width, "answer.letters", dropout)
    for i in range(depth):
        x = added(x, attention(x, x, behind, width, heads, f"decoder{i}.self"), f"decoder{i}.norm1", dropout)
        x = added(x, attention(x, memory, bias, width, heads, f"decoder{i}.given"), f"decoder{i}.norm2", dropout)
        x = added(x, forward(x, width, f"decoder{i}.forward"), f"decoder{i}.norm3", dropout)
    return named(x, COUNT, "letters")


def cost(scores, answer, weight, smoothing):
    """The mean cost of a letter; ``weight`` is 0 after the end of an answer. Labels are smoothed: a little goes to every letter."""
    labels = layers.one_hot(layers.reshape(answer, [-1, 1]), COUNT)
    labels = layers.label_smooth(labels, epsilon=smoothing) if smoothing else labels
    each = layers.softmax_with_cross_entropy(layers.reshape(scores, [-1, COUNT]), labels, soft_label=True)
    weight = layers.reshape(weight, [-1, 1])
    return layers.elementwise_div(layers.reduce_sum(layers.elementwise_mul(each, weight)), layers.reduce_sum(weight))
