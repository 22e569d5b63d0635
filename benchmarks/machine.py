"""What the machine is and can do: names for a report, and machine.c built and run."""

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path


def describe() -> dict:
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {"cpu": model, "cpus": len(os.sched_getaffinity(0)), "load": round(os.getloadavg()[0], 2)}


def cpu_name() -> str:
    """Return the model's name with its family and number, which a virtual machine tells even where the name is general."""
    found = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
    return f"{found.get('model name', platform.machine())} (family {found.get('cpu family', '?')}, model {found.get('model', '?')})"


def _build(source: str, folder: str) -> Path:
    program = Path(folder) / "program"
    compiler = shutil.which("cc") or "gcc"
    subprocess.run([compiler, "-O3", "-march=native", "-pthread", Path(__file__).with_name(source), "-o", program, "-ldl"], check=True)
    return program


def round_trip_ns() -> int:
    """Return the nanoseconds in which a cache line goes from the first CPU of this process to the second and back (round_trip.c)."""
    with tempfile.TemporaryDirectory() as folder:
        return int(subprocess.run([_build("round_trip.c", folder), *map(str, cpus(2))], check=True, capture_output=True, text=True).stdout)


def measure(threads: int) -> dict:
    """Return gemm_gflops, triad_gbps and streams (machine.c) of so many threads, each on a core of its own."""
    import scipy_openblas32
    library = Path(scipy_openblas32.get_lib_dir()) / f"lib{scipy_openblas32.get_library()}.so"
    with tempfile.TemporaryDirectory() as folder:
        program = _build("machine.c", folder)
        found = subprocess.run([program, library, "scipy_", str(threads)], check=True, capture_output=True, text=True,
                               preexec_fn=lambda: os.sched_setaffinity(0, cpus(threads)))
    return json.loads(found.stdout)


def stream_gbps(power: dict, size: float) -> float:
    """Return the speed of streams over `size` bytes. Between two measured sizes it is that of the smaller one, which is faster."""
    fitting = [speed for measured, speed in power["streams"] if measured <= size]
    return fitting[-1] if fitting else power["streams"][0][1]


def cpus(threads: int) -> list[int]:
    """The CPUs that a measurement with so many threads may use."""
    return sorted(os.sched_getaffinity(0))[:threads]


def versions() -> dict:
    return {"python": platform.python_version(), "numpy": importlib.metadata.version("numpy"),
            "openblas": importlib.metadata.version("scipy-openblas32")}
