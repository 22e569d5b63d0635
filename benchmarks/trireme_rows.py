"""The rows in Trireme: scripts as users write them, run by a handle of Executor.prepare with the loss fetched at every step."""

import numpy as np

import trireme as fluid

layers = fluid.layers
NAME = "trireme"
PRECISIONS = ("bfloat16", "mixed")               # of products alone; of stored activations and gradients, too


def _attr(name):
    return fluid.ParamAttr(name=name)


def _fc(x, size, i, act=None):
    return layers.fc(x, size, act=act, param_attr=_attr(f"w{i}"), bias_attr=_attr(f"b{i}"))


def _classified(logits):
    label = layers.data("y", [1], dtype="int64")
    return layers.mean(layers.softmax_with_cross_entropy(logits, label))


def _sgd():
    return fluid.optimizer.SGD(learning_rate=0.01)


def linreg():
    x, y = layers.data("x", [13]), layers.data("y", [1])
    return layers.mean(layers.square_error_cost(_fc(x, 1, 0), y)), _sgd()


def _mlp(sizes):
    x = layers.data("x", [sizes[0]])
    for i, size in enumerate(sizes[1:-1]):
        x = _fc(x, size, i, "relu")
    return _classified(_fc(x, sizes[-1], len(sizes) - 2))


def mlp_sgd():
    return _mlp((784, 128, 64, 10)), _sgd()


def mlp_adam():
    return _mlp((784, 128, 64, 10)), fluid.optimizer.Adam(learning_rate=1e-3)


def mlpbig_sgd():
    return _mlp((784, 1024, 1024, 10)), _sgd()


def lenet5():
    x = layers.data("x", [1, 28, 28])
    for i, filters in ((1, 20), (2, 50)):
        x = layers.conv2d(x, filters, 5, act="relu", param_attr=_attr(f"c{i}"), bias_attr=_attr(f"cb{i}"))
        x = layers.pool2d(x, 2, pool_stride=2)
    return _classified(_fc(x, 10, 0)), _sgd()


def resnet20():
    from rows import resnet_blocks

    def conv(x, width, size, stride, name, act=None):
        x = layers.conv2d(x, width, size, stride, (size - 1) // 2, param_attr=_attr(name), bias_attr=False)
        return layers.batch_norm(x, act=act, param_attr=_attr(f"{name}.scale"), bias_attr=_attr(f"{name}.shift"))

    x = conv(layers.data("x", [3, 32, 32]), 16, 3, 1, "c", "relu")
    for name, channels, width, stride in resnet_blocks():
        y = conv(conv(x, width, 3, stride, f"{name}.c1", "relu"), width, 3, 1, f"{name}.c2")
        short = x if stride == 1 and channels == width else conv(x, width, 1, stride, f"{name}.short")
        x = layers.elementwise_add(y, short, act="relu")
    x = layers.pool2d(x, pool_type="avg", global_pooling=True)
    return _classified(_fc(x, 10, 0)), fluid.optimizer.Momentum(learning_rate=0.01, momentum=0.9)


def ngram():
    words = layers.data("x", [4, 1], dtype="int64")
    x = layers.embedding(words, [2073, 32], param_attr=_attr("table"))
    x = _fc(layers.reshape(x, [-1, 128]), 256, 0, "sigmoid")
    return _classified(_fc(x, 2073, 1)), _sgd()


def lstm():
    from rows import LSTM_WIDTH, LSTM_WORDS
    words = layers.data("x", [1], dtype="int64", lod_level=1)
    x = layers.embedding(words, [LSTM_WORDS, LSTM_WIDTH], param_attr=_attr("table"))
    gates = layers.fc(x, 4 * LSTM_WIDTH, param_attr=_attr("wi"), bias_attr=_attr("bi"))
    hidden, _ = layers.dynamic_lstm(gates, 4 * LSTM_WIDTH, use_peepholes=False, param_attr=_attr("wh"), bias_attr=_attr("bh"))
    return _classified(_fc(layers.sequence_last_step(hidden), 2, 0)), fluid.optimizer.Adam(learning_rate=1e-3)


def _ctr(with_products=False, is_distributed=False):
    kind = {"is_sparse": True, "is_distributed": is_distributed}
    ids = layers.data("ids", [26, 1], dtype="int64")
    x, y = layers.data("x", [13]), layers.data("y", [1])
    rows = layers.embedding(ids, [1_000_000, 10], **kind, param_attr=_attr("table"))
    wide = layers.embedding(ids, [1_000_000, 1], **kind, param_attr=_attr("wide"))
    wide = layers.reduce_sum(layers.reshape(wide, [-1, 26]), dim=1, keep_dim=True)
    first = layers.elementwise_add(wide, layers.fc(x, 1, param_attr=_attr("wide_dense"), bias_attr=_attr("wide_b")))
    deep = layers.concat([layers.reshape(rows, [-1, 260]), x], axis=1)
    for i in range(3):
        deep = _fc(deep, 400, i, "relu")
    logit = layers.elementwise_add(first, _fc(deep, 1, 3))
    if with_products:
        rows = layers.reshape(rows, [-1, 26, 10])
        of_sum = layers.square(layers.reduce_sum(rows, dim=1))
        sum_of = layers.reduce_sum(layers.square(rows), dim=1)
        pairs = layers.reduce_sum(layers.elementwise_sub(of_sum, sum_of), dim=1, keep_dim=True)
        logit = layers.elementwise_add(logit, layers.scale(pairs, scale=0.5))
    return layers.mean(layers.sigmoid_cross_entropy_with_logits(logit, y))


class _DenseSgdSparseAdam:
    """Sparse Adam for the tables, SGD for the rest, as two optimizers of one loss."""

    backward = staticmethod(fluid.backward.append_backward)

    def decorated(self, decorate):
        """Let gradients be those of a program in mixed precision."""
        self.backward = decorate(_sgd()).backward
        return self

    def minimize(self, loss):
        pairs = self.backward(loss)
        tables = [pair for pair in pairs if pair[0].name in ("table", "wide")]
        fluid.optimizer.Adam(learning_rate=1e-3, lazy_mode=True).apply_gradients(tables)
        _sgd().apply_gradients([pair for pair in pairs if pair[0].name not in ("table", "wide")])


def widedeep_sgd():
    return _ctr(), _sgd()


def widedeep_tables():
    """widedeep_sgd with its two tables by key, which a job keeps on its servers."""
    return _ctr(is_distributed=True), _sgd()


def widedeep_adam():
    return _ctr(), _DenseSgdSparseAdam()


def deepfm_tables():
    return _ctr(with_products=True, is_distributed=True), fluid.optimizer.Adam(learning_rate=1e-3)


def deepfm_adam():
    return _ctr(with_products=True), _DenseSgdSparseAdam()


def _in_our_order(param, value):
    """Gates of `lstm` as candidate, input, forget, output."""
    if param not in ("wi", "wh", "bi", "bh"):
        return value
    put_in, forget, candidate, put_out = np.split(value, 4, axis=-1)
    value = np.concatenate([candidate, put_in, forget, put_out], axis=-1)
    return value.reshape(1, -1) if param == "bh" else value


def _fed(value, var):
    """An array of the shape of `var`, or sequences of one length each."""
    if not var.lod_level:
        return value.reshape(len(value), *var.shape[1:])
    count, length = value.shape
    return fluid.create_lod_tensor(value.reshape(-1, 1), [[length] * count], fluid.CPUPlace())


def prepare(name, row, threads, precision="float32", replicas=0):
    """Return (feeds ready to use, step): step(feed) trains once and returns the loss, with `replicas` that of each."""
    fluid.core.set_num_threads(threads)
    loss, optimizer = globals()[name]()
    if precision == "bfloat16":
        fluid.set_matmul_precision("bfloat16")
    if precision == "mixed":
        decorate = fluid.contrib.mixed_precision.decorate
        optimizer = optimizer.decorated(decorate) if isinstance(optimizer, _DenseSgdSparseAdam) else decorate(optimizer)
    optimizer.minimize(loss)
    exe, main = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program()
    exe.run(fluid.default_startup_program())
    scope = fluid.global_scope()
    for param, value in row.params.items():
        scope.find_var(param).get_tensor().set(_in_our_order(param, value), fluid.CPUPlace())
    feeds = [{var: _fed(value, main.global_block().var(var)) for var, value in batch.items()} for batch in row.batches()]
    if replicas:
        main = fluid.CompiledProgram(main).with_data_parallel(loss_name=loss.name, places=fluid.cpu_places(replicas))
        return feeds, lambda feed: exe.run(main, feed, [loss])[0]
    run = exe.prepare(main, list(feeds[0]), [loss]).run
    return feeds, lambda feed: run(feed)[0]


def product_gflops(clock, precision, side=1024, tries=25):
    """Return the speed, by this clock, of the best of some large products."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x, y = layers.data("x", [side]), layers.create_parameter([side, side], "float32")
        exe = fluid.Executor(fluid.CPUPlace(), matmul_precision="float32" if precision == "float32" else "bfloat16")
        exe.run(fluid.default_startup_program())
        feed, best = {"x": np.ones((side, side), np.float32)}, float("inf")
        run = exe.prepare(fluid.default_main_program(), ["x"], [layers.mean(layers.mul(x, y))]).run
        for _ in range(tries):
            start = clock()
            run(feed)
            best = min(best, clock() - start)
    return 2 * side ** 3 / best / 1e9


def wait(loss):
    """Results are there when run returns."""


def version():
    return fluid.__version__
