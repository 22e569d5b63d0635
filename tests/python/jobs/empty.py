"""A script whose last batch has fewer samples than the job has trainers, so that slices are empty. In its first step it feeds a table.

Each trainer writes the variables of its scope to OUT.<index>.npz.
"""

import argparse

import numpy as np

import trireme as fluid

parser = argparse.ArgumentParser()
parser.add_argument("--out")
args = parser.parse_args()

L = fluid.layers
x, y = L.data("x", [6]), L.data("y", [1])
table = L.create_parameter([6], "float32", "positions", attr=fluid.ParamAttr("positions", trainable=False))
hidden = L.batch_norm(L.fc(L.elementwise_mul(x, table, axis=1), 8), act="relu")
choose = L.IfElse(L.less_than(L.reduce_sum(x, dim=1, keep_dim=True), L.fill_constant_batch_size_like(x, [-1, 1], "float32", 0.0)))
with choose.true_block():
    choose.output(L.fc(choose.input(hidden), 1))
with choose.false_block():
    choose.output(L.fc(choose.input(hidden), 1))
loss = L.mean(L.square_error_cost(choose()[0], y))
fluid.optimizer.Momentum(0.01, 0.9).minimize(loss)

index, exe, scope = fluid.distributed.trainer_index(), fluid.Executor(), fluid.global_scope()
exe.run(fluid.default_startup_program())
rows = [(row, row.sum(keepdims=True)) for row in np.random.default_rng(0).normal(size=(33, 6)).astype("float32")]
for step, batch in enumerate(fluid.distributed.shard(fluid.batch(lambda: iter(rows), 8))()):
    fed = {"positions": np.arange(1, 7, dtype="float32")} if step == 0 else {}
    feed = {"x": np.array([row for row, _ in batch], "float32").reshape(-1, 6),
            "y": np.array([sum_ for _, sum_ in batch], "float32").reshape(-1, 1)}
    cost, = exe.run(feed={**fed, **feed}, fetch_list=[loss])
    print(f"trainer {index}: a slice of {len(batch)}, loss {cost.item()}", flush=True)
kept = {var.name: np.array(scope.find_var(var.name).get_tensor()) for var in fluid.default_main_program().list_vars()
        if var.persistable and scope.find_var(var.name) is not None and scope.find_var(var.name).kind() is not None}
if args.out:
    np.savez(f"{args.out}.{index}.npz", **kept)
