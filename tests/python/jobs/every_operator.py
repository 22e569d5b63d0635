"""One program with every operator that has a gradient, trained: each from a case of its own tests (operator_cases.py).

every_operator.py --out OUT; each trainer writes the parameters of all operators to OUT.<index>.npz, and the costs of its steps.

A floating-point input of an operator is its value in the case plus a parameter, which begins with zeros. The loss is the sum of the means
of all outputs but the intermediate ones.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

import trireme as fluid
from trireme import layers
from trireme.core import VarType, op_proto, op_types
from trireme.errors import TriremeError

sys.path.insert(0, str(Path(__file__).parents[1]))
from operator_cases import cases_of, inputs_of  # the folder above is no package

STEPS, RATE, LARGE = 2, 1e-3, 1e3
TABLE = "by_hand.table"                # its rows are seen in the costs
FLOATS = (VarType.FP32, VarType.FP64)


def trainable_types():
    """The operators that have a gradient."""
    return [type_ for type_ in op_types() if op_proto(type_).has_grad]


# -- from the operators' own tests -------------------------------------------------------------------------------


def _trained(name, value, lod=()):
    """Return the variable of a fed value; of numbers, with a parameter added."""
    array = np.array(value)
    var = layers.data(name, list(array.shape), dtype=str(array.dtype), lod_level=len(lod), append_batch_size=False)
    if str(array.dtype) not in ("float32", "float64") or not array.size:
        return var
    var.stop_gradient = False
    start = fluid.ParamAttr(name=f"{name}.p", initializer=fluid.initializer.Constant(0.0))
    return layers.elementwise_add(var, layers.create_parameter(list(array.shape), str(array.dtype), attr=start))


def _loss_of(outputs):
    """The sum of the means of what can have a gradient."""
    return layers.sums([layers.cast(layers.mean(var), "float32") for var in outputs if var.type == VarType.LOD_TENSOR
                        and var.dtype in FLOATS])


def append_case(case):
    """Append the operator of a case to the program; return its loss and its feeds."""
    block, op, feeds, seen = fluid.default_main_program().global_block(), case.op, {}, {}
    for name, value in inputs_of(case).items():
        feeds[f"{case.type}.{name}"] = value
        seen[name] = _trained(f"{case.type}.{name}", value, value.lod())
    outputs = {slot: [block.create_var(name=f"{case.type}.{slot}.{i}") for i in range(len(op.output(slot)))] for slot in op.output_names}
    inputs = {slot: [seen[name] for name in op.input(slot)] for slot in op.input_names}
    block.append_op(type=case.type, inputs=inputs, outputs=outputs,
                    attrs={name: op.attr(name) for name in op.attr_names if name in op_proto(case.type).attrs})
    results = [slot.name for slot in op_proto(case.type).outputs if not slot.intermediate]     # the others are there for gradients alone
    return _loss_of([var for slot in results for var in outputs.get(slot, ())]), feeds


# -- where these tests have none that could be trained --------------------------------------------------------------


class Hand:
    """Cases written by hand: a method for each operator, or for several that belong together, returns outputs."""

    def __init__(self):
        self.feeds = {}

    def fed(self, value, lod=None):
        name, array = f"by_hand.{len(self.feeds)}", np.asarray(value)
        self.feeds[name] = fluid.create_lod_tensor(array, [lod]) if lod else array
        return _trained(name, array, [lod] if lod else ())

    def x(self, *shape, lod=None, low=0.1, high=0.9, dtype="float32"):
        return self.fed(np.linspace(low, high, int(np.prod(shape))).reshape(shape).astype(dtype), lod)

    def ids(self, *values, lod=None):
        return self.fed(np.array(values, "int64").reshape(-1, 1), lod)

    def activations(self):
        return [act(self.x(2, 3)) for act in (layers.brelu, layers.relu6, layers.hard_sigmoid, layers.softmax, layers.ceil, layers.floor,
                                              layers.round, layers.sign)]

    def shapes(self):
        x = self.x(2, 3, 4)
        return [layers.expand(x, [1, 2, 1]), layers.flatten(x, axis=2), layers.slice(x, [1], [0], [2]), layers.stack([x, x], axis=1),
                layers.transpose(x, [2, 0, 1]), layers.cast(x, "float64"), layers.Print(x, summarize=1), fluid.operator.flatten(x, axis=1),
                *(reduce(x, dim=1) for reduce in (layers.reduce_max, layers.reduce_mean, layers.reduce_min, layers.reduce_prod))]

    def losses(self):
        x, label = self.x(4, 3), self.ids(0, 2, 1, 0)
        return [layers.cross_entropy(layers.softmax(x), label), layers.softmax_with_cross_entropy(x, label),
                layers.sigmoid_cross_entropy_with_logits(x, self.fed(np.eye(4, 3, dtype="float32"))),
                layers.smooth_l1(x, self.x(4, 3, low=0.5)),
                layers.huber_loss(self.x(4, 1), self.x(4, 1, low=0.4), 0.2), layers.hsigmoid(x, label, 4),
                layers.pool2d(self.x(1, 2, 4, 4), 2, "avg", 2), layers.dropout(x, 0.0)]

    def sequences(self):
        x = self.x(5, 4, lod=[2, 3])
        hidden, cell = layers.lstm_unit(self.x(2, 3), self.x(2, 4), self.x(2, 4))
        projected, _ = layers.dynamic_lstmp(self.x(5, 16, lod=[2, 3]), 16, 3)
        return [hidden, cell, projected, layers.row_conv(x, 2), layers.sequence_pool(x, "sum"),
                layers.sequence_pad(x, self.fed(np.zeros(1, "float32")))[0], layers.sequence_reverse(x),
                layers.sequence_softmax(self.x(5, 1, lod=[2, 3])), layers.sequence_expand(self.x(2, 4), x),
                layers.sequence_expand_as(self.x(2, 4), x), layers.linear_chain_crf(x, self.ids(0, 1, 2, 3, 0, lod=[2, 3]))]

    def recurrent_nets(self):
        dynamic, rnn, steps, words, start = layers.DynamicRNN(), layers.StaticRNN(), self.x(3, 2, 4), self.x(5, 4, lod=[2, 3]), self.x(2, 4)
        with dynamic.block():
            word = dynamic.step_input(words)
            memory = dynamic.memory(init=start, need_reorder=True)
            now = layers.elementwise_add(word, memory)
            dynamic.update_memory(memory, now)
            dynamic.output(now)
        with rnn.step():
            memory = rnn.memory(shape=[-1, 4], batch_ref=steps, ref_batch_dim_idx=1)
            now = layers.elementwise_add(rnn.step_input(steps), memory)
            rnn.update_memory(memory, now)
            rnn.step_output(now)
        return [dynamic(), rnn()]

    def branches(self):
        x = self.x(4, 1)
        either = layers.IfElse(layers.less_than(x, layers.fill_constant([4, 1], "float32", 0.5)))
        for block, factor in ((either.true_block, 2.0), (either.false_block, 3.0)):
            with block():
                either.output(layers.scale(either.input(x), factor))
        return either()

    def arrays(self):
        first = layers.array_write(self.x(2, 3), layers.fill_constant([1], "int64", 0))
        layers.array_write(self.x(2, 3), layers.fill_constant([1], "int64", 1), first)
        return [layers.tensor_array_to_tensor(first, axis=0)[0]]

    def samples(self):
        chosen = self.fed(np.array([[0, 2, 3], [1, 2, 4]], "int64"))
        return fluid.operator.sample_logits(self.x(2, 5), self.ids(0, 1), chosen, self.x(2, 3), use_customized_samples=True,
                                            remove_accidental_hits=False, num_samples=2)[:1]

    def functions(self):
        x = self.x(2, 3)
        out = fluid.default_main_program().current_block().create_var(name="by_hand.twice", dtype="float32", shape=[2, 3])
        layers.py_func(lambda value: 2 * np.array(value), x, out, backward_func=lambda value, result, grad: 2 * np.array(grad))
        return [out]

    def rows(self):
        block, zeros, outs = fluid.default_main_program().current_block(), layers.fill_constant([6, 2], "float32", 0.0), []
        for type_, slot, attrs in (("split_ids", "Ids", {}), ("split_selected_rows", "X", {"height_sections": [2, 4]})):
            parts = [block.create_var(name=f"by_hand.{type_}.{k}") for k in range(2)]
            block.append_op(type=type_, inputs={slot: fluid.operator.nonzero_rows(self.x(6, 2))}, outputs={"Out": parts}, attrs=attrs)
            outs += [layers.sums([layers.slice(zeros, [0], [0], [6 if not attrs else (2, 4)[k]]), part]) for k, part in enumerate(parts)]
        return outs

    def tables(self):
        return [layers.embedding(self.ids(1, 5, 1), [10, 4], is_distributed=True,
                                 param_attr=fluid.ParamAttr(name=TABLE, initializer=fluid.initializer.Constant(0.5)))]


PARTS = [name for name, member in vars(Hand).items() if callable(member) and name[0] != "_" and name not in ("fed", "x", "ids")]


# -- all of them ----------------------------------------------------------------------------------------------------


def is_trained(case):
    """Whether the case alone can be trained: some gradient of a parameter is not zero, all are finite, and the loss is no number beside
    which others vanish."""
    main, startup = fluid.Program(), fluid.Program()
    try:
        with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
            loss, feeds = append_case(case)
            grads = [grad for _, grad in fluid.backward.append_backward(loss)]
            fluid.Executor().run(startup)
            values = fluid.Executor().run(main, feed=feeds, fetch_list=[*grads, loss])
        return all(np.isfinite(value).all() for value in values) and any(value.any()
                                                                         for value in values[:-1]) and abs(values[-1].item()) < LARGE
    except (TriremeError, KeyError, ValueError, TypeError):
        return False


def build():
    """Build the program of all; return its loss and its feeds."""
    losses, feeds, hand = [], {}, Hand()
    with tempfile.TemporaryDirectory() as folder:
        for type_ in trainable_types():
            case = next((case for case in cases_of(type_, Path(folder)) if is_trained(case)), None)
            if case is not None:
                loss, fed = append_case(case)
                losses.append(loss)
                feeds.update(fed)
    losses += [_loss_of(getattr(hand, part)()) for part in PARTS]
    return layers.sums(losses), {**feeds, **hand.feeds}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 7
    loss, feeds = build()
    fluid.optimizer.SGD(RATE).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    costs = [exe.run(feed=feeds, fetch_list=[loss])[0].item() for _ in range(STEPS)]
    names = [param.name for param in fluid.default_main_program().all_parameters() if param.name != TABLE]
    np.savez(f"{args.out}.{fluid.distributed.trainer_index()}.npz", costs=costs,
             **{name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in names})


if __name__ == "__main__":
    main()
