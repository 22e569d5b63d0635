"""``trireme trace FILES``: the Chrome traces of several ranks as one, on one clock.

Ranks of a host share its monotonic clock, which the events of a trace are in. A trace says what the wall clock showed when that clock was
0. So traces of several hosts are shifted by the differences of their wall clocks, which NTP holds within a millisecond, mostly.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from typing import Any

from ..native.errors import FileError, FormatError, NotFoundError
from ..native.files import new_file
from ..native.regular import read_regular

_MOST_BYTES = 1 << 31                  # of a trace: a million events have 200 MB


def merge(paths: Sequence[str]) -> dict[str, Any]:
    """Return one trace of several files. Processes have their ranks' names, in the order of the ranks."""
    traces = [(path, _read(path)) for path in paths]
    zeros = [_zero_of(trace) for _, trace in traces]
    first = min((zero for zero in zeros if zero is not None), default=0.0)
    events: list[dict[str, Any]] = []
    for number, ((path, trace), zero) in enumerate(zip(traces, zeros)):
        shift = 0.0 if zero is None else zero - first  # microseconds
        name = str(trace.get("otherData", {}).get("rank") or os.path.basename(path).removesuffix(".json"))
        events += [{"ph": "M", "pid": number, "name": "process_name", "args": {"name": name}},
                   {"ph": "M", "pid": number, "name": "process_sort_index", "args": {"sort_index": number}}]
        events += [{**event, "pid": number, "ts": event["ts"] + shift}
                   for event in trace["traceEvents"] if isinstance(event.get("ts"), (int, float))]
    begin = min((event["ts"] for event in events if "ts" in event), default=0.0)
    for event in events:
        if "ts" in event:
            event["ts"] = round(event["ts"] - begin, 3)
    return {"displayTimeUnit": "ns", "traceEvents": events}


def _read(path: str) -> dict[str, Any]:
    try:
        trace = json.loads(read_regular(path, _MOST_BYTES))
    except FileError as error:
        raise NotFoundError(f"trireme trace: {error}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"trireme trace: {path!r} is no trace: {error}") from None
    if isinstance(trace, list):
        trace = {"traceEvents": trace}
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        raise FormatError(f"trireme trace: {path!r} is no trace: it has no list of events")
    trace["traceEvents"] = [event for event in trace["traceEvents"] if isinstance(event, dict)]
    return trace


def _zero_of(trace: dict[str, Any]) -> float | None:
    """When the trace's clock was 0, in microseconds since 1970; None: the trace does not say."""
    zero = trace.get("otherData", {}).get("zero_us")
    return float(zero) if isinstance(zero, (int, float)) else None


def command(sources: Sequence[str], out: str) -> int:
    """Merge files, or the ``*.json`` of folders."""
    paths: list[str] = []
    for source in sources:
        found = sorted(glob.glob(os.path.join(glob.escape(source), "*.json"))) if os.path.isdir(source) else [source]
        if not found:
            raise NotFoundError(f"trireme trace: the folder {source!r} has no traces (*.json): TRIREME_PROFILE=DIR lets ranks write them")
        paths += [path for path in found if os.path.abspath(path) != os.path.abspath(out)]
    merged = merge(paths)
    with new_file(out) as file:
        file.write(json.dumps(merged).encode())
    print(f"{len(paths)} traces, {sum('ts' in event for event in merged['traceEvents'])} events: {out} (open it in Perfetto or "
          "chrome://tracing)")
    return 0
