"""A script whose trainers have what no server has: moving averages, an AUC that is begun anew in each epoch, a schedule's counter.

Each trainer writes all of it to OUT.<index>.npz.
"""

import argparse
import time

import numpy as np

import trireme as fluid

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--steps", type=int, default=30, help="of an epoch")
parser.add_argument("--pause", type=float, default=0.004)
parser.add_argument("--out", required=True)
parser.add_argument("--table", action="store_true", help="train a sparse table, too")
parser.add_argument("--mark", help="file to make after the first step")
args = parser.parse_args()

fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 7
x, label = fluid.layers.data("x", [6]), fluid.layers.data("label", [1], dtype="int64")
inputs = [x]
if args.table:
    word = fluid.layers.data("word", [1], dtype="int64")
    inputs.append(fluid.layers.embedding(word, [1000, 4], is_distributed=True))
hidden = fluid.layers.dropout(fluid.layers.batch_norm(fluid.layers.fc(inputs, 20, act="tanh")), 0.2)
predict = fluid.layers.fc(hidden, 2, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
auc, _, states = fluid.layers.auc(predict, label)
rate = fluid.layers.exponential_decay(0.01, 10, 0.9)
fluid.optimizer.Adam(rate).minimize(loss)

index = fluid.distributed.trainer_index()
exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.global_scope()
exe.run(fluid.default_startup_program())
rng = np.random.default_rng(3 + index)
for _ in range(args.epochs):
    for state in states:                               # as a script does that wants an AUC of each epoch
        tensor = scope.find_var(state.name).get_tensor()
        tensor.set(np.zeros_like(np.array(tensor)))
    for _ in range(args.steps):
        label_now = rng.integers(0, 2, (8, 1))
        batch = (rng.normal(size=(8, 6)) + label_now).astype("float32")
        words = {"word": rng.integers(0, 50, (8, 1)) * 10**12 + label_now} if args.table else {}
        exe.run(feed={"x": batch, "label": label_now, **words}, fetch_list=[loss, auc, rate, states[-1]])
        if args.mark and index == 0:
            open(args.mark, "w").close()
        time.sleep(args.pause)
kept = [var.name for var in fluid.default_main_program().list_vars()
        if var.persistable and scope.find_var(var.name).kind() == fluid.core.VarType.LOD_TENSOR]
np.savez(f"{args.out}.{index}.npz", **{name: np.array(scope.find_var(name).get_tensor()) for name in kept})
