"""A script that loads and sets rows of tables between two steps, in every way that there is.

Each trainer writes to OUT.<index>.npz what it looks up after each step and after each thing that it sets. All trainers feed the same
batches, so a job makes the bits of one process. At the end trainer 0 saves the tables at OUT.end.
"""

import argparse
import glob
import os
import time

import numpy as np

import trireme as fluid
from trireme import layers

parser = argparse.ArgumentParser()
parser.add_argument("--out", required=True)
parser.add_argument("--seen", help="write here which steps are begun, and wait a little in each")
parser.add_argument("--pause", type=float, default=0.02)
parser.add_argument("--wrong", help="do this mistake after the first step")
parser.add_argument("--keep", action="store_true", help="keep rows between steps")
args = parser.parse_args()

index = fluid.distributed.trainer_index()
fluid.default_startup_program().random_seed = 3
if args.keep:
    fluid.distributed.set_row_cache(rows=1000, staleness=8)
ids, y = layers.data("ids", [1], dtype="int64"), layers.data("y", [1])
plain = layers.embedding(ids, [200, 4], is_distributed=True,
                         param_attr=fluid.ParamAttr(name="plain", initializer=fluid.initializer.Uniform(-1, 1)))
aged = layers.embedding(ids, [200, 3], is_distributed=True, param_attr="aged", entry_count=2, max_age=5, row_dtype="float16")
loss = layers.mean(layers.square_error_cost(layers.fc(layers.concat([plain, aged], axis=1), 1, param_attr="w"), y))
test = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.Adam(0.1).minimize(loss)
exe, scope = fluid.Executor(), fluid.global_scope()
exe.run(fluid.default_startup_program())
folder, found = f"{args.out}.saved", {}


def batch(step):
    random = np.random.RandomState(step)
    return {"ids": random.randint(0, 60, (12, 1)) << 40, "y": random.rand(12, 1).astype("float32")}


def look(label):
    every = {"ids": np.arange(70).reshape(-1, 1) << 40, "y": np.zeros((70, 1), "float32")}
    found[f"{label}.plain"], found[f"{label}.aged"] = exe.run(test, feed=every, fetch_list=[plain, aged])


def damage():
    with open(max(glob.glob(f"{folder}/plain/rows-*.npy"), key=os.path.getsize), "r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([last[0] ^ 1]))


def mistake():
    if index == 0 or args.wrong == "differ":
        if args.wrong == "damaged" and not fluid.distributed.is_replaying():
            damage()
    if args.wrong == "damaged":
        fluid.distributed.barrier()
        try:
            fluid.io.load_vars(exe, folder, vars=["plain"])
        except fluid.core.TriremeError as error:
            print(f"caught by trainer {index}: {error}", flush=True)
        look("after the mistake")
        same = np.array_equal(found["after the mistake.plain"], found["before.plain"])
        print(f"trainer {index} has the rows from before: {same}", flush=True)
    else:
        fluid.io.set_table_rows("plain", [1, 2 + index], np.ones((2, 4)))


ACTIONS = {
    3: lambda: fluid.io.set_table_rows("plain", [0, 1 << 40, -9], np.full((3, 4), 0.25)),
    5: lambda: fluid.io.save_persistables(exe, folder),
    6: lambda: fluid.io.save_checkpoint(exe, f"{args.out}.checkpoints", step=5),
    9: lambda: fluid.io.load_persistables(exe, folder),
    11: lambda: fluid.io.set_table_rows("aged", np.arange(60) << 40, np.random.RandomState(7).rand(60, 3)),
    13: lambda: fluid.io.load_checkpoint(exe, f"{args.out}.checkpoints"),
    15: lambda: fluid.io.load_params(exe, folder),
    16: lambda: fluid.io.load_vars(exe, folder, vars=["aged"]),
}

for step in range(1, 25):
    if args.seen and not fluid.distributed.is_replaying():
        with open(f"{args.seen}.{index}", "a") as file:
            file.write(f"{step}\n")
        time.sleep(args.pause)
    if args.wrong and step == 7:
        look("before")
        mistake()
        break
    if step in ACTIONS:
        ACTIONS[step]()
        look(f"set.{step}")
        fluid.distributed.barrier()                    # where trainers step alone, the next step of another one may come between
    found[f"batch.{step}"], = exe.run(feed=batch(step), fetch_list=[plain])
    look(step)
fluid.io.save_persistables(exe, f"{args.out}.end")
np.savez(f"{args.out}.{index}.npz", **found)
