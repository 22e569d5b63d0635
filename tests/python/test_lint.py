"""What `make lint` holds: it finds faults, and the whole package is strict."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ROOT / "pyproject.toml"


def run(*command: object, folder: Path = ROOT) -> str:
    """Return what a tool prints."""
    done = subprocess.run([sys.executable, "-m", *map(str, command)], capture_output=True, text=True, timeout=200, check=False, cwd=folder)
    return done.stdout + done.stderr


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_use_actions_of_one_commit_and_make(path):
    """A tag of an action may move; a commit does not. What a workflow runs can be run anywhere."""
    text = path.read_text()
    used = re.findall(r"uses: (\S+)(.*)", text)
    assert used and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name) and re.fullmatch(r"  # v\d+\.\d+\.\d+", version) for name,
                        version in used)
    assert "permissions:\n  contents: read\n" in text and len(re.findall("timeout-minutes:", text)) == len(re.findall("runs-on:", text))
    targets = set(re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split())
    assert {*re.findall(r"run: make (\w+)$", text, re.M)} <= targets


def test_a_citation_names_the_version_that_is_built():
    version = re.search(r"project\(trireme VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()


KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_changelog_keeps_its_form_and_ends_with_what_is_built():
    """The form is that of Keep a Changelog: the newest release is the version that is built, and its notes fit on one screen."""
    head, unreleased, *releases = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    assert head.startswith("# Changelog\n") and unreleased.startswith("[Unreleased]\n")
    names = [re.match(r"\[(\d+\.\d+\.\d+)\] - (20\d\d-\d\d-\d\d)\n", text).groups() for text in releases]
    assert names == sorted(names, reverse=True)
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r'^(?:version|date-released): "?([\d.-]+)"?$', citation, re.M) == list(names[0])
    assert {*re.findall(r"^### (.*)$", unreleased + "".join(releases), re.M)} <= KINDS
    notes = subprocess.run(["make", "-s", "notes"], capture_output=True, text=True, timeout=60, check=True, cwd=ROOT).stdout
    assert notes == "## " + releases[0] and len(notes.splitlines()) <= 50


def test_a_package_pinned_twice_has_one_version():
    pins = {}
    for path in (ROOT / "requirements").glob("*.txt"):
        for name, version in re.findall(r"^([\w.-]+)==(\S+)$", path.read_text(), re.M):
            assert pins.setdefault(re.sub(r"[-_.]+", "-", name).lower(), version) == version, f"{path.name}: {name}"


FAULTS = {
    "F821": "def f(x: Operator) -> int:\n    return 1\n",
    "F401": "import os\n",
    "F841": "def f():\n    x = 1\n",
    "F811": "def f():\n    return 1\n\n\ndef f():\n    return 2\n",
    "B006": "def f(x=[]):\n    return x\n",
    "B023": "a = [lambda: i for i in range(3)]\n",
    "ISC004": 'NAMES = ["a", "b" "c"]\n',
    "E225": "a=1\n",
    "E302": "import sys\ndef f():\n    return sys\n",
    "PLW1510": "import subprocess\n\nsubprocess.run('x')\n",
}


@pytest.mark.parametrize("rule", FAULTS)
def test_faults_in_python_are_found(rule, tmp_path):
    pytest.importorskip("ruff")
    (tmp_path / "one.py").write_text(FAULTS[rule])
    found = json.loads(run("ruff", "check", "--no-cache", "--output-format", "json", "--config", SETTINGS, tmp_path / "one.py"))
    assert rule in [one["code"] for one in found]


def test_code_is_read_as_the_oldest_python_reads_it(tmp_path):
    """A syntax error is one for the Python that pyproject.toml promises, not for the one that runs the tests."""
    pytest.importorskip("ruff")
    (tmp_path / "one.py").write_text("""print(f"{'\\n'.join('ab')}")\n""")
    assert "Python 3.11" in run("ruff", "check", "--no-cache", "--config", SETTINGS, tmp_path / "one.py")
    settings = tomllib.loads(SETTINGS.read_text())
    assert settings["project"]["requires-python"] == ">=3.11" and settings["tool"]["ruff"]["target-version"] == "py311"


def test_the_whole_package_is_strict():
    pytest.importorskip("mypy")
    settings = tomllib.loads(SETTINGS.read_text())["tool"]["mypy"]
    assert settings["strict"] and settings["files"] == ["python/trireme"]
    assert not [one for one in settings["overrides"] if set(one) - {"module", "ignore_missing_imports"}], "no module is exempt"
    text = run("mypy")
    assert re.match(r"Success: no issues found in \d{3} source files", text), text
