"""Rows of a table that a script loads or sets between two steps, when the servers have the table.

The next forward part looks rows up on the servers, so the rows must be there before it. All trainers make the call, between the same two
steps. They come together, one of them sends the rows, and they come together again.

A trainer that replays its script sends nothing: the rows that it set between replayed steps are in the servers' tables, under the updates
of later steps. It takes part in the collectives alone, whose results are known. What the script sets behind the last replayed step is sent
again, because it may have come only in part. But if this trainer's post of the second collective is there, the rows have come whole, and
the others may have made steps since: then nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable

from .._core import lib
from ..job.job import current
from ..native.errors import FileError, PeerError, check, user_line
from ..native.names import name_chars
from ..native.scope import Scope
from .collectives import has_posted_next, meet
from .reached import is_replaying


def set_rows_of_servers(scope: Scope, name: str, call: str, fill: Callable[[Scope], None], *, clear: bool) -> None:
    """Let ``fill`` write rows into a new scope, on one trainer, and give them to the servers. ``clear``: they are all of the table's
    rows."""
    job = current()
    assert job is not None
    end = f"end of the {call}"
    if is_replaying():
        meet(call, None)
        meet(end, None)
        return
    table = scope._native.ptr, name_chars(name)
    check(lib.tr_job_set_rows_begin(*table))
    writer = min(meet(call, None))
    failure = None
    if job.index == writer and not has_posted_next(end):
        try:
            source = Scope()
            fill(source)
            check(lib.tr_job_set_rows(*table, source._native.ptr, clear))
        except Exception as error:                     # the others wait for a word
            failure = error
    told = meet(end, failure and f"{type(failure).__name__}: {failure}"[:4096])
    check(lib.tr_job_set_rows_end(*table))
    if failure is not None:
        raise failure
    if writer not in told:
        raise PeerError(f"the {call}: trainer {writer}, which sent the rows for all, has died, and nobody replaces it\n  your line: "
                        f"{user_line()}")
    if told[writer] is not None:
        raise FileError(f"the {call}: trainer {writer}, which sends the rows for all, could not: {told[writer]}\n  your line: "
                        f"{user_line()}")
