"""Every operator of fluid_operators.txt has the slots, attributes, defaults and the gradient that it has in Fluid 1.5.

Where that is not so, docs/fluid.md says what differs; it lists the operators that are absent, too."""

import ast
import re
from pathlib import Path

import pytest

from trireme.program.op_protos import ATTR_NAMES, op_proto

HERE = Path(__file__).resolve()
PAGE = HERE.parents[2] / "docs" / "fluid.md"


def slots_of(text):
    """Return {name: signs} of the slots of a line; the signs are those of the file's head."""
    return {re.match(r"[\w-]+", word)[0]: word[re.match(r"[\w-]+", word).end():] for word in text.split()}


def attrs_of(text):
    """Return {name: (type, default)} of the attributes of a line; the default of a required one is None."""
    words = re.findall(r'([@\w]+):(\w+)(?:=("[^"]*"|\[[^\]]*\]|\S+))?', text)
    return {name: (type, ast.literal_eval(default) if default else None) for name, type, default in words}


def facts():
    for line in HERE.with_name("fluid_operators.txt").read_text().splitlines():
        if not line.startswith("#"):
            type, grad, inputs, outputs, attrs = line.split("\t")
            yield type, (grad == "yes", slots_of(inputs), slots_of(outputs), attrs_of(attrs))


FACTS = dict(facts())
THERE = [type for type in FACTS if op_proto(type)]


def signs_of(slot):
    return "[]" * slot.duplicable + "?" * slot.dispensable + "~" * slot.intermediate


def value_of(text):
    """Return the default of one of our attributes, which is written as a program prints it."""
    return ast.literal_eval({"true": "True", "false": "False"}.get(text, text))


def same(theirs, ours):
    return theirs == (pytest.approx(ours, rel=1e-6) if isinstance(theirs, float) else ours)


def slot_differences(theirs, ours):
    ours = {slot.name: signs_of(slot) for slot in ours}
    yield from theirs.keys() ^ ours.keys()
    yield from (name for name in theirs.keys() & ours.keys() if theirs[name] != ours[name])


def attr_differences(theirs, ours):
    yield from theirs.keys() - ours.keys()
    for name, attr in ours.items():
        if name not in theirs:
            if not name.startswith("op_"):
                yield name
            continue
        type, default = theirs[name]
        if type != ATTR_NAMES[attr.type] or attr.required != (default is None) or (default is not None
                                                                                   and not same(default, value_of(attr.default))):
            yield name


def differences(type):
    has_grad, inputs, outputs, attrs = FACTS[type]
    proto = op_proto(type)
    found = {*slot_differences(inputs, proto.inputs), *slot_differences(outputs, proto.outputs), *attr_differences(attrs, proto.attrs)}
    return found | ({"gradient"} if has_grad != proto.has_grad else set())


def table(name):
    """Return the cells of each row of the table of this name in docs/fluid.md, as lists of words in backticks."""
    rows = re.findall(r"^\| (?!operators)(.*) \|$", PAGE.read_text().split(f"<!-- {name} -->")[1], re.M)
    return [[re.findall(r"`([^`]*)`", cell) for cell in row.split("|")] for row in rows]


def test_the_facts_are_read():
    assert len(FACTS) > 340 and len(THERE) > 280
    assert FACTS["clip"] == (True, {"X": ""}, {"Out": ""}, {"min": ("FLOAT", None), "max": ("FLOAT", None)})
    assert FACTS["merge_ids"][:3] == (False, {"Ids": "[]", "Rows": "[]", "X": "[]"}, {"Out": "[]"})
    assert FACTS["conv2d"][3]["Scale_weights"] == ("FLOATS", [1.0])


@pytest.mark.parametrize("type", THERE)
def test_an_operator_is_that_of_fluid(type):
    told = {name for types, names, _ in table("operators that differ") if type in types for name in names}
    found = differences(type)
    assert found <= told, f"{type} differs in {sorted(found - told)}. Mend it, or tell of it in docs/fluid.md"


def test_the_table_of_differences_is_true():
    for types, names, _ in table("operators that differ"):
        found = [differences(type) for type in types]
        assert all(found) or not names, types
        assert set(names) <= set().union(*found), f"{types} do not differ in {sorted(set(names) - set().union(*found))}"


def test_absent_operators_are_listed_and_nothing_else():
    listed = [type for _, types in table("absent operators") for type in types]
    assert sorted(listed) == sorted(FACTS.keys() - set(THERE))
