"""The graph of waits: who waits for whom, by which call. Its tables are in docs/faults.md."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ACTS = {"join", "step", "post", "notice", "task", "snapshot", "leave"}
CALLS = re.compile(r"\btr_(?:comm_wait|comm_stand_by|job_wait|job_post_wait|job_checkpoint_wait|job_stay)\(")
# what waits on behalf of the callers, and a wait for this trainer's own disk
DEFINE = {"pserver/transport/comm.c", "pserver/api/job_checkpoint.c"}


def section() -> str:
    text = (ROOT / "docs/faults.md").read_text()
    return text[text.index("## Who waits for whom"):].split("\n## ")[0]


def table(number: int) -> list[list[str]]:
    tables = re.findall(r"(?:^\|.*\n)+", section(), re.M)
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in tables[number].splitlines()[2:]]


def words(cell: str) -> set[str]:
    return {word.strip() for word in cell.split(",") if word.strip()}


def waits() -> dict[str, dict[str, set[str]]]:
    names = ("modes", "needs", "before", "still")
    return {row[0]: dict(zip(names, map(words, row[1:5]), strict=True)) for row in table(0)}


def is_unmet(one: dict[str, set[str]], other: dict[str, set[str]]) -> bool:
    """Does the first wait need what a trainer in the other wait has not done and does not do?"""
    does = other["before"] | other["still"]
    return "leave" not in does and not one["needs"] <= does


def share_a_mode(one: dict[str, set[str]], other: dict[str, set[str]]) -> bool:
    return "all" in one["modes"] | other["modes"] or bool(one["modes"] & other["modes"])


def rings() -> set[frozenset[str]]:
    known = waits()
    return {frozenset((a, b)) for a, one in known.items() for b, other in known.items()
            if share_a_mode(one, other) and is_unmet(one, other) and is_unmet(other, one)}


def test_the_acts_are_known() -> None:
    for name, wait in waits().items():
        assert wait["needs"] | wait["before"] | wait["still"] <= ACTS, name


def test_each_ring_of_waits_has_a_way_out() -> None:
    listed = {frozenset((row[0], row[1])) for row in table(1)}
    found = rings()
    assert not found - listed, f"these waits would last for ever: {sorted(map(sorted, found - listed))}"
    assert not listed - found, f"no ring of the first table: {sorted(map(sorted, listed - found))}"


def test_each_way_out_is_tested() -> None:
    for one, other, way, tests in table(1):
        assert way and tests, (one, other)
        names = re.findall(r"`([\w/.]+)` ((?:\w+(?:, )?)+)", tests)
        assert names, tests
        for where, listed in names:
            file = ROOT / where if "/" in where else ROOT / "tests/python" / f"{where}.py"
            text = file.read_text()
            for name in re.findall(r"\w+", listed):
                assert re.search(rf"\b(test_)?{name}\b", text), f"{where} has no test {name}"


def test_each_call_that_waits_for_other_ranks_is_in_the_graph() -> None:
    files = [*ROOT.glob("pserver/**/*.c"), *ROOT.glob("trainer/**/*.c"), *ROOT.glob("python/trireme/**/*.py")]
    waiting = {str(file.relative_to(ROOT)) for file in files if CALLS.search(file.read_text())}
    listed = {name for row in table(0) for name in re.findall(r"`([\w/.]+)`", row[5])}
    assert waiting - DEFINE == listed
