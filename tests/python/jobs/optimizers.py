"""Small nets side by side in one program, each with a way of its own to train: optimizers, schedules, clips, weight decays.

A net has a dense layer, a parameter with sparse gradients and a sparse table. Trainer 0 writes to OUT what each net has learned, all
in one process or in a job alike. The nets do not touch each other, so one job tries all ways of a kind.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import trireme as fluid
from trireme import layers
from trireme.clip import GradientClipByGlobalNorm, GradientClipByNorm, GradientClipByValue
from trireme.optimizer import (
    SGD, Adadelta, Adagrad, Adam, Adamax, DecayedAdagrad, Ftrl, Lamb, LarsMomentum, Momentum, Optimizer, RMSProp)
from trireme.regularizer import L1Decay, L2Decay

KEYS = np.array([0, 1, 2, 3, -1, -7, 2**62 + 5, -2**63, 2**63 - 1, 12345678901, 99, -99], np.int64)
WORDS = 9000                                           # rows of the sparse parameter: it is cut, each server has some


@dataclass(frozen=True)
class Way:
    """``optimizer`` makes one, in the program that it is for; ``decay`` is of the parameters themselves, where they have one."""

    optimizer: Callable[[], Optimizer]
    decay: Any = None


OPTIMIZERS = {
    "sgd": Way(lambda: SGD(0.2)),
    "momentum": Way(lambda: Momentum(0.05, 0.9)),
    "nesterov": Way(lambda: Momentum(0.05, 0.9, use_nesterov=True)),
    "lars": Way(lambda: LarsMomentum(0.5, 0.9, lars_coeff=0.1)),
    "adagrad": Way(lambda: Adagrad(0.1, initial_accumulator_value=0.1)),
    "decayed_adagrad": Way(lambda: DecayedAdagrad(0.05)),
    "adam": Way(lambda: Adam(0.05)),
    "lazy_adam": Way(lambda: Adam(0.05, lazy_mode=True)),
    "adamax": Way(lambda: Adamax(0.05)),
    "adadelta": Way(lambda: Adadelta(1.0, epsilon=1e-4)),
    "rmsprop": Way(lambda: RMSProp(0.02, momentum=0.3)),
    "centered_rmsprop": Way(lambda: RMSProp(0.02, momentum=0.3, centered=True)),
    "ftrl": Way(lambda: Ftrl(0.1, l1=0.01, l2=0.02)),
    "lamb": Way(lambda: Lamb(0.05)),
}
SCHEDULES = {
    "exponential": Way(lambda: SGD(layers.exponential_decay(0.3, 3, 0.7))),
    "stairs": Way(lambda: Adam(layers.exponential_decay(0.05, 3, 0.5, staircase=True))),
    "natural": Way(lambda: SGD(layers.natural_exp_decay(0.3, 4, 0.7))),
    "inverse": Way(lambda: Adagrad(layers.inverse_time_decay(0.2, 4, 0.7))),
    "polynomial": Way(lambda: SGD(layers.polynomial_decay(0.3, 6, 0.01, 2.0))),
    "cycling": Way(lambda: SGD(layers.polynomial_decay(0.3, 3, 0.01, 2.0, cycle=True))),
    "pieces": Way(lambda: Momentum(layers.piecewise_decay([2, 5], [0.1, 0.05, 0.02]), 0.9)),
    "noam": Way(lambda: Adam(layers.noam_decay(6, 4, 0.3))),
    "cosine": Way(lambda: SGD(layers.cosine_decay(0.3, 2, 5))),
    "warm-up": Way(lambda: SGD(layers.linear_lr_warmup(layers.exponential_decay(0.3, 4, 0.7), 4, 0.0, 0.2))),
}
LIMITS = {
    "decoupled": Way(lambda: fluid.contrib.extend_with_decoupled_weight_decay(Adam)(weight_decay=0.02, learning_rate=0.05)),
    "l1": Way(lambda: SGD(0.2, regularization=L1Decay(0.02))),
    "l2": Way(lambda: Adam(0.05, regularization=L2Decay(0.05))),
    "own l1 before l2": Way(lambda: Momentum(0.05, 0.9, regularization=L2Decay(5.0)), L1Decay(0.02)),
    "value": Way(lambda: SGD(0.3, grad_clip=GradientClipByValue(0.005))),
    "value and l2": Way(lambda: Ftrl(0.1, grad_clip=GradientClipByValue(0.01, -0.003), regularization=L2Decay(0.05))),
    "norm": Way(lambda: SGD(0.3, grad_clip=GradientClipByNorm(0.02))),
    "norm and l1": Way(lambda: Adagrad(0.1, grad_clip=GradientClipByNorm(0.02), regularization=L1Decay(0.02))),
}
# Apart from the others: where one net is clipped by its global norm, trainers of mode async clip the others, too.
GLOBAL = {
    "global": Way(lambda: SGD(0.3, grad_clip=GradientClipByGlobalNorm(0.03))),
    "global and l2": Way(lambda: Adam(layers.exponential_decay(0.05, 3, 0.7), grad_clip=GradientClipByGlobalNorm(0.03),
                                      regularization=L2Decay(0.05))),
    "beside it norm and l1": LIMITS["norm and l1"],
    "beside it decayed": LIMITS["l2"],
}
KINDS = {"apart": OPTIMIZERS | SCHEDULES | LIMITS, "global": GLOBAL}


def batches(steps, size):
    random = np.random.RandomState(5)
    for step in range(steps):
        rows = size - step % 3                             # trainers get uneven slices, and one of the last batch none
        rows = 1 if step == steps - 1 else rows
        yield {"x": random.normal(size=(rows, 5)).astype("float32"), "y": random.rand(rows, 1).astype("float32"),
               "word": random.randint(0, 12, (rows, 1)) * 750,
               "key": random.choice(KEYS, (rows, 1)) + step % 2}


def net(way, x, y, word, key, name):
    """Append a net and its training; return its loss and what a lookup of its table found."""
    def attr(what):
        return fluid.ParamAttr(f"{name}.{what}", regularizer=way.decay)

    used = layers.embedding(word, [WORDS, 4], is_sparse=True, param_attr=attr("sparse"))
    found = layers.embedding(key, [1000, 4], is_sparse=True, is_distributed=True, param_attr=attr("table"))
    dense = layers.fc(x, 4, param_attr=attr("dense"), bias_attr=attr("bias"))
    out = layers.fc(layers.tanh(dense + used + found), 1, param_attr=attr("out"), bias_attr=False)
    loss = layers.mean(layers.square_error_cost(out, y))
    way.optimizer().minimize(loss)
    return loss, found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=9)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--mark", type=Path)           # made after the first step
    parser.add_argument("--out")
    args = parser.parse_args()

    fluid.default_main_program().random_seed = fluid.default_startup_program().random_seed = 11
    x, y = layers.data("x", [5]), layers.data("y", [1])
    word, key = layers.data("word", [1], dtype="int64"), layers.data("key", [1], dtype="int64")
    ways = KINDS[args.kind]
    nets = {name: net(way, x, y, word, key, name) for name, way in ways.items()}
    test = fluid.default_main_program().clone(for_test=True)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    losses = [loss for loss, _ in nets.values()]
    job, curve = fluid.distributed, []
    for batch in batches(args.steps, args.batch):
        curve.append(np.ravel(exe.run(feed=job.slice_of(batch, job.trainer_index(), job.trainer_count()), fetch_list=losses)))
        time.sleep(args.pause)
        if args.mark:
            args.mark.touch()
    if args.out and job.trainer_index() == 0:
        blank = {"x": np.zeros((len(KEYS), 5), "float32"), "y": np.zeros((len(KEYS), 1), "float32"),
                 "word": np.zeros((len(KEYS), 1), "int64"), "key": KEYS[:, None]}
        rows = exe.run(test, feed=blank, fetch_list=[found for _, found in nets.values()])
        result = {f"{name}.table": table for name, table in zip(nets, rows)}
        result |= {f"{name}.losses": np.array(values) for name, values in zip(nets, np.transpose(curve))}
        result |= {param.name: np.array(fluid.global_scope().find_var(param.name).get_tensor())
                   for param in fluid.default_main_program().all_parameters() if not getattr(param, "is_distributed", False)}
        np.savez(args.out, **result)


if __name__ == "__main__":
    main()
