"""The process beside this one that opens files of stores for the core (``stores/serve.py``): the command that starts it."""

from __future__ import annotations

import functools
import os
import sys


@functools.cache
def command() -> str:
    """Return the shell command that starts the process with this interpreter and this package."""
    import shlex

    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return f'PYTHONPATH={shlex.quote(root)}"${{PYTHONPATH:+:$PYTHONPATH}}" exec {shlex.quote(sys.executable)} -m trireme.stores.serve'


def prepare() -> None:
    """Tell the core how to start the process, and let the process have the environment of now."""
    from .._core import ffi, lib                           # the launcher, which needs `command`, does not load the core

    lib.tr_store_set_command(ffi.new("char[]", os.fsencode(os.environ.get("TRIREME_STORE_COMMAND") or command())))
