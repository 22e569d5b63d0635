"""Draws formulas and diagrams as the site is built, so that a page loads nothing from another host.

A formula becomes MathML, which browsers show by themselves. A fence of Mermaid becomes a picture in SVG, inside the page; its text stays
as the picture's description.
"""

from __future__ import annotations

import base64
import html
from typing import Any

import latex2mathml.converter
import mermaidx
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.errors import ExtensionError


class Diagram(Directive):
    """The text of a diagram in Mermaid's language."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        text = "\n".join(self.content)
        try:
            picture = mermaidx.render(text).svg()
        except RuntimeError as error:
            raise self.error(f"Mermaid cannot draw this diagram: {error}") from error
        data = base64.b64encode(picture.encode()).decode()
        return [nodes.raw("", f'<img style="background: white; padding: 0.5rem" src="data:image/svg+xml;base64,{data}" '
                              f'alt="{html.escape(text)}">', format="html")]


def mathml(formula: str, display: str) -> str:
    """Return a formula of LaTeX in MathML. ``display``: ``inline`` or ``block``."""
    try:
        return latex2mathml.converter.convert(formula, display=display)
    except Exception as error:
        raise ExtensionError(f"the formula {formula!r} cannot be drawn: {error!r}") from error


def _visit(display: str) -> Any:
    def visit(translator: Any, node: nodes.Element) -> None:
        translator.body.append(mathml(node.astext(), display))
        raise nodes.SkipNode

    return visit


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("mermaid", Diagram)
    app.add_html_math_renderer("mathml", (_visit("inline"), None), (_visit("block"), None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
