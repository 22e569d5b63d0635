"""Small nets side by side in one program, each around an operator or a layer of its own: what a job learns is what one process does.

``NETS`` maps names to functions that return a loss from a dense input [n, 5], targets [n, 1] in 0 .. 1, and class numbers [n, 1] below 5.
The nets do not touch each other.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

import trireme as fluid
from trireme import layers
from trireme.framework import Variable

Net = Callable[[str, Variable, Variable, Variable], Variable]


def scores(name: str, x: Variable, width: int, act: str | None = None) -> Variable:
    return layers.fc(x, width, act=act, param_attr=f"{name}.w{width}{act or ''}", bias_attr=f"{name}.b{width}{act or ''}")


def score(name: str, x: Variable) -> Variable:
    return scores(name, x, 1)


def other(name: str, x: Variable) -> Variable:
    return scores(name + ".other", x, 1)


def rounded(y: Variable) -> Variable:
    return layers.cast(layers.cast(y > 0.5, "int32"), "float32")


def sampled(name: str, x: Variable, y: Variable, label: Variable) -> Variable:
    others = layers.cast(layers.elementwise_mod(label + 2, layers.fill_constant([1], "int64", 5)), "int64")
    chances = layers.fill_constant_batch_size_like(x, [-1, 2], "float32", 0.4)
    return layers.sampled_softmax_with_cross_entropy(scores(name, x, 5), label, 1, use_customized_samples=True,
                                                     customized_samples=layers.concat([label, others], axis=1),
                                                     customized_probabilities=chances)


def counted(name: str, x: Variable, y: Variable, label: Variable) -> Variable:
    counts = layers.concat([y, y], axis=1)                 # no parameter: what comes back for the counts is no derivative
    rows = layers.continuous_value_model(layers.concat([counts, scores(name, x, 4)], axis=1), counts)
    return layers.square_error_cost(layers.reduce_sum(rows, dim=1, keep_dim=True), y)


def penalized(name: str, x: Variable, y: Variable, label: Variable) -> Variable:
    out = layers.fc(layers.fc(x, 4, act="tanh", param_attr=f"{name}.in", bias_attr=False), 1, param_attr=f"{name}.out", bias_attr=False)
    slope, = fluid.gradients(out, x)
    return layers.square_error_cost(out, y) + layers.reduce_sum(layers.square(slope), dim=1, keep_dim=True)


def image(name: str, x: Variable, channels: int = 2, height: int = 3, width: int = 4) -> Variable:
    return layers.reshape(scores(name, x, channels * height * width), [-1, channels, height, width])


def squared(x: Variable, y: Variable) -> Variable:
    """Return a loss of one number for each sample, whatever the shape of ``x`` [n, ...]."""
    return layers.square_error_cost(layers.reduce_mean(layers.flatten(x), dim=1, keep_dim=True), y)


def on_image(layer: Callable[[Variable], Variable], **sizes: int) -> Net:
    return lambda name, x, y, label: squared(layer(image(name, x, **sizes)) ** 2.0, y)


def named(name: str) -> fluid.ParamAttr:
    return fluid.ParamAttr(name=name)


def sampled_image(name: str, x: Variable, y: Variable, label: Variable) -> Variable:
    theta = layers.reshape(scores(name + ".theta", x, 6), [-1, 2, 3])
    grid = layers.affine_grid(theta, [-1, 2, 3, 4])
    return squared(layers.grid_sampler(image(name, x), 0.3 * grid) ** 2.0, y)


def trees(name: str, x: Variable, y: Variable, label: Variable) -> Variable:
    nodes = layers.reshape(scores(name, x, 12), [-1, 4, 3])
    edges = layers.expand(layers.assign(np.array([[[1, 2], [1, 3], [3, 4]]], "int32")), [1, 1, 1])
    rows = layers.fill_constant_batch_size_like(x, [-1, 3, 2], "int32", 0)
    edges = layers.elementwise_add(rows, layers.reshape(edges, [3, 2]), axis=1)
    return squared(layers.tree_conv(nodes, edges, 2, 2, param_attr=named(f"{name}.tree"), bias_attr=named(f"{name}.treeb")), y)


def spectral(name: str, x: Variable, y: Variable, label: Variable) -> Variable:
    w = layers.create_parameter([5, 3], "float32", attr=named(f"{name}.w"))
    return squared(layers.mul(x, layers.spectral_norm(w, power_iters=2, name=name)) ** 2.0, y)


def scattered(name: str, x: Variable, y: Variable, label: Variable) -> Variable:
    w, rows = (layers.create_parameter(shape, "float32", attr=named(f"{name}.{part}")) for shape, part in (([5, 3], "w"), ([2, 3], "rows")))
    return squared(layers.mul(x, layers.scatter(w, layers.assign(np.array([3, 0], "int32")), rows)) ** 2.0, y)


def picked(name: str, x: Variable, y: Variable, label: Variable) -> Variable:
    w, rows = (layers.create_parameter(shape, "float32", attr=named(f"{name}.{part}")) for shape, part in (([5, 3], "w"), ([2], "rows")))
    places = layers.assign(np.array([[3, 0], [1, 2]], "int32"))
    more = layers.scatter_nd_add(w, places, layers.gather_nd(w, places) * rows) + layers.scatter_nd(places, layers.erf(rows), [5, 3])
    return squared(layers.mul(x, more) ** 2.0, y)


def attended(name: str, x: Variable, y: Variable, label: Variable) -> Variable:
    rows, memory = (layers.reshape(scores(name + end, x, 24), [-1, 3, 8]) for end in ("", ".memory"))
    memory = layers.transformer_encoder_layer(memory, 2, 8, dropout_rate=0.0, name=f"{name}.encoder")
    out = layers.transformer_decoder_layer(rows, memory, 2, 8, dropout_rate=0.0, normalize_before=True, name=f"{name}.decoder")
    return squared(layers.tanh(layers.learned_position_encoding(out, 4, name=f"{name}.places"))[:, :, 1:] ** 2.0, y)


def both_ways(name: str, x: Variable, y: Variable, label: Variable) -> Variable:
    rows = layers.transpose(layers.reshape(scores(name, x, 12), [-1, 3, 4]), [1, 0, 2])
    state = layers.unsqueeze(layers.fill_constant_batch_size_like(x, [-1, 2], "float32", 0.0), [0])
    state = layers.concat([state] * 4, axis=0)
    out, _, _ = layers.lstm(rows, state, state, 3, hidden_size=2, num_layers=2, is_bidirec=True, name=f"{name}.rnn")
    return squared(layers.transpose(out, [1, 0, 2]), y)


NETS: dict[str, Net] = {
    "hinge_loss": lambda name, x, y, label: fluid.operator.hinge_loss(score(name, x), rounded(y)),
    "modified_huber_loss": lambda name, x, y, label: fluid.operator.modified_huber_loss(score(name, x), rounded(y)),
    "teacher_student_sigmoid_loss": lambda name, x, y, label: layers.teacher_student_sigmoid_loss(score(name, x), 4.0 * y - 2.0),
    "rank_loss": lambda name, x, y, label: layers.rank_loss(y, score(name, x), other(name, x)),
    "margin_rank_loss": lambda name, x, y, label: layers.margin_rank_loss(2.0 * rounded(y) - 1.0, score(name, x), other(name, x)),
    "bpr_loss": lambda name, x, y, label: layers.bpr_loss(scores(name, x, 5), label),
    "kldiv_loss": lambda name, x, y, label: layers.kldiv_loss(layers.logsigmoid(score(name, x)), y, reduction="none"),
    "cross_entropy2": lambda name, x, y, label: fluid.operator.cross_entropy2(scores(name, x, 5, "softmax"), label),
    "sample_logits": sampled,
    "cvm": counted,
    "mse_loss": lambda name, x, y, label: layers.mse_loss(score(name, x), y),
    "bilinear_interp": on_image(lambda x: layers.resize_bilinear(x, [5, 6])),
    "nearest_interp": on_image(lambda x: layers.resize_nearest(x, scale=2.0)),
    "affine_grid, grid_sampler": sampled_image,
    "group_norm": lambda name, x, y, label: squared(
        layers.group_norm(image(name, x, 4), 2, param_attr=named(f"{name}.scale"), bias_attr=named(f"{name}.shift"))[:, 1:] ** 3.0, y),
    "instance_norm": lambda name, x, y, label: squared(
        layers.instance_norm(image(name, x), param_attr=named(f"{name}.scale"), bias_attr=named(f"{name}.shift"))[:, 1:] ** 3.0, y),
    "lrn": on_image(lambda x: layers.lrn(x, alpha=0.5)),
    "spectral_norm": spectral,
    "prelu": lambda name, x, y, label: squared(layers.prelu(image(name, x), "channel", named(f"{name}.alpha")), y),
    "fsp": lambda name, x, y, label: squared(layers.fsp_matrix(image(name, x), image(f"{name}.other", x)), y),
    "bilinear_tensor_product": lambda name, x, y, label: squared(layers.bilinear_tensor_product(
        scores(name, x, 3), x, 4, param_attr=named(f"{name}.product"), bias_attr=named(f"{name}.bias")), y),
    "conv_shift": lambda name, x, y, label: squared(fluid.operator.conv_shift(
        scores(name, x, 6), layers.softmax(scores(f"{name}.shift", x, 3))), y),
    "tree_conv": trees,
    "cumsum": lambda name, x, y, label: squared(layers.cumsum(scores(name, x, 3), 1, reverse=True), y),
    "reverse": lambda name, x, y, label: squared(layers.reverse(scores(name, x, 3), 1) * layers.slice(x, [1], [0], [3]), y),
    "norm": lambda name, x, y, label: squared(fluid.operator.norm(scores(name, x, 3), axis=1) * layers.slice(x, [1], [0], [3]), y),
    "multiplex": lambda name, x, y, label: squared(layers.multiplex(
        [score(name, x), other(name, x)], layers.cast(label > layers.fill_constant([1], "int64", 2), "int32")), y),
    "scatter": scattered,
    "gather_nd, scatter_nd, erf": picked,
    "transformer": attended,
    "lstm": both_ways,
    "weight_norm": lambda name, x, y, label: squared(layers.fc(x, 3, param_attr=fluid.WeightNormParamAttr(dim=1, name=f"{name}.w"),
                                                               bias_attr=False), y),
    "squeeze_excite": lambda name, x, y, label: squared(fluid.nets.squeeze_excite(image(name, x), 2, name=f"{name}.se"), y),
    "gradient_penalty": penalized,
    "dice_loss": lambda name, x, y, label: layers.dice_loss(scores(name, x, 5, "softmax"), label),
}


def batches(steps: int, size: int):
    random = np.random.RandomState(7)
    for step in range(steps):
        rows = size - step % 3                             # trainers get uneven slices
        yield {"x": random.normal(size=(rows, 5)).astype("float32"), "y": random.rand(rows, 1).astype("float32"),
               "label": random.randint(0, 5, (rows, 1))}


def build(nets: dict[str, Net]) -> dict[str, Variable]:
    """Append the nets, each trained by an optimizer of its own; return their losses."""
    x, y, label = layers.data("x", [5]), layers.data("y", [1]), layers.data("label", [1], dtype="int64")
    losses = {name: layers.mean(net(name, x, y, label)) for name, net in nets.items()}
    for loss in losses.values():
        fluid.optimizer.SGD(0.05).minimize(loss)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    fluid.default_main_program().random_seed = fluid.default_startup_program().random_seed = 3
    losses = build(NETS)
    exe, job, curve = fluid.Executor(), fluid.distributed, []
    exe.run(fluid.default_startup_program())
    for batch in batches(6, 10):
        feed = job.slice_of(batch, job.trainer_index(), job.trainer_count())
        curve.append(np.ravel(exe.run(feed=feed, fetch_list=list(losses.values()))))
    if job.trainer_index() == 0:
        result = {f"{name}.losses": np.array(values) for name, values in zip(losses, np.transpose(curve))}
        result |= {param.name: fluid.executor.fetch_var(param.name) for param in fluid.default_main_program().all_parameters()}
        np.savez(args.out, **result)


if __name__ == "__main__":
    main()
