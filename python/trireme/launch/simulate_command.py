"""The options of ``trireme simulate``; ``trireme.simulate`` does the work."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from typing import Any

from .option_types import number_from, text_of, whole_from

_BITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_LINK = re.compile(r"([\d.]+)([kMGT]?)bit,([\d.]+)(ns|us|ms|s)")


def counts(text: str) -> list[int]:
    """Return numbers of trainers, such as ``8,32``.

    >>> counts("8,32")
    [8, 32]
    """
    return [whole_from(1)(word) for word in text.split(",")]


def servers(text: str) -> int:
    """Return a number of servers; 0 for ``auto``."""
    return 0 if text == "auto" else whole_from(1)(text)


def link(text: str) -> tuple[float, float]:
    """Return bytes a second and seconds of latency of a link, such as ``25Gbit,20us``.

    >>> link("8Gbit,1s")
    (1000000000.0, 1.0)
    """
    found = _LINK.fullmatch(text)
    try:
        speed, latency = (float(found[1]) * _BITS[found[2]] / 8, float(found[3]) * _SECONDS[found[4]]) if found else (0.0, 0.0)
    except ValueError:
        speed = 0.0
    if not speed > 0:
        raise argparse.ArgumentTypeError(f"{text!r}; a speed and a latency such as 25Gbit,20us are possible")
    return speed, latency


def add_simulate(commands: Any) -> None:
    parser = commands.add_parser(
        "simulate", help="predict how a job behaves with many ranks",
        description="Run a script alone for some steps, then simulate its job with many ranks on a network: the time of a step, what "
                    "limits it, messages, bytes and memory. Every trainer is taken to have batches as large as those of the script alone.")
    parser.add_argument("--calibrate", action="store_true",
                        help="measure what messages and bytes cost on this machine, and keep it in a file (about two minutes)")
    parser.add_argument("--costs", type=text_of("file"), metavar="FILE",
                        help="the file of these costs (default: one for this processor in the user's cache folder)")
    parser.add_argument("--trainers", type=counts, default=[1, 2, 4, 8, 16, 32], metavar="N,N",
                        help="numbers of trainers (default: 1,2,4,8,16,32)")
    parser.add_argument("--servers", type=servers, default=0, metavar="S",
                        help="parameter servers, or auto: the fewest with which a job is as fast as with more (default: auto)")
    parser.add_argument("--link", type=link, default=(25e9 / 8, 20e-6), metavar="SPEED,LATENCY",
                        help="of each host, in both directions (default: 25Gbit,20us)")
    parser.add_argument("--trainers-per-host", type=whole_from(1), default=1, metavar="N", help="(default: 1)")
    parser.add_argument("--servers-per-host", type=whole_from(1), default=1, metavar="N", help="(default: 1)")
    parser.add_argument("--server-threads", type=whole_from(1), default=1, metavar="N",
                        help="of a server; they share adding, updating and looking rows up (default: 1)")
    parser.add_argument("--servers-on", choices=["own", "trainers"], default="own",
                        help="hosts of their own, or those of trainers (default: own)")
    parser.add_argument("--cores-per-host", type=whole_from(0), default=0, metavar="N",
                        help="cores that a host's ranks share (default: one for each thread that computes)")
    parser.add_argument("--threads", type=whole_from(1), default=1, metavar="N", help="of a trainer (default: 1)")
    parser.add_argument("--steps", type=whole_from(5), default=20, metavar="N", help="of the script that are measured (default: 20)")
    parser.add_argument("--speed", type=number_from(0, True), default=1.0, metavar="FACTOR",
                        help="how many times as fast as here a trainer of the cluster computes (default: 1)")
    parser.add_argument("--mode", type=text_of("mode"), metavar="MODE", help="consistency (default: what the script says, else sync)")
    parser.add_argument("--compress", type=text_of("method"), metavar="METHOD",
                        help="how gradients travel (default: what the script says, else none)")
    parser.add_argument("--compress-parameters", type=text_of("method"), metavar="METHOD",
                        help="how parameters come back (default: what the script says, else none)")
    parser.add_argument("--plot", type=text_of("file"), metavar="FILE", help="write the curves as SVG")
    parser.add_argument("--json", type=text_of("file"), metavar="FILE", help="write all figures as JSON")
    parser.add_argument("script", nargs="?", help="Python script that trains by Executor.run")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(run=run_simulate, parser=parser)


def run_simulate(options: argparse.Namespace) -> int:
    if not options.script and not options.calibrate:
        options.parser.error("the following arguments are required: script (or --calibrate)")
    if behind := options.parser.own_among(options.args):
        print(f"trireme simulate: {', '.join(behind)} after {options.script} goes to the script; an option of this command stands before "
              "it",
              file=sys.stderr)
    code: int = importlib.import_module("trireme.simulate.command").command(options)
    return code
