"""The operators of op_cases.py in Trireme: a program of one operator, run by Executor.run. Inputs and results are variables of the
scope."""

import numpy as np

import trireme as fluid

layers = fluid.layers
VARIANTS = ("",)


def _attr(name):
    return fluid.ParamAttr(name=name)


def activation(v, a):
    return getattr(layers, a["act"])(v["x"])


def add(v, a):
    return layers.elementwise_add(v["x"], v["y"])


def mul(v, a):
    return layers.elementwise_mul(v["x"], v["y"])


def matmul(v, a):
    return layers.matmul(v["x"], v["y"], a.get("trans_x", False), a.get("trans_y", False))


def softmax(v, a):
    return layers.softmax(v["x"])


def cross_entropy(v, a):
    return layers.softmax_with_cross_entropy(v["x"], v["label"])


def layer_norm(v, a):
    return layers.layer_norm(v["x"], param_attr=_attr("w"), bias_attr=_attr("b"))


def batch_norm(v, a):
    return layers.batch_norm(v["x"], param_attr=_attr("w"), bias_attr=_attr("b"))


def dropout(v, a):
    return layers.dropout(v["x"], 0.1, dropout_implementation="upscale_in_train")


def transpose(v, a):
    return layers.transpose(v["x"], list(a["perm"]))


def concat(v, a):
    return layers.concat([v["x"], v["y"]], 1)


def split(v, a):
    return layers.stack(layers.split(v["x"], 3, 1))


def embedding(v, a):
    return layers.embedding(v["ids"], [a["classes"], 256], param_attr=_attr("w"))


def reduce(v, a):
    return getattr(layers, f"reduce_{a['kind']}")(v["x"], list(a["axes"]))


def pool(v, a):
    return layers.pool2d(v["x"], a["size"], a["kind"], a["stride"], a["pad"])


def conv(v, a):
    return layers.conv2d(v["x"], a["filters"], a["size"], a["stride"], a["pad"], groups=a["groups"], param_attr=_attr("w"), bias_attr=False)


def _optimizer(v, a):
    kinds = {"sgd": fluid.optimizer.SGD, "momentum": lambda rate: fluid.optimizer.Momentum(rate, 0.9),
             "adam": fluid.optimizer.Adam}
    kinds[a["kind"]](0.01 if a["kind"] != "adam" else 1e-3).apply_gradients([(v["w"], v["g"])])
    return [v["w"]]


def _inputs(case, arrays):
    """Variables of the scope for all inputs but those that a layer makes itself."""
    block, found = fluid.default_main_program().global_block(), {}
    made = ("w", "b") if case.op in ("conv", "layer_norm", "batch_norm", "embedding") else ()
    for name, value in arrays.items():
        if name in made:
            continue
        if name == "w" or name in "xy":
            found[name] = layers.create_parameter(list(value.shape), "float32", name)
        else:
            found[name] = block.create_var(name=name, shape=value.shape, dtype=str(value.dtype), persistable=True, stop_gradient=True)
    return found


def _results(case, mode, arrays, variables):
    """The variables that hold the output and, with gradients, those of the inputs."""
    if case.op == "optimizer":
        return _optimizer(variables, case.attrs)
    out = globals()[case.op](variables, case.attrs)
    if mode == "forward":
        return [out]
    block = out.block
    gradient = block.create_var(name="dout", shape=out.shape, dtype="float32", persistable=True, stop_gradient=True)
    fluid.global_scope().var("dout").get_tensor().set(case.gradient(out.shape), fluid.CPUPlace())
    wanted = [block.var(name) for name, value in arrays.items() if value.dtype == np.float32]
    return [out, *fluid.gradients([out], wanted, [gradient])]


def prepare(case, mode, threads, variant):
    """Return run() -> names of the output and of the gradient of each input."""
    fluid.core.set_num_threads(threads)
    arrays, scope, exe = case.arrays(), fluid.Scope(), fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(scope), fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        results = _results(case, mode, arrays, _inputs(case, arrays))
        for one in results:
            one.persistable = True                       # else nothing wants it
        main = fluid.default_main_program()
        exe.run(fluid.default_startup_program())
        for name, value in arrays.items():
            scope.var(name).get_tensor().set(value, fluid.CPUPlace())

    def run():
        exe.run(main, scope=scope)
        return scope, results
    return run


def arrays(results):
    scope, variables = results
    return [np.array(scope.find_var(one.name).get_tensor().numpy()) for one in variables]


def version():
    return fluid.__version__
