"""One line of advice from a job's figures: a table of rules.

A rule returns what share of a step it could save, about, and what to do. The greatest share wins if it is worth the while
(``ENOUGH``); otherwise the job is bound by computing, as it should be.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median_low

from .figures import Figures, Trainer, stands_out

ENOUGH = 0.25                          # of a step
SLOW = 1.3                             # times the median of the others: a trainer or a server stands out
FEW_BYTES = 64 << 10                   # of a trainer in a step: it is not the bytes that take the time

Advice = tuple[float, str]


def slow_trainer(figures: Figures) -> Advice | None:
    """One trainer is behind: the others wait for it, or its gradients are stale."""
    if len(figures.trainers) < 2:
        return None
    place, times = stands_out([one.work for one in figures.trainers])
    slow = figures.trainers[place]
    if times < SLOW or not slow.step:
        return None
    rest = [one.work for one in figures.trainers if one is not slow]
    saved = min(1.0, (slow.work - sorted(rest)[len(rest) // 2]) / slow.step)
    where = "in its script, before it hands over a step's data" if slow.script_work > slow.work / 2 else "in computing"
    text = f"trainer {slow.index} is {_times(times)} slower than the median, {where}: look at its host, {slow.host}, and its data"
    if figures.kind not in ("sync", "ssp"):            # nobody waits for it, which is half as bad
        return saved / 2, f"{text}; the others do not wait, but its gradients are old"
    return saved, text + ("" if "backups" in figures.mode else ", or let the others go on without it: --mode 'sync(backups=1)'")


def servers_apply(figures: Figures) -> Advice | None:
    """Servers' optimizers take the time."""
    if not figures.servers or not figures.share("apply"):
        return None
    share = figures.share("apply")
    place, times = stands_out([one.apply for one in figures.servers])
    server = figures.servers[place]
    if times >= 2 * SLOW:
        return share, (f"server {server.index} applies {_times(times)} as long as the others, and that takes {share:.0%} of a step: one large "
                       f"parameter or hot keys lie there, or its host, {server.host}, is busy")
    return share, f"server {server.index} takes {share:.0%} of a step to apply: use more servers"


def wire(figures: Figures) -> Advice | None:
    """Messages are on their way."""
    share, bytes, step = figures.share("wire"), figures.mean("bytes"), figures.mean("step")
    if not figures.servers or not step:
        return None
    late = _far_host(figures)
    if late is not None:
        return share + figures.share("others"), (
            f"wire-bound, and gradients of trainer {late.index} come {late.late:.3g} ms behind the first, though it computes as fast as others: "
            f"look at the link of its host, {late.host}: trireme doctor --hosts measures it")
    place, times = stands_out([one.received + one.sent for one in figures.servers])
    if bytes < FEW_BYTES:
        return share, (f"wire-bound by {figures.mean('messages'):.0f} messages a step, not by their {_bytes(bytes)}: larger batches make fewer "
                       "steps; with more processes than processors their turns are waited for")
    if times >= 2 * SLOW:
        server = figures.servers[place]
        return share, (f"wire-bound: server {server.index} moves {_times(times)} as many bytes as the others: one large parameter or hot "
                       "keys lie there")
    smaller = "--compress fp16 makes gradients half as long, " if figures.compress == "none" else ""
    return share, f"wire-bound, {_bytes(bytes)} a step and trainer: {smaller}{WIDER}"


def _far_host(figures: Figures) -> Trainer | None:
    """The trainer of one of several hosts whose gradients come last, and not because of its work."""
    place, times = stands_out([one.late for one in figures.trainers])
    late = figures.trainers[place]
    slowest, factor = stands_out([one.work for one in figures.trainers])
    is_slow = slowest == place and late.work * (1 - 1 / factor) > late.late / 2
    is_far = len({one.host for one in figures.trainers}) > 1 and times >= SLOW and late.late > late.step / 5
    return late if is_far and not is_slow else None


def compressing(figures: Figures) -> Advice | None:
    """It costs more than it can save."""
    share = figures.share("encode")
    return share, f"compressing gradients by {figures.compress} takes {share:.0%} of a step: fp16 is cheaper, and none may be faster"


def slow_scripts(figures: Figures) -> Advice | None:
    """All trainers' scripts are slow to hand over data."""
    shares = [one.script / one.step for one in figures.trainers if one.step]
    if not shares:
        return None
    share = median_low(shares)
    return share, (f"the scripts take {share:.0%} of a step before they hand over its data: read ahead (reader.buffered, reader.xmap_readers), or "
                   "let the core read files (Executor.train_from_dataset)")


def stale(figures: Figures) -> Advice | None:
    """Some trainers are far behind others."""
    from .progress import median_bin, staleness_range

    least, _ = staleness_range(median_bin(figures.staleness))
    if figures.kind not in ("async", "geo") or least <= 2 * len(figures.trainers):
        return None
    return ENOUGH, (f"half of all gradients are {least} updates old or older, with {len(figures.trainers)} trainers: --mode "
                    "'ssp(2)' bounds that, or look at the slowest trainer")


WIDER = "more servers share it, larger batches need less of it, --mode 'geo(10)' sends a tenth"
RULES: tuple[Callable[[Figures], Advice | None], ...] = (slow_trainer, servers_apply, wire, compressing, slow_scripts, stale)


def advice_of(figures: Figures) -> str:
    """Return the line."""
    if not figures.trainers:
        return "no trainer has ended a step: there is nothing to say"
    found = [one for one in (rule(figures) for rule in RULES) if one is not None and one[0] >= ENOUGH]
    if found:
        return max(found, key=lambda one: one[0])[1]
    return f"compute-bound ({figures.share('compute'):.0%} of a step): all is well; more trainers help"


def _times(times: float) -> str:
    return f"{times:.1f}x" if times < 100 else "over 100x"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


__all__ = ["advice_of", "RULES", "ENOUGH"]
