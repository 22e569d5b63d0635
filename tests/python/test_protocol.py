"""docs/protocol.md says what the code says: its table of messages, its diagram of a trainer's states, its glossary."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "protocol.md").read_text()


def source(name: str) -> str:
    """Return the text of the one file of this name under pserver/."""
    found, = (ROOT / "pserver").rglob(name)
    return found.read_text()


def messages() -> list[tuple[str, ...]]:
    """Return (kind, sender, receiver, payload) of every message, in the order of messages.h."""
    text = source("messages.h").partition("#define TR_MESSAGES")[2]
    entry = re.compile(r'[ME]\((\w+),(?:\s*\w+,)?\s*"([^"]*)",\s*"([^"]*)",\s*"([^"]*)",\s*\w+\)')
    return [match.groups() for match in entry.finditer(text)]


def table() -> list[tuple[str, ...]]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in PAGE.partition("<!-- messages:")[2].partition("## States")[0].splitlines() if line.startswith("| ")]
    return [tuple(row) for row in rows[1:] if not row[0].startswith("-")]


def test_the_table_of_messages_is_that_of_the_code():
    assert len(messages()) > 40
    assert [row[:4] for row in table()] == messages()


def test_each_message_is_explained_by_a_section():
    prose = PAGE.partition("## Start")[2]
    unexplained = {row[0] for row in table()} - set(re.findall(r"\b[A-Z][A-Z_]+\b",
                                                               PAGE.partition("## Rules")[2].partition("## Messages")[0] + prose))
    assert unexplained <= {"BEAT", "ABORT"}, unexplained      # signs of life, and the end of a failed job
    headings = " ".join(re.findall(r"^## (.*)", PAGE, re.M)).lower()
    for row in table():
        for word in row[4].split(", "):
            assert word in {"all", "failure", "liveness", "replacement", "failover", "decisions"} or word in headings, row


def test_the_diagram_of_a_trainers_states_is_that_of_the_code():
    moves = set(re.findall(r"X\((\w+), +(\w+), +\"", source("membership.h").partition("#define TR_MEMBERSHIP_MOVES")[2]))
    diagram = PAGE.partition("### A trainer, as one server sees it")[2].partition("### A server")[0]
    drawn = set(re.findall(r"^ +([A-Z]+) --> ([A-Z]+)$", diagram, re.M))
    assert len(moves) > 10
    assert drawn == moves


def test_the_glossary_names_identifiers_that_exist():
    """The third column is for finding a thing in the code."""
    kinds = {".c", ".h", ".def", ".py", ".proto"}
    code = "".join(path.read_text() for folder in ("pserver", "proto", "framework", "kernels", "storage", "serving", "trainer",
                                                             "python")
                   for path in (ROOT / folder).rglob("*") if path.suffix in kinds)
    named = set()
    for line in (ROOT / "docs" / "glossary.md").read_text().splitlines():
        if line.startswith("| ") and not line.startswith("| term"):
            named |= set(re.findall(r"`([\w]+)`", line.strip("|").split("|")[2]))
    missing = {word for word in named if not re.search(rf"\b\w*{word}", code)}
    assert len(named) > 30
    assert not missing
