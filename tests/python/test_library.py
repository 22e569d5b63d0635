"""libtrireme.so has the core once, and shows the functions of the C API and nothing else."""

import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from trireme import _core

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))
import make_abi

BUILD = Path(_core.__file__).parents[2]
LIBRARY = BUILD / "lib" / "libtrireme.so"
PROGRAMS = {"trireme-pserver": {"tr_probe_run"}, "trireme-trainer": set()}

pytestmark = [pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not there: this is not a build tree's package"),
              pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf")]


def read(option, path):
    return subprocess.run(["readelf", "--wide", option, path], capture_output=True, text=True, check=True, timeout=60).stdout


def symbols(path):
    """The dynamic symbols of ours: {name: (is it defined here?, its version)}."""
    lines = re.findall(r"(\S+) (tr_\w[\w.]*)(?:@@?(\S+))?(?: \(\d+\))?$", read("--dyn-syms", path), re.M)
    return {name: (where != "UND", version) for where, name, version in lines}


def api():
    """The functions that cffi has found in the headers of the C API."""
    return {name for name in dir(_core.lib) if isinstance(getattr(_core.lib, name), types.BuiltinFunctionType)}


def test_the_library_shows_what_the_headers_declare():
    found = symbols(LIBRARY)
    public = {name for name, (is_defined, version) in found.items() if is_defined and version == f"TRIREME_{make_abi.abi()}"}
    private = {name: version for name, (_, version) in found.items() if name not in public}
    assert public == api()
    assert private == {"tr_probe_run": f"TRIREME_PRIVATE_{_core.ffi.string(_core.lib.tr_version()).decode()}"}


def test_the_library_shows_no_other_symbol():
    """Of static libraries of others, or of the compiler."""
    defined = re.findall(r" (?:GLOBAL|WEAK|UNIQUE) +DEFAULT +(?!UND)\S+ (\S+)", read("--dyn-syms", LIBRARY))
    assert not [name for name in defined if not name.startswith(("tr_", "TRIREME_"))]


@pytest.mark.parametrize("path", [Path(_core.__file__), *(BUILD / "bin" / name for name in PROGRAMS)], ids=lambda path: path.name)
def test_the_extension_and_the_programs_take_the_core_from_the_library(path):
    assert f"[libtrireme.so.{make_abi.abi()}]" in read("--dynamic", path)
    used = symbols(path)
    assert used and not any(is_defined for is_defined, _ in used.values())
    assert set(used) <= api() | PROGRAMS.get(path.name, set())


def test_what_compiled_programs_rely_on_is_as_it_was():
    """The kept lines are those of the releases of this ABI. What is new has no line until `make abi`, before a release."""
    assert [line for line in make_abi.kept() if line not in {*make_abi.facts()}] == []
    assert len(make_abi.kept()) > 600 and f"abi = {make_abi.abi()}" in make_abi.kept()


def test_calls_within_the_library_are_direct():
    """A function of the C API that an operator's step passes must not be looked up by its name."""
    assert "SYMBOLIC" in read("--dynamic", LIBRARY)
    assert not re.findall(r"JUMP_SLO\w*\s.*\btr_", read("--relocs", LIBRARY))
