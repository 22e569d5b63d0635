"""``trireme cat``, which prints files of stores, and ``trireme store``, the process beside a rank that opens them for the core."""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add_store_commands(commands: Any) -> None:
    """Add both to the command line."""
    cat = commands.add_parser("cat", help="print files, of stores too, unpacked",
                              description="Print files of s3://, gs://, hdfs:// or of this machine; .gz, .zst and .bz2 are unpacked.")
    cat.add_argument("names", metavar="NAME", nargs="+", help="a path or a URI; a pattern stands for the names that fit")
    cat.set_defaults(run=run_cat, parser=cat)
    store = commands.add_parser("store", help="open files of stores for a process of Trireme, which starts this command itself")
    store.set_defaults(run=run_store, parser=store)


def run_cat(options: argparse.Namespace) -> int:
    """Print the files, one after the other."""
    from ..stores.folders import glob
    from ..stores.names import PATTERN
    from ..stores.reading import packing, stream

    for name in options.names:
        for one in glob(name) if PATTERN.search(name) else [name]:
            for content in stream(one, kind=packing(one)):
                sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
    return 0


def run_store(options: argparse.Namespace) -> int:
    """Serve the process whose socket is the standard input."""
    from ..stores.serve import main

    main()
    return 0
