"""Programs and what they are made of, under the names by which Fluid's scripts know this module."""

from __future__ import annotations

from .native.tensor import CPUPlace
from .program.block import Block, Operator, name_scope
from .program.variable import Parameter, Variable
from .program.places import CUDAPinnedPlace, CUDAPlace, cpu_places, cuda_pinned_places, cuda_places, is_compiled_with_cuda
from .program.program import (
    Program, default_main_program, default_startup_program, get_var, in_dygraph_mode, program_guard, switch_main_program,
    switch_startup_program)
from .program.roles import GRAD_SUFFIX, OpRole, grad_var_name
from .run.operator import OpProtoHolder, get_all_op_protos

_get_var = get_var

__all__ = ["Program", "Block", "Operator", "Variable", "Parameter", "program_guard", "default_main_program",
           "default_startup_program", "switch_main_program", "switch_startup_program", "name_scope", "CPUPlace",
           "CUDAPlace", "CUDAPinnedPlace", "cuda_places", "cuda_pinned_places", "is_compiled_with_cuda", "OpProtoHolder",
           "get_all_op_protos",
           "GRAD_SUFFIX", "OpRole", "cpu_places", "in_dygraph_mode", "grad_var_name", "get_var"]
