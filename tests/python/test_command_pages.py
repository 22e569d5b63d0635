"""The manual pages and completions that a wheel has of the command `trireme` (python/build_pages.py)."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from trireme.launch.cli import command_parser

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("argparse_manpage")
pytest.importorskip("shtab")


@pytest.fixture(scope="module")
def share(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("build_pages", ROOT / "python" / "build_pages.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    folder = tmp_path_factory.mktemp("share")
    maker.main("1.2.3", folder)
    return folder


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=ROOT)


def commands():
    return {name: one for action in command_parser()._actions if isinstance(action.choices, dict) for name, one in action.choices.items()}


def options(parser):
    return {option for action in parser._actions for option in action.option_strings}


def test_each_command_has_a_page_with_all_its_options(share):
    pages = {path.name: path.read_text().replace("\\-", "-") for path in (share / "man" / "man1").iterdir()}
    assert set(pages) == {"trireme.1", *(f"trireme-{name}.1" for name in commands())}
    for name, parser in commands().items():
        page = pages[f"trireme-{name}.1"]
        assert page.startswith(f'.TH TRIREME-{name.upper()} 1 "" "Trireme 1.2.3"')
        assert {option for option in options(parser) if option.startswith("--") and option not in page} <= {"--help"}
        assert re.search(rf"^\.BR trireme-{name} \(1\)", pages["trireme.1"], re.M)


def test_pages_are_found_by_whatis_and_have_no_warnings(share):
    if not shutil.which("lexgrog") or not shutil.which("groff"):
        pytest.skip("no man-db")
    pages = sorted((share / "man" / "man1").iterdir())
    assert run("groff", "-man", "-Tutf8", "-ww", "-z", *pages).stderr == ""
    assert "trireme-launch - run a script or a saved job" in run("lexgrog", *pages).stdout


TRY = """source "$1"
for line in 'la' 'launch --ser' 'launch --transport u' 'checkpoint ve' 'checkpoint list do' 'launch CONTRIB'; do
    COMP_WORDS=(trireme $line); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); COMPREPLY=()
    _shtab_trireme
    echo "${COMPREPLY[*]}"
done"""


def test_bash_completes_commands_options_choices_and_files(share):
    done = run("bash", "-c", TRY, "bash", share / "bash-completion" / "completions" / "trireme")
    assert done.stdout.splitlines() == ["launch", "--servers --server-threads", "ucx", "verify", "docs", "CONTRIBUTING.md"]
    assert (share / "zsh" / "site-functions" / "_trireme").read_text().startswith("#compdef trireme")
