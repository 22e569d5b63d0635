"""Replay in a job that was started again: the script runs from its beginning, but steps that the servers have are not computed.

The first ``steps`` runs of the training program take their feeds and return the numbers that these steps fetched when they were made
(fetched.py). The replay ends where the job broke off. So a script needs no code for this, if it reads the same data again.
"""

from __future__ import annotations

from ..native.dtypes import NUMPY_DTYPES, VarType
from ..program import Program


class Replay:
    """``steps`` runs of ``program`` that were made before."""

    def __init__(self, program: Program, steps: int) -> None:
        self.program, self.steps, self.made = program, steps, 0
        self.now: Program | None = None                # the program that takes the place of the replayed step
        self._stand_ins: dict[tuple[tuple[str, ...], tuple[str, ...]], Program] = {}

    @property
    def is_over(self) -> bool:
        return self.made == self.steps

    def next(self, feeds: tuple[str, ...], fetches: tuple[str, ...]) -> Program | None:
        """Return the program to run in the place of the next step. None: all steps were replayed."""
        if self.is_over:
            return None
        self.made += 1
        found = self._stand_ins.get((feeds, fetches))
        if found is None:
            found = self._stand_ins[feeds, fetches] = self._stand_in(feeds, fetches)
        self.now = found
        return found

    def _stand_in(self, feeds: tuple[str, ...], fetches: tuple[str, ...]) -> Program:
        """A program that takes the feeds and makes the fetched variables. Known values are put in later; until then a value is NaN, or 0
        where its type has no NaN."""
        program, known = Program(), self.program.global_block()
        program._is_stand_in = True
        block = program.global_block()
        for name in feeds:
            var = known.var(name)
            block.create_var(name=name, shape=var.desc.shape(), dtype=var.dtype, lod_level=var.lod_level)
        for name in dict.fromkeys(fetches):
            var = known._var_recursive(name)
            shape = [dim if dim > 0 else 1 for dim in var.desc.shape()]
            if not block.has_var(name):
                block.create_var(name=name, shape=shape, dtype=var.dtype)
            value = float("nan") if var.dtype is not None and (var.dtype == VarType.BF16 or NUMPY_DTYPES[var.dtype].kind == "f") else 0.0
            block.append_op(type="fill_constant", outputs={"Out": name},
                            attrs={"shape": shape, "dtype": var.dtype, "value": value})
        return program
