"""``trireme top DIR``: a job's ranks in a terminal, as they go."""

from __future__ import annotations

import time
from typing import Any

from ..launch.units import in_bytes
from ..native.optional import load
from .view import Rank, View, view_of

_OLD = 30.0                            # seconds without a line after which a rank's numbers are grey


def table_of(view: View) -> Any:
    """Return the table, a renderable of rich."""
    tables = load("rich.table", "trireme top")
    facts = [f"step {view.step}", f"{view.rate:.1f} steps/s", f"mode {view.logs.mode}"]
    facts += [f"loss {view.loss:.4g}"] if view.loss is not None else []
    facts += [f"staleness {view.staleness}"] if view.staleness and not view.logs.policy.is_lockstep else []
    facts += [f"{view.logs.restarts} restart{'s' * (view.logs.restarts != 1)}"] if view.logs.restarts else []
    table = tables.Table(title="  ".join(facts), title_justify="left", box=load("rich.box", "trireme top").SIMPLE, pad_edge=False,
                         padding=(0, 1, 0, 0))
    for name in ("rank", "host", "does"):
        table.add_column(name, no_wrap=name == "rank", overflow="fold")          # a narrow terminal costs words, and no figures
    for name in ("step", "rate", "waits", "memory", "sent", "got"):
        table.add_column(name, justify="right", no_wrap=True)
    last = view.waited_for
    for rank in view.ranks:
        table.add_row(*_row(rank, rank is last, _step_of(rank, view)), style="dim" if rank.has_ended or rank.age > _OLD else None)
    if last is not None:
        table.caption = f"* the others wait for {last.name}: trireme explain says why"
    return table


def _step_of(rank: Rank, view: View) -> int:
    """Return the step to show. Where no trainer goes ahead the ranks are at one step, and their lines are written at different moments: the
    newest line tells it."""
    if not view.logs.policy.has_common_steps or view.logs.policy.backups or rank.has_ended or rank.age > _OLD or not rank.rate:
        return rank.step
    return max(one.step for one in view.of(rank.role))


def _row(rank: Rank, is_last: bool, step: int) -> list[str]:
    if rank.has_ended:
        does = "has left"
    elif rank.role == "server":
        does = "applies" if rank.wait < 0.5 else "waits for gradients"
    else:
        does = {"wait": "waits for servers", "script": "script", "compute": "computes", "start": "starts",
                "left": "has left"}.get(rank.doing, rank.doing)
    return [rank.name + " *" * is_last, rank.host, does, str(step), f"{rank.rate:.1f}", f"{rank.wait:.0%}",
            "?" if rank.memory is None else in_bytes(rank.memory), in_bytes(rank.sent), in_bytes(rank.received)]


def command(folder: str, seconds: float, once: bool) -> int:
    """Show the job until it has ended, or Ctrl-C; ``once`` prints it as it is."""
    console = load("rich.console", "trireme top").Console()
    if once or not console.is_terminal:
        console.print(table_of(view_of(folder)))
        return 0
    view = view_of(folder)
    with load("rich.live", "trireme top").Live(table_of(view), console=console, refresh_per_second=4) as live:
        while not all(rank.has_ended for rank in view.of("trainer")) or not view.ranks:
            time.sleep(seconds)
            view = view_of(folder)
            live.update(table_of(view))
    return 0
