"""Write python/trireme/program/operator.pyi from what the operators say of themselves: types for mypy, pyright and editors.

    make operators                        # or, with the package at hand:
    python docs/make_stubs.py
"""

from __future__ import annotations

import ast
import keyword
import textwrap
from pathlib import Path

import trireme.distributed  # noqa: F401 - makes the operators known that talk to servers
from trireme.core import op_proto, op_types
from trireme.program.op_protos import ATTR_NAMES, AttrProto, OpProto, SlotProto
from trireme.program.operator import _ALIASES

PATH = Path(__file__).parents[1] / "python" / "trireme" / "program" / "operator.pyi"

HEAD = '''\
# Types of trireme/program/operator.py, whose functions are made when they are first asked for.
# Made by docs/make_stubs.py: change the operators' records (kernels/, pserver/ops/), then `make operators`.
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypedDict, Unpack

from .block import Block
from .op_protos import OpProto
from .variable import Variable
from ..native.dtypes import DTypeLike

Slot: TypeAlias = Variable | str | Sequence[Variable | str]
Output: TypeAlias = Variable | str | Sequence[Variable | str] | int | None

class Common(TypedDict, total=False):
    """Arguments that every operator takes."""

    op_role: int
    op_role_var: Sequence[str]
    op_namescope: str
    name: str | None

def create_operator(type: str, input: Slot | dict[str, Any] | None = ..., output: Slot | dict[str, Any] | None = ...,
                    attrs: dict[str, Any] | None = ...) -> Any: ...
def doc_of(proto: OpProto) -> str: ...
'''

_WIDTH = 120
_TYPES = {"INT": "int", "FLOAT": "float", "STRING": "str", "INTS": "Sequence[int]", "FLOATS": "Sequence[float]",
          "STRINGS": "Sequence[str]", "BOOLEAN": "bool", "BOOLEANS": "Sequence[bool]", "BLOCK": "Block | int", "LONG": "int",
          "BLOCKS": "Sequence[Block | int]", "LONGS": "Sequence[int]"}
_COMMON = "**common: Unpack[Common]"


def main() -> None:
    PATH.write_text(render(), encoding="utf-8")


def render() -> str:
    """Return the whole file."""
    names = filter(_is_name, op_types())
    parts = [HEAD]
    for name in names:
        proto = op_proto(name)
        parts.append(f"{name}: Callable[..., Any]" if _is_gradient(proto) else _function(proto))
    parts += [f"{alias} = {name}" for alias, name in _ALIASES.items()]
    return "\n".join(parts) + "\n"


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _is_gradient(proto: OpProto) -> bool:
    """Do slots have names, such as ``X@GRAD``, that are none of Python's?"""
    return any(not slot.name.isidentifier() for slot in [*proto.inputs, *proto.outputs])


def _function(proto: OpProto) -> str:
    attrs = [_attribute(attr) for attr in proto.attrs.values() if _is_name(attr.name)]
    arguments = [*_inputs(proto), *(f"{slot.name}: Output = ..." for slot in proto.outputs), *attrs, _COMMON]
    known: dict[str, str] = {}
    for argument in arguments:
        known.setdefault(argument.partition(":")[0], argument)     # the first of a name is the one that is taken
    return f"{_signature(f'def {proto.type}(', list(known.values()))}) -> {_result(proto)}:\n    {_doc(proto)}\n"


def _signature(head: str, arguments: list[str]) -> str:
    """Return ``head`` and the arguments, in lines that begin below the first of them."""
    if arguments[-2:-1] == ["*"]:
        del arguments[-2]                                          # nothing but what all operators take stands behind it
    text = ", ".join(argument.replace(" ", "~") for argument in arguments)
    return textwrap.fill(head.replace(" ", "~") + text, _WIDTH, subsequent_indent=" " * len(head),
                         break_long_words=False, break_on_hyphens=False).replace("~", " ")


def _inputs(proto: OpProto) -> list[str]:
    """Return the inputs, which may also be given in their order, and what parts them from the other arguments."""
    if not proto.inputs:
        return ["*"]
    found, is_optional = [], False
    for slot in proto.inputs:
        is_optional |= slot.dispensable
        found.append(f"{slot.name}: Slot | None = None" if slot.dispensable else f"{slot.name}: Slot{' = ...' if is_optional else ''}")
    is_list = len(proto.inputs) == 1 and proto.inputs[0].duplicable
    return [*found, "*args: Variable | str" if is_list else "*"]


def _attribute(attr: AttrProto) -> str:
    if attr.name == "dtype":
        kind = "DTypeLike"
    else:
        kind = _TYPES[ATTR_NAMES[attr.type]]
    if attr.required:
        return f"{attr.name}: {kind}"
    if not attr.default:
        return f"{attr.name}: {kind} | None = None"
    words = {"true": True, "false": False}
    value = words[attr.default] if attr.default in words else ast.literal_eval(attr.default)
    return f"{attr.name}: {kind} = {tuple(value) if isinstance(value, list) else value!r}"


def _result(proto: OpProto) -> str:
    """Return the type of the outputs that are no intermediate ones."""
    slots = [slot for slot in proto.outputs if not slot.intermediate]
    if any(slot.dispensable for slot in slots):
        return "Any"
    kinds = [_kind(slot) for slot in slots]
    return kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]" if kinds else "None"


def _kind(slot: SlotProto) -> str:
    return "list[Variable]" if slot.duplicable else "Variable"


def _doc(proto: OpProto) -> str:
    text = " ".join(proto.comment.split()).replace("\\", "\\\\").replace('"""', "'''")
    first = text.partition(". ")[0].rstrip(".")
    return f'"""{first}."""'


if __name__ == "__main__":
    main()
