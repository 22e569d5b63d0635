"""A small training that keeps checkpoints in the folder of its arguments, in several ways."""

import argparse
import os
import signal
import sys
import time

import numpy as np

import trireme as fluid

parser = argparse.ArgumentParser()
parser.add_argument("how", choices=["save", "load", "loop", "trainer", "job"])
parser.add_argument("folder", nargs="?")
parser.add_argument("--steps", type=int, default=1)
parser.add_argument("--other", action="store_true", help="another model, of the same shapes")
parser.add_argument("--rate", type=float, default=0.1)
parser.add_argument("--from", type=int, dest="first", help="load the checkpoint of this step first")
parser.add_argument("--by", type=int, default=1, help="steps are counted by so many")
parser.add_argument("--at", type=int, help="save once more, as this step")
parser.add_argument("--keep", type=int, default=3)
parser.add_argument("--stay", help="make this file and stay")
parser.add_argument("--resume", action="store_true")
parser.add_argument("--anew", action="store_true")
parser.add_argument("--kill", type=int, help="this process dies before this step, at its first start")
parser.add_argument("--also", help="a folder in which each step is saved, too")
args = parser.parse_args()
FEED = {"x": np.ones((2, 4), "float32")}


def network():
    return fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [4]), 1, act="tanh" if args.other else None))


def train():
    loss = network()
    fluid.optimizer.Adam(args.rate).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    return exe, loss


def save():
    exe, loss = train()
    step = 0
    if args.first is not None:
        step = fluid.io.load_checkpoint(exe, args.folder, step=args.first).step
    for _ in range(args.steps):
        exe.run(feed=FEED, fetch_list=[loss])
        step += args.by
        fluid.io.save_checkpoint(exe, args.folder, step=step, keep=args.keep)
    if args.at is not None:
        fluid.io.save_checkpoint(exe, args.folder, step=args.at, keep=args.keep)
    if args.stay:
        open(args.stay, "w").close()
        time.sleep(60)


def load():
    exe, _ = train()
    print("loaded", fluid.io.load_checkpoint(exe, args.folder).step)


def loop():
    fluid.distributed.checkpoint(args.folder, every_steps=2, resume=args.resume, anew=args.anew)
    exe, loss = train()
    data = os.path.join(args.folder, "..", f"{os.path.basename(args.folder)}-data")
    with open(data, "w") as out:
        out.write("4 1 2 3 4\n" * args.steps)
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var([fluid.default_main_program().global_block().var("x")])
    dataset.set_batch_size(1)
    dataset.set_filelist([data])
    exe.train_from_dataset(fluid.default_main_program(), dataset, fetch_list=[loss], print_period=1)


def trainer():
    trainers = fluid.contrib.trainer
    config = trainers.CheckpointConfig(args.folder, step_interval=1)
    one = trainers.Trainer(network, lambda: fluid.optimizer.Adam(args.rate), checkpoint_config=config)
    one.train(args.steps, lambda event: None, lambda: [[(np.ones(4, "float32"),)]], ["x"])


def job():
    exe, loss = train()
    for step in range(1, args.steps + 1):
        if step == args.kill and os.environ["TRIREME_ATTEMPT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        exe.run(feed=FEED, fetch_list=[loss])
        if args.also and not fluid.distributed.is_replaying():
            fluid.io.save_checkpoint(exe, args.also, step=step)


sys.exit({"save": save, "load": load, "loop": loop, "trainer": trainer, "job": job}[args.how]())
