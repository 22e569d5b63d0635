"""The click model of a first hour: a tab-separated file, tables of ids, early stopping by the job's area under the curve, and an export
that is served."""

import argparse
import time

import numpy as np

import trireme as fluid

parser = argparse.ArgumentParser()
parser.add_argument("data", help="a tab-separated file with a header")
parser.add_argument("--held-out", required=True)
parser.add_argument("--export", required=True)
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--pause", type=float, default=0.0)    # after each step that is printed
parser.add_argument("--history")
parser.add_argument("--out", help="the predictions of trainer 0 at the end")
args = parser.parse_args()

fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 7
ids = [fluid.layers.data(name, [1], dtype="int64") for name in ("user", "ad", "site")]
price = fluid.layers.data("price", [1])
label = fluid.layers.data("click", [1], dtype="int64")
rows = [fluid.layers.embedding(one, [1 << 40, 8], is_distributed=True, param_attr=fluid.ParamAttr(f"table_{one.name}",
                               initializer=fluid.initializer.Uniform(-0.1, 0.1))) for one in ids]
hidden = fluid.layers.fc(fluid.layers.concat([*rows, price], axis=1), 16, act="relu")
logits = fluid.layers.fc(hidden, 1)
click = fluid.layers.sigmoid(logits)
loss = fluid.layers.mean(fluid.layers.sigmoid_cross_entropy_with_logits(logits, fluid.layers.cast(label, "float32")))
test = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.Adam(0.02).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())


def dataset(path):
    hashed = [fluid.Slot(one, columns=[one.name], hash=1 << 40) for one in ids]
    return fluid.Dataset(path, "csv", batch_size=64, delimiter="\t", header=True, slots=[*hashed, price, label], split="batches")


held_out = list(dataset(args.held_out))                # of each batch, this trainer's slice


def predicted():
    """What this trainer makes of its share of the held-out lines, and their labels."""
    for batch in held_out:
        yield exe.run(test, feed=batch, fetch_list=[click])[0], batch["click"]


def area():
    auc = fluid.metrics.Auc()
    for guess, truth in predicted():
        auc.update(np.hstack([1 - guess, guess]), truth)
    return {"val_auc": fluid.distributed.merge_metric(auc).eval()}


class Pause(fluid.callbacks.Callback):
    def on_train_batch_end(self, batch, logs):
        time.sleep(args.pause)


history = exe.train_from_dataset(dataset=dataset(args.data), epochs=args.epochs, fetch_list=[loss], fetch_info=["loss"], print_period=5,
                                 callbacks=[
    fluid.callbacks.Validation(area),
    fluid.callbacks.EarlyStopping("val_auc", patience=2, verbose=1),
    fluid.callbacks.ExportModel(args.export, [one.name for one in ids] + ["price"], [click], every_seconds=0.1),
    *([fluid.callbacks.CSVLogger(args.history)] if args.history else []),
    Pause(),
])
if args.out and fluid.distributed.trainer_index() == 0:
    feeds = {name: np.concatenate([batch[name] for batch in held_out]) for name in held_out[0]}
    np.savez(args.out, click=exe.run(test, feed=feeds, fetch_list=[click])[0], epochs=len(history.epoch), auc=history.history["val_auc"],
             **{name: feeds[name] for name in ("user", "ad", "site", "price")})
