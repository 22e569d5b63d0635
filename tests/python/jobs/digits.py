"""A net of some size that learns digits: prints the mean loss of the last steps, the accuracy on the digits it has not seen, and what
a trainer has sent in a step, as one line of JSON."""

import argparse
import json
import random
import sys
import time

import numpy as np

import trireme as fluid
from trireme._core import ffi, lib
from trireme.job import job

parser = argparse.ArgumentParser()
parser.add_argument("--method", help="what set_compression is told; trainer 1 is told --other")
parser.add_argument("--other")
parser.add_argument("--parameters", help="what set_compression is told of parameters")
parser.add_argument("--rounds", action="store_true", help="in one process: train by parameters that are rounded to bfloat16")
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--rate", type=float, default=0.1)
parser.add_argument("--clip", type=float)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--mark", help="file to make after the first step")
parser.add_argument("--mixed", help="the type of mixed precision: bfloat16 or float16")
parser.add_argument("--precision", help="of the executor's products: float32 or bfloat16")
parser.add_argument("--dgc", action="store_true", help="send the largest gradients alone")
parser.add_argument("--out")
args = parser.parse_args()

method, parameters = args.method, args.parameters
if args.other and fluid.distributed.trainer_index() == 1:
    method, parameters = (None, args.other) if parameters else (args.other, None)
if method or parameters:
    fluid.distributed.set_compression(method, parameters=parameters)
fluid.default_startup_program().random_seed = 3
random.seed(3)
pixel = fluid.layers.data("pixel", [64])
label = fluid.layers.data("label", [1], dtype="int64")
hidden = fluid.layers.fc(fluid.layers.fc(pixel, 256, act="relu"), 128, act="relu")
predict = fluid.layers.fc(hidden, 10, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
accuracy = fluid.layers.accuracy(predict, label)
test_program = fluid.default_main_program().clone(for_test=True)
if args.clip:
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(args.clip))
optimizer = fluid.optimizer.SGD(args.rate)
if args.dgc:
    optimizer = fluid.optimizer.DGCMomentumOptimizer(0.03, 0.9, rampup_begin_step=20, rampup_step=40, sparsity=[0.75, 0.94, 0.99])
if args.mixed:
    optimizer = fluid.contrib.mixed_precision.decorate(optimizer, init_loss_scaling=1024.0 if args.mixed == "float16" else 1.0,
                                                       dtype=args.mixed)
optimizer.minimize(loss)
exe = fluid.Executor(matmul_precision=args.precision)
exe.run(fluid.default_startup_program())
feeder = fluid.DataFeeder([pixel, label])


def moved():
    """Bytes that this process has sent and received."""
    stats = ffi.new("tr_job_stats *")
    if job.current() is not None:
        lib.tr_job_get_stats(job.current().ptr, stats)
    return np.array([stats.bytes_sent, stats.bytes_received])


class Rounding:
    """A server in this process: exact parameters, of which the step before has seen rounded ones."""

    def __init__(self):
        self.exact = {one.name: self.tensor(one.name) for one in fluid.default_main_program().all_parameters()}
        self.rate = np.float32(args.rate)

    @staticmethod
    def tensor(name):
        return np.array(fluid.global_scope().find_var(name).get_tensor())

    def show(self):
        for name, value in self.exact.items():
            rounded = fluid.core.floats_of_bfloat16(fluid.core.bfloat16_bits(value))
            fluid.global_scope().find_var(name).get_tensor().set(rounded.reshape(value.shape))

    def step(self, gradients):
        for name, gradient in zip(self.exact, gradients):
            self.exact[name] -= self.rate * gradient
        self.show()


def batches():
    while True:
        yield from fluid.batch(fluid.reader.shuffle(fluid.dataset.digits.train(), 2000), 64)()


losses, before = [], None
rounding = Rounding() if args.rounds else None
gradients = [name + "@GRAD" for name in rounding.exact] if rounding else []
if rounding:
    rounding.show()
for step, batch in enumerate(fluid.distributed.shard(batches)()):
    if step == args.steps:
        break
    got = exe.run(feed=feeder.feed(batch), fetch_list=[loss, *gradients])
    losses.append(got[0].item())
    if rounding:
        rounding.step(got[1:])
    before = moved() if before is None else before                        # the setup goes with the first step
    if args.mark and step == 0 and fluid.distributed.trainer_index() == 0:
        open(args.mark, "w").close()
    time.sleep(args.pause)
each = (moved() - before) / max(len(losses) - 1, 1)
seen, = exe.run(test_program, feed=feeder.feed(list(fluid.dataset.digits.test()())), fetch_list=[accuracy])
if args.out and fluid.distributed.trainer_index() == 0:
    np.savez(args.out, losses=np.array(losses), **{
        one.name: np.array(fluid.global_scope().find_var(one.name).get_tensor())
        for one in fluid.default_main_program().all_parameters()})
if fluid.distributed.trainer_index() == 0:
    sys.stdout.write("result " + json.dumps({"loss": float(np.mean(losses[-20:])), "accuracy": float(seen.item()),
                                             "bytes": each[0], "received": each[1]}) + "\n")
