"""How consistent the trainers of a job are with each other, in one word.

| mode | |
|---|---|
| ``sync`` | a step is the mean over all trainers, applied once: the default |
| ``sync(degraded)`` | the same; when a trainer has died, the mean over all others |
| ``sync(backups=b)`` | the mean over all but the slowest ``b``, whose late gradients are dropped |
| ``async`` | each trainer's step is an update of its own |
| ``async(compensation=x)`` | the same; gradients are corrected for what others did meanwhile (DC-ASGD), ``x`` about 0.04 |
| ``ssp(s)`` | ``async``, but no trainer begins a step more than ``s`` steps ahead of the slowest |
| ``geo(k)`` | trainers update copies of their own and exchange what they changed every ``k`` steps |
| ``average(k)`` | the same, but all exchange together: every ``k`` steps the parameters become the mean of all trainers' |
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from .._core import ffi, lib
from ..native.errors import InvalidArgumentError, check_whole, error_of
from ..native.suggest import did_you_mean
from .job import say_in_time
from .session import session


@dataclass(frozen=True)
class Mode:
    """A parsed mode: ``text`` as it was written, or its present name, and its meaning (``tr_policy`` in ``trireme_dist.h``)."""

    text: str
    is_lockstep: bool
    """Whether all servers make the same updates in the same order. They may compute something together then. In the other modes an
    update is the work of one trainer."""
    gathers_per_trainer: bool
    """Whether gradients of different trainers are gathered apart from each other."""
    snapshots_all: bool
    """Whether every trainer takes part in a snapshot."""
    trains_copies: bool
    """Whether trainers run the optimizers on copies of their own, and servers add the changes."""
    backups: int
    """Slowest trainers that an update does not wait for."""
    lead: int
    """Steps that a trainer may be ahead of the slowest; -1: any number."""
    period: int
    """Steps of a trainer that make one step of the servers."""
    compensation: float
    """Factor of the correction for delay; 0: none."""

    @property
    def has_common_steps(self) -> bool:
        """Whether each step of a trainer is one of all trainers."""
        return self.is_lockstep and self.period == 1

    @property
    def has_carriers(self) -> bool:
        """Whether trainers of a host send one gradient for all of them to a server of another host (``pserver/core/carrier``)."""
        return self.is_lockstep and not self.gathers_per_trainer

    @property
    def waits(self) -> bool:
        """Whether a trainer may have to wait for the others in any step."""
        return self.has_common_steps or self.lead >= 0


def modes() -> list[str]:
    """Return the forms of all modes, such as ``"ssp(N)"``.

    >>> from trireme.job.mode import modes
    >>> modes()[0], len(modes())
    ('sync', 8)
    """
    found: list[str] = []
    while text := lib.tr_policy_texts(len(found)):
        found.append(ffi.string(text).decode())
    return ", ".join(found).split(", ")


def check_word(status: int, text: str, words: Sequence[str]) -> None:
    """Raise the error of a wrong text. Suggest the word that was perhaps meant."""
    if status:
        error, word = error_of(status), text.partition("(")[0]
        hint = did_you_mean(word, words) if word not in words else ""
        first, _, rest = str(error).partition("\n")
        raise type(error)(f"{first}{hint}" + (f"\n{rest}" if rest else ""))


def without_blanks(what: str, text: str, possible: str) -> str:
    """Return a text without its blanks. ``text`` may be of a wrong type or hold a NUL: then raise InvalidArgumentError, which names
    the setting ``what`` and lists what is ``possible``.
    """
    if not isinstance(text, str) or "\0" in text:
        raise InvalidArgumentError(f"{what} {text!r}; {possible}")
    return "".join(text.split())


def parse(text: str) -> Mode:
    """Return the meaning of a mode's text. Raise InvalidArgumentError for a wrong text; it lists what is possible.

    >>> from trireme.job.mode import parse
    >>> parse("ssp(3)").lead
    3
    """
    text = without_blanks("mode", text, "a text such as 'ssp(3)' is possible")
    out = ffi.new("tr_policy *")
    check_word(lib.tr_policy_parse(out, text.encode()), text, [one.partition("(")[0] for one in modes()])
    return Mode(ffi.string(out.text).decode() if out.text else text, out.is_lockstep, out.gathers_per_trainer, out.snapshots_all,
                out.trains_copies, out.backups, out.lead, out.period, out.compensation)


def set_mode(mode: str) -> None:
    """Choose the consistency of this script's job. Call it before the first step.

    ``mode`` is a text of the table in docs/distributed.md, such as ``"ssp(3)"``. ``trireme launch --mode`` takes precedence. In one process
    all modes do the same.

    >>> fluid.distributed.set_mode("ssp(3)")
    >>> fluid.distributed.set_mode("sync")
    """
    if not isinstance(mode, str):
        raise TypeError(f"set_mode takes a text such as 'ssp(3)', got {mode!r}")
    text = parse(mode).text
    if text != session.mode:
        say_in_time(f"set_mode({mode!r})")
    session.mode = text


def set_row_cache(rows: int, staleness: int) -> None:
    """Let each trainer keep up to ``rows`` rows of each sparse table and use them in ``staleness`` steps without asking again.

    Call it before the first step. A kept row stays as the servers had it, without later changes of this trainer or of others. So frequent
    rows learn from gradients that are up to ``staleness`` steps old, and are not sent in each step. Modes ``async`` and ``ssp(s)`` keep
    rows; under ``ssp(s)`` a trainer uses no row that lacks more than ``s`` steps of another trainer. In ``sync``, in ``geo`` and in one
    process the call has no effect. A row takes its values and 24 bytes. With 0 rows nothing is kept.

    >>> fluid.distributed.set_row_cache(rows=100_000, staleness=4)
    >>> fluid.distributed.set_row_cache(rows=0, staleness=0)
    """
    rows, staleness = check_whole("set_row_cache: rows", rows), check_whole("set_row_cache: staleness", staleness)
    if (rows, staleness) != session.row_cache:
        say_in_time(f"set_row_cache(rows={rows}, staleness={staleness})")
    session.row_cache = rows, staleness


def current() -> Mode:
    """Return the mode that the launcher, else the script, has chosen."""
    return parse(os.environ.get("TRIREME_MODE") or session.mode)
