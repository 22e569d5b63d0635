"""Learning rates that change from step to step, as operators of the program.

Rates are finite numbers of at least 0, numbers of steps are above 0; others are a ValueError that shows the value.
``step`` counts the runs of the program from 0. The operators carry the role LRSched, so that a parameter
server can run them beside its optimizers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..native.checks import finite
from ..native.lazy import answer_for_package
from ..program import Variable, default_main_program
from . import ops, tensor
from .math import elementwise_max, elementwise_min, sums

COUNTER = "@LR_DECAY_COUNTER@"


def _schedule() -> Any:
    return default_main_program()._lr_schedule_guard()


def _step(begin: int = 0) -> Variable:
    """Return how often the program has run, counted from ``begin``.

    One variable counts for all schedules of a program, from 0: wherever they begin, it is the same, and in every checkpoint.
    """
    counter = tensor.autoincreased_step_counter(counter_name=COUNTER, begin=0, step=1)
    step = tensor.cast(counter, "float32")
    return step + float(begin) if begin else step


_decay_step_counter = _step            # the name by which schedules of a script's own count


def _check(schedule: str, rates: dict[str, Any], above_zero: dict[str, Any] | None = None) -> None:
    """Check the rates (or Variables), and the numbers that must be above 0."""
    for name, value in rates.items():
        if not isinstance(value, Variable):
            finite(f"{schedule}: {name}", value, at_least=0)
    for name, value in (above_zero or {}).items():
        finite(f"{schedule}: {name}", value, above=0)


def _ratio(decay_steps: float, staircase: bool) -> Variable:
    ratio = _step() / float(decay_steps)
    return ops.floor(ratio) if staircase else ratio


def exponential_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> Variable:
    """Return ``learning_rate * decay_rate ** (step / decay_steps)``; ``staircase`` rounds the exponent down.

    >>> fluid.layers.exponential_decay(0.1, decay_steps=1000, decay_rate=0.5).shape
    (1,)
    """
    _check("exponential_decay", {"learning_rate": learning_rate, "decay_rate": decay_rate}, {"decay_steps": decay_steps})
    with _schedule():
        return float(decay_rate) ** _ratio(decay_steps, staircase) * learning_rate


def natural_exp_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> Variable:
    """Return ``learning_rate * exp(-decay_rate * step / decay_steps)``.

    With ``staircase`` the quotient is rounded down to a whole number.

    >>> fluid.layers.natural_exp_decay(0.1, decay_steps=1000, decay_rate=0.5).shape
    (1,)
    """
    _check("natural_exp_decay", {"learning_rate": learning_rate}, {"decay_steps": decay_steps})
    finite("natural_exp_decay: decay_rate", decay_rate)
    with _schedule():
        return ops.exp(_ratio(decay_steps, staircase) * -float(decay_rate)) * learning_rate


def inverse_time_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> Variable:
    """Return ``learning_rate / (1 + decay_rate * step / decay_steps)``.

    With ``staircase`` the quotient is rounded down to a whole number.

    >>> fluid.layers.inverse_time_decay(0.1, decay_steps=1000, decay_rate=0.5).shape
    (1,)
    """
    _check("inverse_time_decay", {"learning_rate": learning_rate, "decay_rate": decay_rate}, {"decay_steps": decay_steps})
    with _schedule():
        return learning_rate / (_ratio(decay_steps, staircase) * decay_rate + 1.0)


def polynomial_decay(learning_rate: float, decay_steps: int, end_learning_rate: float = 0.0001, power: float = 1.0,
                     cycle: bool = False) -> Variable:
    """Return ``(learning_rate - end) * (1 - step / decay_steps) ** power + end``, and ``end`` from then on.

    With ``cycle`` it starts anew instead, each time over a longer way: ``decay_steps`` times 2, 3, ...

    ``end`` is ``end_learning_rate``.

    >>> fluid.layers.polynomial_decay(0.1, decay_steps=1000, end_learning_rate=0.01).shape
    (1,)
    """
    _check("polynomial_decay", {"learning_rate": learning_rate, "end_learning_rate": end_learning_rate, "power": power},
           {"decay_steps": decay_steps})
    with _schedule():
        step = _step()
        if cycle:
            one = tensor.fill_constant([1], "float32", 1.0)
            rounds = elementwise_max(ops.ceil(step / float(decay_steps)), one)
            ratio = step / (rounds * float(decay_steps))
        else:
            last = tensor.fill_constant([1], "float32", float(decay_steps))
            ratio = elementwise_min(step, last) / float(decay_steps)
        return (1.0 - ratio) ** power * (learning_rate - end_learning_rate) + end_learning_rate


def piecewise_decay(boundaries: Sequence[int], values: Sequence[float]) -> Variable:
    """Return ``values[0]`` while step < ``boundaries[0]``, then ``values[1]`` while step < ``boundaries[1]``, ...

    >>> fluid.layers.piecewise_decay([1000, 2000], [0.1, 0.01, 0.001]).shape
    (1,)
    """
    if len(values) != len(boundaries) + 1:
        raise ValueError(f"piecewise_decay: {len(boundaries)} boundaries need {len(boundaries) + 1} values, "
                         f"got {len(values)}")
    if any(a >= b for a, b in zip(boundaries, boundaries[1:])):
        raise ValueError(f"piecewise_decay: boundaries must rise, got {list(boundaries)}")
    _check("piecewise_decay", {f"values[{i}]": value for i, value in enumerate(values)})
    with _schedule():
        step = _step()
        # One term of the sum is a value times 1, the others are 0: no rounding.
        terms = []
        passed = None
        for value, boundary in zip(values, [*boundaries, None]):
            is_here = passed
            if boundary is not None:
                before = tensor.cast(step < float(boundary), "float32")
                is_here = before if passed is None else before * passed
                passed = 1.0 - before
            terms.append(is_here * float(value) if is_here is not None else
                         tensor.fill_constant([1], "float32", float(value)))
        return sums(terms) if len(terms) > 1 else terms[0]


def noam_decay(d_model: int, warmup_steps: int, learning_rate: float = 1.0) -> Variable:
    """Return ``learning_rate * d_model ** -0.5 * min(step ** -0.5, step * warmup_steps ** -1.5)``, step from 1.

    From Vaswani and others, "Attention is all you need", 2017, eq. 3.

    >>> fluid.layers.noam_decay(d_model=512, warmup_steps=4000).shape
    (1,)
    """
    _check("noam_decay", {"learning_rate": learning_rate}, {"d_model": d_model, "warmup_steps": warmup_steps})
    with _schedule():
        step = _step(begin=1)
        shape = elementwise_min(step ** -0.5, step * float(warmup_steps) ** -1.5)
        rate: Variable = shape * (learning_rate * float(d_model) ** -0.5)
        return rate


def cosine_decay(learning_rate: float, step_each_epoch: int, epochs: int) -> Variable:
    """Return ``learning_rate * (cos(epoch * pi / epochs) + 1) / 2`` with the whole epochs passed so far.

    An epoch has ``step_each_epoch`` steps.

    >>> fluid.layers.cosine_decay(0.1, step_each_epoch=100, epochs=20).shape
    (1,)
    """
    _check("cosine_decay", {"learning_rate": learning_rate}, {"step_each_epoch": step_each_epoch, "epochs": epochs})
    with _schedule():
        epoch = ops.floor(_step() / float(step_each_epoch))
        return (ops.cos(epoch * (math.pi / epochs)) + 1.0) * (0.5 * learning_rate)


def linear_lr_warmup(learning_rate: Any, warmup_steps: int, start_lr: float, end_lr: float) -> Variable:
    """Return a rate that rises from ``start_lr`` to ``end_lr`` in ``warmup_steps``, and is ``learning_rate`` then.

    ``learning_rate`` is a number or a schedule.

    >>> fluid.layers.linear_lr_warmup(0.1, warmup_steps=500, start_lr=0.0, end_lr=0.1).shape
    (1,)
    """
    _check("linear_lr_warmup", {"learning_rate": learning_rate, "start_lr": start_lr, "end_lr": end_lr},
           {"warmup_steps": warmup_steps})
    with _schedule():
        step = _step()
        warm = step * ((end_lr - start_lr) / float(warmup_steps)) + start_lr
        is_warming = tensor.cast(step < float(warmup_steps), "float32")
        if not isinstance(learning_rate, Variable):
            learning_rate = tensor.fill_constant([1], "float32", float(learning_rate))
        rate: Variable = warm * is_warming + learning_rate * (1.0 - is_warming)
        return rate


__all__ = ["exponential_decay", "natural_exp_decay", "inverse_time_decay", "polynomial_decay", "piecewise_decay",
           "noam_decay", "cosine_decay", "linear_lr_warmup"]

if not TYPE_CHECKING:                # a checker that saw it would take any name
    __getattr__ = answer_for_package(__name__)
