"""Right calls, and wrong ones, which a type checker must find: test_types.py runs mypy on this file. It is never imported."""

import numpy as np

import trireme as fluid

x = fluid.layers.data("x", [4])
y = fluid.layers.fc(x, 2, param_attr=fluid.ParamAttr(name="w"), bias_attr=False, act="relu")
z = fluid.layers.relu(fluid.layers.leaky_relu(y, 0.1, name="z"))
loss = fluid.layers.mean(z)
ops, pairs = fluid.optimizer.Adam(0.1, beta1=0.9).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(feed={"x": np.ones((1, 4), "float32")}, fetch_list=[loss, "z"])
exe.train_from_dataset(dataset=fluid.Dataset("x.csv", "csv", slots=[x]), epochs=2, callbacks=[fluid.callbacks.EarlyStopping("loss", patience=2)])
version: int = fluid.serving.Predictor("model").version
names: list[str] = fluid.formats.export_onnx("m.onnx", ["x"], [z], exe)

fluid.layers.fc(x, "2")                                # wrong
fluid.layers.fc(x, 2, param_attr=3.5)                  # wrong
fluid.layers.fc(x, 2, bias=False)                      # wrong
fluid.layers.relu(3)                                   # wrong
fluid.layers.data("x", 4)                              # wrong
fluid.layers.embedding(x, size=10)                     # wrong
fluid.optimizer.Momentum(0.1, momentum="0.9")          # wrong
exe.run(feed=[1])                                      # wrong
fluid.Dataset("x.csv", batch_size="8")                 # wrong
fluid.callbacks.EarlyStopping("loss", patience="2")    # wrong
fluid.callbacks.TensorBoard(7)                         # wrong
fluid.serving.Predictor(3)                             # wrong
fluid.serving.Exporter("exports", ["x"], z, exe)       # wrong
fluid.distributed.set_mode(3)                          # wrong
