"""NumPy's numbers and texts are numbers and texts, and paths may be objects of pathlib: every example of the documentation runs with
them."""

from __future__ import annotations

import ast
import contextlib
import copy
import doctest
import inspect
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_doctests import examples

import trireme as fluid
from trireme.job.session import session

KINDS = {
    int: ("np.int64", "np.array", "np.int32", "np.int16"),
    float: ("np.float64", "np.float32", "np.array"),
    bool: ("np.bool_",),
    str: ("np.str_",),
}
PATHS = -1                                                 # a turn: objects of pathlib for paths, and nothing else
OWN = ("fluid", "layers")                                  # a call begins with one of these names
PATH = re.compile(r"(?:.*_)?(?:path|dir|dirname|folder|filename|paths|files|filelist)")


def with_paths(function: Any) -> Any:
    """Return the function with objects of pathlib in place of the texts that it gets as paths."""
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            given = inspect.signature(function).bind(*args, **kwargs)
        except (TypeError, ValueError):
            return function(*args, **kwargs)
        for name, value in given.arguments.items():
            if PATH.fullmatch(name):
                given.arguments[name] = Path(value) if isinstance(value, str) else \
                    [Path(one) if isinstance(one, str) else one for one in value] if isinstance(value, list) else value
        return function(*given.args, **given.kwargs)

    return call


class Replace(ast.NodeTransformer):
    """Replaces the numbers, flags and texts among the arguments of calls of the package, also in lists and tuples."""

    def __init__(self, turn: int) -> None:
        self.turn = turn

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        root: Any = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in OWN and self.turn == PATHS:
            node.func = ast.Call(ast.Name("with_paths", ast.Load()), [node.func], [])
        elif isinstance(root, ast.Name) and root.id in OWN:
            node.args = [self.changed(arg) for arg in node.args]
            for keyword in node.keywords:
                keyword.value = self.changed(keyword.value)
        return node

    def changed(self, node: Any) -> Any:
        if isinstance(node, (ast.List, ast.Tuple)):
            node.elts = [self.changed(element) for element in node.elts]
        is_negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
        value = getattr(node.operand if is_negative else node, "value", None)
        if type(value) not in KINDS or isinstance(node, ast.Attribute) or (type(value) is int and abs(value) > 30000):
            return node
        kinds = KINDS[type(value)]
        self.turn += 1
        return ast.parse(f"{kinds[self.turn % len(kinds)]}({ast.unparse(node)})", mode="eval").body


def outcome(test: doctest.DocTest, folder: Path, turn: int | None) -> Iterator[str]:
    """Run an example and yield what each of its statements raises; with ``turn``, after NumPy's values have taken the place of Python's."""
    globs = {**test.globs, "fluid": fluid, "np": np, "with_paths": with_paths}
    for part in test.examples:
        tree = ast.parse(part.source)
        if turn is not None:
            tree = ast.fix_missing_locations(Replace(turn).visit(tree))
        try:
            exec(compile(tree, str(folder), "exec"), globs)
            yield ""
        except Exception as error:
            yield f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("example", list(examples()))
def test_an_example_takes_numpy_numbers_and_texts(example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "checkpoints", copy.copy(session.checkpoints))
    ends = []
    for turn in (None, 0, 1, PATHS):
        folder = tmp_path / str(turn)
        folder.mkdir()
        monkeypatch.chdir(folder)
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard(), \
                contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            ends.append(list(outcome(example, folder, turn)))
    for plain, *numpy in zip(*ends):
        assert all(plain.split(":")[0] == end.split(":")[0] for end in numpy), (plain, numpy)
