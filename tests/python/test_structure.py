"""The house keeps its order: folders of the server include upwards only, and no headers include each other in a circle."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^#include "((?:proto|framework|kernels|pserver|trainer)/[^"]+)"', re.M)


def folders() -> list[str]:
    """Return the folders of pserver/ in the order that the build enforces."""
    text = (ROOT / "cmake" / "TriremeFloors.cmake").read_text()
    return re.search(r"set\(TR_PSERVER_FOLDERS ([^)]+)\)", text)[1].split()


def includes(folder: str) -> dict[str, set[str]]:
    """Return, for each file of a floor, the headers of the floor that it includes."""
    files = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / folder).rglob("*.[ch]")}
    return {name: {other for other in INCLUDE.findall(text) if other in files} for name, text in files.items()}


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of two or more files that reach each other (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(set(stack[at:]))
            del stack[at:]

    for name in graph:
        if name not in index:
            visit(name)
    return found


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == [{"a", "b", "c"}]


def test_folders_of_the_server_include_only_those_before_them():
    order = folders()
    assert {path.name for path in (ROOT / "pserver").iterdir() if path.is_dir()} == set(order)
    for name, others in includes("pserver").items():
        place = name.split("/")[1:-1]
        for other in others:
            if place and (folder := other.split("/")[1:-1]):
                assert order.index(folder[0]) <= order.index(place[0]), f"{name} includes {other}"


@pytest.mark.parametrize("folder", ["framework", "kernels", "pserver", "trainer"])
def test_no_headers_include_each_other_in_a_circle(folder):
    assert circles(includes(folder)) == []


def test_each_folder_of_the_server_is_explained():
    text = (ROOT / "pserver" / "README.md").read_text()
    assert re.findall(r"^\| `(\w+)/` ", text, re.M) == folders()


def test_the_insides_of_a_folder_stay_inside():
    """A header called *_state.h is for its own folder."""
    for path in (ROOT / "pserver").rglob("*.[ch]"):
        for name in INCLUDE.findall(path.read_text()):
            if name.endswith("_state.h") and name.startswith("pserver/"):
                assert name.split("/")[1] == path.parent.name, f"{path.relative_to(ROOT)} includes {name}"
