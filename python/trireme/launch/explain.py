"""``trireme explain DIR``: where a job's steps spent their time, for which ranks the others waited, and advice.

    job, mode sync: 4 trainers, 2 servers, 1000 steps in 5.1 s

    a step takes 5.07 ms        ms   share
    computing                 0.08    1.6 %
    ...
    advice: trainer 1 works 17 ms in a step, 3.4x as long as the median of the others: ... (at most 68% of a step)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..native.json_text import print_json
from .advice import advice_of, all_advice
from .figures import TRAFFIC_CLASSES, Figures, Trainer, figures_of
from .logs import Logs, read
from .progress import staleness_range
from .units import in_bytes, in_ms

_MOST_TABLES = 8
_SOME_TABLES = 4
_PARTS = (("compute", "computing"), ("script", "the script's own, such as reading data"), ("encode", "compressing gradients"),
          ("others", "waiting for slower trainers"),
          ("apply", "waiting for servers that apply"), ("wire", "waiting for messages on the wire"))


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.0f} ms"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Align columns to the right, except the last."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return ["  ".join([*(cell.rjust(width) for cell, width in zip(row[:-1], widths)), row[-1]]).rstrip() for row in (head, *rows)]


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _head(logs: Logs, figures: Figures) -> list[str]:
    restarts = f", started {logs.restarts + 1} times" if logs.restarts else ""
    steps = max([one.steps for one in figures.trainers], default=0)
    compress = f", compressed by {figures.compress}" if figures.compress != "none" else ""
    return [(f"{logs.folder}: mode {figures.mode.text}{compress}, {len(logs.trainers)} trainers, {len(logs.servers)} servers, "
             f"{steps} {'exchanges' if figures.mode.trains_copies and not figures.mode.is_lockstep else 'steps'} in "
             f"{_seconds(figures.seconds)}{restarts}"),
            *(f"  note: {remark}" for remark in logs.remarks), ""]


def _steps(figures: Figures) -> list[str]:
    step = figures.mean("step")
    what = "an exchange of several steps" if figures.mode.trains_copies else "a step"
    lines = [f"{what} takes {step:.3g} ms, of a mean trainer"]
    for part, words in _PARTS:
        share = figures.share(part)
        if part == "encode" and figures.compress == "none":
            continue
        lines.append(f"  {words:<40}{figures.mean(part):>10.3f} ms{share:>7.0%}  {'#' * round(30 * min(share, 1.0))}".rstrip())
    return [*lines, *_traffic(figures), ""]


_CLASSES = {"gradients": "dense gradients", "small_gradients": "small dense gradients", "compressed": "compressed gradients",
          "parameters": "parameters", "row_gradients": "gradients of rows", "rows": "rows", "keys": "keys",
          "bundles": "bundles of small messages", "others": "others"}


def _traffic(figures: Figures) -> list[str]:
    """A trainer's bytes and messages in a step, and the time that they take."""
    messages = figures.mean("messages")
    each = f", {figures.mean('moving') / messages * 1e3:.3g} us each" if messages else ""
    took = in_ms(figures.mean("moving"))
    lines = [f"  a trainer moves {in_bytes(figures.mean('bytes'))} in {messages:.0f} messages, and is {took} at it{each}"]
    found = [(_CLASSES[kind], *figures.traffic(kind)) for kind in TRAFFIC_CLASSES]
    parts = [f"{words} {in_bytes(bytes)} in {count:.3g}" for words, bytes, count in found if count]
    return [*lines, *([f"  of these: {', '.join(parts)}"] if parts else []), *_messages_of_tables(figures)]


def _messages_of_tables(figures: Figures) -> list[str]:
    """What each table costs in messages, where tables make most of them."""
    of_tables, count = sum(figures.traffic(kind)[1] for kind in ("rows", "keys", "row_gradients")), figures.table_count
    if count < _SOME_TABLES or of_tables < figures.mean("messages") / 2:
        return []
    return [(f"  {count} sparse tables make {of_tables:.0f} messages a step, {of_tables / count:.0f} each: fields that share one table of "
             f"the same width (with keys made different for each field) cost what one costs, so 2 tables in place of {count} make "
             f"{2 * of_tables / count:.0f}")]


def _trainers(figures: Figures) -> list[str]:
    rows = [[str(one.index), str(one.steps),
             *(f"{value:.3f}" for value in (one.compute, one.script, one.others, one.apply, one.wire, one.late)),
             one.host + _stands_still(one, figures)] for one in figures.all_trainers]
    return [*_table(["trainer", "steps", "computing ms", "script", "for others", "for apply", "wire", "late", "host"], rows), ""]


def _stands_still(one: Trainer, figures: Figures) -> str:
    return f": no step for {one.quiet:.0f} s" if one in figures.stalled else ""


def _servers(figures: Figures) -> list[str]:
    if not figures.servers:
        return []
    rows = [[str(one.index), str(one.updates), f"{one.apply:.3f}",
             f"{one.apply_all / 1e3 / figures.seconds:.0%}" if figures.seconds else "",
             f"{one.idle:.0%}", in_bytes(one.received), in_bytes(one.sent), f"{one.wait_share:.0%}", one.host] for one in figures.servers]
    return [*_table(["server", "updates", "apply ms", "busy", "idle", "received", "sent", "waited for", "host"], rows), ""]


def _staleness(figures: Figures) -> list[str]:
    all = sum(figures.staleness)
    if not any(figures.staleness[1:]) and not figures.dropped:
        return []
    bins = []
    for bin, count in enumerate(figures.staleness):
        least, most = staleness_range(bin)
        if count:
            bins.append(f"{least if least == most else f'{least}-{most}'}: {count / all:.0%}")
    dropped = f"; {figures.dropped} were dropped" if figures.dropped else ""
    return [f"gradients by the updates that came before them: {', '.join(bins)}{dropped}", ""]


def _skipped(figures: Figures) -> list[str]:
    if not figures.skipped:
        return []
    count = f"{figures.skipped} step" + "s" * (figures.skipped > 1)
    return [f"{count} of trainers left out (--on-nan skip), as gradients were NaN or infinite: --check-nan names the operator", ""]


def _tables(figures: Figures) -> list[str]:
    lines = []
    largest = sorted(figures.tables, key=lambda table: -table.bytes)[:_MOST_TABLES]
    for table in largest:
        keys = ", ".join(f"{key} ({count / table.updates:.0%})" if table.updates else str(key) for key, count in table.hot_keys)
        lines.append(f"table {table.name}: {table.rows} rows, {in_bytes(table.bytes)}; keys that most updates touch: {keys}")
        if disk := table.disk:
            updates, reads = max(table.updates, 1), max(disk.reads, 1)
            lines.append(f"  {disk.rows} rows lie on disk; {disk.found_in_memory / max(disk.looked_up, 1):.1%} of the keys found their "
                         f"row in memory; {disk.reads / updates:.0f} reads an update, {disk.reads_ahead / reads:.0%} ahead; "
                         f"{in_ms(disk.wait_ms / updates)} an update waiting for them")
    if len(figures.tables) > len(largest):
        lines.append(f"and {len(figures.tables) - len(largest)} smaller tables")
    return lines + [""] * bool(lines)


def report(logs: Logs) -> str:
    """Return the text of the whole page."""
    figures = figures_of(logs)
    lines = _head(logs, figures)
    if figures.trainers:
        lines += _steps(figures)
    lines += [*_trainers(figures), *_servers(figures), *_staleness(figures), *_skipped(figures), *_tables(figures)]
    return "\n".join([*lines, *(f"advice: {line}" for line in advice_of(figures))])


def as_json(logs: Logs) -> dict[str, Any]:
    """Return what ``--json`` prints: docs/json.md."""
    figures = figures_of(logs)
    parts = {part: {"ms": figures.mean(part), "share": figures.share(part)} for part, _ in _PARTS} if figures.trainers else {}
    return {"schema": 1, "folder": str(logs.folder), "mode": figures.mode.text, "compress": figures.compress,
            "compress_parameters": figures.compress_parameters, "restarts": logs.restarts, "seconds": figures.seconds,
            "notes": logs.remarks, "step_ms": figures.mean("step") if figures.trainers else None, "parts": parts,
            "trainers": [_trainer_as_json(one, figures) for one in figures.all_trainers],
            "servers": [{"index": one.index, "host": one.host, "updates": one.updates, "apply_ms": one.apply, "idle": one.idle,
                         "received_bytes": one.received, "sent_bytes": one.sent, "waited_for": one.wait_share} for one in figures.servers],
            "staleness": [{"from": staleness_range(bin)[0], "to": staleness_range(bin)[1], "gradients": count}
                          for bin, count in enumerate(figures.staleness) if count],
            "dropped": figures.dropped, "skipped": figures.skipped,
            "tables": [{"name": table.name, "rows": table.rows, "bytes": table.bytes, "updates": table.updates,
                        "hot_keys": [{"key": key, "updates": count} for key, count in table.hot_keys],
                        "disk": asdict(table.disk) if table.disk else None} for table in figures.tables],
            "advice": [{"text": one.text, "at_most": one.bound, "of": one.of} for one in all_advice(figures)]
            or [{"text": text, "at_most": None, "of": None} for text in advice_of(figures)]}


def _trainer_as_json(one: Trainer, figures: Figures) -> dict[str, Any]:
    times = {f"{part}_ms": getattr(one, part) for part in ("step", *(part for part, _ in _PARTS), "late", "moving")}
    classes = {kind: {"bytes": one.bytes_by_class.get(kind, 0.0), "messages": one.messages_by_class.get(kind, 0.0)}
               for kind in TRAFFIC_CLASSES}
    return {"index": one.index, "host": one.host, "steps": one.steps, **times, "bytes": one.bytes, "messages": one.messages,
            "traffic": classes, "doing": one.doing, "quiet_seconds": one.quiet, "is_stalled": one in figures.stalled,
            "has_ended": one.has_ended}


def command(folder: str, is_json: bool = False) -> int:
    """``trireme explain``: print the page, or the same as JSON; return the exit code."""
    if is_json:
        print_json(as_json(read(folder)))
    else:
        print(report(read(folder)))
    return 0
