"""A trainer's handler stops the training of all trainers, or its script ends in the middle; each prints where it has ended, and trains
on."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import trireme as fluid
from trireme.distributed.reached import steps_made
from trireme.trainer import BeginIteration, EndIteration, StopTraining

parser = argparse.ArgumentParser()
parser.add_argument("--out", required=True, help="a trainer that dies leaves a file of this name and .died")
parser.add_argument("--stop", type=int, nargs="*", default=[], help="the trainers whose handlers stop the training")
parser.add_argument("--leave", type=int, default=-1, help="the trainer whose script ends then")
parser.add_argument("--at", type=int, default=4, help="after this step")
parser.add_argument("--steps", type=int, default=2000)
parser.add_argument("--seconds", type=float, default=0.0, help="that each step takes")
parser.add_argument("--again", type=int, default=3, help="steps of a second training")
parser.add_argument("--kill", type=int, default=-1, help="the trainer that dies when it comes after step --dies")
parser.add_argument("--dies", type=int, default=0)
parser.add_argument("--late", type=int, default=-1, help="the trainer that is slow at first")
args = parser.parse_args()
me = fluid.distributed.trainer_index()
events = []


def handler(event):
    events.append(event)
    if isinstance(event, BeginIteration):
        time.sleep(args.seconds)
    if isinstance(event, EndIteration):
        time.sleep(0.2 * (me == args.late))
        done = event.batch_id + 1
        if done >= args.at and me == args.leave:
            sys.exit(0)
        if done >= args.at and me in args.stop:
            raise StopTraining


def reader(steps):
    """Another trainer than the one that stops sees no handler's event behind that: it dies here."""
    def batches():
        mark = Path(f"{args.out}.died")
        for step in range(steps):
            if me == args.kill and step >= args.dies and not mark.exists():
                mark.write_text("")
                os.kill(os.getpid(), signal.SIGKILL)
            yield [(np.full(4, me + row, "float32"), np.ones(1, "float32")) for row in range(4)]
    return batches


x, y = fluid.layers.data("x", [4]), fluid.layers.data("y", [1])
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
trainer = fluid.Trainer(loss, fluid.optimizer.SGD(0.01))
trainer.train(reader(args.steps), event_handler=handler)
first, seen = steps_made(), sum(isinstance(event, EndIteration) for event in events)
if args.leave < 0:                                      # trainer 0 would have to write
    trainer.save_params(args.out)
trainer.train(reader(args.again))
print(f"trainer {me}: {first} steps, {seen} events, {steps_made() - first} steps after it", flush=True)
