"""Write the manual pages and the completions of the command ``trireme`` into a folder ``share``. CMake runs this while it builds a wheel.

All of it is made of the parsers of ``trireme.launch.cli``, so a page has what ``trireme COMMAND --help`` has. argparse-manpage makes the
pages, shtab the completions. Neither the core nor NumPy need be there.

    python build_pages.py 0.1.0 build/share
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import shtab
from argparse_manpage.manpage import Manpage

from trireme.launch.cli import command_parser

#: What stands for a file or a folder in a usage line.
COMPLETED = {"DIR": shtab.DIRECTORY, "FILE": shtab.FILE, "MODEL": shtab.DIRECTORY, "NAME": shtab.FILE, "PATH": shtab.FILE,
             "SCRIPT": shtab.FILE, "script": shtab.FILE, "args": shtab.FILE}
COMPLETIONS = {"bash": "bash-completion/completions/trireme", "zsh": "zsh/site-functions/_trireme"}


def main(version: str, share: str) -> None:
    parser = command_parser()
    for name, text in [*pages(parser, version), *((COMPLETIONS[shell], completion(parser, shell)) for shell in COMPLETIONS)]:
        path = Path(share, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def commands(parser: argparse.ArgumentParser) -> dict[str, tuple[argparse.ArgumentParser, str]]:
    """Return the parser of each command and its line in the list of commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            said = {choice.dest: choice.help or "" for choice in action._choices_actions}
            return {name: (one, said.get(name, "")) for name, one in action.choices.items()}
    return {}


def pages(parser: argparse.ArgumentParser, version: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of a page for ``trireme``, which lists the commands, and of one for each command."""
    others = [f"trireme-{name}" for name in commands(parser)]
    whole = page(parser, "trireme", "train on parameter servers over MPI", "pretty", version)
    yield "man/man1/trireme.1", whole.partition(".SH COMMAND ")[0].rstrip() + see_also(others)
    for name, (one, said) in commands(parser).items():
        text = page(one, f"trireme-{name}", said, "single-commands-section", version)
        yield f"man/man1/trireme-{name}.1", text.rstrip() + see_also(["trireme"])


def page(parser: argparse.ArgumentParser, title: str, said: str, form: str, version: str) -> str:
    """Return a manual page. Its first lines are ours: a date would differ from build to build, and ``whatis`` wants one word."""
    text = str(Manpage(parser, format=form))
    return (f'.TH {title.upper()} 1 "" "Trireme {version}" "Trireme"\n.SH NAME\n{title} \\- {escaped(said)}\n.SH SYNOPSIS\n'
            + text.partition(".SH SYNOPSIS\n")[2])


def escaped(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")


def see_also(names: list[str]) -> str:
    return "\n.SH SEE ALSO\n" + " ,\n".join(f".BR {escaped(name)} (1)" for name in names) + "\n"


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script that completes a command line, names of files too."""
    for one in everything(parser):
        for action in one._actions:
            if action.choices is None and (found := COMPLETED.get(str(action.metavar or action.dest))):
                action.complete = found
    return shtab.complete(parser, shell=shell)


def everything(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for one, _ in commands(parser).values():
        yield from everything(one)


if __name__ == "__main__":
    main(*sys.argv[1:])
