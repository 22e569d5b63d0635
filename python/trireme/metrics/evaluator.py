"""Metrics whose counts are variables of the program, added up in it batch by batch. ``fluid.metrics`` counts in Python, on fetched
values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import layers
from ..native import unique_name
from ..parameters.initializer import Constant
from ..parameters.layer_helper import LayerHelper
from ..program import Program, Variable
from ..run.runner import Runner
from ..run.scopes import fetch_var


class Evaluator:
    """Base: ``states`` are the counts, ``metrics`` the values of the last batch.

    The counts persist: the startup program sets them to 0, ``reset`` does it again, ``eval`` makes the result of them.

    A class of your own makes counts with ``_count``, and computes the result of them in ``eval``:

    >>> class Samples(fluid.evaluator.Evaluator):
    ...     def __init__(self, input):
    ...         super().__init__("samples")
    ...         self.seen = self._count("seen", "float32", fluid.layers.reduce_sum(fluid.layers.ones_like(input)))
    ...     def eval(self, executor, eval_program=None):
    ...         return float(fluid.executor.fetch_var(self.seen)[0])
    >>> samples, exe = Samples(fluid.layers.data("x", [1])), fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> for rows in (3, 2):
    ...     _ = exe.run(feed={"x": np.zeros((rows, 1), "float32")})
    >>> samples.eval(exe)
    5.0
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        self.states: list[Variable] = []
        self.metrics: list[Variable] = []
        self.helper = LayerHelper(name, **kwargs)

    def reset(self, executor: Runner, reset_program: Program | None = None) -> None:
        """Set the counts to 0. ``reset_program`` is the program to use, by default a new one."""
        program = Program() if reset_program is None else reset_program
        block = program.global_block()
        for state in self.states:
            var = block.create_var(name=state.name, shape=state.shape, dtype=state.dtype, persistable=True)
            block.append_op(type="fill_constant", outputs={"Out": [var]},
                            attrs={"shape": list(var.desc.shape()), "dtype": var.dtype, "value": 0.0})
        executor.run(program)

    def eval(self, executor: Runner, eval_program: Program | None = None) -> Any:
        """Return the result over all batches since ``reset``. ``eval_program`` is the program to use, by default a new one."""
        raise NotImplementedError

    def _create_state(self, suffix: str, dtype: Any, shape: Sequence[int]) -> Variable:
        state = self.helper.create_global_variable(name=unique_name.generate(f"{self.helper.name}.{suffix}"), persistable=True, dtype=dtype,
                                                   shape=list(shape), stop_gradient=True)
        self.helper.set_variable_initializer(state, Constant(0.0))
        self.states.append(state)
        return state

    def _count(self, suffix: str, dtype: Any, batch: Variable) -> Variable:
        """Make a state that adds up what each batch has."""
        state = self._create_state(suffix, dtype, [1])
        layers.sums([state, batch], out=state)
        return state


def _number(state: Variable) -> Any:
    return fetch_var(state).reshape(-1)[0]


def _share(part: Any, whole: Any) -> float:
    return float(part) / float(whole) if whole else 0.0


class ChunkEvaluator(Evaluator):
    """Precision, recall and F1 score of chunks: see ``layers.chunk_eval``, whose arguments these are.

    ``chunk_scheme`` is ``"IOB"``, ``"IOE"``, ``"IOBES"`` or ``"plain"``; chunks of ``excluded_chunk_types`` do not count.

    ``num_chunk_types`` is the number of types of chunks.

    >>> found, real = (fluid.layers.data(name, [1], dtype="int64", lod_level=1) for name in ("found", "real"))
    >>> chunks = fluid.evaluator.ChunkEvaluator(found, real, "IOB", num_chunk_types=2)
    >>> exe = fluid.Executor(fluid.CPUPlace())
    >>> _ = exe.run(fluid.default_startup_program())
    >>> chunks.reset(exe)
    >>> tags = [fluid.create_lod_tensor(np.array(tags).reshape(-1, 1), [[3]]) for tags in ([0, 1, 2], [0, 1, 4])]
    >>> for _ in range(2):
    ...     _ = exe.run(feed={"found": tags[0], "real": tags[1]}, fetch_list=chunks.metrics)
    >>> [float(value[0]) for value in chunks.eval(exe)]
    [0.5, 1.0, 0.6666666666666666]
    """

    def __init__(self, input: Variable, label: Variable, chunk_scheme: str, num_chunk_types: int,
                 excluded_chunk_types: Sequence[int] | None = None) -> None:
        super().__init__("chunk_eval")
        precision, recall, f1, found, real, right = layers.chunk_eval(input, label, chunk_scheme, num_chunk_types, excluded_chunk_types)
        self.num_infer_chunks = self._count("num_infer_chunks", "int64", found)
        self.num_label_chunks = self._count("num_label_chunks", "int64", real)
        self.num_correct_chunks = self._count("num_correct_chunks", "int64", right)
        self.metrics += [precision, recall, f1]

    def eval(self, executor: Runner, eval_program: Program | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return precision, recall and F1 score, [1] each. ``eval_program`` is the program to use, by default a new one."""
        found, real, right = map(_number, self.states)
        return np.array([_share(right, found)]), np.array([_share(right, real)]), np.array([_share(2 * right, found + real)])


class EditDistance(Evaluator):
    """The mean edit distance of sequences, and the share of those that are not right: see ``layers.edit_distance``.

    Elements among ``ignored_tokens`` are left out before sequences are compared.

    ``input`` and ``label`` are sequences of int64 [n, 1]. ValueError of ``eval``: there was no batch.

    >>> found, real = (fluid.layers.data(name, [1], dtype="int64", lod_level=1) for name in ("found", "real"))
    >>> distance, exe = fluid.evaluator.EditDistance(found, real), fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> words = [fluid.create_lod_tensor(np.array(ids).reshape(-1, 1), [[3]]) for ids in ([1, 2, 3], [1, 2, 4])]
    >>> _ = exe.run(feed={"found": words[0], "real": words[1]}, fetch_list=distance.metrics)
    >>> mean, wrong = distance.eval(exe)
    >>> wrong.tolist()
    [1.0]
    """

    def __init__(self, input: Variable, label: Variable, ignored_tokens: Sequence[int] | None = None, **kwargs: Any) -> None:
        super().__init__("edit_distance", **kwargs)
        distances, count = layers.edit_distance(input, label, ignored_tokens=ignored_tokens)
        zero = layers.fill_constant([1], "float32", 0.0)
        wrong = layers.reduce_sum(layers.cast(layers.greater_than(distances, zero), "float32"))
        self.total_distance = self._count("total_distance", "float32", layers.reduce_sum(distances))
        self.seq_num = self._count("seq_num", "int64", count)
        self.instance_error = self._count("instance_error", "int64", layers.cast(wrong, "int64"))
        self.metrics += [distances, count]

    def eval(self, executor: Runner, eval_program: Program | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean distance and the share of wrong sequences, [1] each. ``eval_program`` is the program to use, by default a new
        one."""
        total, count, wrong = map(_number, self.states)
        if not count:
            raise ValueError("EditDistance: there was no data: run the program first")
        return np.array([_share(total, count)]), np.array([_share(wrong, count)])


__all__ = ["Evaluator", "ChunkEvaluator", "EditDistance"]
