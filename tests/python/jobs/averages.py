"""A net whose parameters are averaged in two ways. Trainer 0 writes the means, and the parameters before and after each step."""

import argparse

import numpy as np

import trireme as fluid
from trireme import layers


def build():
    x, y = layers.data("x", [5]), layers.data("y", [1])
    hidden = layers.fc(x, 4, act="tanh", param_attr="w1", bias_attr="b1")
    loss = layers.mean(layers.square_error_cost(layers.fc(hidden, 1, param_attr="w2", bias_attr="b2"), y))
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    ema = fluid.optimizer.ExponentialMovingAverage(0.8)
    ema.update()
    return loss, ema, fluid.optimizer.ModelAverage(0.5, min_average_window=2, max_average_window=3)


def values():
    return {name: np.array(fluid.executor.fetch_var(name)) for name in ("w1", "b1", "w2", "b2")}


def batches(steps):
    random = np.random.RandomState(2)
    for step in range(steps):
        yield {"x": random.normal(size=(8 - step % 3, 5)).astype("float32"), "y": random.rand(8 - step % 3, 1).astype("float32")}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    fluid.default_startup_program().random_seed = 3
    loss, *averages = build()
    exe, job = fluid.Executor(), fluid.distributed
    exe.run(fluid.default_startup_program())
    seen = [values()]
    for batch in batches(7):
        exe.run(feed=job.slice_of(batch, job.trainer_index(), job.trainer_count()), fetch_list=[loss])
        seen.append(values())
    result = {f"{step}.{name}": value for step, all in enumerate(seen) for name, value in all.items()}
    for kind, average in zip(("ema", "window"), averages):
        with average.apply(exe):
            result |= {f"{kind}.{name}": value for name, value in values().items()}
    if job.trainer_index() == 0:
        np.savez(args.out, **result)


if __name__ == "__main__":
    main()
