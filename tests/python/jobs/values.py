"""A script that sets what the servers have, in every way that there is, and whose program writes it, too.

Each trainer writes to OUT.<index>.npz what its variables are after each thing that it sets, and after each step. All trainers feed the same
batches, so a job makes the bits of one process.
"""

import argparse

import numpy as np

import trireme as fluid
from trireme import layers

parser = argparse.ArgumentParser()
parser.add_argument("--out", required=True)
parser.add_argument("--seen", help="write here which steps are begun, and wait a little in each")
args = parser.parse_args()

index = fluid.distributed.trainer_index()
fluid.default_startup_program().random_seed = 3
x, y = layers.data("x", [5]), layers.data("y", [1])
w0 = layers.create_parameter([5, 64], "float32", name="w0")
layers.assign(layers.clip(w0, -0.3, 0.3), w0)                      # before each step: on both sides
hidden = layers.batch_norm(layers.tanh(layers.mul(x, w0)), moving_mean_name="mm", moving_variance_name="mv")
hidden = layers.fc(hidden, 256, act="tanh", param_attr="w1", bias_attr="b1")
row = layers.reduce_mean(layers.embedding(layers.data("row", [1], dtype="int64"), [200000, 4],
                                          param_attr=fluid.ParamAttr(name="frozen", trainable=False)))
factor = layers.create_global_var([1], 1.0, "float32", persistable=True, name="factor")
loss = layers.mean(layers.square_error_cost(layers.fc(hidden, 1, param_attr="w2", bias_attr="b2"), y + row)) * factor
loss = layers.mean(loss)
test = fluid.default_main_program().clone(for_test=True)
rate = layers.create_global_var([1], 0.05, "float32", persistable=True, name="rate")
fluid.optimizer.Momentum(rate, 0.9, regularization=fluid.regularizer.L2Decay(1e-3)).minimize(loss)
w2 = fluid.default_main_program().global_block().var("w2")
layers.assign(layers.clip(w2, -0.08, 0.08), w2)                    # after each update: on the servers
layers.assign(layers.scale(rate, 0.99), rate)
by_hand = layers.create_global_var([256, 1], 0.0, "float32", persistable=True, name="by_hand")
layers.assign(by_hand * 0.5 + w2 * 0.5, by_hand)                   # after each update: on the trainers
norm = layers.reduce_sum(layers.square(w2))
ema = fluid.optimizer.ExponentialMovingAverage(0.8)
ema.update()
window = fluid.optimizer.ModelAverage(0.5, min_average_window=2, max_average_window=3)

exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.global_scope()
exe.run(fluid.default_startup_program())
NAMES = ("w0", "w1", "b1", "w2", "by_hand", "mm", "mv")
if index == 0:                                                     # all trainers begin with what trainer 0 has
    for name in ("frozen", "w1", "mm", "factor"):
        value = scope.find_var(name).get_tensor()
        value.set(np.random.RandomState(5).normal(size=value.shape()).astype("float32"), fluid.CPUPlace())
folder = f"{args.out}.saved"
found = {}


def tensor(name):
    return scope.find_var(name).get_tensor()


def set_to(name, value):
    tensor(name).set(np.full(tensor(name).shape(), value, "float32"), fluid.CPUPlace())


def assign(name, value):
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        var = fluid.default_main_program().global_block().create_var(name=name, shape=tensor(name).shape(), dtype="float32",
                                                                     persistable=True)
        layers.assign(np.full(tensor(name).shape(), value, "float32"), var)
        exe.run()


def assign_in_a_block(name, value):
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        var = fluid.default_main_program().global_block().create_var(name=name, shape=tensor(name).shape(), dtype="float32",
                                                                     persistable=True)
        with layers.Switch() as switch, switch.case(layers.fill_constant([1], "bool", True)):
            layers.assign(np.full(tensor(name).shape(), value, "float32"), var)
        exe.run()


def write_view(name, value):
    np.asarray(tensor(name))[:2] = value


def remove_and_make(name, value):
    was = np.array(tensor(name))
    scope.erase([name]) if hasattr(scope, "erase") else None
    scope.var(name).get_tensor().set(was * value, fluid.CPUPlace())


def evaluate():
    with ema.apply(exe):
        found["ema"] = np.array(tensor("w2"))
        exe.run(test, feed=batch(0), fetch_list=[loss])
    with window.apply(exe):
        found["window"] = np.array(tensor("w2"))


kept_view = []
ACTIONS = {
    2: lambda: set_to("rate", 0.2),
    4: lambda: set_to("w1", 0.01),
    5: lambda: fluid.io.save_persistables(exe, folder),
    6: lambda: write_view("w2", 0.05),
    7: lambda: kept_view.append(np.asarray(tensor("w1"))),
    8: lambda: kept_view[0].__setitem__(3, 0.5),
    9: lambda: fluid.io.load_params(exe, folder),
    10: lambda: assign("w0", 0.1),
    11: lambda: exe.run(fluid.default_startup_program()),
    13: evaluate,
    14: lambda: fluid.io.load_persistables(exe, folder),           # velocities, too
    16: lambda: assign_in_a_block("b1", 0.25),
    17: lambda: remove_and_make("w1", 0.5),
    18: lambda: set_to("w1_velocity_0", 0.125),
}


def batch(step):
    random = np.random.RandomState(step)
    rate_now = {"rate": np.float32([0.01 * step])} if step in (3, 19) else {}
    return {"x": random.normal(size=(8, 5)).astype("float32"), "y": random.rand(8, 1).astype("float32"),
            "row": random.randint(0, 200000, (8, 1)), **rate_now}


for step in range(1, 21):
    if args.seen and not fluid.distributed.is_replaying():
        with open(f"{args.seen}.{index}", "a") as file:
            file.write(f"{step}\n")
    if step in ACTIONS:
        ACTIONS[step]()
        found |= {f"set.{step}.{name}": np.array(tensor(name)) for name in NAMES}
    if args.seen:
        import time

        time.sleep(0.02)
    found[f"norm.{step}"] = exe.run(feed=batch(step), fetch_list=[norm])[0]
    found |= {f"{step}.{name}": np.array(tensor(name)) for name in NAMES}
fluid.io.save_persistables(exe, f"{args.out}.end")
found |= {f"end.{name}": np.array(tensor(name)) for name in ("w1_velocity_0", "rate") if scope.find_var(name)}
np.savez(f"{args.out}.{index}.npz", **found)
