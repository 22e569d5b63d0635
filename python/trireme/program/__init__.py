"""Programs and what they are made of, as the rest of the package needs them."""

from .block import Block, Operator, name_scope
from .variable import Parameter, Variable
from .program import Program, default_main_program, default_startup_program, program_guard, switch_main_program, switch_startup_program

__all__ = ["Block", "Operator", "Parameter", "Program", "Variable", "default_main_program", "default_startup_program", "name_scope",
           "program_guard",
           "switch_main_program", "switch_startup_program"]
