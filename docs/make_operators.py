"""Write docs/operators.md from what the operators say of themselves.

    make operators                        # or, with the package at hand:
    python docs/make_operators.py
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import trireme.distributed  # noqa: F401 - makes the operators known that talk to servers
from trireme._core import lib
from trireme.core import OpProto, op_proto, op_types
from trireme.program.op_protos import ATTR_NAMES

PATH = Path(__file__).with_name("operators.md")
IGNORED = "accepted for old programs; no result depends on it"

HEAD = """\
# Operators

<!-- Made by docs/make_operators.py: change the operators' records (kernels/, pserver/ops/), then `make operators`. -->

What each operator computes, what it takes and gives, and what may be set. `trireme.operator.<name>` is the operator as
a Python function; most scripts use the layers (`trireme.layers`), which are made of these. `help(trireme.operator.mul)`
shows the same text.

A *list* slot takes any number of variables; an *optional* one may be left empty; an *intermediate* output is there for the
gradient's sake. Dimensions in brackets name what must agree; `...` is any number of them. Each operator also takes the
attributes `op_role`, `op_role_var`, `op_namescope` and `op_callstack`, which say where it comes from and change no result. In a server's
program `op_pointwise_on` names the block of a parameter on which an operator works point by point.

An operator that is *made of other operators* is replaced by those when a plan is made (`Program.expand` shows them), and its
gradient by theirs.

{count} operators; {gradients} more, named `<name>_grad`, compute gradients. Those are derived from the records here: they
take of the forward operator's inputs, outputs and outputs' gradients what its rule says, and its attributes.

{index}
"""


def main() -> None:
    PATH.write_text(render(), encoding="utf-8")


def render() -> str:
    """Return the whole page."""
    protos = [proto for proto in map(op_proto, op_types()) if not _is_gradient(proto)]
    index = ", ".join(f"[{proto.type}](#{proto.type})" for proto in protos)
    head = HEAD.format(count=len(protos), gradients=len(op_types()) - len(protos),
                       index=textwrap.fill(index, 120, break_long_words=False, break_on_hyphens=False))
    return "\n".join([head, *map(describe, protos)])


def _is_gradient(proto: OpProto) -> bool:
    return proto.type.endswith("_grad") and op_proto(proto.type.removesuffix("_grad")) is not None


def _reach(proto: OpProto) -> str:
    """Return what is said of an operator that reaches beyond the scope."""
    if not proto.io:
        return ""
    what = "reads or writes files" if proto.io & lib.TR_IO_FILES else "talks to other processes"
    return f"It {what}: a program that is loaded from a file may not contain it, unless `allow_io` says so."


def describe(proto: OpProto) -> str:
    """Return the section of one operator."""
    lines = [f"## {proto.type}", "", _text(proto.comment), "",
             " ".join(filter(None, ["Has a gradient." if proto.has_grad else "No gradient flows through it.",
                                    "Made of other operators." if proto.is_composite else "", _reach(proto)])), ""]
    slots = [*_slots("input", proto.inputs), *_slots("output", proto.outputs)]
    lines += _table("slot | | what", slots)
    lines += _table("attribute | type | default | range | what", _attributes(proto))
    ignored = [f"`{attr.name}`" for attr in proto.attrs.values() if attr.comment == IGNORED]
    if ignored:
        lines += [f"Accepted for old programs, with any value, because no result depends on them: {', '.join(ignored)}.", ""]
    return "\n".join(lines)


def _slots(side: str, slots: list) -> list[str]:
    rows = []
    for slot in slots:
        notes = [side, *(note for flag, note in ((slot.duplicable, "list"), (slot.dispensable, "optional"),
                                                 (slot.intermediate, "intermediate")) if flag)]
        rows.append(f"`{slot.name}` | {', '.join(notes)} | {_text(slot.comment)}")
    return rows


def _attributes(proto: OpProto) -> list[str]:
    rows = []
    for attr in proto.attrs.values():
        if attr.comment == IGNORED:
            continue
        default = "required" if attr.required else f"`{attr.default}`" if attr.default else "none"
        rows.append(f"`{attr.name}` | {ATTR_NAMES[attr.type]} | {default} | {_text(attr.range)} | {_text(attr.comment)}")
    return rows


def _table(head: str, rows: list[str]) -> list[str]:
    if not rows:
        return []
    return [f"| {head} |", "|" + "---|" * (head.count("|") + 1), *(f"| {row} |" for row in rows), ""]


def _text(comment: str) -> str:
    """What Markdown would take for its own signs, shown as it is."""
    text = " ".join(comment.split())
    for sign in "\\*_<|":
        text = text.replace(sign, "\\" + sign)
    return text


if __name__ == "__main__":
    main()
