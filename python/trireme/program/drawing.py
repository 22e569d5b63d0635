"""Drawing a program: its operators as boxes, its variables as the lines between them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .block import Block, Operator
from .variable import Parameter
from .roles import OpRole

if TYPE_CHECKING:
    from .program import Program

_COLOURS = {OpRole.Forward: "#dbe9f6", OpRole.Backward: "#fde0cf", OpRole.Optimize: "#d9efd3"}


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _role(op: Operator) -> int:
    role = op.attr("op_role") if op.has_attr("op_role") else 0
    return role & (OpRole.Backward | OpRole.Optimize)


def _block_lines(block: Block, highlights: set[str]) -> list[str]:
    index = block.idx
    lines = [f"  subgraph cluster_{index} {{", f"    label = {_quote('block ' + str(index))};"]
    used: dict[str, None] = {}
    edges = []
    for i, op in enumerate(block.ops):
        node = f"op_{index}_{i}"
        lines.append(f"    {node} [label={_quote(op.type)} shape=box style=\"rounded,filled\" "
                     f"fillcolor={_quote(_COLOURS.get(_role(op), '#eeeeee'))}];")
        for slot in op.input_names:
            for name in op.input(slot):
                used[name] = None
                edges.append(f"    {_quote(f'{index}/{name}')} -> {node} [taillabel={_quote(slot)}];")
        for slot in op.output_names:
            for name in op.output(slot):
                used[name] = None
                edges.append(f"    {node} -> {_quote(f'{index}/{name}')};")
    for name in used:
        var = block._find_var_recursive(name)
        shape = f"\\n{var._type_text()}" if var is not None else ""
        look = " style=filled fillcolor=\"#fff3b0\"" if isinstance(var, Parameter) else ""
        if name in highlights:
            look += " color=red penwidth=2"
        label = _quote(name)[:-1] + shape + '"'
        lines.append(f"    {_quote(f'{index}/{name}')} [label={label} shape=ellipse{look}];")
    return [*lines, *edges, "  }"]


def to_dot(program: Program, highlights: Iterable[str] = ()) -> str:
    """Return a program in Graphviz' language; ``highlights`` are names to mark.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1)
    >>> print(fluid.graphviz.to_dot(fluid.default_main_program()).splitlines()[0])
    digraph program {
    """
    lines = ["digraph program {", "  graph [rankdir=TB fontname=sans];", "  node [fontname=sans fontsize=10];",
             "  edge [fontname=sans fontsize=8];"]
    for block in program.blocks:
        lines += _block_lines(block, set(highlights))
    return "\n".join([*lines, "}"]) + "\n"


def draw(program: Program, path: str, highlights: Iterable[str] = ()) -> str:
    """Write a drawing to ``path``: ``.dot`` is text, other endings (``.svg``, ``.png``, ``.pdf``) need Graphviz.

    Variables whose names are among ``highlights`` are coloured.

    FileNotFoundError: the ending needs Graphviz, which is not installed.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line")
    >>> fluid.graphviz.draw(fluid.default_main_program(), "net.dot", highlights=["line.w_0"])
    'net.dot'
    """
    text = to_dot(program, highlights)
    ending = os.path.splitext(path)[1].lstrip(".").lower()
    if ending in ("dot", "gv", ""):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path
    import shutil
    import subprocess

    tool = shutil.which("dot")
    if tool is None:
        raise FileNotFoundError(f"a drawing as {ending!r} needs Graphviz' program 'dot'; a path that ends with .dot "
                                "gives the text for it")
    subprocess.run([tool, f"-T{ending}", "-o", path], input=text, text=True, check=True, timeout=300)
    return path


def draw_block_graphviz(block: Block, highlights: Iterable[str] | None = None, path: str = "./temp.dot") -> str:
    """Write the drawing of a block's program.

    ``path`` and ``highlights`` are those of ``draw``.

    ``block`` is any Block of the program.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1)
    >>> fluid.graphviz.draw_block_graphviz(fluid.default_main_program().global_block(), path="net.dot")
    'net.dot'
    """
    return draw(block.program, path, highlights or ())


_MOST_DRAWN = 200                      # operators; a larger drawing shows nothing any more


def to_svg(program: Program) -> str | None:
    """Return the drawing as SVG; None: there is no ``dot``, it fails, or the program is too large to be drawn.

    >>> drawn = fluid.graphviz.to_svg(fluid.default_main_program())
    >>> drawn is None or drawn.startswith("<svg")
    True
    """
    import shutil
    import subprocess

    dot = shutil.which("dot")
    if dot is None or sum(len(block.ops) for block in program.blocks) > _MOST_DRAWN:
        return None
    try:
        drawn = subprocess.run([dot, "-Tsvg"], input=to_dot(program), capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return drawn[drawn.index("<svg"):] if "<svg" in drawn else None


def to_html(program: Program) -> str:
    """Return a table of the operators, with what they read and write, for notebooks.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line")
    >>> "line.w_0" in fluid.graphviz.to_html(fluid.default_main_program())
    True
    """
    from html import escape

    parts = []
    for block in program.blocks:
        rows = "".join(f'<tr style="background:{_COLOURS.get(_role(op), "#eeeeee")};color:#111"><td>{i}</td><td '
                       f'style="text-align:left"><b>{escape(op.type)}</b></td>'
                       f'<td style="text-align:left">{_html_args(op, op.input_names, op.input)}</td><td '
                       f'style="text-align:left">{_html_args(op, op.output_names, op.output)}</td></tr>'
                       for i, op in enumerate(block.ops))
        parts.append(f"<p>block {block.idx}: {len(block.ops)} operators, {len(block.vars)} "
                     f"variables</p><table><tr><th></th><th>operator</th><th>reads</th><th>writes</th></tr>{rows}</table>")
    return "".join(parts) + f"<details><summary>as text</summary><pre>{escape(str(program))}</pre></details>"


def _html_args(op: Operator, slots: Iterable[str], names_of: Any) -> str:
    from html import escape

    told = []
    for slot in slots:
        for name in names_of(slot):
            var = op.block._find_var_recursive(name)
            told.append(f'{escape(slot)} <code title="{escape(var._type_text() if var is not None else "")}">{escape(name)}</code>')
    return ", ".join(told)


__all__ = ["to_html", "to_svg", "to_dot", "draw", "draw_block_graphviz"]
