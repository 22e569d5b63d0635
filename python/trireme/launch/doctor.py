"""``trireme doctor``: checks this installation, and measures the connections between hosts."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..native import threads
from ..native.errors import TriremeError
from ..native.json_text import print_json
from ..native.precision import bfloat16_way
from . import mpi as mpis
from . import probe
from .mpi import LIBMPI, Layout
from .programs import server_program

_SHM, _TMP = 1 << 30, 100 << 20        # bytes that medium jobs need in /dev/shm and in the folder for temporary files
_FILES = 1024
# longest good path of the temporary folder, in bytes: MPI makes sockets far below it, and a socket's path may have 107
_PATH = 60


@dataclass
class Check:
    """One line of the table. `advice`: what to do if the finding is wrong."""

    what: str
    expected: str
    got: str
    advice: str = ""


def check_python() -> Check:
    is_good = sys.version_info >= (3, 11)
    return Check("Python", "3.11 or newer", platform.python_version(), "" if is_good else "make an environment of a newer Python")


def check_cpu() -> Check:
    try:
        flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")).split()
    except (OSError, StopIteration):
        flags = []
    known = [name for name in ("avx2", "fma", "avx512f") if name in flags]
    is_good = {"avx2", "fma"} <= set(known)
    return Check("processor", "x86-64 with AVX2, FMA", f"{platform.machine()} with {', '.join(known) or 'none of them'}",
                 "" if is_good else "everything runs, several times slower")


def check_threads() -> Check:
    allowed = _allowed_cores()
    expected = f"at most {allowed}: cores of this process"
    try:
        mine = threads.num_threads()
    except TriremeError as error:
        return Check("threads", expected, "none", str(error).splitlines()[0])
    advice = f"more threads than cores fight for them: TRIREME_NUM_THREADS={allowed}" if mine > allowed else ""
    return Check("threads", expected, str(mine), advice)


def _allowed_cores() -> int:
    """CPUs of this process, fewer where its control group has a quota."""
    cores = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cores = min(cores, max(1, round(int(quota) / int(period))))
    return cores


def check_blas() -> Check:
    expected = "a core that fits the processor"
    try:
        return Check("OpenBLAS", expected, threads.blas_core())
    except TriremeError as error:
        named = os.environ.get("OPENBLAS_CORETYPE")
        return Check("OpenBLAS", expected, str(error).splitlines()[0],
                     f"unset OPENBLAS_CORETYPE, which is {named!r}" if named else "pip install --force-reinstall scipy-openblas32")


def check_bfloat16() -> Check:
    """This finding is never wrong: Trireme does not need instructions that a processor lacks."""
    ways = {"amx_bf16": "AMX-BF16 tiles", "avx512_bf16": "AVX512_BF16 vectors", "float32": "float32 after rounding: no faster than float32"}
    return Check("bfloat16 products", "any of AMX-BF16, AVX512_BF16, float32", ways[bfloat16_way()])


def check_mpi(mpirun: str | None, way: str = "") -> Iterable[Check]:
    try:
        mpi = mpis.find(mpirun, way)
    except TriremeError as error:
        yield Check("mpirun", "Open MPI 5 or 4.1", "none", str(error))
        return
    version = ".".join(map(str, mpi.version))
    yield Check("mpirun", "Open MPI 5 or 4.1", f"{version}, {mpi.mpirun}")
    try:
        mpis.check_mixture(mpi, os.environ.get("LD_LIBRARY_PATH", ""))
        yield Check("its library", f"one {LIBMPI}", f"{mpi.libdir}/{LIBMPI}")
    except TriremeError as error:
        yield Check("its library", f"one {LIBMPI}", "two", str(error))


def check_server() -> Check:
    try:
        return Check("server program", "trireme-pserver", server_program())
    except TriremeError as error:
        return Check("server program", "trireme-pserver", "none", str(error))


def check_shared_memory() -> Check:
    expected = "1 GiB free, for servers' state and MPI"
    try:
        free = shutil.disk_usage("/dev/shm").free
    except OSError as error:
        return Check("/dev/shm", expected, error.strerror or "none", "mount a tmpfs there")
    if not os.access("/dev/shm", os.W_OK):
        return Check("/dev/shm", expected, "may not be written", "chmod 1777 /dev/shm")
    return Check("/dev/shm", expected, f"{free / (1 << 30):.1f} GiB free",
                 "" if free >= _SHM else "docker run --shm-size=2g, or mount -o remount,size=2g /dev/shm; small models need less")


def check_pages() -> Check:
    """This finding is never wrong: without huge pages on request tables are slower, and that is acceptable."""
    size = threads.table_page_bytes()
    got = f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB: look-ups of large tables are slower"
    return Check("pages of tables", "2 MiB, from Linux 6.1 on", got)


def check_temporary() -> Check:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    advice = ""
    if len(folder) > _PATH:
        advice = f"MPI's sockets lie below it and have no room for such a long name: TMPDIR=/tmp, not {folder}"
    elif free < _TMP:
        advice = f"make room in {folder}, or set TMPDIR"
    return Check("temporary files", "100 MiB free, a short path", f"{free / (1 << 30):.1f} GiB free in {folder}", advice)


def check_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Check("open files", f"at least {_FILES}", str(soft),
                 "" if soft >= _FILES else f"ulimit -n {min(hard, 65536) if hard > 0 else 65536}")


def check_memory() -> Check:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    is_good = limit == resource.RLIM_INFINITY
    return Check("address space", "unlimited", "unlimited" if is_good else f"{limit / (1 << 30):.1f} GiB",
                 "" if is_good else "ulimit -v unlimited: shared memory and threads' stacks count too")


def check_environment() -> Check:
    is_rank = [name for name in ("OMPI_COMM_WORLD_SIZE", "PMIX_RANK") if name in os.environ]
    return Check("environment", "outside of a job", f"{is_rank[0]} is set" if is_rank else "outside of a job",
                 "start jobs from outside of mpirun and srun" if is_rank else "")


def installation(mpirun: str | None = None, way: str = "") -> list[Check]:
    """Make all findings on this host."""
    checks: list[Callable[[], Check]] = [check_python, check_cpu, check_threads, check_blas, check_bfloat16, check_server,
                                         check_shared_memory, check_pages, check_temporary, check_files, check_memory, check_environment]
    return [*(check() for check in checks[:5]), *check_mpi(mpirun, way), *(check() for check in checks[5:])]


def table(checks: list[Check]) -> str:
    """Return the findings in columns; a line of advice follows each finding that has one."""
    rows = [("", "expected", "got"), *((check.what, check.expected, check.got) for check in checks)]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    lines = [f"{'':6}{rows[0][0]:{widths[0]}}  {rows[0][1]:{widths[1]}}  {rows[0][2]}"]
    for check in checks:
        mark = "WRONG" if check.advice else "ok"
        lines.append(f"{mark:6}{check.what:{widths[0]}}  {check.expected:{widths[1]}}  {check.got}")
        if check.advice:
            lines.append(f"{'':6}  -> {check.advice}")
    return "\n".join(lines)


def diagnose(layout: Layout, *, mpirun: str | None = None, slack: float = probe.SLACK, timeout: float | None = None,
             is_json: bool = False) -> int:
    """Print the findings. Return 0 when all is well, else 1. ``layout.trainers`` is the number of ranks to measure between. 0: one on
    each host, or two on a single host. ``is_json``: print an object at the end instead (docs/json.md).
    """
    def say(text: str) -> None:
        if not is_json:
            print(text, flush=True)

    checks = installation(mpirun, layout.way)
    say(table(checks))
    report, findings = _measured(layout, checks, mpirun, timeout, slack, say)
    if report:
        say("\n" + "\n".join(report.matrices()))
        say("\n" + "\n".join([f"WRONG {text}" for text in findings]
                             or [f"ok    {len(report.ways)} ways between {len(report.hosts)} ranks, all bytes right"]))
    is_well = not findings and not any(check.advice for check in checks)
    if is_json:
        print_json(as_json(checks, report, findings, is_well))
    return int(not is_well)


def _measured(layout: Layout, checks: list[Check], mpirun: str | None, timeout: float | None, slack: float,
              say: Callable[[str], None]) -> tuple[probe.Report | None, list[str]]:
    """Measure between the ranks. Return the report, None where nothing could be measured, and what is wrong."""
    if any(check.advice for check in checks if check.what in ("mpirun", "its library", "server program", "environment")):
        say("\nno job can be started; nothing was measured")
        return None, []
    count = len(layout.slots()) if layout.is_remote else 1
    ranks = layout.trainers or max(2, count)
    try:
        report = probe.run(Layout(0, ranks, layout.hosts, layout.hostfile, layout.ssh, transport=layout.transport), mpirun, timeout)
    except TriremeError as error:
        say(f"\nWRONG {error}")
        return None, [str(error)]
    return report, report.findings(slack)


def as_json(checks: list[Check], report: probe.Report | None, findings: list[str], is_well: bool) -> dict[str, Any]:
    """Return what ``--json`` prints: docs/json.md."""
    return {"schema": 1, "is_well": is_well,
            "checks": [{"what": check.what, "expected": check.expected, "got": check.got, "is_well": not check.advice,
                        "advice": check.advice} for check in checks],
            "hosts": report.hosts if report else [],
            "ways": [{"ranks": list(way.ranks), "latency_us": way.latency, "small_mb_s": way.small, "large_mb_s": way.large}
                     for way in (report.ways if report else [])],
            "findings": findings}
