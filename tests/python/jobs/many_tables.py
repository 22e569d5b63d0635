"""Many small sparse tables: what a trainer sends in a step, as one line."""

import argparse
import json

import numpy as np

import trireme as fluid
from trireme._core import ffi, lib
from trireme.job import job

parser = argparse.ArgumentParser()
parser.add_argument("--tables", type=int, default=30)
parser.add_argument("--ahead", action="store_true", help="ask for the rows of the next batch ahead")
parser.add_argument("--steps", type=int, default=20)
args = parser.parse_args()

ids = [fluid.layers.data(f"id{i}", [1], dtype="int64") for i in range(args.tables)]
rows = [fluid.layers.embedding(one, [1 << 40, 4], is_sparse=True, is_distributed=True, param_attr=fluid.ParamAttr(f"table{i}"))
        for i, one in enumerate(ids)]
loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(fluid.layers.concat(rows, axis=1), 1)))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
random = np.random.default_rng(1)


def sent():
    lib.tr_job_finish_pulls(job.current().ptr)         # of the last step: they come while the script goes on
    stats = ffi.new("tr_job_stats *")
    lib.tr_job_get_stats(job.current().ptr, stats)
    return np.array([stats.messages_sent, stats.messages_received])


def train(count):
    feeds = [{f"id{i}": random.integers(0, 1000, (16, 1)) for i in range(args.tables)} for _ in range(count)]
    return [float(exe.run(feed=feed, fetch_list=[loss])[0][0]) for feed in (fluid.distributed.prefetched(feeds) if args.ahead else feeds)]


losses = train(5)
before = sent()
losses += train(args.steps)
counts = ((sent() - before) / args.steps).tolist()
print(json.dumps({"sent": counts[0], "received": counts[1], "losses": losses}))
