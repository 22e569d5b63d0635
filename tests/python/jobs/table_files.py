"""Tables that a job loads before its first step, trains, exports and saves.

OUT.<rank>.npz: what is looked up at the end. The folder LOAD holds a model of this script; the job saves at SAVE and exports to EXPORT.
"""

import argparse
import os

import numpy as np

import trireme as fluid

parser = argparse.ArgumentParser()
parser.add_argument("--out", required=True)
parser.add_argument("--load")
parser.add_argument("--save")
parser.add_argument("--export")
parser.add_argument("--keys", type=int, default=3000)
args = parser.parse_args()

ids = fluid.layers.data("ids", [1], dtype="int64")
rows = fluid.layers.embedding(ids, [10**9, 4], is_distributed=True, param_attr="clicks")
loss = fluid.layers.mean(fluid.layers.square(rows))
test = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.Adagrad(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
if args.load:
    fluid.io.load_persistables(exe, args.load)
exporter = fluid.serving.Exporter(args.export, ["ids"], [rows], exe) if args.export else None
every = np.arange(args.keys).reshape(-1, 1) * 7
for step in range(3):
    exe.run(feed={"ids": every[step::3]})
    if exporter:
        exporter.export()
looked_up, = exe.run(test, feed={"ids": every}, fetch_list=[rows])
if args.save:
    fluid.io.save_persistables(exe, args.save)
np.savez(f"{args.out}.{os.environ.get('OMPI_COMM_WORLD_RANK', '0')}", rows=looked_up)
