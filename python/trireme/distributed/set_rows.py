"""Rows of a table that a script loads or sets between two steps, when the servers have the table.

The next forward part looks rows up on the servers, so the rows must be there before it. All trainers make the call, between the same two steps. They come
together, one of them sends the rows, and they come together again. When a trainer runs its script again, the servers drop rows that were set before steps
that they have.
"""

from __future__ import annotations

from collections.abc import Callable

from .._core import lib
from ..native.errors import FileError, PeerError, check, user_line
from ..native.names import name_chars
from ..native.scope import Scope
from .collectives import meet
from ..job.job import current


def set_rows_of_servers(scope: Scope, name: str, call: str, fill: Callable[[Scope], None], *, clear: bool) -> None:
    """Let ``fill`` write rows into a new scope, on one trainer, and give them to the servers. ``clear``: they are all of the table's rows."""
    job = current()
    assert job is not None
    table = scope._native.ptr, name_chars(name)
    check(lib.tr_job_set_rows_begin(*table))
    writer = min(meet(call, None))
    failure = None
    if job.index == writer:
        try:
            source = Scope()
            fill(source)
            check(lib.tr_job_set_rows(*table, source._native.ptr, clear))
        except Exception as error:                     # the others wait for a word
            failure = error
    told = meet(f"end of the {call}", failure and f"{type(failure).__name__}: {failure}"[:4096])
    check(lib.tr_job_set_rows_end(*table))
    if failure is not None:
        raise failure
    if writer not in told:
        raise PeerError(f"the {call}: trainer {writer}, which sent the rows for all, has died, and nobody replaces it\n  your line: {user_line()}")
    if told[writer] is not None:
        raise FileError(f"the {call}: trainer {writer}, which sends the rows for all, could not: {told[writer]}\n  your line: {user_line()}")
