"""A script that can be stopped and go on: dropout, a schedule, moving averages, two epochs.

Trainer 0 writes its losses and all that persists to OUT.
"""

import argparse
import os
import signal
import sys
import time

import numpy as np

import trireme as fluid
from trireme.checkpoint import steps

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--batch", type=int, default=12)
parser.add_argument("--width", type=int, default=80)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--kill", type=int, help="trainer 0 dies before this step")
parser.add_argument("--ask", type=int, help="trainer 0 gets a signal before this step")
parser.add_argument("--save", help="folder for all that persists, at the end")
parser.add_argument("--plain", action="store_true", help="know nothing of going on")
parser.add_argument("--out")
parser.add_argument("--mark", help="file that has the number of steps that trainer 0 has made")
parser.add_argument("--early", help="trainer 1 ends after 4 steps and makes this file, for which trainer 0 waits before its last step")
parser.add_argument("--hold", help="no trainer begins its last steps before this file is there")
parser.add_argument("--leave", help="trainer 0 makes two steps and ends; this file says so")
parser.add_argument("--few", action="store_true", help="trainer 1 has 2 batches in each epoch")
parser.add_argument("--keep-in", help="folder that the script itself keeps checkpoints in")
args = parser.parse_args()

if args.keep_in:
    fluid.distributed.checkpoint(args.keep_in, every_steps=4, resume=True, position=lambda: b"of trainer %d" % index)
fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 7
x = fluid.layers.data("x", [6])
label = fluid.layers.data("label", [1], dtype="int64")
hidden = fluid.layers.fc(x, args.width, act="tanh")
hidden = fluid.layers.batch_norm(fluid.layers.fc(fluid.layers.dropout(hidden, 0.3), 300))
predict = fluid.layers.fc(hidden, 5, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
fluid.optimizer.Adam(fluid.layers.exponential_decay(0.01, 5, 0.7)).minimize(loss)


def epoch():
    rng = np.random.default_rng(11)
    for _ in range(2 if args.few and index == 1 else args.steps // 2):
        yield [(rng.normal(size=6).astype("float32"), int(rng.integers(0, 5))) for _ in range(args.batch)]


def wait_for_checkpoint(step):
    end = time.monotonic() + 30
    while step and step not in steps(os.environ["TRIREME_CHECKPOINT"]) and time.monotonic() < end:
        time.sleep(0.01)


index = fluid.distributed.trainer_index()
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
feeder = fluid.DataFeeder([x, label])
reader, step, losses = fluid.distributed.shard(epoch), 0, []
if not args.plain:
    reader, step = fluid.distributed.resumed(reader), fluid.distributed.first_step()
for _ in range(2):
    for batch in reader():
        if index == 0 and args.kill and os.environ.get("TRIREME_ATTEMPT", "0") == "0":
            # while one is written, the next one waits: its step would be another
            if 5 <= step <= args.kill and (step % 5 == 4 or step == args.kill):
                wait_for_checkpoint(step // 5 * 5)
            if step == args.kill:
                os.kill(os.getpid(), signal.SIGKILL)
        if index == 0 and step == args.ask:
            os.kill(os.getpid(), signal.SIGUSR1)
        while args.early and index == 0 and step == args.steps - 1 and not os.path.exists(args.early):
            time.sleep(0.01)
        while args.hold and step == args.steps * 3 // 4 and not os.path.exists(args.hold):
            time.sleep(0.005)
        value, = exe.run(feed=feeder.feed(batch), fetch_list=[loss])
        losses.append(value.item())
        step += 1
        time.sleep(args.pause)
        if args.mark and index == 0:
            with open(args.mark, "w") as mark:
                mark.write(str(step))
        if args.leave and index == 0 and len(losses) == 2:
            open(args.leave, "w").close()
            sys.exit(0)
        if args.early and index == 1 and step == 4:
            open(args.early, "w").close()
            sys.exit(0)
if args.save:
    fluid.io.save_persistables(exe, args.save)
if args.out and index == 0:
    kept = {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in
            ("fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0", "fc_2.w_0", "fc_2.b_0", "batch_norm_0.w_0", "batch_norm_0.b_0",
             "batch_norm_0.w_1", "batch_norm_0.w_2", "learning_rate_0") if fluid.global_scope().find_var(name) is not None}
    np.savez(args.out, losses=np.array(losses), **kept)
sys.stdout.write(f"trainer {index}: {len(losses)} steps to step {step}\n")
