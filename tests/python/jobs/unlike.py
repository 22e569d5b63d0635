"""Trainers whose scripts differ in one thing: WHAT is the trainer's own in each."""

import argparse

import numpy as np

import trireme as fluid

parser = argparse.ArgumentParser()
parser.add_argument("what", nargs="?", default="")
args = parser.parse_args()
index = fluid.distributed.trainer_index()


def own(what, usual, other):
    return other if args.what == what and index else usual


fluid.default_startup_program().random_seed = own("startup seed", 3, 4)
x = fluid.layers.data("x", [4])
first = fluid.initializer.Uniform(-0.1, own("initializer", 0.1, 0.2), seed=own("initializer seed", 0, 5))
given = fluid.initializer.NumpyArrayInitializer(np.full((600, 3), own("array", 1.0, 2.0), "float32"))
hidden = fluid.layers.fc(x, 600, param_attr=fluid.ParamAttr("w", first))
hidden = fluid.layers.dropout(hidden, 0.1, seed=own("dropout seed", None, 9))
hidden = fluid.layers.batch_norm(hidden)
out = fluid.layers.fc(hidden, 3, param_attr=fluid.ParamAttr("v", given))
loss = fluid.layers.mean(out)
fluid.optimizer.Momentum(own("rate", 0.1, 0.2), own("momentum", 0.9, 0.8)).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
if args.what == "loaded" and not index:                # what trainer 0 alone has loaded is what training starts with
    for name in ("w", "learning_rate_0"):
        tensor = fluid.global_scope().find_var(name).get_tensor()
        tensor.set(np.array(tensor) * 0.5)
rng = np.random.default_rng(own("data", 1, 2))
for _ in range(3):
    exe.run(feed={"x": rng.normal(size=(2, 4)).astype("float32")}, fetch_list=[loss])
