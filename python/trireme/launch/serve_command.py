"""The command ``trireme serve``: its options."""

from __future__ import annotations

import argparse
import os
from typing import Any

from .option_types import number_from, text_of, whole_from


def add_serve_command(commands: Any) -> None:
    parser = commands.add_parser(
        "serve", help="answer requests to a model over HTTP",
        description="Serve a model of save_inference_model, or one that a training exports to, over the Open Inference Protocol "
                    "(KServe v2): HTTP with JSON and with binary tensors, and gRPC. SIGTERM ends it when the requests that are there are "
                    "answered.")
    parser.add_argument("model", metavar="MODEL", type=text_of("folder"), help="its folder")
    parser.add_argument("--port", type=whole_from(0), default=8000, metavar="N", help="(default: 8000; 0: any)")
    parser.add_argument("--grpc-port", type=whole_from(0), metavar="N", help="answer over gRPC, too, at this port (default: not; 0: any)")
    parser.add_argument("--host", type=text_of("address"), default="127.0.0.1", metavar="A",
                        help="address to listen on (default: 127.0.0.1, this host alone; 0.0.0.0 is every network)")
    parser.add_argument("--name", type=text_of("name"), help="of the model in requests (default: the folder's)")
    parser.add_argument("--follow", type=number_from(0, True), metavar="S", help="look every so many seconds for a newer export")
    parser.add_argument("--wait", type=number_from(0), default=0.0, metavar="S",
                        help="wait so many seconds for a model to appear in the folder (default: 0)")
    parser.add_argument("--threads", type=whole_from(1), metavar="N", help="runs at a time (default: the number of CPUs)")
    parser.add_argument("--batch-size", type=whole_from(1), default=1, metavar="N",
                        help="put requests together up to so many rows a run (default: 1, each request alone)")
    parser.add_argument("--batch-wait", type=number_from(0), default=0.0, metavar="MS",
                        help="let a request wait so many milliseconds for others (default: 0, while all threads are busy)")
    add_limits(parser)
    parser.set_defaults(run=run_serve, parser=parser)


def add_limits(parser: argparse.ArgumentParser) -> None:
    """What clients may take."""
    parser.add_argument("--connections", type=whole_from(1), default=256, metavar="N", help="open at a time (default: 256)")
    parser.add_argument("--request-mib", type=number_from(0, True), default=64.0, metavar="N",
                        help="size of a request at most (default: 64)")
    parser.add_argument("--memory-mib", type=number_from(0, True), default=1024.0, metavar="N",
                        help="memory of all requests at most (default: 1024)")
    parser.add_argument("--timeout", type=number_from(0, True), default=30.0, metavar="S",
                        help="a request has arrived after so many seconds, and its answer is read (default: 30)")
    parser.add_argument("--drain", type=number_from(0), default=30.0, metavar="S",
                        help="after SIGTERM answer the requests that are there for so many seconds at most (default: 30)")


def run_serve(options: argparse.Namespace) -> int:
    from ..model_server.server import Options, command
    from ..model_server.service import Limits

    limits = Limits(threads=options.threads or len(os.sched_getaffinity(0)), batch_size=options.batch_size,
                    batch_wait=options.batch_wait / 1e3, connections=options.connections,
                    request_bytes=int(options.request_mib * (1 << 20)), memory_bytes=int(options.memory_mib * (1 << 20)),
                    patience=options.timeout, drain=options.drain)
    return command(Options(options.model, options.host, options.port, options.grpc_port, options.name, options.follow, options.wait,
                           limits))
