"""docs/fluid.md lists the names of Fluid 1.x that are absent: all of them, and nothing else."""

import operator
import re
from collections import defaultdict
from pathlib import Path

import trireme as fluid
from trireme.port.fluid_names import names_of_fluid

ROOT = Path(__file__).resolve().parents[2]


def has(module, name):
    try:
        operator.attrgetter(name if module == "fluid" else f"{module}.{name}")(fluid)
    except AttributeError:
        return False
    return True


def tables():
    """Return the rows of the two tables of "What is missing": names that are absent, and their counterparts."""
    section = (ROOT / "docs" / "fluid.md").read_text().partition("## What is missing")[2].partition("\n## ")[0]
    absent, _, counterparts = section.partition("counterpart")
    return [re.findall(r"^\| (`.*) \| (.*) \|$", text, re.M) for text in (absent, counterparts)]


def listed():
    found = defaultdict(list)
    for title, names in tables()[0]:
        module = re.match(r"`(?:fluid\.)?([\w.]+)`", title)[1]
        found[module] += re.findall(r"`(\w+)`", names)
    return found


def test_the_list_of_fluids_names_is_read():
    names = names_of_fluid()
    assert len(names["layers"]) > 300 and {"fc", "multiclass_nms"} <= names["layers"] and "SGD" in names["optimizer"]


def test_the_list_of_absent_names_is_complete_and_has_no_other():
    names, told = names_of_fluid(), listed()
    assert set(told) <= set(names)
    for module, all in sorted(names.items()):
        absent = {name for name in all if not has(module, name)}
        assert sorted(told[module]) == sorted(absent), (
            f"docs/fluid.md, {module}: not listed {sorted(absent - set(told[module]))}; listed, but not absent "
             f"{sorted(set(told[module]) - absent)}")


def test_counterparts_exist():
    told = [name for _, names in tables()[1] for name in re.findall(r"`(fluid\.[\w.]+|layers\.\w+)`", names)]
    assert len(told) > 5
    for name in told:
        module, _, last = name.removeprefix("fluid.").rpartition(".")
        assert has(module or "fluid", last), name
