"""Steps that look up rows of sparse tables, as many as are asked for, and compute next to nothing."""

import argparse

import numpy as np

import trireme as fluid
from trireme import distributed

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--tables", type=int, default=1)
parser.add_argument("--keys", type=int, default=8, help="of each table in a step of a trainer")
parser.add_argument("--width", type=int, default=4)
args = parser.parse_args()

fields = [fluid.layers.data(f"field{i}", [1], dtype="int64") for i in range(args.tables)]
rows = [fluid.layers.embedding(field, [10**6, args.width], is_distributed=True, param_attr=f"table{i}") for i, field in enumerate(fields)]
loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.sums([fluid.layers.reduce_sum(one, dim=[1], keep_dim=True) for one in rows]), 1))
fluid.optimizer.SGD(0.01).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
random = np.random.default_rng(distributed.trainer_index())
for _ in range(args.steps):
    exe.run(feed={field.name: random.integers(0, 10**6, (args.keys, 1)) for field in fields}, fetch_list=[loss])
