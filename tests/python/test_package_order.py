"""The Python package keeps its order: packages import from lower ones alone, no files need each other, and the root defines nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from test_structure import circles, way_around

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "trireme"
MOST_FOR_TYPES = 296                   # imports that type checkers alone see: fewer are better


def packages() -> list[str]:
    """Return the packages in the order of the table in docs/ARCHITECTURE.md, lowest first."""
    section = (ROOT / "docs" / "ARCHITECTURE.md").read_text().partition("## 10. Python")[2]
    return re.findall(r"^\| `(\w+)/` \|", section, re.M)


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in PACKAGE.rglob("*.py")}


def imports(name: str, text: str, is_package: bool, known: set[str]) -> Iterator[tuple[str, bool, int]]:
    """Yield each module of the package that a file imports, whether for types alone, and the line. Imports within functions count, too."""

    def found(node: ast.AST, for_types: bool) -> Iterator[tuple[str, bool, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                for part, is_guarded in ((child.body, True), (child.orelse, for_types)):
                    yield from found(ast.Module(part, []), is_guarded)
            elif isinstance(child, ast.Import):
                yield from ((alias.name, for_types, child.lineno) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                above = name.split(".") if is_package else name.split(".")[:-1]
                base = ".".join([*above[:len(above) - child.level + 1], *([child.module] if child.module else [])]) if child.level else child.module
                for alias in child.names:
                    yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base, for_types, child.lineno
            else:
                yield from found(child, for_types)

    for other, for_types, line in found(ast.parse(text), False):
        if other.split(".")[0] == "trireme" and other in known and other != name:
            yield other, for_types, line


def needed() -> dict[str, dict[str, str]]:
    """Return what each file needs of the others when it runs."""
    return {name: {other: f"line {line}" for other, for_types, line in imports(name, path.read_text(), path.name == "__init__.py", set(MODULES)) if not for_types}
            for name, path in MODULES.items()}


def test_imports_within_functions_and_for_types_are_told_apart():
    text = "from . import b\nif TYPE_CHECKING:\n    from .c import C\nelse:\n    from .d import D\ndef f():\n    from ..e import E\n"
    known = {"trireme.a.b", "trireme.a.c", "trireme.a.d", "trireme.e"}
    assert list(imports("trireme.a.x", text, False, known)) == [
        ("trireme.a.b", False, 1), ("trireme.a.c", True, 3), ("trireme.a.d", False, 5), ("trireme.e", False, 7)]


def test_no_files_need_each_other():
    graph = needed()
    assert [way_around(graph, circle) for circle in circles(graph)] == []


def test_a_package_imports_only_from_those_before_it():
    order = packages()
    assert {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} == set(order)
    wrong = []
    for name, others in needed().items():
        own = name.split(".")[1:2]
        if not own or own[0] not in order:             # the root hands on names from everywhere
            continue
        for other, line in others.items():
            package = other.split(".")[1:2]
            if package and package[0] not in order and not package[0].startswith("_"):
                wrong.append(f"{name} ({line}) imports {other}, which only hands names on")
            elif package and package[0] in order and order.index(package[0]) > order.index(own[0]):
                wrong.append(f"{name} ({line}) imports {other} of a later package")
    assert wrong == []


def test_the_root_defines_nothing():
    for path in PACKAGE.glob("*.py"):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        assert not [node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)], path


def test_imports_for_types_alone_become_fewer():
    count = sum(for_types for name, path in MODULES.items() for _, for_types, _ in imports(name, path.read_text(), path.name == "__init__.py", set(MODULES)))
    assert count <= MOST_FOR_TYPES
