"""The rows of Trireme as one replica for each thread, by CompiledProgram.with_data_parallel."""

import trireme_rows
from trireme_rows import *                       # noqa: F403 - the rows by their names
from trireme_rows import version, wait           # noqa: F401


def prepare(name, row, threads):
    return trireme_rows.prepare(name, row, threads, replicas=threads)
