"""Collectives of a job: each trainer writes what its calls have returned, and dies where it is told to."""

import argparse
import json
import os
import signal
from pathlib import Path

import numpy as np

import trireme as fluid

parser = argparse.ArgumentParser()
parser.add_argument("--out", required=True)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--kill", type=int, default=-1, help="the trainer that dies")
parser.add_argument("--at", default="", help="where: before-N, behind-N, step-N")
parser.add_argument("--wrong", default="", help="what trainer 1 calls in the place of the second collective")
parser.add_argument("--short", type=int, default=0, help="rounds that the last trainer leaves out")
parser.add_argument("--steps", type=int, default=4)
args = parser.parse_args()
distributed = fluid.distributed
me, count = distributed.trainer_index(), distributed.trainer_count()


def die(where):
    if me == args.kill and where == args.at:
        mark = Path(f"{args.out}.died")
        if not mark.exists():
            mark.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)


x = fluid.layers.data("x", [4])
loss = fluid.layers.mean(fluid.layers.fc(x, 2))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
early = distributed.all_gather(me)                     # before the servers have their work
exe.run(fluid.default_startup_program())
said = [early]
for turn in range(args.rounds - (args.short if me == count - 1 else 0)):
    for step in range(args.steps):
        cost, = exe.run(feed={"x": np.full((2, 4), me + step, "float32")}, fetch_list=[loss])
        die(f"step-{turn * args.steps + step}")
    die(f"before-{turn}")
    if args.wrong and me == 1 and turn == 1:
        {"barrier": distributed.barrier, "shape": lambda: distributed.all_reduce(np.zeros(3))}[args.wrong]()
    total = distributed.all_reduce(np.array([turn, me, 0.1 * (me + 1)]))
    die(f"behind-{turn}")
    means = distributed.all_reduce(float(turn + me), op="mean")
    seen = distributed.all_gather({"cost": float(cost[0]), "who": [me, f"trainer {me}"], "rows": np.arange(me)})
    root = distributed.broadcast(np.full(3, 7 + turn) if me == 0 else None)
    distributed.barrier()
    said.append([total.tolist(), means, [{**one, "rows": one["rows"].tolist()} for one in seen], root.tolist()])
with open(f"{args.out}.{me}.json", "w") as out:
    json.dump(said, out)
