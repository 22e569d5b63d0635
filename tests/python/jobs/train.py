"""A script as users write it: trains a small net; the same in one process and in a job.

Trainer 0 writes its losses and the parameters to OUT. FAULT makes one trainer misbehave in the middle.
"""

import argparse
import os
import signal
import sys
import threading
import time

import numpy as np

import trireme as fluid

parser = argparse.ArgumentParser()
parser.add_argument("--optimizer", default="sgd")
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--batch", type=int, default=12)
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--width", type=int, default=9)
parser.add_argument("--transpile", help="endpoints, for DistributeTranspiler")
parser.add_argument("--sparse", action="store_true")
parser.add_argument("--table", action="store_true", help="words are in a sparse table")
parser.add_argument("--clip", type=float, help="the global norm that gradients may have")
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--slow", type=int, help="the trainer whose pauses are ten times as long")
parser.add_argument("--linger", type=float, default=0.0, help="seconds that trainer 0 ends after the others")
parser.add_argument("--out")
parser.add_argument("--weight", choices=["samples", "one"], help="what set_batch_weight is told")
parser.add_argument("--save", help="folder for the parameters")
parser.add_argument("--mark", help="file to make after the first step")
parser.add_argument("--hold", help="no trainer begins its last steps before this file is there")
parser.add_argument("--count", help="file to which trainer 0 adds a byte for each step that it has made")
parser.add_argument("--prepare", type=float, default=0.0, help="seconds before it joins the job")
parser.add_argument("--times", help="file to which trainer 0 writes when each step ended")
parser.add_argument("--fault", default="")
parser.add_argument("--fault-trainer", type=int, default=0, help="-1: all of them")
parser.add_argument("--halted", help="file to make, and the trainer's number, where one halts")
parser.add_argument("--no-data", type=int, help="the trainer that gets none at all")
args = parser.parse_args()

L2 = fluid.regularizer.L2Decay(0.01)
OPTIMIZERS = {
    "sgd": lambda: fluid.optimizer.SGD(fluid.layers.exponential_decay(0.2, 5, 0.7), regularization=L2),
    "momentum": lambda: fluid.optimizer.Momentum(fluid.layers.piecewise_decay([5, 12], [0.1, 0.05, 0.02]), 0.9,
                                                 regularization=L2),
    "adam": lambda: fluid.optimizer.Adam(fluid.layers.noam_decay(6, 8, 0.1), regularization=L2),
}


def reader():
    rng = np.random.default_rng(11)
    for step in range(args.steps):
        # The last batches are small: some trainers get uneven slices, and at the end some get none.
        size = args.batch if step < args.steps - 4 else args.steps - step
        yield [(rng.normal(size=6).astype("float32"), int(rng.integers(0, 40)), int(rng.integers(0, 5)))
               for _ in range(size)]


taken = []                             # by a fault


def misbehave():
    if args.fault == "raise with a thread":
        threading.Thread(target=time.sleep, args=(300,)).start()
    if args.fault == "raise after a hook":
        sys.excepthook = lambda *what: None
    if args.fault.startswith("raise"):
        raise ValueError("the data is bad")
    halted = f"{args.halted}.{fluid.distributed.trainer_index()}"
    if args.fault == "halt once" and not os.path.exists(halted):
        open(halted, "w").close()
        time.sleep(300)
    if args.fault == "fork":
        os.fork()
    while args.fault == "memory":
        taken.append(np.ones(1 << 20))
    if args.fault == "print":
        for _ in range(1000):
            print("x" * 1000)
            time.sleep(0.01)
    if args.fault == "exit":
        sys.exit(3)
    if args.fault == "exit 256":
        sys.exit(256)
    if args.fault == "SystemExit":
        raise SystemExit(3)
    if args.fault == "kill" or (args.fault == "kill once" and os.environ.get("TRIREME_ATTEMPT") == "0"):
        os.kill(os.getpid(), signal.SIGKILL)
    if args.fault == "fetch":
        exe.run(feed=feeder.feed(batch), fetch_list=["unknown_1"])
    if args.fault == "change":
        fluid.layers.scale(loss, 2.0)
    if args.fault == "precision":
        fluid.Executor(matmul_precision="bfloat16").run(feed=feeder.feed(batch), fetch_list=[loss])
    if args.fault == "second":
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            other = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [6]), 1))
            fluid.optimizer.SGD(0.1).minimize(other)
            exe.run(fluid.default_startup_program())
            exe.run(feed={"x": np.ones((2, 6), "float32")})


if args.fault == "import":
    import no_such_module  # noqa: F401
if args.fault == "exit early":
    sys.exit(3)
if args.fault == "kill early":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(args.prepare)
if args.fault == "disagree" and fluid.distributed.trainer_index() == args.fault_trainer:
    args.width += 1
fluid.default_startup_program().random_seed = args.seed
x = fluid.layers.data("x", [6])
word = fluid.layers.data("word", [1], dtype="int64")
label = fluid.layers.data("label", [1], dtype="int64")
embedded = fluid.layers.embedding(word, [40, 6], is_sparse=args.sparse, is_distributed=args.table)
test = fluid.default_main_program().clone(for_test=True)
hidden = fluid.layers.fc([x, embedded], args.width, act="tanh")
predict = fluid.layers.fc(hidden, 5, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
if args.clip:
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(args.clip))
OPTIMIZERS[args.optimizer]().minimize(loss)

exe = fluid.Executor(fluid.CPUPlace())
if args.fault != "startup":
    exe.run(fluid.default_startup_program())
program = fluid.default_main_program()
if args.transpile:
    t = fluid.DistributeTranspiler()
    t.transpile(fluid.distributed.trainer_index(), pservers=args.transpile, trainers=fluid.distributed.trainer_count())
    program = t.get_trainer_program()
if args.no_data is not None and fluid.distributed.trainer_index() == args.no_data:
    sys.exit()
feeder = fluid.DataFeeder([x, word, label])
losses, times, made = [], [], 0
for step, batch in enumerate(fluid.distributed.shard(reader)()):
    if args.fault and step == args.steps // 2 and args.fault_trainer in (-1, fluid.distributed.trainer_index()):
        if args.fault == "no more data":
            break
        misbehave()
    while args.hold and step == args.steps * 3 // 4 and not os.path.exists(args.hold):
        time.sleep(0.005)
    if args.weight:
        fluid.distributed.set_batch_weight(len(batch) if args.weight == "samples" else min(1, len(batch)))
    made += not fluid.distributed.is_replaying()
    value, = exe.run(program, feed=feeder.feed(batch), fetch_list=[loss])
    losses.append(value.item())
    times.append(time.monotonic())
    time.sleep(args.pause * (10 if fluid.distributed.trainer_index() == args.slow else 1))
    if args.mark and step == 0 and fluid.distributed.trainer_index() == 0:
        open(args.mark, "w").close()
    if args.count and fluid.distributed.trainer_index() == 0:
        with open(args.count, "a") as count:
            count.write(".")
if args.out and fluid.distributed.trainer_index() == 0:
    params = {param.name: np.array(fluid.global_scope().find_var(param.name).get_tensor())
              for param in fluid.default_main_program().all_parameters() if not getattr(param, "is_distributed", False)}
    if args.table:
        params["rows"], = exe.run(test, feed={"word": np.arange(40).reshape(-1, 1)}, fetch_list=[embedded])
    np.savez(args.out, losses=np.array(losses), **params)
if args.times and fluid.distributed.trainer_index() == 0:
    np.savetxt(args.times, times)
if args.save:
    fluid.io.save_params(exe, args.save)
if fluid.distributed.trainer_index() == 0:
    time.sleep(args.linger)
# In one write: the lines of several ranks must not mix.
sys.stdout.write(f"trainer {fluid.distributed.trainer_index()} of {fluid.distributed.trainer_count()}: "
                 f"{losses[0]:.6f} -> {losses[-1]:.6f}, {made} of {len(losses)}\n")
