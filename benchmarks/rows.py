"""What is measured: for each row its batch, its first parameters, its data, its work, and the ratio to reach.

NumPy alone, since every process of a run reads it: Trireme's and the peers'. Parameters and batches come from
fixed seeds, so that all start from the same numbers and their losses can be compared before anything is timed.
Matrices are [in, out], filters [out, in, height, width], tables [rows, width].

A new row is one function here, and one of the same name in trireme_rows.py and in each peer's file that knows it.
"""

from dataclasses import dataclass
from collections.abc import Callable

import numpy as np

BATCHES = 16                         # fed in turn


@dataclass
class Row:
    batch: int
    params: dict[str, np.ndarray]
    draw: Callable[[np.random.Generator], dict[str, np.ndarray]]
    flops: float                     # of a step's products and convolutions, counted as least
    targets: tuple[float, float]     # best peer / ours, with 1 and 2 threads
    bytes: float = 0                 # that a step must move, where tables or optimizer states are what it does
    drift: float = 0.005             # how far losses in float32 may be apart within 48 steps, as a part of the first (README)

    def batches(self) -> list[dict[str, np.ndarray]]:
        random = np.random.default_rng(1)
        return [self.draw(random) for _ in range(BATCHES)]


def _normal(random, *shape, scale=1.0):
    return (scale * random.standard_normal(shape)).astype(np.float32)


def _dense(sizes, seed=0):
    """Parameters w0, b0, w1, b1, ... of fully connected layers."""
    random, params = np.random.default_rng(seed), {}
    for i, (fan_in, fan_out) in enumerate(zip(sizes, sizes[1:])):
        params[f"w{i}"] = _normal(random, fan_in, fan_out, scale=fan_in ** -0.5)
        params[f"b{i}"] = np.zeros(fan_out, np.float32)
    return params


def _dense_flops(batch, sizes, input_gradient=False):
    """Forward, gradient of the weights, gradient of the input (of the first layer only if it is wanted)."""
    work = [2.0 * batch * a * b for a, b in zip(sizes, sizes[1:])]
    return 3 * sum(work) - (0 if input_gradient else work[0])


def _classes(batch, shape, classes):
    return lambda random: {"x": _normal(random, batch, *shape), "y": random.integers(0, classes, (batch, 1))}


def linreg():
    draw = lambda random: {"x": _normal(random, 20, 13), "y": _normal(random, 20, 1)}
    return Row(20, _dense((13, 1)), draw, _dense_flops(20, (13, 1)), (5.0, 5.0))


MLP, MLPBIG = (784, 128, 64, 10), (784, 1024, 1024, 10)


def mlp_sgd():
    return Row(64, _dense(MLP), _classes(64, (784,), 10), _dense_flops(64, MLP), (1.3, 1.8))


def mlp_adam():
    return Row(64, _dense(MLP), _classes(64, (784,), 10), _dense_flops(64, MLP), (1.6, 2.0))


def mlpbig_sgd():
    return Row(256, _dense(MLPBIG), _classes(256, (784,), 10), _dense_flops(256, MLPBIG), (1.05, 1.05))


def _filter(random, out, channels, size):
    return _normal(random, out, channels, size, size, scale=(2.0 / (channels * size * size)) ** 0.5)


# by size and stride (kernels/math/images/conv_winograd.h)
WINOGRAD_SAVES = {(3, 1): 144 / 36, (5, 1): 100 / 36, (3, 2): 225 / 121, (5, 2): 400 / 121, (7, 2): 441 / 144}


def conv_flops(batch, out, channels, size, pixels, stride=1, groups=1):
    """Return the operations of a convolution to `pixels` places, by the way that multiplies least of those that a side knows."""
    least = 2.0 * batch * out * (channels // groups) * size * size * pixels
    goes_by_winograd = groups == 1 and min(channels, out) >= {1: 8, 2: 2}.get(stride, 0)
    return least / WINOGRAD_SAVES.get((size, stride), 1) if goes_by_winograd else least


def lenet5():
    random = np.random.default_rng(0)
    params = {"c1": _filter(random, 20, 1, 5), "cb1": np.zeros(20, np.float32),
              "c2": _filter(random, 50, 20, 5), "cb2": np.zeros(50, np.float32), **_dense((800, 10))}
    flops = (2 * conv_flops(64, 20, 1, 5, 24 * 24) + 3 * conv_flops(64, 50, 20, 5, 8 * 8)
             + _dense_flops(64, (800, 10), True))
    return Row(64, params, _classes(64, (1, 28, 28), 10), flops, (1.8, 1.8))


def resnet_blocks():
    """(name, input channels, output channels, stride) of the nine blocks of two convolutions."""
    channels = 16
    for stage, (width, stride) in enumerate(((16, 1), (32, 2), (64, 2))):
        for i in range(3):
            yield f"s{stage}b{i}", channels, width, stride if i == 0 else 1
            channels = width


def resnet20():
    random, params, side, flops = np.random.default_rng(0), {}, 32, 0.0

    def conv(name, out, channels, size, stride=1):
        nonlocal flops
        params[name] = _filter(random, out, channels, size)
        params[f"{name}.scale"], params[f"{name}.shift"] = np.ones(out, np.float32), np.zeros(out, np.float32)
        flops += (2 if name == "c" else 3) * conv_flops(32, out, channels, size, side * side, stride)

    conv("c", 16, 3, 3)
    for name, channels, width, stride in resnet_blocks():
        side //= stride
        conv(f"{name}.c1", width, channels, 3, stride)
        conv(f"{name}.c2", width, width, 3)
        if stride != 1 or channels != width:
            conv(f"{name}.short", width, channels, 1, stride)
    params.update(_dense((64, 10)))
    return Row(32, params, _classes(32, (3, 32, 32), 10), flops + _dense_flops(32, (64, 10), True), (1.3, 1.3), drift=0.02)


def ngram():
    params = {"table": _normal(np.random.default_rng(2), 2073, 32), **_dense((128, 256, 2073))}
    draw = lambda random: {"x": random.integers(0, 2073, (100, 4)), "y": random.integers(0, 2073, (100, 1))}
    return Row(100, params, draw, _dense_flops(100, (128, 256, 2073), True), (1.2, 1.2))


LSTM_WORDS, LSTM_WIDTH, LSTM_LENGTH = 5149, 128, 100


def lstm():
    """Gates stand as input, forget, candidate, output. Two biases are learnt, as PyTorch has them."""
    random, width = np.random.default_rng(2), LSTM_WIDTH
    params = {"table": _normal(random, LSTM_WORDS, width),
              "wi": _normal(random, width, 4 * width, scale=width ** -0.5), "bi": np.zeros(4 * width, np.float32),
              "wh": _normal(random, width, 4 * width, scale=width ** -0.5), "bh": np.zeros(4 * width, np.float32),
              **_dense((width, 2))}
    draw = lambda random: {"x": random.integers(0, LSTM_WORDS, (32, LSTM_LENGTH)), "y": random.integers(0, 2, (32, 1))}
    flops = 2 * _dense_flops(32 * LSTM_LENGTH, (width, 4 * width), True) + _dense_flops(32, (width, 2), True)
    return Row(32, params, draw, flops, (1.15, 1.3))


# -- click-through rates: 26 slots, each with its part of the ids, skewed towards the smaller ones ----------------

SLOTS, TABLE_ROWS, WIDTH, CTR_BATCH = 26, 1_000_000, 10, 512
CTR = (13 + SLOTS * WIDTH, 400, 400, 400, 1)


def ctr_batch(random, size):
    """A feed of the click-through rows."""
    part = TABLE_ROWS // SLOTS
    ids = (part * random.random((size, SLOTS)) ** 3).astype(np.int64) + np.arange(SLOTS) * part
    return {"ids": ids, "x": _normal(random, size, 13), "y": (random.random((size, 1)) < 0.25).astype(np.float32)}


def _ctr(targets, streams):
    """`streams` is how often a step goes over a row of the tables (values, gradients, optimizer states)."""
    random = np.random.default_rng(2)
    params = {"table": _normal(random, TABLE_ROWS, WIDTH, scale=0.01), "wide": np.zeros((TABLE_ROWS, 1), np.float32),
              "wide_dense": _normal(random, 13, 1, scale=0.1), "wide_b": np.zeros(1, np.float32), **_dense(CTR)}
    return Row(CTR_BATCH, params, lambda random: ctr_batch(random, CTR_BATCH), _dense_flops(CTR_BATCH, CTR, True), targets,
               bytes=4.0 * CTR_BATCH * SLOTS * (WIDTH + 1) * streams)


def widedeep_sgd():
    return _ctr((1.35, 1.35), 5)


def widedeep_adam():
    return _ctr((2.0, 2.0), 9)


def deepfm_adam():
    return _ctr((2.0, 2.0), 9)


ROWS = {make.__name__: make for make in (linreg, mlp_sgd, mlp_adam, mlpbig_sgd, lenet5, resnet20, ngram, lstm,
                                         widedeep_sgd, widedeep_adam, deepfm_adam)}
