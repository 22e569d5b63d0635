"""Each trainer trains with callbacks for the trackers that are named, writes what it has learnt, and dies where it is told to."""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

sys.path.remove(str(Path(__file__).parent))            # jobs/click.py is not the library of that name, which MLflow imports

import numpy as np

import trireme as fluid

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--rate", type=float, default=0.05)
parser.add_argument("--mlflow", help="where MLflow keeps its runs")
parser.add_argument("--wandb", help="where W&B writes its files")
parser.add_argument("--study", help="where Optuna keeps the study 'rates', whose trial 0 this is")
parser.add_argument("--patience", type=int, default=0, help="of a learning rate that falls")
parser.add_argument("--kill", type=int, default=-1, help="the trainer that dies once, in the middle of epoch --dies")
parser.add_argument("--dies", type=int, default=3)
args = parser.parse_args()
folder, me, callbacks = Path(args.folder), fluid.distributed.trainer_index(), fluid.callbacks
rows = np.random.RandomState(3).randn(40, 3).astype("float32")
rows[:, 2] = rows[:, 0] - 2 * rows[:, 1] + 0.5 * rows[:, 2]
samples = [(row[:2], row[2:]) for row in rows]


def die(event):
    mark = folder / "died"
    if isinstance(event, fluid.trainer.EndIteration) and (event.pass_id, event.batch_id, me) == (args.dies, 2, args.kill):
        if not mark.exists():
            mark.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)


x, y = fluid.layers.data("x", [2]), fluid.layers.data("y", [1])
guess = fluid.layers.fc(x, 1, param_attr=fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.0)))
trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.square_error_cost(guess, y)), fluid.optimizer.SGD(args.rate))
chosen = [callbacks.LearningRateLogger()]
if args.patience:
    chosen.append(callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=args.patience, min_delta=0.02, verbose=1))
prunes = None
if args.study:
    import optuna

    study = optuna.load_study(study_name="rates", storage=args.study, pruner=optuna.pruners.MedianPruner(n_startup_trials=1))
    prunes = callbacks.OptunaPruning(1, "val_loss", study=study) if me == 0 else callbacks.OptunaPruning(None, "val_loss")
    chosen.append(prunes)
if args.mlflow:
    chosen.append(callbacks.MLflow("clicks", "one", {"rate": args.rate}, {"team": "ads"}, 1, args.mlflow))
if args.wandb:
    chosen.append(callbacks.Wandb("clicks", config={"rate": args.rate}, every=2, dir=args.wandb))
history = trainer.train(lambda: [samples[i:i + 8] for i in range(0, 32, 8)], epochs=args.epochs, validation=lambda: [samples[32:]],
                        callbacks=[*chosen, die])
w = np.array(fluid.global_scope().find_var("w").get_tensor()).tolist()
(folder / f"{me}.json").write_text(json.dumps({"history": history.history, "epoch": history.epoch, "w": w,
                                               "pruned": bool(prunes and prunes.pruned)}))
