"""Loops, conditions and recurrent nets of a program give in onnxruntime, as graphs inside a graph, what they give here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trireme as fluid
from trireme.native import errors
from trireme import formats

from onnx_support import assert_same, data, made, parameter

layers = fluid.layers


def number(value: int) -> Any:
    return layers.fill_constant([1], "int64", value)


def doubled(times: int = 5) -> Any:
    """A loop that goes on while a number that depends on what is fed is small."""
    x = data(3)
    total, i, limit = layers.scale(x, 1.0), number(0), layers.fill_constant([1], "float32", 50.0)
    goes_on = layers.less_than(i, number(times))
    loop = layers.While(goes_on)
    with loop.block():
        layers.assign(total * 1.5 + x, total)
        layers.increment(i, 1)
        few = layers.less_than(i, number(times))
        small = layers.less_than(layers.reduce_sum(layers.abs(total)), limit)
        layers.logical_and(few, small, out=goes_on)
    return total, i


def with_a_layer_inside() -> Any:
    """Parameters, and variables of the block alone."""
    state, i, n = layers.scale(data(4), 1.0), number(0), number(3)
    goes_on = layers.less_than(i, n)
    loop = layers.While(goes_on, is_test=True)
    with loop.block():
        layers.assign(layers.fc(state, 4, act="tanh", param_attr="w", bias_attr="b"), state)
        layers.increment(i, 1)
        layers.less_than(i, n, cond=goes_on)
    return state


def nested() -> Any:
    """A condition inside a loop inside a loop; the outer loop is left at once by a negative sum."""
    x, i = data(2), number(0)
    total, outer = layers.scale(x, 1.0), layers.less_than(i, number(3))
    with layers.While(outer).block():
        k = number(0)
        inner = layers.less_than(k, i)
        with layers.While(inner).block():
            is_positive = layers.greater_than(layers.reduce_sum(total), layers.fill_constant([1], "float32", 0.0))
            with layers.ConditionalBlock([is_positive], is_scalar_condition=True).block():
                layers.assign(total - 1.0, total)
            layers.increment(k, 1)
            layers.less_than(k, i, cond=inner)
        layers.assign(total + x, total)
        layers.increment(i, 1)
        layers.less_than(i, number(3), cond=outer)
    return total


def switched(limit: float) -> Any:
    x = data(3)
    out, sum = layers.fill_constant([1], "float32", 7.0), layers.reduce_sum(x)
    with layers.Switch() as switch:
        with switch.case(layers.less_than(sum, layers.fill_constant([1], "float32", limit))):
            layers.assign(layers.reduce_max(x), out)
        with switch.case(layers.less_than(sum, layers.fill_constant([1], "float32", limit + 3))):
            layers.fill_constant([1], "float32", -1.0, out=out)
        with switch.default():
            layers.assign(sum * 2.0, out)
    return out, layers.scale(out, 3.0)


def branched(limit: float) -> Any:
    """Rows by their first number: all of them in one branch where the limit is far away."""
    x = data(3)
    first = layers.slice(x, axes=[1], starts=[0], ends=[1])
    choose = layers.IfElse(layers.less_than(first, layers.fill_constant([1], "float32", limit)))
    with choose.true_block():
        rows = choose.input(x)
        choose.output(layers.fc(rows, 2), rows * 10.0)
    with choose.false_block():
        rows = choose.input(x)
        choose.output(layers.fc(rows, 2), rows - 1.0)
    return choose()


def summed(reverse: bool = False, outer: bool = False) -> Any:
    """A recurrent net over a fixed number of steps, with two memories and two outputs."""
    x = layers.data("x", [5, -1, 3], append_batch_size=False)
    factor = parameter(3)
    rnn = layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        total = rnn.memory(shape=[-1, 3], batch_ref=word)
        product = rnn.memory(shape=[-1, 3], batch_ref=word, init_value=1.0)
        rnn.update_memory(total, total + word * factor)
        rnn.update_memory(product, layers.fc([product, word], 3, act="tanh"))
        rnn.step_output(total + product)
        rnn.step_output(word * 2.0)
    if reverse:
        [net] = [op for op in fluid.default_main_program().global_block().ops if op.type == "recurrent"]
        net._set_attr("reverse", True)
    first, second = rnn()
    return layers.transpose(first, [1, 0, 2]) if outer else first, second


def filled(last: int) -> Any:
    """An array that a loop writes, whose first element changes afterwards; its length, its elements, all in one."""
    x, i, array = data(3), number(0), layers.create_array("float32")
    layers.array_write(x * 0.5, number(last), array)
    goes_on = layers.less_than(i, number(4))
    with layers.While(goes_on).block():
        layers.array_write(x * layers.cast(i, "float32"), i, array)
        layers.increment(i, 1)
        layers.less_than(i, number(4), cond=goes_on)
    first = layers.array_read(array, number(0))
    layers.array_write(x + 100.0, number(0), array)
    joined, extents = layers.tensor_array_to_tensor(array, axis=1)
    return layers.array_length(array), first, layers.array_read(array, number(0)), joined, extents


CASES: list[tuple[str, Callable[[], Any]]] = [
    ("while", doubled),
    ("while_of_no_iteration", lambda: doubled(0)),
    ("while_with_a_layer", with_a_layer_inside),
    ("while_nested", nested),
    *[(f"switch_{limit}", lambda limit=limit: switched(limit)) for limit in (-9.0, -2.0, 0.0, 9.0)],
    *[(f"if_else_{limit}", lambda limit=limit: branched(limit)) for limit in (-9.0, 0.0, 9.0)],
    ("static_rnn", summed),
    ("static_rnn_of_a_batch", lambda: summed(outer=True)),
    ("recurrent_from_the_end", lambda: summed(reverse=True)),
    *[(f"array_{last}", lambda last=last: filled(last)) for last in (0, 2, 4)],
]


@pytest.mark.parametrize(("name", "make"), [pytest.param(name, make, id=name) for name, make in CASES])
def test_onnxruntime_gives_the_same(name: str, make: Callable[[], Any], tmp_path: Path) -> None:
    assert_same(make, tmp_path, (4, 6))


def test_an_operator_of_a_loop_that_onnx_lacks_is_named(tmp_path: Path) -> None:
    state, i = layers.scale(data(4), 1.0), number(0)
    goes_on = layers.less_than(i, number(3))
    with layers.While(goes_on).block():
        layers.assign(layers.gaussian_random([1, 4]) + state, state)
        layers.increment(i, 1)
        layers.less_than(i, number(3), cond=goes_on)
    with pytest.raises(errors.UnsupportedError, match=r"operator 0 of block 1 \(gaussian_random\) has no counterpart"):
        formats.export_onnx(tmp_path / "m.onnx", ["x"], [state], fluid.Executor())


def test_a_variable_that_nothing_writes_is_named(tmp_path: Path) -> None:
    state = fluid.default_main_program().global_block().create_var(name="state", shape=[-1, 4], dtype="float32")
    with pytest.raises(errors.NotFoundError, match="the model needs 'state', which 'scale' reads, and it is not fed"):
        formats.export_onnx(tmp_path / "m.onnx", [], [made("scale", state, scale=2.0)], fluid.Executor())
