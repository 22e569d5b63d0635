"""``trireme plot DIR``: one HTML file with pictures of a run, made from its logs."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..launch.advice import advice_of
from ..launch.figures import Figures, figures_of
from ..launch.logs import Line, Log, Logs, read
from ..launch.numbers import number_of, numbers_of
from ..launch.progress import add_bins, staleness_range
from ..native.files import new_file
from .charts import line_chart, stacked_bars
from .view import totals

_PARTS = (("computing", "compute"), ("the script's own", "script"), ("compressing", "encode"), ("waiting for slower trainers", "others"),
          ("waiting for servers that apply", "apply"), ("waiting for the wire", "wire"))
_STYLE = """body{font:15px/1.5 sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:#222}
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}
table{border-collapse:collapse}td,th{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:right}
td:first-child,th:first-child{text-align:left}
figure{margin:1em 0}.note{color:#666}li{margin:.3em 0}svg{width:100%;height:auto}"""


def report(folder: str) -> str:
    """Return the report of a job's logs as HTML. NotFoundError: there are none."""
    logs = read(Path(folder))
    figures = figures_of(logs)
    begin = min((number_of(log.joined.get("t_s")) for log in logs.trainers.values() if log.joined), default=0.0)
    sections = [("The loss", _curves(logs, begin, "trainer", _loss, "seconds since the start", "loss")),
                ("Steps a second", _rates(logs, begin, "trainer", "steps", "steps a second")),
                ("What a step is made of", _parts(figures)),
                ("Share of the time that trainers wait", _shares(logs, begin)),
                ("Updates a second", _rates(logs, begin, "server", "updates", "updates a second")),
                ("Staleness: gradients by updates that came between", _staleness(logs)),
                ("Bytes a second", _rates(logs, begin, "trainer", ("sent_bytes", "received_bytes"), "bytes a second"))]
    title = _title(logs, begin)
    body = [f"<h1>{escape(title)}</h1>", _facts(logs, figures), _advice(logs, figures)]
    body += [f"<h2>{escape(title)}</h2><figure>{picture}</figure>" for title, picture in sections if picture]
    body += [_events(logs, begin)]
    return (f"<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{escape(title)}</title><style>{_STYLE}</style></head>"
            f"<body>{''.join(body)}</body></html>\n")


def _title(logs: Logs, begin: float) -> str:
    """Return the command, the hosts and the date; the folder where the command is not known."""
    parts: list[Any] = next((line["command"] for line in logs.launcher if isinstance(line.get("command"), list)), [])
    words = [str(part) for part in parts]
    words = words[words.index(":") + 1:] if ":" in words else words
    script = next((i for i, word in enumerate(words) if word.endswith(".py")), 0)
    what = shlex.join(words[script:]) or str(logs.folder)
    hosts = list(dict.fromkeys(log.host for log in (*logs.trainers.values(), *logs.servers.values())))
    where = ", ".join(hosts[:4]) + (f" and {len(hosts) - 4} more" if len(hosts) > 4 else "")
    when = time.strftime(", %Y-%m-%d %H:%M", time.localtime(begin)) if 0 < begin < 1e11 else ""
    return f"{what} on {where}{when}"


def command(folder: str, out: str) -> int:
    text = report(folder)
    with new_file(out) as file:
        file.write(text.encode())
    print(f"the report is {out}")
    return 0


def _facts(logs: Logs, figures: Figures) -> str:
    rows = [("logs", str(logs.folder)), ("mode", logs.mode), ("trainers", str(len(logs.trainers))), ("servers", str(len(logs.servers))),
            ("steps", str(max([one.steps for one in figures.all_trainers], default=0))), ("seconds", f"{figures.seconds:.1f}"),
            ("compression", logs.compress), ("restarts", str(logs.restarts))]
    notes = "".join(f"<p class=\"note\">{escape(remark)}</p>" for remark in logs.remarks)
    return "<table>" + "".join(f"<tr><td>{name}</td><td>{escape(value)}</td></tr>" for name, value in rows) + "</table>" + notes


def _advice(logs: Logs, figures: Figures) -> str:
    found = advice_of(figures) if figures.all_trainers else []
    lines = "".join(f"<li>{escape(str(one))}</li>" for one in found)
    return f"<h2>Advice</h2><ul>{lines}</ul>" if lines else ""


def _of(logs: Logs, role: str) -> list[tuple[str, Log]]:
    group = logs.trainers if role == "trainer" else logs.servers
    return [(f"{role} {index}", log) for index, log in sorted(group.items())]


def _loss(line: Line) -> float | None:
    return number_of(line["loss"]) if isinstance(line.get("loss"), (int, float)) else None


def _curves(logs: Logs, begin: float, role: str, value_of: Callable[[Line], float | None], x_label: str, y_label: str) -> str:
    curves = {name: [(number_of(line.get("t_s")) - begin, value) for line in totals(log) if (value := value_of(line)) is not None]
              for name, log in _of(logs, role)}
    return line_chart(curves, x_label, y_label)


def _changes(log: Log, begin: float, fields: tuple[str, ...]) -> list[tuple[float, float]]:
    """How fast a sum grows, from line to line."""
    points = []
    lines = [line for line in totals(log) if number_of(line.get("t_s")) > 0]
    for early, late in pairwise([log.joined, *lines]):
        seconds = number_of(late.get("t_s")) - number_of(early.get("t_s"))
        if seconds > 0.2:                              # the summary comes right after a line
            change = sum(number_of(late.get(name)) - number_of(early.get(name)) for name in fields)
            points.append((number_of(late.get("t_s")) - begin, change / seconds))
    return points


def _rates(logs: Logs, begin: float, role: str, fields: str | tuple[str, ...], y_label: str) -> str:
    names = (fields,) if isinstance(fields, str) else fields
    return line_chart({name: _changes(log, begin, names) for name, log in _of(logs, role)}, "seconds since the start", y_label,
                      from_zero=True)


def _waits(log: Log, begin: float) -> list[tuple[float, float]]:
    """The share of waiting in the steps that ended between two lines. A wait counts when it ends, so it is compared with steps and not with
    seconds."""
    points, before = [], log.joined
    for line in totals(log):
        steps, waited = (number_of(line.get(name)) - number_of(before.get(name)) for name in ("step_ms", "wait_ms"))
        if steps > 0:
            points.append((number_of(line.get("t_s")) - begin, min(1.0, max(0.0, waited / steps))))
            before = line
    return points


def _shares(logs: Logs, begin: float) -> str:
    curves = {name: _waits(log, begin) for name, log in _of(logs, "trainer")}
    return line_chart(curves, "seconds since the start", "share of the time", from_zero=True)


def _parts(figures: Figures) -> str:
    rows = [(f"trainer {one.index}", {name: max(0.0, getattr(one, field)) for name, field in _PARTS if getattr(one, field) > 0})
            for one in figures.all_trainers]
    return stacked_bars(rows, "ms")


def _staleness(logs: Logs) -> str:
    bins = add_bins([[int(n) for n in numbers_of(log.totals.get("staleness"))]
                     for log in logs.servers.values() if log.totals.get("staleness")])
    if sum(bins) == 0 or sum(bins[1:]) == 0:
        return ""
    rows = []
    for i, count in enumerate(bins):
        low, high = staleness_range(i)
        if count:
            rows.append((str(low) if low == high else f"{low} to {high}", {"gradients": float(count)}))
    return stacked_bars(rows, "gradients")


def _facts_of(line: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in line.items() if key not in ("t_s", "event"))


def _events(logs: Logs, begin: float) -> str:
    found = [(number_of(line.get("t_s")) - begin, log.name, line) for log in (*logs.trainers.values(), *logs.servers.values())
             for line in log.lines
             if line.get("event") in ("checkpoint", "died", "nan", "took_place", "failed")]
    found += [(number_of(line.get("t_s")) - begin, "launcher", line) for line in logs.launcher if line.get("event") == "restart"]
    if not found:
        return ""
    rows = "".join(f"<tr><td>{seconds:.1f} s</td><td>{escape(name)}</td><td>{escape(str(line.get('event')))}</td><td "
                   f"style=\"text-align:left\">{escape(_facts_of(line))}</td></tr>"
                   for seconds, name, line in sorted(found, key=lambda one: one[0]))
    return f"<h2>What happened</h2><table><tr><th>when</th><th>who</th><th>what</th><th></th></tr>{rows}</table>"
