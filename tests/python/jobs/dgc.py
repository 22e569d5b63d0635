"""Trainers that send their largest gradients alone: the gradients are drawn, so that the algorithm says what becomes of the parameter.

dgc.py --out OUT [--steps N] [--fewer N] [--mark FILE] [--pause S] [--save DIR]; each trainer writes all that persists to OUT.<index>.npz.
--fewer: trainer 1 makes so many steps less; a negative number: trainer 0 does. --save: trainer 0 saves a checkpoint by itself, and prints
why not.
"""

import argparse
import time

import numpy as np

import trireme as fluid
from trireme import layers

SIZES, STEPS, BEGIN, PERIOD, SPARSITY = [128, 192], 60, 4, 9, [0.75, 0.9375, 0.984375]


def gradients(trainer):
    rng = np.random.default_rng(trainer)
    return [rng.normal(size=SIZES).astype("float32") for _ in range(STEPS)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--fewer", type=int, default=0)
    parser.add_argument("--mark")
    parser.add_argument("--save")
    parser.add_argument("--pause", type=float, default=0.0)
    args = parser.parse_args()
    w = layers.create_parameter(SIZES, "float32", attr=fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(1.0)))
    g = layers.data("g", SIZES, append_batch_size=False)
    loss = layers.reduce_sum(layers.elementwise_mul(w, g))
    fluid.optimizer.DGCMomentumOptimizer(0.5, 0.9, BEGIN, PERIOD, SPARSITY).minimize(loss)
    index, scope, exe = fluid.distributed.trainer_index(), fluid.global_scope(), fluid.Executor()
    exe.run(fluid.default_startup_program())
    for one in gradients(index)[:args.steps - (abs(args.fewer) if index == (args.fewer > 0) else 0)]:
        exe.run(feed={"g": one}, fetch_list=[loss])
        if args.mark and index == (args.fewer < 0):      # one that makes all steps: a byte for each
            with open(args.mark, "a") as mark:
                mark.write(".")
        time.sleep(args.pause)
    if args.save and index == 0:
        try:
            fluid.io.save_checkpoint(exe, args.save)
        except fluid.core.UnsupportedError as error:
            print(error)
    names = [var.name for var in fluid.default_main_program().list_vars() if var.persistable
             and scope.find_var(var.name).kind() is not None]
    np.savez(f"{args.out}.{index}.npz", **{name: np.array(scope.find_var(name).get_tensor()) for name in names})


if __name__ == "__main__":
    main()
