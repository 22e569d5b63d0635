"""Advice from a job's figures: a list of small rules.

A rule looks at one thing in the figures. It returns nothing, or an Advice: the number that it saw, a measure, and a bound, which is
the share of a step that the measure can save at most. The greatest bounds come first. A bound below ``ENOUGH`` is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, median_low

from .figures import Figures, Trainer, stands_out
from .progress import median_bin, staleness_range
from .units import in_bytes, in_ms, in_times

ENOUGH = 0.15                          # of a step
MOST = 3                               # lines of advice
SLOW = 1.3                             # times the median of the others: a trainer or a server stands out
FULL = 0.6                             # of a step: a job that computes so much is bound by computing
LONG_OUTSIDE = 10.0                    # seconds before the first step that are worth a word
# A message costs about as much time by itself as so many bytes of a large message: 5 to 10 us, at 2 to 3 GB/s. This assumption decides
# which advice is given; the bounds do not depend on it.
A_MESSAGE = 16 << 10


@dataclass(frozen=True)
class Advice:
    bound: float                       # the share of `of` that the measure can save at most
    text: str
    of: str = "of a step"

    def __str__(self) -> str:
        return f"{self.text} (at most {self.bound:.0%} {self.of})"


Rule = Callable[[Figures], Advice | None]


# -- trainers ------------------------------------------------------------------------------------------------------------------

_DOING = {"start": "it has not begun to train", "script": "it is in its script, between two steps",
          "compute": "it is inside a step", "wait": "it waits for servers"}


def _list(trainers: list[Trainer]) -> str:
    return f"trainer{'s' * (len(trainers) != 1)} {', '.join(str(one.index) for one in trainers)}"


def standing_still(figures: Figures) -> Advice | None:
    """A trainer has stopped making steps, or made none at all."""
    stalled = figures.stalled
    culprits = [one for one in stalled if one.doing != "wait"] or stalled
    if not culprits:
        return None
    one = max(culprits, key=lambda one: one.quiet)
    waiting = [other for other in stalled if other not in culprits]
    clock = time.strftime("%H:%M:%S", time.localtime(one.since))
    text = (f"trainer {one.index} makes no step since {clock}, {one.quiet:.0f} s before the end of the logs, after {one.steps} steps: "
            f"{_DOING.get(one.doing, 'its log does not say what it does')}; look at its script, its data and its host, {one.host}")
    if len(culprits) > 1:
        text += f"; so it is with {_list([other for other in culprits if other is not one])}"
    if waiting:
        text += f"; {_list(waiting)} wait{'s' * (len(waiting) == 1)}"
    is_all = figures.mode.waits or len(stalled) == len(figures.all_trainers)
    return Advice(1.0 if is_all else len(culprits) / len(figures.all_trainers), text, "of the job")


def without_steps(figures: Figures) -> Advice | None:
    """A trainer that ended well has made no step, while others have."""
    idle = [one for one in figures.all_trainers if one.has_ended and not one.steps]
    if not idle or not figures.trainers:
        return None
    return Advice(len(idle) / len(figures.all_trainers), f"{_list(idle)} ended without a step: is there data for "
                  f"{'all of them' if len(idle) > 1 else 'it'}? ({len(figures.all_trainers)} trainers share the data)", "of the job")


def slow_trainer(figures: Figures) -> Advice | None:
    """One trainer works longer than the others. They wait for it, or make more steps."""
    if figures.slowest is None:
        return None
    slow, excess = figures.slowest
    rest = [one for one in figures.trainers if one is not slow]
    usual = slow.work - excess
    times = f"{in_times(slow.work / usual)} as long as the median of the others" if usual > 0 else "the others next to nothing"
    text = (f"trainer {slow.index} works {in_ms(slow.work)} in a step, {times}: {in_ms(excess)} more, {_where(slow, rest)}")
    look = f"look at its host, {slow.host}, and its data"
    validates = _validates(slow, rest, excess)
    if validates:
        look = ("it does there what others do not, such as validation or saving: less often, on fewer samples, in another process, or "
                "shared by all trainers")
    if figures.mode.waits:
        waited = max(one.others for one in rest)
        has_way = figures.mode.backups > 0 or not figures.mode.is_lockstep or validates
        around = "" if has_way else ", or let the others go on without it: --mode 'sync(backups=1)'"
        return Advice(min(excess, waited) / slow.step, f"{text}; others wait up to {in_ms(waited)} a step for it; {look}{around}")
    now, then = 1 / slow.step, 1 / max(slow.step - excess, slow.step / 1e3)
    others = sum(1 / one.step for one in rest)
    return Advice((then - now) / (now + others), f"{text}; the others do not wait, but it makes fewer steps, of older gradients; {look}",
                  "more steps of all")


def _where(slow: Trainer, rest: list[Trainer]) -> str:
    script = slow.script - median([one.script for one in rest])
    if script <= (slow.compute + slow.encode) - median([one.compute + one.encode for one in rest]):
        return "in computing"
    if _comes_in_bursts(slow):
        return f"in its script, in a few steps (median {in_ms(slow.script_median)}, longest {in_ms(slow.script_max)})"
    return "in its script, before it hands over a step's data"


def _validates(slow: Trainer, rest: list[Trainer], excess: float) -> bool:
    """Return whether a trainer is no slower than the others in training: most of its excess is for runs of other programs, or it is slow in
    a few steps alone, in its script."""
    if slow.other_runs - median([one.other_runs for one in rest]) > excess / 2:
        return True
    usual = median([one.script_median + one.compute + one.encode for one in rest])
    return _comes_in_bursts(slow) and slow.script_median + slow.compute + slow.encode < SLOW * usual


def _comes_in_bursts(one: Trainer) -> bool:
    return one.script > 2 * one.script_median


def uneven_steps(figures: Figures) -> Advice | None:
    """Trainers wait for one another, and none of them is slow as a whole."""
    slowest = figures.slowest
    if not figures.mode.waits or slowest is None:
        return None
    others, excess = figures.mean("others"), max(0.0, slowest[1])
    share = (others - excess) / figures.mean("step")
    return Advice(share, f"trainers wait {in_ms(others)} a step for one another, of which the slowest one's excess explains "
                  f"{in_ms(min(excess, others))}: their steps differ in length; batches of like size, or a mode that waits less, such as "
                  "--mode 'ssp(2)'")


# -- servers -------------------------------------------------------------------------------------------------------------------

def servers_apply(figures: Figures) -> Advice | None:
    """Trainers wait while servers' optimizers run."""
    share = figures.share("apply")
    if not figures.servers or not share:
        return None
    place, times = stands_out([one.apply for one in figures.servers])
    server = figures.servers[place]
    waits = (f"trainers wait {in_ms(figures.mean('apply'))} a step ({share:.0%}) for servers that apply; server {server.index} takes "
             f"{in_ms(server.apply)} an update")
    if times >= 2 * SLOW:
        return Advice(share * (1 - 1 / times), f"{waits}, {in_times(times)} as long as the others: one large parameter or hot keys lie "
                      f"there, or its host, {server.host}, is busy")
    return Advice(share, f"{waits}: use more servers than {len(figures.servers)}")


# -- messages ------------------------------------------------------------------------------------------------------------------

def _bound(figures: Figures, bytes: float, messages: float) -> float:
    """Return the largest share of a step that these bytes and messages can take, out of all on the wire, whatever the cost of each."""
    all_bytes, all_messages = figures.mean("bytes"), figures.mean("messages")
    shares = [part / all for part, all in ((bytes, all_bytes), (messages, all_messages)) if all]
    return figures.share("wire") * min(1.0, max(shares, default=0.0))


def _is_worth_it(figures: Figures, bytes: float, messages: float) -> bool:
    """Return whether bytes and messages of this kind take enough of a step for an advice, by their usual costs."""
    all = figures.mean("bytes") + A_MESSAGE * figures.mean("messages")
    return all > 0 and figures.share("wire") * (bytes + A_MESSAGE * messages) / all >= ENOUGH


def _moved(figures: Figures) -> str:
    return (f"waiting for the wire takes {in_ms(figures.mean('wire'))} a step ({figures.share('wire'):.0%}); a trainer moves "
            f"{in_bytes(figures.mean('bytes'))} in {figures.mean('messages'):.0f} messages")


def _sum_of(figures: Figures, *kinds: str) -> tuple[float, float]:
    """Return the bytes and messages of these kinds in a step."""
    found = [figures.traffic(kind) for kind in kinds]
    return sum(bytes for bytes, _ in found), sum(messages for _, messages in found)


def compressible(figures: Figures) -> Advice | None:
    """Dense gradients travel uncompressed."""
    bytes = min(figures.traffic("gradients")[0], figures.compressible)
    if figures.compress != "none" or not _is_worth_it(figures, 0.75 * bytes, 0):
        return None
    text = (f"{_moved(figures)}, of which {in_bytes(bytes)} are dense gradients: --compress fp16 makes these half as long "
            f"(at most {_bound(figures, 0.5 * bytes, 0):.0%} of a step), int8 a quarter")
    return Advice(_bound(figures, 0.75 * bytes, 0), text)


def roundable(figures: Figures) -> Advice | None:
    """Parameters and rows come back in 32 bits a value."""
    dense, rows = figures.traffic("parameters")[0] if figures.compressible else 0.0, figures.traffic("rows")[0]
    if figures.compress_parameters != "none" or not _is_worth_it(figures, 0.5 * (dense + rows), 0):
        return None
    what = " and ".join([f"{in_bytes(dense)} are parameters"] * (dense > 0) + [f"{in_bytes(rows)} rows of sparse tables"] * (rows > 0))
    return Advice(_bound(figures, 0.5 * (dense + rows), 0), f"{_moved(figures)}, of which {what}, to trainers: --compress-parameters bf16 "
                                                            "makes these half as long")


def exchanging_less_often(figures: Figures) -> Advice | None:
    """Most bytes on the wire are dense parameters and gradients."""
    bytes, messages = _sum_of(figures, "gradients", "small_gradients", "compressed", "parameters")
    if figures.mean("bytes") < A_MESSAGE * figures.mean("messages") or not _is_worth_it(figures, 0.9 * bytes, 0.9 * messages):
        return None                    # few_bytes handles the case in which messages take the time
    less = "--mode with a greater k than now" if figures.mode.trains_copies else "--mode 'geo(10)', which exchanges them in each tenth step"
    return Advice(0.9 * _bound(figures, bytes, messages),
                  f"{_moved(figures)}, of which {in_bytes(bytes)} are dense gradients and parameters: {less}, or larger batches")


def rows_travel(figures: Figures) -> Advice | None:
    """Most bytes on the wire are rows of sparse tables; compression does not reduce them."""
    bytes, messages = _sum_of(figures, "rows", "keys")
    wanted = figures.mean("rows_wanted")
    if not wanted or not _is_worth_it(figures, bytes, messages):
        return None
    text = (f"{_moved(figures)}, of which {in_bytes(bytes)} are rows of sparse tables and their keys, and "
            f"{in_bytes(figures.traffic('row_gradients')[0])} gradients of rows, which --compress does not touch; {wanted:.0f} rows are "
            f"wanted in a step, {figures.mean('rows_ahead') / wanted:.0%} of them asked for ahead, "
            f"{figures.mean('rows_cached') / wanted:.0%} found here: ")
    if figures.mode.trains_copies:
        measure = "a greater k exchanges them less often"
    else:
        keeps = "" if figures.mode.is_lockstep else "distributed.set_row_cache keeps rows for some steps, "
        measure = f"{keeps}distributed.prefetched asks for them ahead"
    return Advice(_bound(figures, bytes, messages), text + measure)


def _table_messages(figures: Figures) -> tuple[float, float]:
    """Return the number of messages of a step that carry rows, and how many of them a single table would save."""
    _, messages = _sum_of(figures, "rows", "keys", "row_gradients")
    return messages, messages * (1 - 1 / figures.table_count) if figures.table_count else 0.0


def rows_on_disk(figures: Figures) -> Advice | None:
    """Servers wait for their disks."""
    step = figures.mean("step")
    waits = [(table.disk.wait_ms / table.updates, table) for table in figures.tables if table.disk and table.updates]
    if not waits or not step:
        return None
    wait, table = max(waits, key=lambda found: found[0])
    disk = table.disk
    assert disk is not None
    ahead = disk.reads_ahead / max(disk.reads, 1)
    soon = "" if ahead > FULL else "; train_from_dataset and distributed.prefetched announce the next batch, whose rows are read meanwhile"
    return Advice(min(1.0, wait / step),
                  f"a server waits {in_ms(wait)} an update for rows of table '{table.name}' that lie on its disk, "
                  f"{disk.reads / table.updates:.0f} of all servers, {ahead:.0%} of them read ahead: a greater --table-memory, a disk with "
                  f"more reads a second, or more servers{soon}")


def many_tables(figures: Figures) -> Advice | None:
    """Each table has messages of its own to and from each server."""
    of_tables, saved = _table_messages(figures)
    messages, step = figures.mean("messages"), figures.mean("step")
    if not saved or not step:
        return None
    moving = min(1.0, figures.mean("moving") * saved / messages / step)
    if moving < ENOUGH and not _is_worth_it(figures, 0, saved):
        return None
    return Advice(max(_bound(figures, 0, saved), moving),
                  f"{figures.table_count} tables make {of_tables:.0f} of the {messages:.0f} messages of a step, and a trainer is "
                  f"{in_ms(figures.mean('moving'))} a step at moving messages: let fields share one table of the same width (keys made "
                  f"different for each field), which saves {saved:.0f} messages")


def few_bytes(figures: Figures) -> Advice | None:
    """The number of messages takes the time, not their bytes; many_tables covers the messages of tables."""
    messages = figures.mean("messages") - _table_messages(figures)[1]
    if not figures.servers or figures.mean("bytes") >= A_MESSAGE * figures.mean("messages") or not _is_worth_it(figures, 0, messages):
        return None
    return Advice(_bound(figures, 0, messages),
                  f"{_moved(figures)}, which is few bytes for so many messages: larger batches make fewer steps, fewer servers than "
                  f"{len(figures.servers)} fewer messages; with more processes than processors their turns are waited for")


def one_servers_bytes(figures: Figures) -> Advice | None:
    """One server moves more than the others."""
    place, times = stands_out([one.received + one.sent for one in figures.servers])
    if times < 2 * SLOW or figures.mean("bytes") < A_MESSAGE * figures.mean("messages"):
        return None
    server = figures.servers[place]
    return Advice(figures.share("wire") * (1 - 1 / times),
                  f"server {server.index} moves {in_bytes(server.received + server.sent)}, {in_times(times)} as much as the others, and "
                  f"{server.wait_share:.0%} of the waiting ended with its answer: one large parameter or hot keys lie there")


def far_host(figures: Figures) -> Advice | None:
    """The gradients of a trainer on one of several hosts come last, and its work does not explain it."""
    if len({one.host for one in figures.trainers}) < 2:
        return None
    place, times = stands_out([one.late for one in figures.trainers])
    late = figures.trainers[place]
    others = median([one.work for one in figures.trainers if one is not late])
    excess = late.late - max(0.0, late.work - others)
    if times < SLOW or excess < late.late / 2:
        return None
    return Advice(min(excess / late.step, 1.0),
                  f"gradients of trainer {late.index} come {in_ms(late.late)} after the first, though it works {in_ms(late.work)}, "
                  f"the others {in_ms(others)}: look at the link of its host, {late.host}: trireme doctor --hosts measures it")


def compressing(figures: Figures) -> Advice | None:
    """Compression costs time, too."""
    share = figures.share("encode")
    return Advice(share, f"compressing gradients by {figures.compress} takes {in_ms(figures.mean('encode'))} a step ({share:.0%}): "
                  "fp16 is cheaper, and none may be faster")


# -- the script ----------------------------------------------------------------------------------------------------------------

def slow_scripts(figures: Figures) -> Advice | None:
    """All trainers' scripts are slow to hand over data."""
    shares = [min(one.script, one.script_median if _comes_in_bursts(one) else one.script) / one.step for one in figures.trainers]
    share = median_low(shares) if shares else 0.0
    return Advice(share, f"scripts take {in_ms(figures.mean('script'))} a step ({share:.0%}) before they hand over its data: a thread that "
                  f"reads ahead (reader.buffered) hides at most {min(share, 1 - share):.0%}, several (reader.xmap_readers), or files read "
                  "by the core (Executor.train_from_dataset), more")


def interruptions(figures: Figures) -> Advice | None:
    """In a few steps the scripts take long: tests, saving."""
    bursts = [one for one in figures.trainers if _comes_in_bursts(one)]
    if not bursts:
        return None
    one = max(bursts, key=lambda one: one.script)
    return Advice((one.script - one.script_median) / one.step,
                  f"the script of trainer {one.index} takes {in_ms(one.script)} of a mean step, but "
                  f"{in_ms(one.script_median)} of the median one and {in_ms(one.script_max)} of the longest: what it does in few steps "
                  "only, such as tests or saving, less often or in another process")


def before_steps(figures: Figures) -> Advice | None:
    """Much time passes before the first step."""
    before = max([one.before for one in figures.all_trainers], default=0.0)
    if before < LONG_OUTSIDE:
        return None
    return Advice(before / (before + figures.seconds), f"{before:.0f} s pass from a trainer's start to its first step, "
                                                       f"{figures.seconds:.0f} s in steps: "
                  "look at what the script prepares, and at its startup program", "of the job")


def stale(figures: Figures) -> Advice | None:
    """Some trainers are far behind others."""
    least, _ = staleness_range(median_bin(figures.staleness))
    if figures.mode.is_lockstep or figures.mode.waits or least <= 2 * len(figures.trainers):
        return None
    return Advice(0.5, f"half of all gradients are {least} updates old or older, with {len(figures.trainers)} trainers: --mode 'ssp(2)' "
                       "bounds that, "
                  "or look at the slowest trainer", "of the gradients")


RULES: tuple[Rule, ...] = (
    standing_still, without_steps, slow_trainer, uneven_steps, servers_apply, compressible, roundable, exchanging_less_often, rows_travel,
    rows_on_disk, many_tables, few_bytes, one_servers_bytes, far_host, compressing, slow_scripts, interruptions, before_steps, stale)

_PARTS = {"compute": "computing", "script": "the scripts' own", "encode": "compressing", "others": "waiting for other trainers",
          "apply": "waiting for servers that apply", "wire": "waiting for the wire"}


def _nothing_found(figures: Figures) -> str:
    share = figures.share("compute")
    if share >= FULL:
        return (f"compute-bound ({share:.0%} of a step): all is well; twice as many trainers, each with half of a batch, save at most "
                f"{share / 2:.0%} of a step")
    parts = sorted(((figures.share(part), words) for part, words in _PARTS.items()), reverse=True)
    return (f"computing is {share:.0%} of a step, and no measure known here brings {ENOUGH:.0%}; the largest parts: "
            + ", ".join(f"{words} {share:.0%}" for share, words in parts[:3]))


def all_advice(figures: Figures) -> list[Advice]:
    """Return what is worth a word, the greatest saving first."""
    found = (one for one in (rule(figures) for rule in RULES) if one is not None and one.bound >= ENOUGH)
    return sorted(found, key=lambda one: -one.bound)[:MOST]


def advice_of(figures: Figures) -> list[str]:
    """Return lines of advice, the greatest saving first; at least one line."""
    if found := all_advice(figures):
        return [str(one) for one in found]
    return [_nothing_found(figures) if figures.trainers else "no trainer has ended a step: there is nothing to say"]
