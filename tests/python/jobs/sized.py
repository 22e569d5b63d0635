"""A net of parameters of some sizes: below a message's limit, above a chunk, cut over servers. Its steps can be counted.

    sized.py --steps N [--table]
"""

import argparse

import numpy as np

import trireme as fluid

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--table", action="store_true")
parser.add_argument("--optimizer", default="SGD")
args = parser.parse_args()

layers = fluid.layers
x = layers.data("x", [300])
hidden = layers.fc(layers.fc(layers.fc(x, 700, act="relu"), 60, act="tanh"), 5)
if args.table:
    ids = layers.data("ids", [4, 1], dtype="int64")
    rows = layers.embedding(ids, [1 << 30, 8], is_distributed=True, param_attr="rows")
    hidden = layers.concat([hidden, layers.reshape(rows, [-1, 32])], axis=1)
loss = layers.mean(layers.fc(hidden, 1))
getattr(fluid.optimizer, args.optimizer)(0.001).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
random = np.random.default_rng(1)
for _ in range(args.steps):
    feed = {"x": random.normal(size=(8, 300)).astype("float32")}
    if args.table:
        feed["ids"] = np.arange(32).reshape(8, 4, 1)
    exe.run(feed=feed, fetch_list=[loss])
print("all steps")
