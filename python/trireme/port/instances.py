"""What a script makes of Fluid's names: the classes of its objects, and whether such a class has an attribute."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from typing import Any

from ..feeding.py_reader import PyReader
from ..native.tensor import LoDTensor
from ..native.scope import LoDTensorArray, Scope, ScopeVariable
from ..native.selected_rows import SelectedRows
from ..program.block import Block, Operator
from ..program.variable import Parameter, Variable
from ..program.desc import BlockDesc, ProgramDesc, VarDesc
from ..program.op_desc import OpDesc
from ..program.program import Program
from ..train.executor import Executor

# Classes by the names that annotations give them.
_CLASSES = {one.__name__: one
            for one in (Block, BlockDesc, Executor, LoDTensor, LoDTensorArray, OpDesc, Operator, Parameter, Program, ProgramDesc,
                                          PyReader, Scope, ScopeVariable, SelectedRows, VarDesc, Variable)}


def class_of_result(made_by: Any) -> type | None:
    """Return the class of what a call of ``made_by`` returns, as its annotation says; None: it is not known."""
    if isinstance(made_by, type):
        return made_by
    text = getattr(made_by, "__annotations__", {}).get("return")
    return _CLASSES.get(text) if isinstance(text, str) else None


def class_of_attribute(owner: type, name: str) -> type | None:
    """Return the class of an attribute that is a property; None: it is not known."""
    found = inspect.getattr_static(owner, name, None)
    return class_of_result(found.fget) if isinstance(found, property) else None


def has_attribute(owner: type, name: str) -> bool:
    """Return whether objects of the class have the attribute. A class that answers for any name has it."""
    return hasattr(owner, name) or hasattr(owner, "__getattr__") or name in _set_by_methods(owner)


@functools.cache
def _set_by_methods(owner: type) -> frozenset[str]:
    """Return the attributes that methods of the class and of its bases give to ``self``, and those that it declares."""
    found: set[str] = set()
    for one in owner.__mro__:
        found |= set(getattr(one, "__annotations__", ()))
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(one)))
        except (OSError, TypeError, SyntaxError):
            continue                                   # it is not written in Python
        found |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    return frozenset(found)
