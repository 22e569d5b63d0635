"""A net of hundreds of small parameters: what a trainer sends in a step, as one line."""

import argparse
import json

import numpy as np

import trireme as fluid
from trireme._core import ffi, lib
from trireme.job import job

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=200)
parser.add_argument("--width", type=int, default=16)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()

x = fluid.layers.data("x", [args.width])
hidden = x
for _ in range(args.layers):
    hidden = fluid.layers.fc(hidden, args.width, act="tanh")
loss = fluid.layers.mean(hidden)
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
feed = {"x": np.ones((4, args.width), "float32")}


def sent():
    lib.tr_job_finish_pulls(job.current().ptr)         # of the last step: they come while the script goes on
    stats = ffi.new("tr_job_stats *")
    lib.tr_job_get_stats(job.current().ptr, stats)
    return np.array([stats.messages_sent, stats.bytes_sent, stats.messages_received, stats.bytes_received])


for _ in range(5):
    exe.run(feed=feed, fetch_list=[loss])
before = sent()
for _ in range(args.steps):
    exe.run(feed=feed, fetch_list=[loss])
# One number more than the parameters: the loss.
params = [int(np.prod(param.shape)) for param in fluid.default_main_program().all_parameters()]
print(json.dumps({"parameters": len(params) + 1, "values": 4 * (sum(params) + 1),
                  **dict(zip(("messages_sent", "bytes_sent", "messages_received", "bytes_received"),
                             ((sent() - before) / args.steps).tolist()))}))
