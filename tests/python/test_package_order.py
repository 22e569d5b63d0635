"""The Python package keeps its order: packages import from lower ones alone, no files need each other, and the root defines nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from test_structure import circles, way_around

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "trireme"
MOST_FOR_TYPES = 84                   # imports that type checkers alone see: fewer are better


def packages() -> list[str]:
    """Return the packages in the order of the table in docs/ARCHITECTURE.md, lowest first."""
    section = (ROOT / "docs" / "ARCHITECTURE.md").read_text().partition("## 10. Python")[2]
    return re.findall(r"^\| `(\w+)/` \|", section, re.M)


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in PACKAGE.rglob("*.py")}


def source_of(name: str, statement: ast.ImportFrom, is_package: bool) -> str:
    """Return the full name of the module that a file's statement imports from."""
    above = name.split(".") if is_package else name.split(".")[:-1]
    return ".".join([*above[:len(above) - statement.level + 1], *filter(None, [statement.module])]) if statement.level else statement.module


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
                base = source_of(name, child, is_package)
                for alias in child.names:
                    yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base, for_types, child.lineno
            else:
                yield from found(child, for_types)

    for other, for_types, line in found(ast.parse(text), False):
        if other.split(".")[0] == "trireme" and other in known and other != name:
            yield other, for_types, line


def needed() -> dict[str, dict[str, str]]:
    """Return what each file needs of the others when it runs."""
    return {name: {other: f"line {line}" for other, for_types, line in imports(name, path.read_text(), path.name == "__init__.py",
                                                                               set(MODULES)) if not for_types}
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
    """Names that a package loads later from its own modules do not count: they hide no order."""
    count = sum(for_types and not (path.name == "__init__.py" and other.startswith(f"{name}.")) for name, path in MODULES.items()
                for other, for_types, _ in imports(name, path.read_text(), path.name == "__init__.py", set(MODULES)))
    assert count <= MOST_FOR_TYPES


def listed_without_use(modules: dict[str, str], read: set[str]) -> list[str]:
    """Return the modules whose ``__all__`` nobody reads: neither ``import *`` nor a page, and it hands on no name of another module.

    Public names have no underscore in front of them: that says it once.
    """
    found = []
    for name, text in modules.items():
        tree = ast.parse(text)
        lists = [node for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign)) and ast.unparse(node).startswith("__all__")]
        imported = {alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
        if lists and name not in read and not any(f"'{other}'" in ast.unparse(lists[0]) for other in imported):
            found.append(name)
    return found


def test_only_modules_whose_names_are_handed_on_list_them():
    texts = {name: path.read_text() for name, path in MODULES.items()}
    handed_on = {source_of(name, node, MODULES[name].name == "__init__.py") for name, text in texts.items()
                 for node in ast.walk(ast.parse(text))
                 if isinstance(node, ast.ImportFrom) and {"*", "__all__"} & {alias.name for alias in node.names}}
    on_pages = {module for page in (ROOT / "docs" / "reference").glob("*.md")
                for module in re.findall(r"<!-- reference: ([\w.]+)", page.read_text())}
    public = {name for name, path in MODULES.items()
              if path.name == "__init__.py" or name.count(".") == 1
              or name.split(".")[1] in ("contrib", "dataset", "incubate", "reader", "transpiler")}
    assert listed_without_use({"a": "__all__ = ['f']\ndef f(): ...\n", "b": "from c import g\n__all__ = ['g']\n", "d": "__all__ = ['h']\n"},
                              {"d"}) == ["a"]
    assert listed_without_use(texts, handed_on | on_pages | public) == []
