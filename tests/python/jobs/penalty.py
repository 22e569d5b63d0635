"""A critic as in WGAN-GP: the norm of its gradient with respect to its input is part of its loss. All trainers get the same samples,
so a job computes the bits of one process."""

import argparse

import numpy as np

import trireme as fluid
from trireme import layers


def critic(x):
    """Return one score [n, 1] for each sample [n, 36] of ``x``; always with the same parameters."""
    image = layers.reshape(x, [-1, 1, 6, 6])
    planes = layers.conv2d(image, 4, 3, stride=2, param_attr="conv.w", bias_attr="conv.b", act="leaky_relu")
    hidden = layers.fc(planes, 8, param_attr="hidden.w", bias_attr="hidden.b")
    hidden = layers.tanh(layers.layer_norm(hidden, param_attr="norm.w", bias_attr="norm.b"))
    return layers.fc(hidden, 1, param_attr="score.w", bias_attr="score.b")


def gradient_penalty(score, real, fake, share):
    """Return how far the gradient's norm of ``score`` is from 1, between the samples."""
    between = layers.elementwise_add(layers.elementwise_mul(real, share, axis=0), layers.elementwise_mul(fake, 1.0 - share, axis=0))
    between.stop_gradient = False
    slope, = fluid.gradients(score(between), between)
    norm = layers.sqrt(layers.reduce_sum(layers.square(slope), dim=1) + 1e-6)
    return layers.mean(layers.square(norm - 1.0))


def build():
    real, fake, share = layers.data("real", [36]), layers.data("fake", [36]), layers.data("share", [1])
    penalty = gradient_penalty(critic, real, fake, share)
    loss = layers.mean(critic(fake)) - layers.mean(critic(real)) + 10.0 * penalty
    fluid.optimizer.Adam(0.02, beta1=0.5, beta2=0.9).minimize(loss)
    return loss, penalty


def batches(steps):
    random = np.random.RandomState(5)
    for _ in range(steps):
        yield {"real": random.normal(1.0, 0.5, (8, 36)).astype("float32"), "fake": random.normal(size=(8, 36)).astype("float32"),
               "share": random.rand(8, 1).astype("float32")}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    fluid.default_main_program().random_seed = fluid.default_startup_program().random_seed = 3
    loss, penalty = build()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    curve = [np.ravel(exe.run(feed=batch, fetch_list=[loss, penalty])) for batch in batches(12)]
    if fluid.distributed.trainer_index() == 0:
        params = {param.name: fluid.executor.fetch_var(param.name) for param in fluid.default_main_program().all_parameters()}
        np.savez(args.out, curve=np.array(curve), **params)


if __name__ == "__main__":
    main()
