"""A script as a tree, Python 2 ones as far as lines can be understood one by one.

A line that is of Python 2 alone is rewritten on its own line, so that numbers of lines stay. What still cannot be parsed is
taken out, statement by statement, and told.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field

_MOST_TRIES = 200                       # to mend a script
# What of Python 2 is rewritten, and what it is called. Each keeps its line.
_REWRITES = (
    ("print statement", re.compile(r"^(\s*)print\s*>>\s*([^,\n]+),\s*(.*?),?\s*$"), r"\1print(\3, file=\2)"),
    ("print statement", re.compile(r"^(\s*)print\s*$"), r"\1print()"),
    ("print statement", re.compile(r"^(\s*)print[ \t]+(?!\()([^\n]*?),?\s*$"), r"\1print(\2)"),
    ("print statement", re.compile(r"^(\s*)print[ \t]*(\([^\n]*\)\s*[%,][^\n]*?),?\s*$"), r"\1print(\2)"),
    ("print statement", re.compile(r"^(\s*(?:if|elif|for|while|with|else|try|except|finally)\b.*?:\s*)print[ \t]+(?!\()(.+?),?\s*$"),
     r"\1print(\2)"),
    ("except with a comma", re.compile(r"^(\s*except\s+[^:,]+?|\s*except\s+\([^)]*\)),\s*(\w+)\s*:"), r"\1 as \2:"),
    ("raise with a comma", re.compile(r"^(\s*)raise\s+([\w.]+)\s*,\s*(.+?)\s*$"), r"\1raise \2(\3)"),
    ("exec statement", re.compile(r"^(\s*)exec\s+(?!\()(.+?)(?:\s+in\s+(.+?))?\s*$"), r"\1exec(\2)"),
    ("backticks", re.compile(r"`([^`\n]+)`"), r"repr(\1)"),
    ("<>", re.compile(r"<>"), "!="),
    ("long number", re.compile(r"\b(\d+)[lL]\b"), r"\1"),
    ("octal number", re.compile(r"(?<![\w.])0([0-7]+)\b(?![.\w])"), r"0o\1"),
    ("ur-string", re.compile(r"""\b[uU][rR](?=["'])"""), "r"),
    ("parameter that is a tuple", re.compile(r"\blambda\s*\((\w+(?:\s*,\s*\w+)+)\)\s*:"), r"lambda \1:"),
)


@dataclass
class Source:
    """A script. ``rewritten`` maps lines to what of Python 2 they had, ``removed`` lines to why they could not be parsed."""

    path: str
    lines: list[str]
    tree: ast.Module
    rewritten: dict[int, str] = field(default_factory=dict)
    removed: dict[int, str] = field(default_factory=dict)


def _parse(lines: list[str]) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                # of escapes in the script's strings
        return ast.parse("\n".join(lines) + "\n")


def _rewrite(line: str) -> tuple[str, str]:
    """Return the line in Python 3, and what was changed."""
    changed = []
    for what, pattern, replacement in _REWRITES:
        new = pattern.sub(replacement, line)
        if new != line:
            changed.append(what)
            line = new
    return line, ", ".join(dict.fromkeys(changed))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _statement(lines: list[str], number: int) -> range:
    """Return the lines of the statement around line ``number``, as far as brackets tell."""
    first = number
    while first > 1 and (lines[first - 2].rstrip().endswith((",", "(", "[", "{", "\\")) and number - first < 30):
        first -= 1
    last = number
    depth = sum(text.count(c) - text.count(d) for text in lines[first - 1:last] for c, d in ("()", "[]", "{}"))
    while depth > 0 and last < len(lines) and last - number < 30 and _indent(lines[last]) > _indent(lines[first - 1]):
        last += 1
        depth += sum(lines[last - 1].count(c) - lines[last - 1].count(d) for c, d in ("()", "[]", "{}"))
    return range(first, last + 1)


def read_source(path: str, text: str) -> Source:
    """Parse a script, whatever it takes."""
    lines = text.expandtabs(8).replace("\r\n", "\n").replace("\x00", "").replace("\f", " ").split("\n")
    working = list(lines)
    rewritten: dict[int, str] = {}
    removed: dict[int, str] = {}
    for _ in range(_MOST_TRIES):
        try:
            return Source(path, lines, _parse(working), rewritten, removed)
        except (SyntaxError, ValueError, RecursionError) as error:
            number, why = _place(error, len(working))
            if not _mend(working, number, rewritten) and not _mend_all(working, rewritten):
                _remove(working, number, removed, why)
    return Source(path, lines, ast.Module([], []), rewritten, {1: "too much of it is no Python"})


def _place(error: Exception, lines: int) -> tuple[int, str]:
    """Return the line of a mistake, and what it is."""
    why = getattr(error, "msg", None) or str(error)
    of_block = re.match(r"expected an indented block after .* on line (\d+)", why)
    number = int(of_block[1]) if of_block else getattr(error, "lineno", None) or 1
    return min(max(number, 1), lines), why


def _mend(working: list[str], number: int, rewritten: dict[int, str]) -> bool:
    """Rewrite the line; return whether anything was of Python 2."""
    new, what = _rewrite(working[number - 1])
    if not what or number in rewritten:
        return False
    working[number - 1], rewritten[number] = new, what
    return True


def _mend_all(working: list[str], rewritten: dict[int, str]) -> bool:
    """The parser may name another line than the one with the mistake: rewrite print statements and the like everywhere, once."""
    if 0 in rewritten:
        return False
    rewritten[0] = ""
    found = False
    for number, line in enumerate(working, 1):
        if re.match(r"\s*(print\b(?!\s*\()|except\b.*,|raise\b.*,|exec\b(?!\s*\())", line):
            found |= _mend(working, number, rewritten)
    return found


def _remove(working: list[str], number: int, removed: dict[int, str], why: str) -> None:
    """Take the statement around a line out. Where that was done already, the mistake stands before it: take out what is there."""
    while number > 1 and number in removed and not working[number - 1].strip():
        number -= 1
    first = number not in removed
    for line in _statement(working, number) if first else [number]:
        text = working[line - 1]
        indent = text[:len(text) - len(text.lstrip())]
        is_block = (first and not why.startswith("expected an indented") and text.rstrip().endswith(":")
                    and not text.lstrip().startswith(("elif", "else", "except", "finally")))
        working[line - 1] = f"{indent}if True:" if is_block else f"{indent}pass" if first and text.strip() else ""
        removed.setdefault(line, "")
    removed[number] = removed[number] or why
