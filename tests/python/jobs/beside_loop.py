"""Steps of unequal batches, and between them a loop that trains nothing over other numbers of samples. Prints the parameter."""

import sys

import numpy as np

import trireme as fluid

index = fluid.distributed.trainer_index()
x = fluid.layers.data("x", [1])
y = fluid.layers.fc(x, 1, param_attr=fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.0)), bias_attr=False)
loss = fluid.layers.mean(fluid.layers.square(y - 1.0))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
batch = np.full((4 + 8 * index, 1), 1.0 + index, "float32")
exe.run(feed={"x": batch}, fetch_list=[loss])
path = f"{sys.argv[1]}.{index}.csv"
with open(path, "w") as out:
    out.write("x\n" + "1\n" * (50 - 40 * index))
data = fluid.Dataset(path, "csv", batch_size=50 - 40 * index, header=True, slots=[x])
exe.infer_from_dataset(fluid.default_main_program(), data)
exe.run(feed={"x": batch}, fetch_list=[loss])
print("w", *(float(value) for value in np.ravel(np.array(fluid.global_scope().find_var("w").get_tensor()))))
