"""Trainers that feed batches: the same ones, each its own, or one constant."""

import sys

import numpy as np

import trireme as fluid

x = fluid.layers.data("x", [4])
loss = fluid.layers.mean(fluid.layers.fc(x, 2))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
reader = lambda: (np.full((6, 4), 0.0 if sys.argv[1] == "constant" else step, "float32") + np.arange(6, dtype="float32")[:, None]
                  for step in range(5))
for rows in (fluid.distributed.shard(reader) if sys.argv[1] == "shard" else reader)():
    exe.run(feed={"x": rows}, fetch_list=[loss])
