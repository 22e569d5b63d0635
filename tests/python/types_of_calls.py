"""Right calls, and wrong ones, which a type checker must find: test_types.py runs mypy and pyright on this file. It is never imported."""

import numpy as np

import trireme as fluid

x = fluid.layers.data("x", [4])
y = fluid.layers.fc(x, 2, param_attr=fluid.ParamAttr(name="w"), bias_attr=False, act="relu")
z = fluid.layers.relu(fluid.layers.leaky_relu(y, 0.1, name="z"))
loss = fluid.layers.mean(z)
ops, pairs = fluid.optimizer.Adam(0.1, beta1=0.9).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(feed={"x": np.ones((1, 4), "float32")}, fetch_list=[loss, "z"])
exe.train_from_dataset(dataset=fluid.Dataset("x.csv", "csv", slots=[x]), epochs=2,
                       callbacks=[fluid.callbacks.EarlyStopping("loss", patience=2)])
version: int = fluid.serving.Predictor("model").version
names: list[str] = fluid.formats.export_onnx("m.onnx", ["x"], [z], exe)
product: fluid.Variable = fluid.operator.mul(X=x, Y="w", x_num_col_dims=1)
total: fluid.Variable = fluid.operator.add(fluid.operator.sum(x, x), fluid.operator.sum([x, x]))
parts: list[fluid.Variable] = fluid.operator.split(x, Out=2, num=2, axis=1)
values, places = fluid.operator.top_k(x, k=2)
turned = fluid.operator.cast(x, in_dtype=5, out_dtype=fluid.core.VarDesc.VarType.INT64)
scores = fluid.layers.prelu(x, "all", param_attr="alpha")
normed = fluid.layers.group_norm(x, 2, param_attr=False, bias_attr=fluid.ParamAttr("b", initializer=fluid.initializer.Constant(0.0)),
                                 act="relu")
low = fluid.layers.less_than(fluid.layers.reduce_sum(fluid.layers.softshrink(x, alpha=0.1), dim=[0, 1]),
                             fluid.layers.elementwise_add(y, y, act="tanh"))
both = fluid.layers.logical_and(low, low, out=low)
steps = fluid.optimizer.DGCMomentumOptimizer(0.1, 0.9, 0)
batches = fluid.io.batch(fluid.dataset.digits.train(), batch_size=8)

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
fluid.operator.mul(X=x, Y=3)                           # wrong
fluid.operator.mul(X=x, Y=x, x_num_col_dims="1")       # wrong
fluid.operator.mul(X=x, Y=x, x_num_cols=1)             # wrong
fluid.operator.mull(X=x, Y=x)                          # wrong
fluid.operator.concat([x, 1], axis=1)                  # wrong
fluid.operator.top_k(x, k=2).shape                     # wrong
fluid.operator.dropout(x, dropout_prob="half")         # wrong
fluid.layers.group_norm(x, 2, param_attr=7)            # wrong
fluid.layers.prelu(x, "all", param_attr=[3])           # wrong
fluid.layers.fc(x, 2, act=3)                           # wrong
fluid.ParamAttr("w", initializer="Constant")           # wrong
fluid.ParamAttr("w", regularizer=0.1)                  # wrong
fluid.layers.relu(x, alpha=0.1)                        # wrong
fluid.layers.gelu(x, approximate=2)                    # wrong
fluid.layers.leaky_relu(x, alpa=0.1)                   # wrong
fluid.layers.relu6(x, threshold="6")                   # wrong
fluid.layers.elementwise_add(x, "y")                   # wrong
fluid.layers.elementwise_mul(x, x, axs=1)              # wrong
fluid.layers.reduce_sum(x, dim="0")                    # wrong
fluid.layers.less_than(x, 3)                           # wrong
fluid.layers.logical_or(x, x, cond=x)                  # wrong
fluid.optimizer.Adma(0.1)                              # wrong
fluid.layers.sofmax(x)                                 # wrong
fluid.optimzer.SGD(0.1)                                # wrong
fluid.io.save_inference_modle("model", ["x"], [z], exe)  # wrong
fluid.dataset.digit.train()                            # wrong
fluid.core.ParalelExecutor(False)                      # wrong
