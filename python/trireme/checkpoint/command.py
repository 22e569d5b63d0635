"""``trireme checkpoint list|verify|export``."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ..native.errors import InvalidArgumentError
from .arrays_file import export, shown
from .folder import steps
from .opened import Checkpoint, find, is_one, path_of


def command_list(folder: str) -> int:
    """Print a line for each checkpoint of a folder, the newest first. Return the exit code."""
    found = steps(folder)
    if not found:
        print(f"there is no checkpoint in {folder}")
        return 1
    print(f"{'step':>12}  {'written':19}  {'size':>10}  {'arrays':>6}  {'rows':>10}  {'parts':>5}  {'rows are':>14}  {'mode':15}  run")
    for step in found:
        try:
            one = Checkpoint(path_of(folder, step))
        except (InvalidArgumentError, OSError, RuntimeError) as error:
            print(f"{step:>12}  damaged: {str(error).splitlines()[0]}")
            continue
        print(f"{step:>12}  {_date(one.created):19}  {_size(one.nbytes):>10}  {len(one.arrays):>6}  "
              f"{sum(table.rows for table in one.tables.values()):>10}  {one.parts:>5}  "
              f"{'full' if one.base_step is None else f'since {one.base_step}':>14}  {shown(one.mode):15}  {_run(one)}")
    return 0


def _date(seconds: int) -> str:
    from datetime import datetime

    try:
        return datetime.fromtimestamp(seconds).isoformat(" ", "seconds")
    except (OverflowError, ValueError, OSError):   # no year of ours
        return "?"


def _run(one: Checkpoint) -> str:
    """Say which training a checkpoint belongs to: some digits of its number, when it began, and what was launched."""
    if not one.run:
        return "not known"
    return f"{one.run >> 40:06x}, began {_date(one.run_began)}, {shown(one.command) or 'command not known'}"


def command_verify(folder: str, step: int | None) -> int:
    """Read checkpoints to the last byte and say which are valid. Return 1 when one is not, or when there is none."""
    if is_one(folder):
        paths = [folder]
    else:
        paths = [path_of(folder, one) for one in (steps(folder) if step is None else [step])]
    damaged = 0
    for path in paths:
        try:
            checkpoint = Checkpoint(path)
            checkpoint.verify()
            print(f"{path}: valid, {_size(checkpoint.nbytes)}")
        except (OSError, RuntimeError) as error:
            print(f"{path}: damaged: {str(error).splitlines()[0]}")
            damaged += 1
    if not paths:
        print(f"there is no checkpoint in {folder}")
    return 1 if damaged or not paths else 0


def command_export(folder: str, step: int | None, path: str, kinds: Iterable[str]) -> int:
    """Write a checkpoint's arrays for others to read."""
    checkpoint = find(folder, step)
    for line in checkpoint.refused:
        print(f"trireme checkpoint: {shown(line)}", file=sys.stderr)
    written = export(checkpoint, path, kinds)
    total = sum(array.nbytes for array in written)
    print(f"{path}: {len(written)} arrays of step {checkpoint.step}, {_size(total)}")
    return 0


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}" if unit != "B" else f"{count} B"
        count /= 1000
    return f"{count:.3g} TB"
