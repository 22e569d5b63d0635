"""The reference of the Python package, made from docstrings as the site is built.

A page of docs/reference says by a comment what stands in its place on the site:

    <!-- reference: trireme.optimizer -->                   each public name of a module: what its __all__ lists
    <!-- reference: trireme.layers.nn as trireme.layers --> the same, under the names by which scripts call them
    <!-- commands -->                                       each command of `trireme` with its options

docs/reference/arguments.md describes the arguments that mean the same everywhere. A docstring need not repeat those. The site
lists every argument: with the sentence of the docstring that names it, or else with that page's.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import posixpath
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
ARGUMENTS = HERE / "reference" / "arguments.md"
REFERENCE = re.compile(r"^<!-- reference: (\S+?)(?: as (\S+))? -->$", re.M)
COMMANDS = "<!-- commands -->"


# -- pages ----------------------------------------------------------------------------------------------------------


def expand(text: str) -> str:
    """Put what is generated in the place of a page's comments."""
    text = REFERENCE.sub(lambda found: reference(found[1], found[2] or found[1]), text)
    return text.replace(COMMANDS, commands()) if COMMANDS in text else text


def with_toctrees(text: str) -> str:
    """Return a page of contents with a table of contents after each section: the pages that the section's list links to, in its order."""
    return "".join(part + _toctree(part) for part in _sections(text))


def contents(text: str, folder: str, page: str) -> str:
    """Return the tables of contents of a page of contents in ``folder``, for the site's first page, which they leave out."""
    return "\n".join(["", "", *(_toctree(part, folder, page) for part in _sections(text))])


def _sections(text: str) -> list[str]:
    return re.split(r"^(?=## )", text, flags=re.M)


def _toctree(section: str, folder: str = "", without: str = "") -> str:
    links = re.findall(r"^- \[[^\]]+\]\(([^)#:]+\.(?:md|ipynb))\)", section, re.M)
    pages = [page for page in dict.fromkeys(posixpath.normpath(posixpath.join(folder, link)) for link in links) if page != without]
    caption = [f":caption: {found[1]}"] if (found := re.match(r"## (.+)", section)) else []
    return "\n".join(["", "```{toctree}", ":hidden:", *caption, "", *pages, "```", "", ""]) if pages else ""


def without_folders(text: str, folder: Path) -> str:
    """Return a page without its links to folders: a site has no page for those."""
    def link(found: re.Match[str]) -> str:
        if "://" in found[2] or not (folder / found[2]).is_dir():
            return found[0]
        return found[1] if found[1].startswith("`") else f"`{found[1]}`"

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)\)", link, text)


# -- names of the package ---------------------------------------------------------------------------------------------


def public_names(module: ModuleType) -> list[str]:
    """The names that a module offers: its ``__all__``, or else what it defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [name for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__]


@cache
def listed() -> dict[str, tuple[ModuleType, str]]:
    """What pages show: by its full name, the module that has it and its name there."""
    found = {}
    for page in sorted(HERE.joinpath("reference").glob("*.md")):
        for module_name, shown_as in REFERENCE.findall(page.read_text(encoding="utf-8")):
            module = importlib.import_module(module_name)
            found.update({f"{shown_as or module_name}.{name}": (module, name) for name in public_names(module)})
    return found


@cache
def homes() -> dict[int | str, str]:
    """The full name under which each thing is described: in the module that defines it and under its own name, else where it comes
    first."""
    def is_elsewhere(item: tuple[str, tuple[ModuleType, str]]) -> tuple[bool, bool]:
        module, name = item[1]
        value = getattr(module, name)
        return getattr(value, "__module__", None) != module.__name__, inspect.isclass(value) and value.__name__ != name

    found: dict[int | str, str] = {}
    for full, (module, name) in sorted(listed().items(), key=is_elsewhere):
        found.setdefault(_identity(getattr(module, name), full), full)
    return found


def _identity(value: Any, full: str) -> int | str:
    """Equal for two names of one thing. A plain value, such as a number, is another thing under each name."""
    return id(value) if callable(value) else full


def reference(module_name: str, shown_as: str) -> str:
    """Return the entries of a module's names. A name of a thing that is described elsewhere gets a line."""
    module = importlib.import_module(module_name)
    entries, others = [], []
    for name in public_names(module):
        value, full = getattr(module, name), f"{shown_as}.{name}"
        home = homes()[_identity(value, full)]
        if home != full:
            others.append(f"- `{full}` is {{py:obj}}`{home}`.")
        elif not inspect.ismodule(value):
            entries.append(_directive(full, value))
    text = "\n".join(["```{eval-rst}", *entries, "```", ""]) if entries else ""
    return text + ("\nOther names:\n\n" + "\n".join(others) + "\n" if others else "")


def _directive(name: str, value: Any) -> str:
    if inspect.isclass(value):
        nested = [one for one, part in vars(value).items() if inspect.isclass(part)]      # each has an entry of its own
        left_out = f"   :exclude-members: {', '.join(nested)}\n" if nested else ""
        return f".. autoclass:: {name}\n   :members:\n   :show-inheritance:\n{left_out}"
    return f".. {'autofunction' if callable(value) else 'autodata'}:: {name}\n"


# -- arguments ----------------------------------------------------------------------------------------------------------


@cache
def common_arguments() -> dict[str, str]:
    """What arguments.md says of each name."""
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (.+) \|$", ARGUMENTS.read_text(encoding="utf-8"), re.M)
    return {name: text for names, text in rows for name in re.findall(r"`(\w+)`", names)}


def parameters(what: Any) -> list[str]:
    """The arguments of a function, or of a class's constructor, without ``*args`` and ``**options``."""
    if inspect.isclass(what) and issubclass(what, enum.Enum):
        return []
    try:
        found = inspect.signature(what).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one.name for one in found if one.name not in ("self", "cls") and not one.name.startswith("_")
            and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def methods(what: type) -> dict[str, Any]:
    """The public methods that a class itself defines, by name."""
    found = {name: value.__func__ if isinstance(value, (classmethod, staticmethod)) else value for name, value in vars(what).items()
             if not name.startswith("_")}
    return {name: value for name, value in found.items() if inspect.isfunction(value)}


def documentation(what: Any) -> str:
    """The docstring; of a class also those of its constructor and of its bases, which the site links to."""
    parts = [part for one in what.__mro__[:-1] for part in (one, vars(one).get("__init__"))] if inspect.isclass(what) else [what]
    return "\n".join(part.__doc__ or "" for part in parts if part is not None)


def shown_docstrings(what: Any) -> list[str]:
    """The docstrings that a name's entry shows: its own, and of a class those of its constructor and its methods."""
    parts = [what, vars(what).get("__init__"), *methods(what).values()] if inspect.isclass(what) else [what]
    return [part.__doc__ for part in parts if part is not None and part.__doc__]


def _text(what: Any) -> str:
    """The docstring without its examples."""
    return re.sub(r"^ *(?:>>>|\.\.\.).*\n(?: *\S.*\n)*", "", documentation(what) + "\n", flags=re.M)


def _names(what: Any, argument: str) -> bool:
    """Whether the docstring's text, without its examples, names an argument."""
    return bool(re.search(rf"\b{argument}\b", _text(what)))


def said_of(what: Any, argument: str) -> str:
    """What a reader is told of an argument: the first sentence of the docstring about it, or what arguments.md says, or a sentence that has
    it in a formula."""
    sentences = [" ".join(one.split()) for part in re.split(r"\n\s*\n", _text(what)) for one in _sentences(part)]

    def first(pattern: str) -> str:
        return next((one for one in sentences if re.search(pattern, one)), "")

    return first(rf"``{argument}``") or _as_rst(common_arguments().get(argument,
                                                                       "")) or first(rf"``{argument}\b") or first(rf"\b{argument}\b")


def _sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph. A point or a semicolon between double backticks ends none."""
    found = [""]
    for part in re.split(r"(``.*?``)", paragraph, flags=re.S):
        first, *rest = [part] if part.startswith("``") else re.split(r"(?<=[.;])\s+", part)
        found[-1] += first
        found += rest
    return [one.strip().rstrip(";") for one in found if one.strip()]


def undescribed(what: Any) -> list[str]:
    """The arguments that neither the docstring names nor arguments.md."""
    return [name for name in parameters(what) if name not in common_arguments() and not _names(what, name)]


def describe_arguments(app: Any, kind: str, name: str, what: Any, options: Any, lines: list[str]) -> None:
    """For Sphinx: add a list of the arguments to a docstring, in their order, each with what is said of it."""
    if kind not in ("function", "class", "method"):
        return
    lines += ["", *(f":param {one}: {said}" for one in parameters(what) if (said := said_of(what, one)))]


def _as_rst(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"``\1``", re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text))


# -- commands -----------------------------------------------------------------------------------------------------------


def commands() -> str:
    """Return a section for each command of ``trireme``, from the parser that reads its options."""
    from trireme.launch.cli import command_parser

    return "\n".join(_command(parser) for parser in _leaves(command_parser()))


def _subparsers(parser: Any) -> list[Any]:
    return [one for action in parser._actions if hasattr(action, "choices") and isinstance(action.choices, dict)
            for one in action.choices.values()]


def _leaves(parser: Any) -> list[Any]:
    return [leaf for one in _subparsers(parser) for leaf in (_leaves(one) or [one])]


def _command(parser: Any) -> str:
    rows = []
    for action in parser._actions:
        if "--help" in action.option_strings:
            continue
        value = "" if action.nargs == 0 else action.metavar or ("\\|".join(action.choices) if action.choices else action.dest.upper())
        name = f"{', '.join(action.option_strings)} {value}".strip() if action.option_strings else value.replace("ARGS", "...")
        rows.append(f"| `{name}` | {(action.help or '').replace('|', chr(92) + '|')} |")
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    return "\n".join([f"## {parser.prog}", "", parser.description or "", "", "```text", usage, "```", "",
                      *(["| argument | meaning |", "|---|---|", *rows] if rows else []), ""])
