"""Which operators a program has, and how often."""

from __future__ import annotations

from collections import Counter

from ..program import Program


def op_freq_statistic(program: Program) -> tuple[dict[str, int], dict[str, int]]:
    """Return how often each operator stands in the global block, and each pair of which one reads what the other computes; the most
    frequent first.

    >>> y = fluid.layers.fc(fluid.layers.fc(fluid.layers.data("x", [3]), 4), 5)
    >>> fluid.contrib.op_freq_statistic(fluid.default_main_program())
    ({'mul': 2, 'elementwise_add': 2}, {'mul->elementwise_add': 2, 'elementwise_add->mul': 1})
    """
    if not isinstance(program, Program):
        raise TypeError(f"op_freq_statistic: program must be a Program, got {program!r}")
    single: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    maker: dict[str, str] = {}
    for op in program.global_block().read_ops():
        single[op.type] += 1
        pairs.update(f"{maker[name]}->{op.type}" for name in op.input_arg_names if name in maker)
        maker.update(dict.fromkeys(op.output_arg_names, op.type))
    return dict(single.most_common()), dict(pairs.most_common())


__all__ = ["op_freq_statistic"]
