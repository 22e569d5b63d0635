"""Saving in a job: all trainers save, or trainer 0 alone; what each finds after its call is printed."""

import argparse
import os
import signal
import time
from pathlib import Path

import numpy as np

import trireme as fluid
from trireme.saving import io as files

parser = argparse.ArgumentParser()
parser.add_argument("--out", required=True)
parser.add_argument("--case", default="all", help="all, alone, fails, one, slow")
parser.add_argument("--table", action="store_true")
parser.add_argument("--kill", default="", help="where trainer 0 dies: in, behind")
args = parser.parse_args()
distributed = fluid.distributed
me = distributed.trainer_index()
mark = Path(f"{args.out}.died")

x = fluid.layers.data("x", [4])
hidden = fluid.layers.fc(x, 64)
if args.table:
    ids = fluid.layers.data("ids", [1], dtype="int64")
    hidden = hidden + fluid.layers.embedding(ids, [100, 64], is_distributed=True, param_attr="rows")
y = fluid.layers.fc(hidden, 2)
loss = fluid.layers.mean(y)
fluid.optimizer.Adam(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())


def train(steps):
    for _ in range(steps):
        feed = {"x": np.full((2, 4), me + 1, "float32")}
        if args.table:
            feed["ids"] = np.array([[me], [7]])
        exe.run(feed=feed, fetch_list=[loss])


def slowly(write):
    """Trainer 0's files come late, and one by one."""
    def wrapped(*given, **named):
        time.sleep(0.3)
        write(*given, **named)
        if args.kill == "in" and not mark.exists():
            mark.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
    return wrapped


files._write_vars = slowly(files._write_vars)
for turn in range(2):
    train(3)
    folder = f"{args.out}/{turn}"
    if args.case == "fails":
        Path(args.out).write_text("no folder") if me == 0 else None
    if args.case != "alone" or me == 0:
        fluid.io.save_persistables(exe, folder)
        fluid.io.save_inference_model(f"{folder}/model", ["x"] + ["ids"] * args.table, [y], exe)
    if args.case == "alone":
        distributed.barrier()
    if args.kill == "behind" and me == 0 and turn == 1 and not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    found = sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())
    print(f"trainer {me} turn {turn}: {len(found)} files, moments {sum('moment' in name for name in found)}", flush=True)
    if args.table:                                     # the servers have it: no trainer loads it in the job
        continue
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, targets = fluid.io.load_inference_model(f"{folder}/model", exe)
        value, = exe.run(program, feed={"x": np.ones((1, 4), "float32"), **({"ids": np.array([[7]])} if args.table else {})},
                         fetch_list=targets)
    print(f"trainer {me} turn {turn}: {value.tolist()}", flush=True)
    distributed.barrier()                              # the next step changes nothing of this
