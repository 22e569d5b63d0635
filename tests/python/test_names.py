"""What pages and docstrings name by `...` exists: functions, classes, C names, options, commands and variables of the environment."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import trireme
from trireme.native import env_names
from trireme.launch.cli import command_parser

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "trireme"

#: Pages that name, on purpose, what is not here.
FOREIGN = {
    "docs/fluid.md": "lists what Fluid has and Trireme has not",
    "docs/words.md": "lists the words of other systems",
    "docs/how-to/port-a-fluid-script.md": "shows scripts of Fluid and what is said of them",
    "CHANGELOG.md": "names what went, too",
}
#: Other texts in backquotes that look like names of the package, with the reason why nothing has them.
ELSEWHERE = {
    "trireme.sif": "a file that a command of the page makes", "trireme.def": "a file of deploy/",
    "a_sync": "of Paddle",
    "btl_tcp_disable_family": "a setting of Open MPI", "oob_tcp_disable_ipv6_family": "a setting of Open MPI",
    "mul_grad_grad": "an operator that a decision did without",
    "posix_spawn": "a call of libc", "io_submit": "a call of Linux", "sched_setattr": "a call of Linux",
    "stacked_lstm_net": "a function of the book",
    "trireme_received_bytes_total": "made of a prefix and a field", "trireme_sent_bytes_total": "made of a prefix and a field",
}
#: Options of other programs.
OTHERS_OPTIONS = {"--interleave": "of numactl", "--map-by": "of mpirun", "--cleanup": "of git tag", "--robot": "of EasyBuild",
                  "--sourcepath": "of EasyBuild"}


def pages() -> dict[str, str]:
    """The pages by their path, and without their blocks of code, of which tests run most."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"),
             *(ROOT / folder / "README.md" for folder in ("deploy", "benchmarks", "framework", "kernels", "pserver", "storage"))]
    return {str(path.relative_to(ROOT)): re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S) for path in found
            if str(path.relative_to(ROOT)) not in FOREIGN}


def docstrings() -> dict[str, str]:
    """The docstrings of each file of the package."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    return {str(path.relative_to(ROOT)): "\n".join(ast.get_docstring(node) or ""
                                                   for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds))
            for path in PACKAGE.rglob("*.py")}


@cache
def named() -> list[tuple[str, str]]:
    """Each text in backquotes, with the file that has it."""
    of_pages = [(text, name) for name, page in pages().items() for text in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", page)]
    return of_pages + [(text, name) for name, page in docstrings().items() for text in re.findall(r"``([^`\n]+)``", page)]


def lost(pattern: str, exists: Any) -> list[str]:
    """The names that ``pattern`` finds in texts in backquotes, and that do not exist, each with its file."""
    return sorted({f"{name} in {where}" for text, where in named() for name in re.findall(pattern, text) if not exists(name)})


@cache
def _sources(*kinds: str) -> str:
    folders = ("framework", "kernels", "storage", "pserver", "serving", "trainer", "proto", "python", "examples", "benchmarks", "deploy",
               "tests", "cmake")
    return "\n".join(path.read_text(errors="replace") for folder in folders for kind in kinds for path in (ROOT / folder).rglob(kind)
                     if path.name != Path(__file__).name)


@cache
def _words(*kinds: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", _sources(*kinds)))


def _is_there(name: str) -> bool:
    """Whether a dotted name leads somewhere: from the package, through modules and attributes. What a class sets in its methods counts."""
    thing: Any = trireme
    for part in name.split(".")[1 if name.startswith(("fluid.", "trireme.")) else 0:]:
        inner = getattr(thing, part, None)
        if inner is None and hasattr(thing, "__path__"):
            try:
                inner = importlib.import_module(f"{thing.__name__}.{part}")
            except ImportError:
                return False
        if inner is None:
            return isinstance(thing, type) and any(part in _words_of(one) for one in thing.__mro__[:-1])
        thing = inner
    return True


@cache
def _words_of(owner: type) -> frozenset[str]:
    path = PACKAGE.parent / (owner.__module__.replace(".", "/") + ".py")
    return frozenset(re.findall(r"self\.(\w+)|^    (\w+)\b", path.read_text(), re.M)
                     and re.findall(r"\w+", path.read_text())) if path.exists() else frozenset()


MODULES = "|".join(sorted(("fluid", "trireme", "layers", "distributed", "io", "optimizer", "serving", "callbacks", "formats", "initializer",
                           "profiler", "core",
                           "contrib", "metrics", "reader", "dataset", "clip", "regularizer", "backward", "transpiler")))


def test_the_packages_names_exist():
    files = r"(?!\w*\.?(?:py|pyi|md|json|jsonl|html|so|proto|c|h|log|txt|svg)\b)"
    pattern = rf"(?<![\w./-])((?:{MODULES})(?:\.{files}[A-Za-z]\w*)+)(?![\w./*])"
    assert sum(bool(re.search(pattern, text)) for text, _ in named()) > 150
    assert lost(pattern, lambda name: name in ELSEWHERE or _is_there(name)) == []


def test_words_of_the_sources_exist():
    """A name with an underscore is that of a function, an argument, an attribute, a file or a variable of ours."""
    words = _words("*.py", "*.[ch]", "*.def", "*.proto", "*.cmake", "*.txt", "*.sh", "*.yaml")
    files = {path.stem for folder in ("python", "pserver", "framework", "storage", "trainer", "serving", "kernels", "tests")
             for path in (ROOT / folder).rglob("*.*")}
    pattern = r"^([a-z]\w*_\w*[a-z0-9])(?:\(.*\))?$"
    assert sum(bool(re.search(pattern, text)) for text, _ in named()) > 800
    assert lost(pattern, lambda name: name in words or name in files or name in ELSEWHERE) == []


def test_names_in_c_exist():
    pattern = r"(?<![\w.])(tr_[a-z]\w*|tr__[a-z]\w*|TR_[A-Z]\w*)\b(?![*.])"
    words = _words("*.[ch]", "*.def", "*.py", "*.cmake", "*.txt")
    assert sum(bool(re.search(pattern, text)) for text, _ in named()) > 100
    assert lost(pattern, lambda name: name in words or name.endswith("_")) == []


def test_options_exist():
    known = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", _sources("*.py", "*.c", "*.sh", "*.sbatch", "*.yaml", "*.cmake", "CMakeLists.txt")
                           + (ROOT / "Makefile").read_text()))
    pattern = r"(?<![\w-])(--[a-z][\w-]*)"
    assert sum(bool(re.search(pattern, text)) for text, _ in named()) > 100
    assert lost(pattern, lambda name: name in known or name in OTHERS_OPTIONS) == []


def test_options_of_a_command_are_its_own():
    commands = {name: parser for action in command_parser()._actions if isinstance(action.choices, dict) for name,
                parser in action.choices.items()}
    strange = []
    for text, where in named():
        found = re.match(r"trireme (\w+)((?: .*)?)$", text)
        if not found or found[1] not in commands or found[1] in ("checkpoint", "dataset"):
            continue
        own = {one for action in commands[found[1]]._actions for one in action.option_strings}
        words = found[2].split()
        scripts = [i for i, word in enumerate(words) if word.endswith((".py", ".job"))]
        strange += [f"{word} of {found[1]} in {where}" for word in words[:scripts[0] if scripts else None]
                    if word.startswith("--") and word.partition("=")[0] not in own]
    assert strange == []


def test_commands_exist():
    commands = {name for action in command_parser()._actions if isinstance(action.choices, dict) for name in action.choices}
    assert lost(r"^trireme (?!warning|--)([a-z]\w*)", commands.__contains__) == []


def test_the_bare_command_lists_the_commands():
    done = subprocess.run([sys.executable, "-m", "trireme"], capture_output=True, text=True, timeout=60, check=False)
    commands = [name for action in command_parser()._actions if isinstance(action.choices, dict) for name in action.choices]
    assert done.returncode == 2 and done.stdout == ""       # nothing was done
    assert [name for name in commands if not re.search(rf"^ +{name}\b", done.stderr, re.M)] == []
    assert "Traceback" not in done.stderr and "your line" not in done.stderr


def test_variables_of_the_environment_exist():
    assert lost(r"(?<!\w)TRIREME_([A-Z_]*[A-Z])(?![\w*])", lambda name: name in env_names.NAMES
                or f"TRIREME_{name}" in _words("CMakeLists.txt", "*.cmake", "*.h")) == []
