"""A small net whose steps take as long as is asked for: in the script (--sleep), or in the network (--width)."""

import argparse
import time

import numpy as np

import trireme as fluid
from trireme import distributed

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--sleep", type=float, default=0.0, help="seconds before each step")
parser.add_argument("--slow", type=float, default=0.0, help="the same in trainer 1 alone")
parser.add_argument("--stop", type=int, help="trainer 1 sleeps for ever before this step")
parser.add_argument("--ftrl", action="store_true", help="an optimizer that computes a power of each value")
parser.add_argument("--width", type=int, default=8)
parser.add_argument("--layers", type=int, default=1, help="that share their parameters")
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--say", type=int, default=0, help="trainer 0 says each so many steps where it is")
parser.add_argument("--wide", type=int, default=0, help="in lines of so many columns")
parser.add_argument("--mark", help="file that trainer 0 makes at the end")
args = parser.parse_args()

x, y = fluid.layers.data("x", [args.width]), fluid.layers.data("y", [1])
hidden = x
for _ in range(args.layers):
    hidden = fluid.layers.fc(hidden, args.width, act="tanh", param_attr="w", bias_attr="b")
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))
(fluid.optimizer.Ftrl(0.01, lr_power=-0.6) if args.ftrl else fluid.optimizer.SGD(0.01)).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
data = np.linspace(0, 1, args.batch * args.width, dtype="float32").reshape(args.batch, args.width)
feed = {"x": data, "y": data[:, :1]}
index = distributed.trainer_index()
distributed.set_on_nan("ignore")                       # wide nets of many layers diverge; what counts is how long a step takes
for step in range(args.steps):
    if args.say and index == 0 and step % args.say == 0:
        print(f"at step {step}".ljust(args.wide))
    if step == args.stop and index == 1:
        time.sleep(600)
    time.sleep(args.sleep + (args.slow if index == 1 else 0.0))
    exe.run(feed=feed, fetch_list=[loss])
if args.mark and index == 0:
    open(args.mark, "w").close()
