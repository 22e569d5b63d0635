"""Names that users are told to install are those of pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest

from trireme.errors import NotFoundError, UnsupportedError
from trireme.launch import mpi

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_REQUIREMENT = re.compile(r"([\w.-]+?)(?:\[([\w,]+)\])?(?:[=<>!~].*)?")
_INSTALL = re.compile(r"pip install(?! --no-index)(?: --[\w-]+)* +(?:'([^']+)'|([\w.][\w.\[\],=<>-]*[\w\]]|\.(?=[ `]|$)))", re.M)


def name_of(requirement):
    return _REQUIREMENT.fullmatch(requirement)[1]


def named():
    """Return each requirement that a text of the tree tells to install, with its file."""
    paths = [ROOT / "README.md", ROOT / "Makefile", *(ROOT / "docs").rglob("*.md"),
             *(path for folder in ("python", "deploy", "examples", "benchmarks", "cmake") for path in (ROOT / folder).rglob("*")
               if path.suffix in (".py", ".sh", ".md", ".cmake"))]
    return [(path.relative_to(ROOT), found[1] or found[2]) for path in paths for found in _INSTALL.finditer(path.read_text())]


def test_packages_that_messages_name_are_extras_of_the_project():
    extras = PROJECT["optional-dependencies"]
    known = {name_of(one) for one in [*PROJECT["dependencies"], *(one for extra in extras.values() for one in extra)]}
    found = named()
    assert {".", ".[mpi]"} <= {requirement for _, requirement in found}
    for path, requirement in found:
        name, extra = _REQUIREMENT.fullmatch(requirement).groups()
        assert name in {".", *known}, f"{path}: pip install {requirement}"
        assert extra is None or extra in extras, f"{path}: pip install {requirement}"


def test_the_distribution_is_not_called_as_another_project_is():
    assert PROJECT["name"] != "trireme"
    assert PROJECT["scripts"] == {"trireme": "trireme.launch.cli:main"}


def test_the_error_without_an_mpirun_says_how_to_get_one(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFoundError) as caught:
        mpi.find()
    assert "pip install '.[mpi]'` in a clone" in str(caught.value)


def test_the_error_of_an_old_mpirun_says_how_to_get_one(tmp_path):
    old = tmp_path / "mpirun"
    old.write_text("#!/bin/sh\necho 'mpirun (Open MPI) 3.1.2'\n")
    old.chmod(0o755)
    with pytest.raises(UnsupportedError, match=r"is Open MPI 3\.1\.2; .*'\.\[mpi\]'"):
        mpi.find(str(old))
