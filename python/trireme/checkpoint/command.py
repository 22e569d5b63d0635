"""``trireme checkpoint list|verify|export|compact|diff``."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .._core import lib
from ..native.errors import InvalidArgumentError, check
from ..native.json_text import print_json
from ..native.names import path_chars
from ..parameters.table_files import SHARDS
from ..stores.names import absolute
from .arrays_file import export, shown
from .folder import claim, steps
from .opened import Checkpoint, find, is_one, path_of

if TYPE_CHECKING:
    import numpy as np

_AT_A_TIME = 64 << 20                  # bytes of a table's rows that `diff` compares at a time


def command_list(folder: str, is_json: bool = False) -> int:
    """Print a line for each checkpoint of a folder, the newest first. Return the exit code. ``is_json``: print an object."""
    found = steps(folder)
    if is_json:
        print_json({"schema": 1, "folder": folder, "checkpoints": [_as_json(folder, step) for step in found]})
        return int(not found)
    if not found:
        print(f"there is no checkpoint in {folder}")
        return 1
    print(f"{'step':>12}  {'written':19}  {'size':>10}  {'arrays':>6}  {'rows':>10}  {'parts':>5}  {'rows are':>18}  {'mode':15}  run")
    for step in found:
        try:
            one = Checkpoint(path_of(folder, step))
        except (InvalidArgumentError, OSError, RuntimeError) as error:
            print(f"{step:>12}  damaged: {str(error).splitlines()[0]}")
            continue
        print(f"{step:>12}  {_date(one.created):19}  {_size(one.nbytes):>10}  {len(one.arrays):>6}  "
              f"{sum(table.rows for table in one.tables.values()):>10}  {one.parts:>5}  "
              f"{_rows(one):>18}  {shown(one.mode):15}  {_run(one)}")
    return 0


def _as_json(folder: str, step: int) -> dict[str, Any]:
    """Return what ``--json`` prints of a checkpoint: docs/json.md."""
    path = path_of(folder, step)
    try:
        one = Checkpoint(path)
    except (InvalidArgumentError, OSError, RuntimeError) as error:
        return {"step": step, "path": path, "damaged": str(error).splitlines()[0]}
    run = {"number": f"{one.run:016x}", "began_s": one.run_began, "command": one.command or None} if one.run else None
    return {"step": step, "path": path, "damaged": None, "written_s": one.created, "bytes": one.nbytes, "arrays": len(one.arrays),
            "rows": sum(table.rows for table in one.tables.values()), "parts": one.parts, "base_step": one.base_step,
            "row_type": one.row_type, "mode": one.mode, "run": run}


def _rows(one: Checkpoint) -> str:
    """Say which rows of tables a checkpoint's own files have, and whether these are exact."""
    which = "full" if one.base_step is None else f"since {one.base_step}"
    return which if one.row_type == "exact" else f"{which}, {one.row_type}"


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


def command_compact(folder: str, step: int | None) -> int:
    """Write a checkpoint anew in its place, so that it needs no file of others. No job may keep checkpoints in the folder meanwhile."""
    checkpoint = find(folder, step)
    base, before = checkpoint.base_step, checkpoint.nbytes
    if base is None:
        print(f"{checkpoint.folder}: it is full already")
        return 0
    above = os.path.dirname(absolute(checkpoint.folder))
    claim(above, lib.TR_ENTRY_RESUME)
    check(lib.tr_checkpoint_compact(checkpoint._native.ptr, path_chars(above)))
    print(f"{checkpoint.folder}: full, {_size(Checkpoint(checkpoint.folder).nbytes)} ({_size(before)} of changes since step {base} before)")
    return 0


def command_diff(folder: str, other: str) -> int:
    """Print what differs between two checkpoints. Return 1 when something does."""
    one, two = find(folder), find(other)
    differ = 0
    for name in sorted({*one.arrays, *two.arrays, *one.tables, *two.tables}):
        text = _table_difference(one, two, name) if name in one.tables or name in two.tables else _array_difference(one, two, name)
        if text:
            differ += 1
            print(f"{shown(name)}: {text}")
    print(f"{one.folder} and {two.folder}: {f'{differ} arrays and tables differ' if differ else 'the same values'}")
    return 1 if differ else 0


def _missing(one: Checkpoint, two: Checkpoint, has_one: bool) -> str:
    return f"in {(one if has_one else two).folder} alone"


def _array_difference(one: Checkpoint, two: Checkpoint, name: str) -> str:
    import numpy as np

    if name not in one.arrays or name not in two.arrays:
        return _missing(one, two, name in one.arrays)
    a, b = one.arrays[name], two.arrays[name]
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return f"{a.dtype.name} {a.shape} and {b.dtype.name} {b.shape}"
    differing = int(np.count_nonzero(one[name].view(f"V{a.dtype.dtype.itemsize}") != two[name].view(f"V{a.dtype.dtype.itemsize}")))
    return f"{differing} of {one[name].size} values" if differing else ""


def _table_difference(one: Checkpoint, two: Checkpoint, name: str) -> str:
    import numpy as np

    if name not in one.tables or name not in two.tables:
        return _missing(one, two, name in one.tables)
    if one.tables[name].row_dtype != two.tables[name].row_dtype:
        return f"{one.tables[name]!r} and {two.tables[name]!r}"
    times = max(1, -(-max(one.tables[name].nbytes, two.tables[name].nbytes) // _AT_A_TIME))
    cuts = [SHARDS * i // min(times, SHARDS) for i in range(min(times, SHARDS) + 1)]
    changed, added, removed = np.sum([_changes(one.table_rows(name, range(*cut)), two.table_rows(name, range(*cut)))
                                      for cut in itertools.pairwise(cuts)], axis=0)
    return f"{changed} rows changed, {added} added, {removed} removed" if changed or added or removed else ""


def _changes(a: np.ndarray, b: np.ndarray) -> tuple[int, int, int]:
    """Return how many rows have changed from ``a`` to ``b``, are in ``b`` alone, and are in ``a`` alone."""
    import numpy as np

    both, at, there = np.intersect1d(a["key"], b["key"], assume_unique=True, return_indices=True)
    whole = f"V{a.dtype.itemsize}"                     # bits, and what lies behind fields is taken along
    changed = int(np.count_nonzero(a.view(whole)[at] != b.view(whole)[there]))
    return changed, len(b) - len(both), len(a) - len(both)


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}" if unit != "B" else f"{count} B"
        count /= 1000
    return f"{count:.3g} TB"
