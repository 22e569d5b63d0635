"""Fluid's ways to save memory, which a plan does by itself."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from ..program import Program

_said: set[str] = set()


def _say_once(name: str) -> None:
    if name not in _said:
        _said.add(name)
        warnings.warn(f"{name} does nothing: variables that are not needed at the same time share memory anyway", stacklevel=3)


def memory_optimize(input_program: Program, skip_opt_set: Iterable[Any] | None = None, print_log: bool = False, level: int = 0,
                    skip_grads: bool = False) -> None:
    """Do nothing, and say so at the first call: a plan shares memory by itself.

    ``input_program``, ``skip_opt_set``, ``print_log``, ``level`` and ``skip_grads`` are what Fluid's function takes.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fluid.memory_optimize(fluid.default_main_program())
    """
    _say_once("memory_optimize")


def release_memory(input_program: Program, skip_opt_set: Iterable[Any] | None = None) -> None:
    """Do nothing, and say so at the first call.

    ``input_program`` and ``skip_opt_set`` are what Fluid's function takes.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fluid.release_memory(fluid.default_main_program())
    """
    _say_once("release_memory")


class InferenceTranspiler:
    """Does nothing to a program, and says so at the first call: a plan fuses operators by itself.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fluid.transpiler.InferenceTranspiler().transpile(fluid.default_main_program(), fluid.CPUPlace())
    """

    def transpile(self, program: Program, place: Any, scope: Any = None) -> None:
        """Leave ``program`` as it is. ``place`` and ``scope`` are what Fluid's method takes."""
        if "InferenceTranspiler" not in _said:
            _said.add("InferenceTranspiler")
            warnings.warn("InferenceTranspiler does nothing: operators of a program are fused when it runs", stacklevel=2)


__all__ = ["InferenceTranspiler", "memory_optimize", "release_memory"]
