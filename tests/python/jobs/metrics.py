"""A script as users write it that trusts in what it fetches: it ends where a loss is no finite number, and adds up metrics of an epoch.

Fetched are other things in other steps, in some nothing. Each trainer writes all of it to OUT.<index>.npz.
"""

import argparse
import os
import signal
import sys
import time

import numpy as np

import trireme as fluid
from trireme.distributed.fetched import Fetched

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--steps", type=int, default=20, help="of an epoch")
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--kill", type=int, help="trainer 1 dies, in the first start, before this step")
parser.add_argument("--unrecorded", type=int, help="trainer 1 dies, in the first start, when the servers have this step, from 1, and its "
                                                   "record is not written")
parser.add_argument("--ask", type=int, help="trainer 0 gets a signal before this step")
parser.add_argument("--big", action="store_true", help="fetch what is not kept, too")
parser.add_argument("--out", required=True)
parser.add_argument("--mark", help="file to make after the first step")
args = parser.parse_args()

fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 7
x, label = fluid.layers.data("x", [6]), fluid.layers.data("label", [1], dtype="int64")
hidden = fluid.layers.fc(x, 300, act="tanh")
predict = fluid.layers.fc(hidden, 3, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
accuracy = fluid.layers.accuracy(predict, label)
fluid.optimizer.Adam(0.01).minimize(loss)

index = fluid.distributed.trainer_index()
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
rng = np.random.default_rng(3 + index)
keep = Fetched.keep


def keep_or_die(self, step, *what):
    if index == 1 and step == args.unrecorded and os.environ.get("TRIREME_ATTEMPT", "0") == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    keep(self, step, *what)


Fetched.keep = keep_or_die
sums, seen, replayed = [], [], 0
for step in range(args.epochs * args.steps):
    if step % args.steps == 0:
        sums.append(np.zeros(3, np.float32))
    size = int(rng.integers(4, 9))
    feed = {"x": rng.normal(size=(size, 6)).astype("float32"), "label": rng.integers(0, 3, (size, 1))}
    first = os.environ.get("TRIREME_ATTEMPT", "0") == "0"
    if index == 1 and step == args.kill and first and not os.path.exists(args.out + ".killed"):
        open(args.out + ".killed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    if index == 0 and step == args.ask:
        os.kill(os.getpid(), signal.SIGUSR1)
    replayed += fluid.distributed.is_replaying()
    if step % 5 == 4:
        exe.run(feed=feed)
    elif step % 5 == 3:
        now, own = exe.run(feed=feed, fetch_list=[predict, loss], return_numpy=False)
        seen += [np.array(now), np.array(own)]
        assert isinstance(now, fluid.LoDTensor), type(now)
    else:
        now, right = exe.run(feed=feed, fetch_list=[loss, accuracy])
        if not np.isfinite(now):
            sys.exit(f"step {step}: the loss is {float(now)}")
        sums[-1] += [float(now), float(right), 1]
        seen += [now, right]
    if args.big and step % 5 == 2:
        seen += exe.run(feed=feed, fetch_list=[hidden])
    if args.mark and index == 0:
        open(args.mark, "w").close()
    time.sleep(args.pause)
np.savez(f"{args.out}.{index}.npz", sums=np.array(sums), seen=np.concatenate([one.ravel() for one in seen]), replayed=replayed)
print(f"trainer {index}: {replayed} replayed", flush=True)
