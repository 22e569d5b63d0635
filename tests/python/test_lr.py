"""Learning rates that change, against their formulas."""

import math

import numpy as np
import pytest

import trireme as fluid
from trireme import core, layers

LR, STEPS, RATE = 0.5, 4, 0.7


def polynomial(step):
    return (LR - 0.01) * (1 - min(step, STEPS) / STEPS) ** 2 + 0.01


def cycling(step):
    whole = STEPS * max(1, math.ceil(step / STEPS))
    return (LR - 0.01) * (1 - step / whole) ** 2 + 0.01


SCHEDULES = {
    "exponential": (lambda: layers.exponential_decay(LR, STEPS, RATE), lambda s: LR * RATE ** (s / STEPS)),
    "exponential stairs": (lambda: layers.exponential_decay(LR, STEPS, RATE, True),
                           lambda s: LR * RATE ** (s // STEPS)),
    "natural": (lambda: layers.natural_exp_decay(LR, STEPS, RATE), lambda s: LR * math.exp(-RATE * s / STEPS)),
    "natural stairs": (lambda: layers.natural_exp_decay(LR, STEPS, RATE, True),
                       lambda s: LR * math.exp(-RATE * (s // STEPS))),
    "inverse": (lambda: layers.inverse_time_decay(LR, STEPS, RATE), lambda s: LR / (1 + RATE * s / STEPS)),
    "inverse stairs": (lambda: layers.inverse_time_decay(LR, STEPS, RATE, True),
                       lambda s: LR / (1 + RATE * (s // STEPS))),
    "polynomial": (lambda: layers.polynomial_decay(LR, STEPS, 0.01, 2.0), polynomial),
    "polynomial cycle": (lambda: layers.polynomial_decay(LR, STEPS, 0.01, 2.0, cycle=True), cycling),
    "noam": (lambda: layers.noam_decay(64, 5),
             lambda s: 64 ** -0.5 * min((s + 1) ** -0.5, (s + 1) * 5 ** -1.5)),
    "cosine": (lambda: layers.cosine_decay(LR, 3, 10), lambda s: LR * 0.5 * (math.cos(s // 3 * math.pi / 10) + 1)),
    "warm-up": (lambda: layers.linear_lr_warmup(LR, 6, 0.1, 0.4), lambda s: 0.1 + 0.3 * s / 6 if s < 6 else LR),
    "warm-up of a schedule": (lambda: layers.linear_lr_warmup(layers.exponential_decay(LR, STEPS, RATE), 6, 0.0, 0.4),
                              lambda s: 0.4 * s / 6 if s < 6 else LR * RATE ** (s / STEPS)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_follows_its_formula(name, exe):
    make, formula = SCHEDULES[name]
    rate = make()
    assert rate.shape == (1,) and rate.dtype == "float32"
    exe.run(fluid.default_startup_program())
    got = [float(exe.run(fetch_list=[rate])[0][0]) for _ in range(12)]
    np.testing.assert_allclose(got, [formula(step) for step in range(12)], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("names", [SCHEDULES, reversed(SCHEDULES), ["noam", "exponential"]], ids=["in order", "backwards", "noam first"])
def test_schedules_of_one_program_do_not_disturb_each_other(names, exe):
    """They share a counter, from which noam_decay counts from 1 and the others from 0."""
    names = list(names)
    rates = [SCHEDULES[name][0]() for name in names]
    exe.run(fluid.default_startup_program())
    got = [np.ravel(exe.run(fetch_list=rates)) for _ in range(12)]
    np.testing.assert_allclose(got, [[SCHEDULES[name][1](step) for name in names] for step in range(12)], rtol=1e-5, atol=1e-8)


def test_the_counter_is_the_same_whichever_schedule_comes_first(exe):
    for name in ("noam", "exponential"):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
            rate = SCHEDULES[name][0]()
            exe.run(fluid.default_startup_program())
            assert [int(exe.run(fetch_list=["@LR_DECAY_COUNTER@", rate])[0][0]) for _ in range(3)] == [0, 1, 2]


def test_another_schedule_of_a_copied_program_goes_on_with_its_counter(exe):
    """What a program counts is in the program, and nowhere else."""
    layers.noam_decay(64, 5)
    copy = fluid.Program.parse_from_string(fluid.default_main_program().serialize_to_string())
    with fluid.program_guard(copy):
        rate = SCHEDULES["exponential"][0]()
    exe.run(fluid.default_startup_program())
    got = [float(exe.run(copy, fetch_list=[rate])[0][0]) for _ in range(6)]
    np.testing.assert_allclose(got, [SCHEDULES["exponential"][1](step) for step in range(6)], rtol=1e-5)


def test_pieces_are_exact(exe):
    rate = layers.piecewise_decay([3, 5, 6], [0.1, 0.07, 0.03, 0.001])
    exe.run(fluid.default_startup_program())
    got = [exe.run(fetch_list=[rate])[0][0] for _ in range(9)]
    want = np.array([0.1] * 3 + [0.07] * 2 + [0.03] + [0.001] * 3, "float32")
    assert np.array_equal(got, want)


def test_a_schedule_drives_an_optimizer(exe):
    x = layers.data("x", [1])
    loss = layers.mean(layers.fc(x, 1, bias_attr=False, param_attr=fluid.ParamAttr(
        name="w", initializer=fluid.initializer.Constant(0.0))))
    fluid.optimizer.SGD(layers.piecewise_decay([2], [0.5, 0.25])).minimize(loss)
    exe.run(fluid.default_startup_program())
    seen = []
    for _ in range(4):
        exe.run(feed={"x": np.ones((1, 1), "float32")})
        seen.append(float(fluid.fetch_var("w")[0, 0]))
    assert seen == [-0.5, -1.0, -1.25, -1.5]


def test_a_test_clone_does_not_count(exe):
    x = layers.data("x", [1])
    loss = layers.mean(layers.fc(x, 1))
    fluid.optimizer.SGD(layers.exponential_decay(0.1, 10, 0.5)).minimize(loss)
    test = fluid.default_main_program().clone(for_test=True)
    assert not any(op.attr("op_role") & core.OpRole.LRSched for op in test.global_block().ops)
    assert [op.type for op in test.global_block().ops] == ["mul", "elementwise_add", "mean"]


def test_the_step_counter_counts(exe):
    counter = layers.autoincreased_step_counter(begin=5, step=2)
    assert layers.autoincreased_step_counter() is counter
    exe.run(fluid.default_startup_program())
    assert [int(exe.run(fetch_list=[counter])[0][0]) for _ in range(3)] == [5, 7, 9]
