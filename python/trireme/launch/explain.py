"""``trireme explain DIR``: where a job's steps spent their time, who was waited for, and one line of advice.

    job, mode sync: 4 trainers, 2 servers, 1000 steps in 5.1 s

    a step takes 5.07 ms        ms   share
    computing                 0.08    1.6 %
    ...
    advice: trainer 1 is 3.4x slower than the median, ...
"""

from __future__ import annotations

from collections.abc import Sequence

from .advice import _bytes, advice_of
from .figures import Figures, figures_of
from .logs import Logs, read
from .progress import staleness_range

_PARTS = (("compute", "computing"), ("script", "the script's own, such as reading data"), ("encode", "compressing gradients"),
          ("others", "waiting for slower trainers"),
          ("apply", "waiting for servers that apply"), ("wire", "waiting for messages on the wire"))


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.0f} ms"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns to the right, but for the last."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return ["  ".join([*(cell.rjust(width) for cell, width in zip(row[:-1], widths)), row[-1]]).rstrip() for row in (head, *rows)]


def _head(logs: Logs, figures: Figures) -> list[str]:
    restarts = f", started {logs.restarts + 1} times" if logs.restarts else ""
    steps = max([one.steps for one in figures.trainers], default=0)
    compress = f", compressed by {figures.compress}" if figures.compress != "none" else ""
    return [f"{logs.folder}: mode {figures.mode}{compress}, {len(logs.trainers)} trainers, {len(logs.servers)} servers, "
            f"{steps} {'exchanges' if figures.kind == 'geo' else 'steps'} in {_seconds(figures.seconds)}{restarts}",
            *(f"  note: {remark}" for remark in logs.remarks), ""]


def _steps(figures: Figures) -> list[str]:
    step = figures.mean("step")
    what = "an exchange of several steps" if figures.kind == "geo" else "a step"
    lines = [f"{what} takes {step:.3g} ms, of a mean trainer"]
    for part, words in _PARTS:
        share = figures.share(part)
        if part == "encode" and figures.compress == "none":
            continue
        lines.append(f"  {words:<40}{figures.mean(part):>10.3f} ms{share:>7.0%}  {'#' * round(30 * min(share, 1.0))}".rstrip())
    return [*lines, f"  and {_bytes(figures.mean('bytes'))} in {figures.mean('messages'):.0f} messages", ""]


def _trainers(figures: Figures) -> list[str]:
    rows = [[str(one.index), str(one.steps), *(f"{value:.3f}" for value in (one.compute, one.script, one.others, one.apply, one.wire, one.late)),
             one.host] for one in figures.trainers]
    return [*_table(["trainer", "steps", "computing ms", "script", "for others", "for apply", "wire", "late", "host"], rows), ""]


def _servers(figures: Figures) -> list[str]:
    if not figures.servers:
        return []
    rows = [[str(one.index), str(one.updates), f"{one.apply:.3f}", f"{one.apply_all / 1e3 / figures.seconds:.0%}" if figures.seconds else "",
             _bytes(one.received), _bytes(one.sent), f"{one.wait_share:.0%}", one.host] for one in figures.servers]
    return [*_table(["server", "updates", "apply ms", "busy", "received", "sent", "waited for", "host"], rows), ""]


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


def _tables(figures: Figures) -> list[str]:
    lines = []
    for name, rows, bytes, hot, updates in figures.tables:
        keys = ", ".join(f"{key} ({count / updates:.0%})" if updates else str(key) for key, count in hot)
        lines.append(f"table {name}: {rows} rows, {_bytes(bytes)}; keys that most updates touch: {keys}")
    return lines + [""] * bool(lines)


def report(logs: Logs) -> str:
    """Return the whole text."""
    figures = figures_of(logs)
    lines = _head(logs, figures)
    if figures.trainers:
        lines += [*_steps(figures), *_trainers(figures), *_servers(figures), *_staleness(figures), *_tables(figures)]
    return "\n".join([*lines, f"advice: {advice_of(figures)}"])


def command(folder: str) -> int:
    """``trireme explain``: print it; return the exit code."""
    print(report(read(folder)))
    return 0


__all__ = ["command", "report"]
