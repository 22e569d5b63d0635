"""The board on server 0, where trainers exchange small values: pserver/trireme_board.h has its C API."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any

from .._core import ffi, lib
from ..job.job import Job
from ..native.errors import TimedOutError, check, user_line
from . import waiting

NOW, ALL, ONE = 0, 1, 2                                # TR_JOB_NOW and so on
SAY_AFTER = 30.0                                       # seconds that a trainer waits before it says so
LIMIT = 3600.0                                         # and at most: as other waits of a job


class Posts(dict[int, bytes]):
    """Posts by the index of their trainer. ``is_lost``: the trainer whose post was awaited has died without it, and nobody replaces it."""

    is_lost = False


def post(job: Job, *, number: int = 0, name: str | None = None, call: str = "", data: bytes | None = None, until: int = NOW,
         of: int = 0, stops: int = 0) -> Posts | None:
    """Post ``data`` (None: post nothing, only ask) and return the posts of the trainers, by index. None: the posts are no longer kept.

    ``stops``: the notice asks all trainers to end their training of this number."""
    line = user_line()
    step = waiting.position()
    keep = [ffi.new("char[]", text.encode("utf-8", "replace")) for text in (name or "", call, line)]
    memory = ffi.from_buffer(data) if data else ffi.new("char[1]")
    spec = ffi.new("tr_job_post *", {"number": number, "name": keep[0] if name else ffi.NULL, "call": keep[1], "line": keep[2],
                                     "data": memory if data is not None else ffi.NULL, "bytes": len(data or b""), "until": until, "of": of,
                                     "step": step, "stops": stops})
    check(lib.tr_job_post_begin(job.ptr, spec))
    label, missed = f"{call} ({line})", f"trainer {of}" if until == ONE else "another trainer"
    begun = monotonic()
    out = _answer(job, label, missed, begun)
    while out.is_awaited:                              # another trainer waits for this one's step: make it, and ask again
        waiting.make_step(label)
        spec.data = ffi.NULL
        check(lib.tr_job_post_begin(job.ptr, spec))
        out = _answer(job, label, missed, begun)
    if out.is_forgotten:
        return None
    posts = Posts({out.trainer[i]: bytes(ffi.buffer(out.data[i], out.bytes[i])) for i in range(out.count)})
    posts.is_lost = out.is_lost
    if until != NOW:
        waiting.come_to(max((out.step[i] for i in range(out.count) if until == ALL or out.trainer[i] == of), default=0))
    return posts


def _answer(job: Job, call: str, missed: str, begun: float) -> Any:
    out = ffi.new("tr_job_posted *")
    has_said = monotonic() - begun >= SAY_AFTER
    while True:
        try:
            check(lib.tr_job_post_wait(job.ptr, 1.0, out))
            return out
        except TimedOutError:                          # once a second Python looks at signals
            waited = monotonic() - begun
            if waited >= LIMIT:
                raise
            if waited >= SAY_AFTER and not has_said:
                has_said = True
                sys.stderr.write(f"trireme warning: trainer {job.index} has waited for {SAY_AFTER:.0f} s in {call}: {missed} has not come "
                                 "so far. Do all trainers make this call, in the same order?\n")
