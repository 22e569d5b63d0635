"""Trains from a reader inside the program, several passes: readers.py [--out FILE.npz]."""

import argparse

import numpy as np

import trireme as fluid
from trireme import layers


def samples():
    rng = np.random.default_rng(1)
    for _ in range(30):
        x = rng.normal(size=4).astype("float32")
        yield x, [x.sum()]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--out")
    options = options.parse_args()
    fluid.default_startup_program().random_seed = 3
    reader = layers.py_reader(capacity=4, shapes=[[-1, 4], [-1, 1]], dtypes=["float32", "float32"])
    x, y = layers.read_file(reader)
    loss = layers.mean(layers.square_error_cost(layers.fc(x, 1), y))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    reader.decorate_paddle_reader(fluid.distributed.shard(fluid.batch(samples, 6)))
    for _ in range(3):
        reader.start()
        try:
            while True:
                exe.run(fetch_list=[loss])
        except fluid.core.EOFException:
            reader.reset()
    if fluid.distributed.trainer_index() == 0 and options.out:
        np.savez(options.out, weight=fluid.executor.fetch_var("fc_0.w_0"))


if __name__ == "__main__":
    main()
