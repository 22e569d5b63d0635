"""``trireme simulate``: measure, simulate, and print a table.

    train.py alone: a step takes 12.3 ms; 7.4 MB of parameters, sgd; 20 steps were measured

    simulated, mode sync, 3.12 GB/s and 20 us a host, 8 trainers a host
    trainers  servers  a step  efficiency  ...
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from ..job import compression
from ..job.mode import Mode
from ..job.mode import parse as parse_mode
from ..launch.units import in_bytes, in_ms
from ..observe.charts import line_chart
from .calibrate import calibrate
from .costs import Costs, cpu_name, default_path, load, save
from .facts import Facts
from .probe import run_script_apart
from .schedule import Options
from .simulation import Cluster, Result, alone, best_servers, check, simulate

_MOST_SERVERS = 256
_HEAD = ("trainers", "servers", "a step", "efficiency", "messages", "bytes", "a trainer has", "a server has", "limited by")


def command(options: argparse.Namespace) -> int:
    """Run the command line."""
    path = Path(options.costs) if options.costs else default_path()
    if options.calibrate:
        save(calibrate(lambda text: print(text, file=sys.stderr, flush=True)), path)
        print(f"costs of {cpu_name()}: {path}")
        if not options.script:
            return 0
    costs = load(path)
    copies = max(min(options.trainers_per_host, (os.cpu_count() or 1) // options.threads), 1)
    facts = run_script_apart(options.script, options.args, steps=options.steps, threads=options.threads, copies=copies)
    mode, how = _mode(options, facts), _options(options, facts)
    bandwidth, latency = options.link
    cluster = Cluster(bandwidth, latency, options.trainers_per_host, options.servers_per_host, options.cores_per_host,
                      options.servers_on == "trainers", options.server_threads)
    check(cluster)
    for line in _about(options, facts, costs, mode, how):
        print(line)
    for name in ("computing", "looking", "updating", "script"):
        setattr(facts, name, getattr(facts, name) / options.speed)
    results, one = [], _job(options, facts, costs, cluster, mode, how, 1)
    print(_row(_HEAD))
    for trainers in options.trainers:
        found = one if trainers == 1 else _job(options, facts, costs, cluster, mode, how, trainers)
        results.append(found)
        print(_row(_cells(found, one)), flush=True)
    _write(options, facts, results, one)
    return 0


def _mode(options: argparse.Namespace, facts: Facts) -> Mode:
    return parse_mode(options.mode or facts.mode)


def _options(options: argparse.Namespace, facts: Facts) -> Options:
    method = compression.parse(options.compress or facts.compress)
    return Options(method, compression.parse_parameters(options.compress_parameters or facts.compress_parameters) == "bf16")


def _job(options: argparse.Namespace, facts: Facts, costs: Costs, cluster: Cluster, mode: Mode, how: Options, trainers: int) -> Result:
    if options.servers:
        return simulate(facts, costs, cluster, mode, how, trainers, options.servers)
    return best_servers(facts, costs, cluster, mode, how, trainers, _MOST_SERVERS)


def _about(options: argparse.Namespace, facts: Facts, costs: Costs, mode: Mode, how: Options) -> list[str]:
    tables = "".join(f", table {one.name}: {one.keys:.0f} keys a step, {one.row_bytes} B a row" for one in facts.tables)
    lines = [(f"{options.script} alone: a step takes {in_ms(1e3 * alone(facts))}, {in_ms(1e3 * facts.computing)} of it to the gradients; "
             f"{in_bytes(facts.dense_bytes)} of parameters, {facts.optimizer}{tables}; {facts.steps} steps were measured")]
    if costs.cpu != cpu_name():
        lines.append(f"note: the costs are those of {costs.cpu}, and the script was measured on {cpu_name()}")
    speed, latency = options.link
    beside = "beside trainers" if options.servers_on == "trainers" else f"{options.servers_per_host} a host"
    rounded = "bf16" if how.rounds else "none"
    return [*lines, "", (f"simulated: mode {mode.text}, gradients {how.compress}, parameters {rounded}; a link of {8e-9 * speed:g} Gbit/s "
                         f"and {1e6 * latency:g} us a host, trainers {options.trainers_per_host} a host, servers {beside}")]


def _cells(found: Result, one: Result) -> list[str]:
    efficiency = found.rate / (found.trainers * one.rate)
    return [str(found.trainers), str(found.servers), in_ms(1e3 * found.step), f"{efficiency:.1%}", f"{found.messages:.0f}",
            in_bytes(found.bytes), in_bytes(found.memory.trainer), in_bytes(found.memory.server),
            f"{found.bottleneck} ({found.load:.0%} busy)"]


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return "  ".join([*(cell.rjust(13 if index > 1 else 8) for index, cell in enumerate(cells[:-1])), cells[-1]])


def _write(options: argparse.Namespace, facts: Facts, results: list[Result], one: Result) -> None:
    if options.json:
        rows = [{**asdict(found), "efficiency": found.rate / (found.trainers * one.rate)} for found in results]
        Path(options.json).write_text(json.dumps({"script": options.script, "alone": alone(facts), "results": rows}, indent=1) + "\n",
                                      encoding="utf-8")
    if options.plot:
        curves = {"simulated": [(float(found.trainers), found.rate / one.rate) for found in results],
                  "linear": [(float(found.trainers), float(found.trainers)) for found in results]}
        Path(options.plot).write_text(line_chart(curves, "trainers", "times one trainer's steps a second, simulated", from_zero=True),
                                      encoding="utf-8")
