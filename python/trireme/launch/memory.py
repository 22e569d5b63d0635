"""Ranks that the kernel has killed because their cgroup had no memory left. Where the kernel's counts cannot be read, nothing is
reported.
"""

from __future__ import annotations

from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_NONE = 1 << 60                        # bytes; a greater limit means no limit


class Kills:
    """Counts of the cgroups of ranks, from the moment when a rank was seen first. ``proc`` and ``root`` are the kernel's folders."""

    def __init__(self, proc: Path = Path("/proc"), root: Path = _ROOT) -> None:
        self._proc, self._root = proc, root
        self._of: dict[int, Path] = {}                 # rank -> the folder of its cgroup
        self._said: dict[Path, int] = {}               # how many of a cgroup's kills are told, or were before

    def watch(self, rank: int, pid: int) -> None:
        """Note that this process is that rank."""
        folder = cgroup_of(pid, "memory", self._proc, self._root)
        count = _count(folder)
        if count is not None:
            self._of[rank] = folder
            self._said.setdefault(folder, count)

    def why_gone(self, rank: int) -> str | None:
        """A rank has ended: return a message if the kernel killed it for memory. Of several ranks that end together, report as many as
        the kernel has counted.
        """
        folder = self._of.pop(rank, None)
        count = _count(folder)
        if folder is None or count is None or count <= self._said[folder]:
            return None
        self._said[folder] += 1
        limit = _limit(folder)
        text = f" is {limit / 1e6:.0f} MB" if limit is not None else " was not for it alone"
        return f"the kernel ended it for want of memory; the limit of its cgroup, {folder},{text}"


def cgroup_of(pid: int | str, controller: str, proc: Path = Path("/proc"), root: Path = _ROOT) -> Path:
    """Return the folder where the kernel counts and limits for a process. Version 1 of cgroups has one for each controller, version 2
    one for all.
    """
    try:
        lines = [line.split(":", 2) for line in (proc / str(pid) / "cgroup").read_text().splitlines()]
    except OSError:
        lines = []
    found = {name: path for _, names, path in lines for name in names.split(",")}
    folder = controller if controller in found else ""
    return root / folder / found.get(folder, "/").lstrip("/")


def _read(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text()
    except OSError:
        return ""


def _count(folder: Path | None) -> int | None:
    """Return how many processes of a cgroup the kernel has killed; None: the kernel does not say."""
    if folder is not None:
        for name in ("memory.events", "memory.oom_control"):
            for line in _read(folder, name).splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return None


def _limit(folder: Path) -> int | None:
    for name in ("memory.max", "memory.limit_in_bytes"):
        text = _read(folder, name).strip()
        if text.isdecimal() and int(text) < _NONE:
            return int(text)
    return None
