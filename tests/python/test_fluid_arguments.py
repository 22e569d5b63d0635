"""Every name of fluid_arguments.txt takes the arguments that it takes in Fluid 1.5, in the same order and with the same defaults.

Where that is not so, docs/fluid.md says what differs, or lists the name as absent."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import trireme as fluid
from trireme.port.fluid_names import names_of_fluid
from trireme.port.tables import DIFFERS

TOLD = {name for names, _ in DIFFERS for name in names}


def facts():
    """Yield (name, [(argument, default as written, or None)]) of each line."""
    for line in Path(__file__).with_name("fluid_arguments.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        head, rest = re.match(r"((?:[\w.]|\{[^}]*\})+) ?(.*)$", line).groups()
        args = [tuple(arg.split("=", 1)) if "=" in arg else (arg, None) for arg in rest.split()]
        several = re.search(r"\{([^}]*)\}", head)
        for one in several[1].split() if several else [head]:
            yield head.replace(several[0], one) if several else head, args


FACTS = dict(facts())


def find(name):
    found = fluid
    for part in name.split("."):
        found = getattr(found, part)
    return found


def is_absent(name):
    parts = name.split(".")
    try:
        find(name)
    except AttributeError:
        module, last = (parts[0], parts[1]) if len(parts) > 1 and parts[0] in names_of_fluid() else ("fluid", parts[0])
        assert last in names_of_fluid()[module], f"{name} is neither here nor in port/fluid_names.py"
        return True
    return False


def means_the_same(theirs, ours):
    if theirs.startswith("VarType."):
        return theirs == f"VarType.{ours.name}"
    value = ast.literal_eval(theirs)
    if value is None and isinstance(ours, float):      # the operator's default, here as there
        return True
    return value == (list(ours) if isinstance(ours, tuple) else ours) or (value == {} and ours is None)


def differences(name, args):
    params = [param for param in inspect.signature(find(name)).parameters.values() if param.name != "self"]
    by_name = {param.name: param for param in params}
    places = [param.name for param in params if param.kind == param.POSITIONAL_OR_KEYWORD]
    for place, (arg, default) in enumerate(args):
        if arg not in by_name:
            yield f"there is no {arg}"
            continue
        if place >= len(places) or places[place] != arg:
            yield f"{arg} is not number {place + 1}"
        if default is not None and not means_the_same(default, by_name[arg].default):
            yield f"{arg} is {by_name[arg].default!r} unless given, not {default}"
    required = {arg for arg, default in args if default is None}
    yield from (f"{param.name} must be given" for param in params if param.default is param.empty
                and param.kind == param.POSITIONAL_OR_KEYWORD and param.name not in required)


def test_the_facts_are_read():
    assert len(FACTS) > 350 and FACTS["layers.elementwise_div"][2] == ("axis", "-1")


@pytest.mark.parametrize("name", FACTS)
def test_a_name_has_the_arguments_of_fluid(name):
    if is_absent(name):
        return
    found = list(differences(name, FACTS[name]))
    assert not found or name in TOLD, f"{name}: {'; '.join(found)}. Mend it, or tell of it in port/tables.py and docs/fluid.md"
