"""Trainers set a parameter before step 3, each in a way of its own: trainer k does what argument k says. Then each prints the parameter
after each step. With "startup" they have a table, too, and run the startup program again."""

import sys

import numpy as np

import trireme as fluid

x = fluid.layers.data("x", [1])
w = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.0))
loss = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr=w, bias_attr=False))
if "startup" in sys.argv:
    ids = fluid.layers.cast(x, "int64")
    loss = loss + fluid.layers.mean(fluid.layers.embedding(ids, [9, 2], is_distributed=True, param_attr="rows"))
optimizer = fluid.optimizer.SGD(1.0)
optimizer.minimize(loss)
exe, index = fluid.Executor(), fluid.distributed.trainer_index()
exe.run(fluid.default_startup_program())
how, seen = sys.argv[1 + index], []
for step in range(1, 5):
    tensor = fluid.global_scope().find_var("w").get_tensor()
    if step == 3 and how in ("rate", "rates"):
        rate = fluid.global_scope().find_var(optimizer._global_learning_rate().name).get_tensor()
        rate.set(np.float32([0.5] * (2 if how == "rates" else 1)))
    elif step == 3 and how == "startup":
        exe.run(fluid.default_startup_program())
    elif step == 3 and how != "nothing":
        tensor.set(np.float32([[float(how)]]))
    exe.run(feed={"x": np.ones((1, 1), "float32")})
    seen.append(np.array(fluid.global_scope().find_var("w").get_tensor()).item())
print(f"trainer {index}: {seen}", flush=True)
