"""A script in which one trainer's data is bad in some steps: NaN, or, to compare with, missing.

Each trainer writes its losses, and the parameters that it ends with, to OUT.<index>.npz.
"""

import argparse

import numpy as np

import trireme as fluid

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--bad", type=int, nargs="*", default=[], help="steps in which it is, from 0")
parser.add_argument("--trainer", type=int, default=1, help="whose data it is")
parser.add_argument("--how", choices=["nan", "empty", "none"], default="nan",
                    help="values that are NaN; a batch of no samples; no step at all")
parser.add_argument("--on-nan", help="what set_on_nan is told")
parser.add_argument("--table", action="store_true", help="train a sparse table, too")
parser.add_argument("--metric", action="store_true", help="average a number that is NaN in each step")
parser.add_argument("--out")
args = parser.parse_args()

if args.on_nan:
    fluid.distributed.set_on_nan(args.on_nan)
fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 7
x, label = fluid.layers.data("x", [6]), fluid.layers.data("label", [1], dtype="int64")
inputs = [x]
if args.table:
    word = fluid.layers.data("word", [1], dtype="int64")
    inputs.append(fluid.layers.scale(fluid.layers.embedding(word, [1000, 4], is_distributed=True), 1.0))
hidden = fluid.layers.fc(inputs, 300, act="relu")
predict = fluid.layers.fc(hidden, 30, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
if args.metric:
    number = fluid.layers.mean(fluid.layers.log(fluid.layers.scale(fluid.layers.mean(fluid.layers.abs(x)), -1.0)))
    fluid.distributed.all_mean(number)
fluid.optimizer.Momentum(0.05, 0.9).minimize(loss)

index = fluid.distributed.trainer_index()
exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.global_scope()
exe.run(fluid.default_startup_program())
rng, losses = np.random.default_rng(3 + index), []
for step in range(args.steps):
    feed = {"x": rng.normal(size=(8, 6)).astype("float32"), "label": rng.integers(0, 30, (8, 1))}
    if args.table:
        feed["word"] = rng.integers(0, 50, (8, 1))
    if index == args.trainer and step in args.bad:
        if args.how == "none":
            continue
        if args.how == "empty":
            feed = {name: value[:0] for name, value in feed.items()}
        else:
            feed["x"][3, 2] = np.nan
    losses.append(exe.run(feed=feed, fetch_list=[loss])[0].item())
if args.metric:
    print("metric", exe.run(feed=feed, fetch_list=[number])[0])
params = {param.name: np.array(scope.find_var(param.name).get_tensor())
          for param in fluid.default_main_program().all_parameters() if not getattr(param, "is_distributed", False)}
if args.out:
    np.savez(f"{args.out}.{index}.npz", losses=np.array(losses), **params)
