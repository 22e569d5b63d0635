"""Parameters that add up the learning rates of the updates that they had: one for each schedule, and a row of a table each.

Every gradient is 1, so what a parameter of SGD has lost tells which steps its schedule has seen. Trainer 0 writes to OUT the
parameters after each of its steps and the rates that it fetched. In a folder to MEET in it waits for trainer 1 at the end, so that
what it leaves has all updates; with --ahead trainer 1 ends its first step before trainer 0 begins its second, and begins its own second
when trainer 0 has ended so many.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import trireme as fluid
from trireme import layers

SCHEDULES = {
    "number": lambda: 0.25,
    "exponential": lambda: layers.exponential_decay(0.5, 7, 0.6),
    "stairs": lambda: layers.exponential_decay(0.5, 4, 0.6, staircase=True),
    "natural": lambda: layers.natural_exp_decay(0.5, 9, 0.7),
    "inverse": lambda: layers.inverse_time_decay(0.5, 5, 0.7),
    "polynomial": lambda: layers.polynomial_decay(0.5, 15, 0.01, 2.0),
    "cycling": lambda: layers.polynomial_decay(0.5, 4, 0.01, 2.0, cycle=True),
    "pieces": lambda: layers.piecewise_decay([3, 8, 17], [0.5, 0.25, 0.125, 0.0625]),
    "noam": lambda: layers.noam_decay(6, 6),
    "cosine": lambda: layers.cosine_decay(0.5, 3, 6),
    "warm-up": lambda: layers.linear_lr_warmup(layers.exponential_decay(0.5, 7, 0.6), 6, 0.0, 0.4),
}
KEY = 7
LIMIT = 60                                             # seconds


def build():
    """Return what is learned, the parameters and the found rows, and the rates."""
    one, key = layers.data("one", [1]), layers.data("key", [1], dtype="int64")
    zero = fluid.initializer.Constant(0.0)
    learned, rates = [], []
    for name, schedule in SCHEDULES.items():
        weight = layers.create_parameter([1, 1], "float32", name=f"{name}.weight", default_initializer=zero)
        row = layers.embedding(key, [9, 1], is_distributed=True, param_attr=fluid.ParamAttr(f"{name}.table", initializer=zero))
        loss = layers.mean(layers.mul(one, weight) + row)
        rate = schedule()
        fluid.optimizer.SGD(rate).minimize(loss)
        learned += [weight, row]
        if isinstance(rate, fluid.framework.Variable):
            rates.append(rate)
    return learned, rates


def wait_for(path):
    end = time.monotonic() + LIMIT
    while not path.exists():
        assert time.monotonic() < end, f"nobody made {path}"
        time.sleep(0.002)


def meet(folder, me, step, ahead):
    if (me, step) == (0, 1):
        wait_for(folder / "first")
    if (me, step) == (1, 1):
        (folder / "first").touch()
        wait_for(folder / "ahead")
    if (me, step) == (0, ahead):
        (folder / "ahead").touch()


def end(folder, me):
    if me == 1:
        (folder / "end").touch()
    else:
        wait_for(folder / "end")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--meet", type=Path)
    parser.add_argument("--ahead", type=int)
    parser.add_argument("--out")
    args = parser.parse_args()

    learned, rates = build()
    test = fluid.default_main_program().clone(for_test=True)
    exe, me, feed = fluid.Executor(), fluid.distributed.trainer_index(), {"one": np.ones((1, 1), "float32"), "key": np.full((1, 1), KEY)}
    exe.run(fluid.default_startup_program())
    seen, fetched = [], []
    for step in range(args.steps):
        if args.ahead:
            meet(args.meet, me, step, args.ahead)
        fetched.append(np.ravel(exe.run(feed=feed, fetch_list=rates)))
        seen.append(np.ravel(exe.run(test, feed=feed, fetch_list=learned)))        # waits for the update
    if args.ahead:
        meet(args.meet, me, args.steps, args.ahead)
    if args.meet:
        end(args.meet, me)
    if args.out and me == 0:
        np.savez(args.out, seen=seen, fetched=fetched)


if __name__ == "__main__":
    main()
