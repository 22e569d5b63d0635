"""The reference has every public name, and says of each argument what it is."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import sys
from pathlib import Path

import pytest
from test_doctests import examples

import trireme

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import make_reference  # noqa: E402

#: Modules whose names are parts of others, or are no part of what scripts call.
ELSEWHERE = {
    "trireme.operator": "docs/operators.md",
    "trireme.layer": "trireme.layers",
    "trireme.dataset": "a page for each data set",
}


NAMES = {full: getattr(module, name) for full, (module, name) in make_reference.listed().items()}


def offered(modules):
    """What ``import trireme as fluid`` offers by name: modules, or other things."""
    tree = ast.parse(Path(trireme.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    return [alias.name for node in block.body for alias in node.names if (node.module is None) == modules
            and not alias.name.startswith("_")]


@pytest.mark.parametrize("name", offered(modules=True))
def test_every_public_name_is_in_the_reference(name):
    module = getattr(trireme, name)
    if module.__name__ in ELSEWHERE:
        return
    shown = {id(value) for value in NAMES.values()} | {id(module) for module, _ in make_reference.listed().values()}
    names = [one for one in make_reference.public_names(module) if id(getattr(module, one)) not in shown
             and f"{module.__name__}.{one}" not in NAMES]
    assert not names, f"no page of docs/reference has `<!-- reference: {module.__name__} -->`, or one of a module that defines these"


def test_every_name_of_the_package_is_in_the_reference():
    shown = {id(value) for value in NAMES.values()}
    names = offered(modules=False)
    assert len(names) > 40
    assert [name for name in names if id(getattr(trireme, name)) not in shown] == []


def test_every_data_set_is_in_the_reference():
    modules = {module.__name__ for module, _ in make_reference.listed().values()}
    sets = [f"trireme.dataset.{info.name}" for info in pkgutil.iter_modules(trireme.dataset.__path__)]
    assert [name for name in sets if name not in modules] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "reference").glob("*.md")), ids=lambda path: path.name)
def test_a_page_has_each_of_its_names_once(page):
    text = make_reference.expand(page.read_text())
    entries = re.findall(r"^\.\. auto\w+:: (\S+)$", text, re.M)
    assert len(entries) == len(set(entries))
    assert "<!-- reference" not in text and make_reference.COMMANDS not in text


def test_docstrings_say_what_their_arguments_are():
    lacking = {full: missing for full, value in NAMES.items() if callable(value) and (missing := make_reference.undescribed(value))}
    assert not lacking, "describe these arguments in the docstring, or in docs/reference/arguments.md if they mean the same everywhere"


def test_the_list_of_arguments_says_what_each_is():
    """With a sentence of the docstring or of arguments.md, in the order of the call."""
    fc, lines = trireme.layers.fc, []
    make_reference.describe_arguments(None, "function", "trireme.layers.fc", fc, None, lines)
    listed = dict(re.fullmatch(r":param (\w+): (.+)", line).groups() for line in lines if line)
    assert list(listed) == make_reference.parameters(fc)
    assert listed["num_flatten_dims"] == "Dimensions of ``input`` from ``num_flatten_dims`` on are its features."
    assert listed["bias_attr"].startswith("The same for the bias") and "above" not in "".join(listed.values())
    silent = [f"{full}: {one}" for full, value in NAMES.items() if callable(value) for one in make_reference.parameters(value)
              if not make_reference.said_of(value, one)]
    assert silent == []


METHODS = {f"{full}.{name}": (value, name, method) for full, value in NAMES.items() if inspect.isclass(value)
           and value.__module__.startswith("trireme")
           for name, method in make_reference.methods(value).items()}


def test_every_method_is_described_with_its_arguments():
    """By its own docstring, or by that of the method that it overrides; what arguments.md describes need not be repeated."""
    lacking = {}
    for full, (owner, name, method) in METHODS.items():
        text = inspect.getdoc(getattr(owner, name)) or ""
        unknown = [one for one in make_reference.undescribed(method) if not re.search(rf"\b{one}\b",
                                                                                      re.sub(r"^ *(?:>>>|\.\.\.).*$", "", text,
                                                                                             flags=re.M))]
        if not text or unknown:
            lacking[full] = unknown if text else "no docstring"
    assert len(METHODS) > 300 and not lacking


def test_a_class_is_described_under_its_own_name():
    homes = make_reference.homes()
    assert homes[id(trireme.optimizer.Adam)] == "trireme.optimizer.AdamOptimizer"
    assert homes[id(trireme.layers.fc)] == "trireme.layers.fc"


def test_every_public_name_has_a_docstring():
    assert [full for full, value in NAMES.items() if callable(value) and not inspect.getdoc(value)] == []


def test_every_name_has_an_example_that_runs():
    """In a docstring that its entry shows; tests/python/test_doctests.py runs it."""
    run = {example.values[0].docstring for example in examples()}
    entries = {full: value for full, value in NAMES.items() if callable(value) and make_reference.homes()[id(value)] == full}
    assert len(entries) > 580
    assert [full for full, value in entries.items() if not run.intersection(make_reference.shown_docstrings(value))] == []


def test_arguments_that_are_common_are_those_of_something():
    values = [*(value for value in NAMES.values() if callable(value)), *(method for _, _, method in METHODS.values())]
    used = {one for value in values for one in make_reference.parameters(value)}
    assert set(make_reference.common_arguments()) <= used


def test_commands_are_those_of_the_parser():
    text = make_reference.commands()
    assert re.findall(r"^## (.*)$", text, re.M) == [
        f"trireme {command}" for command in ("launch", "explain", "doctor", "checkpoint list", "checkpoint verify", "checkpoint export",
                                             "checkpoint compact", "checkpoint diff", "port", "predict", "serve", "top", "metrics", "plot",
                                             "trace", "cat", "store", "simulate", "dataset list", "dataset fetch")]
    assert "`--servers S`" in text and "`--mode MODE`" in text
