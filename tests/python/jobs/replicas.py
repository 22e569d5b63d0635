"""Trains by replicas on threads of each process: replicas.py [--out FILE.npz] [--table] [--function] [--places N]; trainer 0 saves what was
learnt."""

import argparse

import numpy as np

import trireme as fluid
from trireme import layers

STEPS, BATCH = 8, 14


def tanh(x):
    """Return a layer that a function of Python computes."""
    out = x.block.create_var(name="by_function", dtype="float32", shape=[-1, 8])
    return layers.py_func(lambda x: np.tanh(x), x, out, lambda out, grad: np.array(grad) * (1 - np.square(out)),
                          skip_vars_in_backward_input=x)


def network(is_table, is_function=False):
    ids, label = layers.data("ids", [4, 1], dtype="int64"), layers.data("label", [1])
    rows = layers.reshape(layers.embedding(ids, [30, 6], is_sparse=True, is_distributed=is_table), [-1, 24])
    hidden = layers.fc(rows, 8, act=None if is_function else "tanh")
    guess = layers.fc(tanh(hidden) if is_function else hidden, 1)
    loss = layers.mean(layers.square_error_cost(guess, label))
    fluid.optimizer.Adam(layers.exponential_decay(0.05, 3, 0.8)).minimize(loss)
    return guess, loss


def batches():
    rng = np.random.default_rng(5)
    for _ in range(STEPS):
        ids = rng.integers(0, 30, (BATCH, 4, 1))
        yield {"ids": ids, "label": (ids.sum(axis=1) % 7).astype("float32")}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--out")
    options.add_argument("--table", action="store_true")
    options.add_argument("--function", action="store_true")
    options.add_argument("--places", type=int, default=0)
    options = options.parse_args()
    fluid.default_startup_program().random_seed = 3
    guess, loss = network(options.table, options.function)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    test = fluid.default_main_program().clone(for_test=True)
    program = fluid.default_main_program()
    if options.places:
        program = fluid.CompiledProgram(program).with_data_parallel(loss_name=loss.name, places=fluid.cpu_places(options.places))
    trainer, trainers = fluid.distributed.trainer_index(), fluid.distributed.trainer_count()
    bounds = [BATCH * i // trainers for i in range(trainers + 1)]
    costs = []
    for feed in batches():
        mine = {name: value[bounds[trainer]:bounds[trainer + 1]] for name, value in feed.items()}
        cost, = exe.run(program, feed=mine, fetch_list=[loss])
        costs.append(np.mean(cost))
    guesses, = exe.run(test, feed=next(batches()), fetch_list=[guess])
    if trainer == 0 and options.out:
        np.savez(options.out, guesses=guesses, weight=np.array(fluid.global_scope().find_var("fc_0.w_0").get_tensor()),
                 **({"costs": np.array(costs)} if trainers > 1 or not options.places else {}))
    print("done")


if __name__ == "__main__":
    main()
