"""The settings of checkpoints, by the script and by the launcher."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .._core import lib
from ..native.errors import InvalidArgumentError


ROWS = ("exact", "int8")               # tr_checkpoint_rows


class Settings:
    """The settings of the launcher, else of the script."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.every_steps: int | None = None
        self.every_seconds: float | None = None
        self.keep = 3
        self.full_every = 1
        self.rows = "exact"
        self.resume = self.anew = False
        self.entry: int = lib.TR_ENTRY_BEGIN
        self.position: Callable[[], bytes] | None = None

    def from_environment(self) -> Settings:
        """Return these settings, replaced by the launcher's where the launcher has any."""
        result = Settings()
        result.__dict__.update(self.__dict__)
        folder = os.environ.get("TRIREME_CHECKPOINT")
        if folder:
            from ..stores.names import absolute

            result.folder = absolute(folder)
            steps, seconds = os.environ.get("TRIREME_CHECKPOINT_STEPS"), os.environ.get("TRIREME_CHECKPOINT_SECONDS")
            if steps or seconds:
                result.every_steps = _number("TRIREME_CHECKPOINT_STEPS", steps, int)
                result.every_seconds = _number("TRIREME_CHECKPOINT_SECONDS", seconds, float)
            for name in ("keep", "full_every"):
                variable = f"TRIREME_CHECKPOINT_{name.upper()}"
                setattr(result, name, _number(variable, os.environ.get(variable), int) or getattr(self, name))
            result.rows = rows_named("TRIREME_CHECKPOINT_ROWS", os.environ.get("TRIREME_CHECKPOINT_ROWS") or self.rows)
        result.entry = entry_of(result.resume, result.anew)
        result.resume = bool(result.folder) and (result.resume or bool(_given("TRIREME_RESUME")))
        return result


def rows_named(where: str, name: str) -> str:
    """Check how rows of tables are to be written."""
    if name not in ROWS:
        raise InvalidArgumentError(f"{where}={name!r}: {' and '.join(map(repr, ROWS))} are possible")
    return name


def entry_of(resume: bool, anew: bool = False) -> int:
    """Return how a training comes to its folder (``tr_checkpoint_entry``), by the environment or else by what the script asks for."""
    given = _given("TRIREME_RESUME")
    if given:
        return int(lib.TR_ENTRY_RESUME_COMMAND if given == "auto" else lib.TR_ENTRY_RESUME)
    if resume:
        return int(lib.TR_ENTRY_RESUME_SCRIPT)
    return int(lib.TR_ENTRY_ANEW if anew or _given("TRIREME_ANEW") else lib.TR_ENTRY_BEGIN)


def _given(name: str) -> str:
    value = os.environ.get(name, "")
    return "" if value == "0" else value


def _number(name: str, text: str | None, kind: Any) -> Any:
    if not text:
        return None
    try:
        value = kind(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise InvalidArgumentError(f"{name}={text!r} in the environment: a number above 0 is possible")
    return value
