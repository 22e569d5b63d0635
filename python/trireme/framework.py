"""Programs and what they are made of, under the names by which Fluid's scripts know this module."""

from __future__ import annotations

import os

from . import core
from .block import Block, Operator, Parameter, Variable, name_scope
from .core import GRAD_SUFFIX, CPUPlace, OpRole
from .op import OpProtoHolder, get_all_op_protos
from .places import CUDAPinnedPlace, CUDAPlace, cuda_pinned_places, cuda_places, is_compiled_with_cuda
from .program import (Program, default_main_program, default_startup_program, program_guard, switch_main_program,
                      switch_startup_program)


def grad_var_name(name: str) -> str:
    """Return the name of the gradient of a variable.

    ``name`` is the variable's name.

    >>> fluid.framework.grad_var_name("fc_0.w_0")
    'fc_0.w_0@GRAD'
    """
    return name + GRAD_SUFFIX


def cpu_places(device_count: int | None = None) -> list[CPUPlace]:
    """Return so many places, each for one replica of a program (``CompiledProgram``): by default ``CPU_NUM`` of the environment, or as
    many as the process has threads.

    ``device_count`` is the number of places; None: the default.

    >>> fluid.cpu_places(2)
    [CPUPlace, CPUPlace]
    """
    count = device_count if device_count is not None else os.environ.get("CPU_NUM") or core.num_threads()
    if isinstance(count, bool) or not str(count).isdigit() or int(count) < 1:
        what = "device_count" if device_count is not None else "CPU_NUM of the environment"
        raise core.InvalidArgumentError(f"cpu_places: {what} is {count!r}; a whole number of at least 1 is possible")
    return [CPUPlace() for _ in range(int(count))]


def in_dygraph_mode() -> bool:
    """Return False: a program is described first and run then.

    >>> fluid.in_dygraph_mode()
    False
    """
    return False


def get_var(name: str, program: Program | None = None) -> Variable:
    """Return a variable of the global block.

    ``name`` is its name; NotFoundError: the program has no such variable.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line")
    >>> fluid.framework.get_var("line.w_0").shape
    (2, 1)
    """
    return (program or default_main_program()).global_block().var(name)


_get_var = get_var

__all__ = ["Program", "Block", "Operator", "Variable", "Parameter", "program_guard", "default_main_program",
           "default_startup_program", "switch_main_program", "switch_startup_program", "name_scope", "CPUPlace",
           "CUDAPlace", "CUDAPinnedPlace", "cuda_places", "cuda_pinned_places", "is_compiled_with_cuda", "OpProtoHolder", "get_all_op_protos",
           "GRAD_SUFFIX", "OpRole", "cpu_places", "in_dygraph_mode", "grad_var_name", "get_var"]
