"""Each trainer trains with callbacks, writes what it has learnt of the job's epochs, and dies where it is told to."""

import argparse
import json
import os
import signal
from pathlib import Path

import numpy as np

import trireme as fluid
from trireme.distributed.reached import is_replaying, steps_made

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--patience", type=int, default=0)
parser.add_argument("--rate", type=float, default=0.1)
parser.add_argument("--stop", type=int, default=-1, help="the trainer whose function asks for the end in step --at")
parser.add_argument("--at", type=int, default=7)
parser.add_argument("--kill", type=int, default=-1, help="the trainer that dies when it has validated epoch --dies")
parser.add_argument("--dies", type=int, default=1)
args = parser.parse_args()
folder, me = Path(args.folder), fluid.distributed.trainer_index()
rows = np.random.RandomState(3).randn(44, 3).astype("float32")
rows[:, 2] = rows[:, 0] - 2 * rows[:, 1] + 0.1 * rows[:, 2]
validated = []


def batches(part):
    return [[(row[:2], row[2:]) for row in part[i:i + 8]] for i in range(0, len(part), 8)]


def train_reader():
    return iter(batches(rows[:35]))                    # five batches, the last one of three rows


def area():
    """Numbers that differ from trainer to trainer: those of the first one count."""
    validated.append(steps_made())
    mark = folder / "died"
    if me == args.kill and len(validated) == args.dies + 1 and not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    total = fluid.distributed.all_reduce(1)
    return {"area": len(validated) + 0.1 * me, "trainers": total}


def stop(event):
    if isinstance(event, fluid.trainer.EndIteration) and me == args.stop and steps_made() >= args.at:
        raise fluid.trainer.StopTraining


x, y = fluid.layers.data("x", [2]), fluid.layers.data("y", [1])
cost = fluid.layers.square_error_cost(fluid.layers.fc(x, 1,
                                                      param_attr=fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.0))), y)
loss, worst = fluid.layers.mean(cost), fluid.layers.reduce_max(cost)
rate = fluid.layers.exponential_decay(args.rate, decay_steps=5, decay_rate=0.8)
trainer = fluid.Trainer(loss, fluid.optimizer.SGD(rate), metrics={"mean again": fluid.layers.mean(cost)})
stops = fluid.callbacks.EarlyStopping("val_loss", patience=args.patience, min_delta=0.01) if args.patience else None
keeps = fluid.callbacks.ModelCheckpoint(folder / "models", last=2)
history = trainer.train(train_reader, epochs=args.epochs, validation=lambda: iter(batches(rows[35:])), callbacks=[
    fluid.callbacks.LearningRateLogger(), fluid.callbacks.Validation(area), keeps, fluid.callbacks.CSVLogger(folder / "history.csv"), stop,
    *([stops] if stops else [])])
w = np.array(fluid.global_scope().find_var("w").get_tensor()).tolist()
(folder / f"{me}.json").write_text(json.dumps({"history": history.history, "epoch": history.epoch, "steps": steps_made(), "w": w,
                                               "best": keeps.best_epoch, "validated": len(validated), "replays": is_replaying(),
                                               "stopped": stops.stopped_epoch if stops else -1}))
