"""The names of Fluid that a script uses, by lines; each is there, differs, or is missing."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import trireme

from ..native.suggest import did_you_mean
from .fluid_names import names_of_fluid
from .instances import class_of_attribute, class_of_result, has_attribute
from .source import Source
from .tables import COUNTERPARTS, DIFFERS, OUTSIDE

THERE, DIFFERENT, MISSING = "there", "differs", "missing"
_ROLES = ("PADDLE_", "TRAINING_ROLE", "PSERVERS", "CURRENT_ENDPOINT")
_MODULES = ("reader", "dataset", "batch", "version")              # of paddle itself, which are of fluid here


@dataclass(frozen=True, order=True)
class Finding:
    """What is said of a line."""

    line: int
    name: str
    status: str
    text: str = ""


def _table(rows: Any) -> dict[str, str]:
    return {name: text for names, text in rows for name in names}


_DIFFERS, _COUNTERPARTS = _table(DIFFERS), _table(COUNTERPARTS)


def our_name(dotted: str) -> str | None:
    """Return the name below ``trireme`` of one that begins with ``paddle``; None: outside of Fluid."""
    parts = dotted.split(".")
    if parts[:2] == ["paddle", "fluid"]:
        return ".".join(parts[2:])
    if len(parts) > 1 and parts[1] in _MODULES:
        return ".".join(parts[1:])
    return None


def look_up(name: str) -> tuple[Any, str, str]:
    """Return (object, what was found of the name, what was not) of a dotted name below ``trireme``."""
    found: Any = trireme
    parts = name.split(".") if name else []
    for i, part in enumerate(parts):
        if isinstance(found, type) and i:
            known = has_attribute(found, part)
            return (found, ".".join(parts[:i]), "") if known else (None, ".".join(parts[:i]), ".".join(parts[i:]))
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(f"{found.__name__}.{part}") if inspect.ismodule(found) else None
            except ImportError:
                found = None
            if found is None:
                return None, ".".join(parts[:i]), ".".join(parts[i:])
    return found, name, ""


def _missing(name: str) -> str:
    module, _, last = name.rpartition(".")
    known = names_of_fluid().get(module or "fluid", set())
    if name in _COUNTERPARTS:
        return f"use {_COUNTERPARTS[name]}"
    if last in known or module.split(".")[0] == "dygraph" or last == "dygraph":
        return "Trireme does not have it"
    import trireme as fluid

    place = look_up(module)[0] if module else fluid
    return f"no name of Fluid 1.x that Trireme knows{did_you_mean(last, dir(place)) if place is not None else ''}"


def say(dotted: str, line: int) -> Finding | None:
    """Return what is said of a dotted name that begins with ``paddle``."""
    for prefix, (status, text) in OUTSIDE.items():
        if dotted == prefix or dotted.startswith(prefix + "."):
            return Finding(line, dotted, status, text)
    name = our_name(dotted)
    if name is None:
        return None if dotted == "paddle" else Finding(line, dotted, MISSING,
                                                       "only paddle.fluid, paddle.reader, paddle.dataset and paddle.batch are here")
    if not name:
        return None
    _, there, absent = look_up(name)
    if absent:
        whole = f"{there}.{absent.split('.')[0]}" if there else absent.split(".")[0]
        return Finding(line, f"fluid.{whole}", MISSING, _missing(whole))
    text = _DIFFERS.get(name) or _DIFFERS.get(there, "")        # of a method: what is said of its class
    return Finding(line, f"fluid.{name}", DIFFERENT if text else THERE, text)


def check_call(dotted: str, node: ast.Call) -> str:
    """Return what is wrong with the arguments of a call; "" where nothing is known to be."""
    name = our_name(dotted)
    found, _, absent = look_up(name) if name else (None, "", "x")
    return "" if absent else check_arguments(found, node)


def check_arguments(found: Any, node: ast.Call, bound: int = 0) -> str:
    """Return what is wrong with the arguments of a call of ``found``, whose first ``bound`` parameters are given; "" where nothing is known
    to be."""
    if not callable(found):
        return ""
    try:
        parameters = dict(list(inspect.signature(found).parameters.items())[bound:])
    except (TypeError, ValueError):
        return ""
    if any(one.kind == one.VAR_KEYWORD for one in parameters.values()):
        return ""
    given = [keyword.arg for keyword in node.keywords if keyword.arg]
    unknown = [arg for arg in given if arg not in parameters]
    if unknown:
        return f"it takes no {', '.join(map(repr, unknown))}{did_you_mean(unknown[0], parameters)}"
    positional = [one for one in parameters.values() if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    is_open = any(one.kind == one.VAR_POSITIONAL for one in parameters.values())
    if len(node.args) > len(positional) and not is_open and not any(isinstance(arg, ast.Starred) for arg in node.args):
        return f"it takes {len(positional)} arguments by place, {len(node.args)} are given"
    return ""


class _Walk(ast.NodeVisitor):
    """Follows imports and aliases, and collects findings."""

    def __init__(self, own: set[str], bound_otherwise: set[str]) -> None:
        self.own = own                                 # names that the script binds itself
        self._bound_otherwise = bound_otherwise        # of these, the ones that are not only assigned to: arguments, variables of loops
        self.aliases: dict[str, str] = {}
        self.found: list[Finding] = []
        self._seen: set[int] = set()                   # nodes that are part of a longer name
        self._classes: dict[str, type] = {}            # of variables that hold what a name of Fluid has made

    def _add(self, finding: Finding | None) -> None:
        if finding is not None:
            self.found.append(finding)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.split(".")[0] != "paddle":
                continue
            self.aliases[alias.asname or "paddle"] = alias.name if alias.asname else "paddle"
            line = f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
            self._add(self._of_import(node.lineno, alias.name, line, alias.asname))

    @staticmethod
    def _of_import(line: int, name: str, text: str, alias: str | None) -> Finding | None:
        if our_name(name) is None and name != "paddle":
            return say(name, line)
        ours = our_name(name)
        absent = look_up(ours)[2] if ours else ""
        if absent:
            return say(name, line)
        if name == "paddle":
            return Finding(line, text, DIFFERENT, "write `import trireme as fluid`; paddle.batch, paddle.reader and paddle.dataset are "
                                                  "fluid.batch, ...")
        return Finding(line, text, DIFFERENT, f"write `import trireme{'.' + ours if ours else ''} as {alias or 'fluid'}`")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or not node.module or node.module.split(".")[0] != "paddle":
            return
        for alias in node.names:
            if alias.name == "*":
                self._import_all(node.lineno, node.module)
                continue
            dotted = f"{node.module}.{alias.name}"
            self.aliases[alias.asname or alias.name] = dotted
            ours = our_name(node.module)
            where = f"trireme.{ours}" if ours else "trireme"
            finding = say(dotted, node.lineno)
            if finding is not None and finding.status == MISSING:
                self._add(finding)
            else:
                is_fluid = dotted == "paddle.fluid"
                what = f"import trireme as {alias.asname or alias.name}" if is_fluid else f"from {where} import {alias.name}"
                self._add(Finding(node.lineno, f"from {node.module} import {alias.name}", DIFFERENT, f"write `{what}`"))

    def _import_all(self, line: int, module: str) -> None:
        """``from module import *``: its public names, here and in Fluid, except those that the script binds itself."""
        ours = our_name(module)
        found, _, absent = look_up(ours) if ours is not None else (None, "", module)
        if absent:
            self._add(say(module, line))
            return
        names = {*getattr(found, "__all__", ()), *names_of_fluid().get(ours or "fluid", ())} - self.own
        self.aliases.update((name, f"{module}.{name}") for name in names)
        self._add(Finding(line, f"from {module} import *", DIFFERENT, f"write `from trireme{'.' + ours if ours else ''} import *`"))

    def _dotted(self, node: ast.AST) -> str | None:
        """Return the whole dotted name of an expression, if it begins with an alias of paddle's."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.aliases:
            return None
        return ".".join([self.aliases[node.id], *reversed(parts)])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outside = dict(self._classes)                  # its own variables end with it
        self.generic_visit(node)
        self._classes = outside

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        dotted = self._dotted(node.value)
        made = self._class_of(node.value)
        for name in [part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)]:
            self._classes.pop(name, None)
        for target in node.targets:
            if not isinstance(target, ast.Name):
                continue
            if made is not None and target.id not in self._bound_otherwise:
                self._classes[target.id] = made
            if dotted is not None:
                self.aliases[target.id] = dotted       # layers = fluid.layers
            elif target.id in self.aliases:
                del self.aliases[target.id]

    def _class_of(self, node: ast.AST) -> type | None:
        """Return the class of an expression that a name of Fluid makes; None: it is not known."""
        if isinstance(node, ast.Name):
            return self._classes.get(node.id)
        if isinstance(node, ast.Call):
            dotted = self._dotted(node.func)
            if dotted is not None:
                name = our_name(dotted)
                return class_of_result(look_up(name)[0]) if name else None
            if not isinstance(node.func, ast.Attribute):
                return None
            owner = self._class_of(node.func.value)
            return class_of_result(getattr(owner, node.func.attr, None)) if owner is not None else None
        if isinstance(node, ast.Attribute):
            owner = self._class_of(node.value)
            return class_of_attribute(owner, node.attr) if owner is not None else None
        return None

    def visit_Call(self, node: ast.Call) -> None:
        dotted = self._dotted(node.func)
        if dotted is not None:
            finding = say(dotted, node.func.lineno)
            wrong = check_call(dotted, node) if finding is not None and finding.status != MISSING else ""
            if wrong and finding is not None:
                finding = Finding(finding.line, finding.name, DIFFERENT, "; ".join(filter(None, (wrong, finding.text))))
            self._add(finding)
            self._skip(node.func)
        elif isinstance(node.func, ast.Attribute):
            self._check_method(node, node.func)
        self.generic_visit(node)

    def _check_method(self, node: ast.Call, method: ast.Attribute) -> None:
        """A call of a method of what a name of Fluid has made: its arguments."""
        owner = self._class_of(method.value)
        found = inspect.getattr_static(owner, method.attr, None) if owner is not None else None
        wrong = check_arguments(found, node, bound=1) if inspect.isfunction(found) else ""
        if wrong and owner is not None:
            self._add(Finding(method.lineno, f"{owner.__name__}.{method.attr}", DIFFERENT, wrong))

    def _skip(self, node: ast.AST) -> None:
        while isinstance(node, ast.Attribute):
            self._seen.add(id(node))
            node = node.value
        self._seen.add(id(node))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if id(node) not in self._seen:
            dotted = self._dotted(node)
            if dotted is not None:
                self._skip(node)
                self._add(say(dotted, node.lineno))
        owner = self._class_of(node.value)
        if owner is not None and isinstance(node.ctx, ast.Load) and not has_attribute(owner, node.attr):
            self._add(Finding(node.lineno, f"{owner.__name__}.{node.attr}", MISSING, f"a {owner.__name__} has no attribute {node.attr!r}"
                              f"{did_you_mean(node.attr, [name for name in dir(owner) if name[0] != '_'])}"))
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if id(node) not in self._seen and isinstance(node.ctx, ast.Load) and self.aliases.get(node.id, "paddle").count(".") > 1:
            self._add(say(self.aliases[node.id], node.lineno))

    def visit_Expr(self, node: ast.Expr) -> None:
        """``print`` and ``print >>file, x`` alone on a line can be parsed, but print nothing in Python 3."""
        first = node.value.elts[0] if isinstance(node.value, ast.Tuple) and node.value.elts else node.value
        first = first.left if isinstance(first, ast.BinOp) and isinstance(first.op, ast.RShift) else first
        if isinstance(first, ast.Name) and first.id == "print":
            self._add(Finding(node.lineno, "print", DIFFERENT, "Python 2 (print statement): write it in Python 3"))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.startswith(_ROLES):
            self._add(Finding(node.lineno, repr(node.value), DIFFERENT,
                              "a job knows its roles: `trireme launch --servers S --trainers T SCRIPT` starts "
                              "servers, and fluid.distributed.trainer_index(), trainer_count() are known"))


def _bound(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a script binds: variables, arguments, functions and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def _bound_otherwise(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a script binds in another way than by an assignment: their values come from elsewhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            yield from (part.id for part in ast.walk(node.target) if isinstance(part, ast.Name))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield from (part.id for part in ast.walk(node.optional_vars) if isinstance(part, ast.Name))
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield from node.names
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.split(".")[0]


def findings(source: Source) -> list[Finding]:
    """Return what is said of each name, in the order of the lines; each once a line."""
    walk = _Walk(set(_bound(source.tree)), set(_bound_otherwise(source.tree)))
    walk.visit(source.tree)
    return list(dict.fromkeys(sorted([*walk.found, *_of_python(source)], key=lambda one: one.line)))


def _of_python(source: Source) -> Iterator[Finding]:
    for line, what in source.rewritten.items():
        if line and line not in source.removed:
            yield Finding(line, source.lines[line - 1].strip()[:60], DIFFERENT, f"Python 2 ({what}): write it in Python 3")
    for line, why in source.removed.items():
        if why:
            yield Finding(line, source.lines[line - 1].strip()[:60], MISSING, f"it cannot be parsed ({why}): look at it yourself")
