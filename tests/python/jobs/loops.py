"""Loops of the core over files of lines, each with a number of its own: what was made of each line stands in a parameter.

Each step takes RATE / BATCH from the row of each of its lines, so with SGD that row tells how often the line was trained on.
"""

import argparse
import os
import signal
import threading
import time

import numpy as np

import trireme as fluid
from trireme import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("folder", help="of the data, which is written when it is not there")
parser.add_argument("--files", type=int, default=8)
parser.add_argument("--batches", type=int, default=4)  # of each file
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--pause", type=float, default=0.0)    # before each file is read
parser.add_argument("--slow", type=float, help="as --pause, of trainer 1")
parser.add_argument("--keep-in")
parser.add_argument("--every", type=int, default=3)
parser.add_argument("--thread", type=int, default=0)
parser.add_argument("--deep", action="store_true", help="with dropout and Adam, instead of counting")
parser.add_argument("--kill", type=int, help="trainer 0 dies when there is a checkpoint of this step")
parser.add_argument("--stop", type=int, help="and asks for an end")
parser.add_argument("--mark", help="file to make when the loop begins")
parser.add_argument("--out")
parser.add_argument("--write", help="do not train: write a saved job here")
parser.add_argument("--servers", type=int, nargs="*", default=[], help="that may have so many")
parser.add_argument("--mode")
parser.add_argument("--format", default="csv", choices=["csv", "parquet", "arrow"])
args = parser.parse_args()
if args.slow and fluid.distributed.trainer_index() == 1:
    args.pause = args.slow

BATCH, RATE = 4, 0.5
LINES = args.files * args.batches * BATCH


def path_of(i):
    return os.path.join(args.folder, f"f{i:02}.{args.format}")


def write(path, rows):
    if args.format == "csv":
        with open(path, "w") as out:
            out.write("".join(f"{row},{row % 7 / 7},{row % 3}\n" for row in rows))
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"line": list(rows), "x": [row % 7 / 7 for row in rows], "y": [row % 3 for row in rows]})
    if args.format == "parquet":
        pq.write_table(table, path, row_group_size=BATCH)
        return
    with pa.ipc.new_file(path, table.schema) as out:
        out.write_table(table, max_chunksize=BATCH)


if fluid.distributed.trainer_index() == 0:
    os.makedirs(args.folder, exist_ok=True)
    for i in range(args.files):
        path = path_of(i)
        if not os.path.exists(path):
            write(path + ".part", range(i * args.batches * BATCH, (i + 1) * args.batches * BATCH))
            os.rename(path + ".part", path)
while not os.path.exists(path_of(args.files - 1)):
    time.sleep(0.01)

fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 7
line = fluid.layers.data("line", [1], dtype="int64")
x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
# Threads update without locks: what is to be counted exactly, no two of them may touch.
counted = fluid.layers.embedding(line, [LINES, 1], is_sparse=args.thread > 0,
                                 param_attr=fluid.ParamAttr("counts", initializer=fluid.initializer.Constant(0.0)))
if args.deep:
    hidden = fluid.layers.dropout(fluid.layers.fc(x, 16, act="tanh"), 0.3)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1) + counted, y))
    fluid.optimizer.Adam(fluid.layers.exponential_decay(0.05, 5, 0.8)).minimize(loss)
else:
    loss = fluid.layers.mean(counted)
    fluid.optimizer.SGD(RATE).minimize(loss)
if args.keep_in:
    fluid.distributed.checkpoint(args.keep_in, every_steps=args.every, resume=True)


def watch(step, number):
    folder = args.keep_in or os.environ["TRIREME_CHECKPOINT"]
    while checkpoint.steps(folder)[:1] < [step]:
        time.sleep(0.005)
    os.kill(os.getpid(), number)


for step, number in ((args.kill, signal.SIGKILL), (args.stop, signal.SIGUSR1)):
    if step and fluid.distributed.trainer_index() == 0 and os.environ.get("TRIREME_ATTEMPT", "0") == "0":
        threading.Thread(target=watch, args=(step, number), daemon=True).start()
pipe = f"sleep {args.pause}; cat" if args.pause else None
if args.write and args.mark:
    pipe = f"touch {args.mark}; {pipe or 'cat'}"
data = fluid.Dataset([path_of(i) for i in range(args.files)], args.format, batch_size=BATCH,
                     slots=[line, x, y], split="tasks", pipe_command=pipe)
if args.write:
    fluid.io.save_job(args.write, data, epochs=args.epochs, servers=args.servers, mode=args.mode)
    raise SystemExit
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
if args.mark and fluid.distributed.trainer_index() == 0:
    open(args.mark, "w").close()
exe.train_from_dataset(dataset=data, epochs=args.epochs, thread=args.thread, debug=True)
if args.out and fluid.distributed.trainer_index() == 0:
    scope = fluid.global_scope()
    np.savez(args.out, **{name: np.array(scope.find_var(name).get_tensor()) for name in
                          ("counts", "fc_0.w_0", "fc_1.w_0", "fc_1.b_0") if scope.find_var(name) is not None})
