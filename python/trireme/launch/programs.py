"""The programs that ranks run: the two programs of this package, and a script or a saved job."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ..native.errors import InvalidArgumentError, NotFoundError

_SAVED_JOB = b"TRIREJOB"               # docs/formats.md


def server_program() -> str:
    """Return the path of ``trireme-pserver``: TRIREME_PSERVER, or the one that belongs to this package."""
    return _program("trireme-pserver", "TRIREME_PSERVER")


def trainer_program() -> str:
    """Return the path of ``trireme-trainer``: TRIREME_TRAINER, or the one that belongs to this package."""
    return _program("trireme-trainer", "TRIREME_TRAINER")


def _program(name: str, variable: str) -> str:
    named = os.environ.get(variable)
    if named:
        if not os.access(named, os.X_OK):
            raise NotFoundError(f"trireme launch: {variable} is {named!r}, where there is no program")
        return named
    package = _package()
    for path in (package.parents[1] / "bin" / name, Path(sys.executable).parent / name, shutil.which(name)):
        if path and os.access(path, os.X_OK):
            return str(path)
    raise NotFoundError(f"there is no program {name} beside this package or on the PATH; {variable} names one")


def _package() -> Path:
    """The folder where the compiled files were built or installed."""
    core = importlib.util.find_spec("trireme._core")
    return Path(core.origin if core and core.origin else __file__).parent


def loopback_library() -> str | None:
    """Return the library that makes mpirun listen on this host alone: pserver/transport/loopback.c."""
    path = _package() / "trireme_loopback.so"
    return str(path) if path.exists() else None


def is_saved_job(path: str | Path) -> bool:
    """Return whether ``io.save_job`` wrote this file, or the file ``job`` in this folder."""
    file = Path(path) / "job" if Path(path).is_dir() else Path(path)
    try:
        with open(file, "rb") as job:
            return job.read(len(_SAVED_JOB)) == _SAVED_JOB
    except OSError:
        return False


def trainer_command(script: Sequence[str]) -> list[str]:
    """Return a trainer's command: a Python script, or a saved job, with its arguments."""
    if script and is_saved_job(script[0]):
        return [trainer_program(), *script]
    if not script or not Path(script[0]).is_file():
        raise NotFoundError(f"trireme launch: there is no script or saved job {script[0] if script else ''!r}")
    return [sys.executable, *as_words(script)]


def as_words(script: Sequence[str]) -> list[str]:
    """Return the script and its arguments in a form that prevents two mistakes: Python must not take the script for an option, nor
    mpirun an argument for its own.
    """
    if ":" in script:
        raise InvalidArgumentError("trireme launch: the script's argument ':' cannot pass through mpirun, where it begins another program")
    path, *args = script
    return [f"./{path}" if path.startswith("-") else path, *args]


def standby_command(script: Sequence[str]) -> list[str]:
    """Return the command of a standby that may become a trainer, of a script or of a saved job."""
    return [trainer_program(), "--standby", *script] if is_saved_job(script[0]) else [sys.executable, "-m", "trireme.launch.standby",
                                                                                      *as_words(script)]
