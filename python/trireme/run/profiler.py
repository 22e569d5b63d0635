"""Where the time of runs goes: a Chrome trace of every step of every plan, and a table of it.

Open the file at ``chrome://tracing`` or in Perfetto.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from .._core import lib
from ..native.errors import UnsupportedError, check
from ..native.names import path_chars

_SORTED = {"default": None, "calls": 0, "total": 1, "max": 2, "min": 3, "ave": 4}
_COLUMNS = ("Calls", "Total ms", "Max ms", "Min ms", "Ave ms", "Share")


@contextlib.contextmanager
def cuda_profiler(output_file: str, output_mode: str | None = None, config: Any = None) -> Iterator[None]:
    """Refuse: there are no GPUs. ``fluid.profiler.profiler`` measures the processor.

    ``output_file``, ``output_mode`` and ``config`` are what Fluid's function takes.

    >>> with fluid.profiler.cuda_profiler("trace.txt"):
    ...     pass
    Traceback (most recent call last):
        ...
    trireme.errors.UnsupportedError: cuda_profiler: Trireme computes on processors alone; use fluid.profiler.profiler
    """
    raise UnsupportedError("cuda_profiler: Trireme computes on processors alone; use fluid.profiler.profiler")
    yield


def start_profiler(state: str = "CPU", tracer_option: str | None = None) -> None:
    """Record from now on.

    ``state`` is ``"CPU"``, ``"All"`` or ``"GPU"``, and ``tracer_option`` any text: all mean the same here. Another state is a ValueError.

    >>> fluid.profiler.start_profiler()
    >>> _ = fluid.Executor().run(fetch_list=[fluid.layers.ones([2], "float32")])
    >>> fluid.profiler.stop_profiler(profile_path="trace.json")
    """
    if state not in ("CPU", "All", "GPU"):
        raise ValueError(f"the profiler's state must be 'CPU' or 'All', got {state!r}")
    lib.tr_profiler_start()


def stop_profiler(sorted_key: str | None = None, profile_path: str | None = None) -> None:
    """Stop recording, write the trace to ``profile_path``, and print a table if ``sorted_key`` is given.

    ``sorted_key`` is one of default, calls, total, max, min, ave.

    ``profile_path`` None: a file in the folder for temporary files. Another ``sorted_key`` is a ValueError.

    >>> fluid.profiler.start_profiler("CPU")
    >>> _ = fluid.Executor().run(fetch_list=[fluid.layers.ones([2], "float32")])
    >>> fluid.profiler.stop_profiler(sorted_key="total", profile_path="trace.json")
    Operator  Calls ... Share
    fill_constant  1 ...
    """
    if sorted_key is not None and sorted_key not in _SORTED:
        raise ValueError(f"sorted_key must be one of {', '.join(_SORTED)}; got {sorted_key!r}")
    path = profile_path or os.path.join(tempfile.gettempdir(), f"trireme-profile-{os.getpid()}.json")
    if sorted_key is not None and os.path.exists(path) and not os.path.isfile(path):
        _stop_into_stream(sorted_key, path)
        return
    check(lib.tr_profiler_stop(path_chars(path)))
    if sorted_key is not None:
        print(summary(path, sorted_key))


def _stop_into_stream(sorted_key: str, path: str) -> None:
    """What is written to a terminal or a pipe (/dev/stderr) cannot be read again for the table: nobody would answer."""
    with tempfile.TemporaryDirectory() as folder:
        kept = os.path.join(folder, "profile.json")
        check(lib.tr_profiler_stop(path_chars(kept)))
        with open(kept, "rb") as trace, open(path, "wb") as out:
            shutil.copyfileobj(trace, out)
        print(summary(kept, sorted_key))


def summary(path: str, sorted_key: str = "total") -> str:
    """Return the table of a trace: for each operator, how often it ran and how long.

    ``path`` is the trace's file. ``sorted_key`` is one of default, calls, total, max, min, ave.

    >>> with fluid.profiler.profiler(profile_path="trace.json"):
    ...     _ = fluid.Executor().run(fetch_list=[fluid.layers.ones([2], "float32")])
    >>> print(fluid.profiler.summary("trace.json", sorted_key="calls"))
    Operator  Calls ... Share
    fill_constant  1 ...
    """
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    times: dict[str, list[float]] = {}
    for event in events:
        if event.get("ph") == "X":
            times.setdefault(event["name"], []).append(event["dur"] / 1000.0)
    whole = sum(map(sum, times.values())) or 1.0
    rows = {name: (len(t), sum(t), max(t), min(t), sum(t) / len(t), sum(t) / whole) for name, t in times.items()}
    column = _SORTED[sorted_key]
    names = list(rows) if column is None else sorted(rows, key=lambda name: rows[name][column], reverse=True)
    lines = [f"{'Operator':<36}" + "".join(f"{title:>12}" for title in _COLUMNS)]
    for name in names:
        calls, *rest, share = rows[name]
        lines.append(f"{name[:35]:<36}{calls:>12}" + "".join(f"{value:>12.4f}" for value in rest) + f"{share:>12.1%}")
    return "\n".join(lines)


@contextlib.contextmanager
def profiler(state: str = "CPU", sorted_key: str | None = None, profile_path: str | None = None,
             tracer_option: str | None = None) -> Iterator[None]:
    """Record inside the block.

    ``state`` and ``tracer_option`` are those of ``start_profiler``, ``sorted_key`` and ``profile_path`` those of ``stop_profiler``.

    Without ``sorted_key`` no table is printed.

    >>> with fluid.profiler.profiler("CPU", profile_path="trace.json"):
    ...     _ = fluid.Executor().run(fetch_list=[fluid.layers.ones([2], "float32")])
    >>> "traceEvents" in open("trace.json").read()
    True
    """
    start_profiler(state, tracer_option)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)


def reset_profiler() -> None:
    """Forget what was recorded, and go on recording.

    For example after the first steps, which are slower than others:

    >>> fluid.profiler.start_profiler()
    >>> _ = fluid.Executor().run(fetch_list=[fluid.layers.ones([2], "float32")])
    >>> fluid.profiler.reset_profiler()
    >>> fluid.profiler.stop_profiler(profile_path="trace.json")
    """
    lib.tr_profiler_start()


__all__ = ["cuda_profiler", "profiler", "start_profiler", "stop_profiler", "reset_profiler", "summary"]
