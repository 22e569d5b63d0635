"""Trainers with unequal numbers of batches, whose epochs end with a save or a collective; in one process the steps of all trainers by
turns.

Writes the parameters after each epoch. Dies where it is told to, once.
"""

import argparse
import os
import signal
from pathlib import Path

import numpy as np

import trireme as fluid

parser = argparse.ArgumentParser()
parser.add_argument("--out", required=True)
parser.add_argument("--batches", default="6,2", help="of each trainer, in each epoch")
parser.add_argument("--end", default="save", help="of each epoch: save, mean, both, load")
parser.add_argument("--kill", type=int, default=-1, help="the trainer that dies")
parser.add_argument("--at", default="", help="EPOCH-STEP or EPOCH-end")
parser.add_argument("--checkpoint", default="")
args = parser.parse_args()
distributed, L = fluid.distributed, fluid.layers
me, count = distributed.trainer_index(), distributed.trainer_count()
batches = [int(n) for n in args.batches.split(",")]
has_job = distributed.is_distributed()
if args.checkpoint:
    distributed.checkpoint(args.checkpoint, every_steps=1)

x, ids, y = L.data("x", [4]), L.data("ids", [1], dtype="int64"), L.data("y", [1])
hidden = L.concat([x, L.embedding(ids, [20, 3], is_distributed=True, param_attr="rows")], 1)
loss = L.mean(L.square_error_cost(L.fc(L.fc(hidden, 6, act="tanh"), 1), y))
fluid.optimizer.Momentum(0.05, 0.9).minimize(loss)
fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 7
exe = fluid.Executor()
exe.run(fluid.default_startup_program())


def die(where):
    mark = Path(f"{args.out}.died")
    if me == args.kill and where == args.at and not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)


def batch(trainer, epoch, step):
    r = np.random.default_rng([trainer, epoch, step])
    rows = r.normal(size=(4 + trainer, 4)).astype("float32")
    return {"x": rows, "ids": r.integers(0, 20, (4 + trainer, 1)), "y": rows.sum(1, keepdims=True)}


def feeds(epoch):
    """This trainer's batches; in one process those of all trainers that have one, side by side."""
    if has_job:
        return (batch(me, epoch, step) for step in range(batches[me]))
    steps = ([batch(t, epoch, step) for t in range(len(batches)) if step < batches[t]] for step in range(max(batches)))
    return ({name: np.concatenate([one[name] for one in parts]) for name in parts[0]} for parts in steps)


def end(epoch):
    if args.end in ("mean", "both"):
        sums = distributed.all_reduce(float(me + epoch), op="mean")
        assert sums == epoch + (count - 1) / 2, sums
    if args.end in ("save", "both"):
        fluid.io.save_persistables(exe, f"{args.out}.{epoch}")
    die(f"{epoch}-end")


values = {}
for epoch in range(3):
    for step, feed in enumerate(feeds(epoch)):
        die(f"{epoch}-{step}")
        exe.run(feed=feed, fetch_list=[loss])
    end(epoch)
    for name in ("fc_0.w_0", "fc_1.w_0", "fc_1.b_0"):
        values[f"{epoch}.{name}"] = np.array(fluid.global_scope().find_var(name).get_tensor())
np.savez(f"{args.out}.{me}.npz", **values)
print(f"trainer {me} ends", flush=True)
