"""Each trainer trains a linear model and a table on data of its own. Each writes the parameters to OUT.<index>.npz."""

import argparse
import time

import numpy as np

import trireme as fluid

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=9)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--momentum", type=float, default=0.5)
parser.add_argument("--mark", help="file to make after the first step")
parser.add_argument("--out", required=True)
args = parser.parse_args()

x, word, target = fluid.layers.data("x", [3]), fluid.layers.data("word", [1], dtype="int64"), fluid.layers.data("target", [1])
zero = fluid.initializer.Constant(0.0)
line = fluid.layers.fc(x, 1, bias_attr=False, param_attr=fluid.ParamAttr("w", initializer=zero))
row = fluid.layers.embedding(word, [10, 1], is_sparse=True, is_distributed=True, param_attr=fluid.ParamAttr("rows", initializer=zero))
test = fluid.default_main_program().clone(for_test=True)
loss = fluid.layers.mean(fluid.layers.square(line + row - target))
fluid.optimizer.Momentum(0.05, args.momentum).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())

index = fluid.distributed.trainer_index()
for step in range(args.steps):
    rng = np.random.default_rng((step, index))
    exe.run(feed={"x": rng.normal(size=(4, 3)).astype("float32"), "word": rng.integers(0, 10, (4, 1)),
                  "target": rng.normal(size=(4, 1)).astype("float32")}, fetch_list=[loss])
    if args.mark and index == 0:
        open(args.mark, "w").close()
    time.sleep(args.pause)
rows, = exe.run(test, feed={"word": np.arange(10).reshape(-1, 1), "x": np.zeros((10, 3), "float32")}, fetch_list=[row])
np.savez(f"{args.out}.{index}.npz", w=np.array(fluid.global_scope().find_var("w").get_tensor()), rows=rows)
