"""Slurm: the nodes that it has given a job, and how the launcher reaches them without ssh.

Open MPI has its own method to start daemons under Slurm, which is not used. That method puts all daemons into one step of Slurm, which
ends all of them when one ends, and it starts whatever `prted` is on the PATH.
"""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..native.errors import InvalidArgumentError

# Called as ssh is, by the launcher and by mpirun.
SRUN = shlex.join([sys.executable, "-I", "-S", str(Path(__file__).with_name("srun.py"))])

_MOST = 1 << 16                        # nodes
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")
_COUNT = re.compile(r"(\d{1,9})(?:\(x(\d{1,9})\))?")


@dataclass(frozen=True)
class Allocation:
    """The job's allocation, as Slurm's variables describe it."""

    job: str
    nodes: str                         # "n[01-03],gpu7"
    tasks: str                         # tasks of each node: "2(x3),1"; or nothing

    def slots(self) -> dict[str, int]:
        """Return the nodes, and the number of tasks on each."""
        names = expand_nodes(self.nodes)
        counts = expand_counts(self.tasks) if self.tasks else [1] * len(names)
        if len(counts) != len(names):
            raise InvalidArgumentError(f"trireme launch: Slurm names {len(names)} nodes, {self.nodes!r}, and the tasks of {len(counts)}, "
                                       f"{self.tasks!r}")
        return {name: max(1, count) for name, count in zip(names, counts)}

    def hosts(self) -> str:
        """Return the nodes in the form of ``--hosts``."""
        return ",".join(f"{name}:{count}" for name, count in self.slots().items())

    def has(self, names: Iterable[str]) -> bool:
        return set(names) <= set(self.slots())

    def __str__(self) -> str:
        return f"Slurm's job {self.job}, nodes {self.nodes}" + (f", tasks {self.tasks}" if self.tasks else "")


def allocation(environ: Mapping[str, str]) -> Allocation | None:
    """Return the allocation that this process is in, if it has other nodes than this host. None: there is none."""
    job, nodes, is_step = environ.get("SLURM_JOB_ID"), environ.get("SLURM_JOB_NODELIST"), "SLURM_STEP_ID" in environ
    if not job or not nodes or _is_here(expand_nodes(nodes), environ):
        return None
    if is_step and environ.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        raise InvalidArgumentError(f"trireme launch: srun has started it {environ['SLURM_STEP_NUM_TASKS']} times, and each would start "
                                   "a job of its own: start it once, in a batch script or a shell of salloc, without srun")
    # Inside a step, the variables of the step count.
    return Allocation(job, nodes, "" if is_step else environ.get("SLURM_TASKS_PER_NODE", ""))


def _is_here(names: list[str], environ: Mapping[str, str]) -> bool:
    """Return whether the allocation is this node alone. Slurm's daemon says so to the processes that it starts. A shell of salloc stays on
    the host where salloc was called."""
    is_ours = "SLURMD_NODENAME" in environ or socket.gethostname().split(".")[0] == names[0].split(".")[0]
    return len(names) == 1 and is_ours


def has_srun() -> bool:
    return shutil.which("srun") is not None


# -- its lists -------------------------------------------------------------------------------------------------------


def expand_nodes(text: str) -> list[str]:
    """Return the names that ``n[01-03,7],gpu1`` stands for."""
    names: dict[str, None] = {}
    for word in _split(text):
        parts = [_expand_part(text, part) for part in re.split(r"(\[[^\[\]]*\])", word) if part]
        for name in itertools.islice(itertools.product(*parts), _MOST + 1):
            names["".join(name)] = None
            if len(names) > _MOST:
                raise _wrong("nodes", text, f"has more than {_MOST} of them")
    return list(names)


def _split(text: str) -> Iterator[str]:
    """Split at commas, except inside brackets."""
    words = re.findall(r"(?:[^,\[\]\s]|\[[^\[\]]*\])+", text)
    if not words or ",".join(words) != text:
        raise _wrong("nodes", text, "is none")
    return iter(words)


def _expand_part(text: str, part: str) -> list[str]:
    """Return a bracket's numbers, as wide as the first of each range; for any other part, the part itself."""
    if not part.startswith("["):
        return [part]
    found: list[str] = []
    for word in part[1:-1].split(","):
        numbers = _RANGE.fullmatch(word)
        if not numbers:
            raise _wrong("nodes", text, f"has {word!r} where a number or a range is expected")
        first, last = int(numbers[1]), int(numbers[2] or numbers[1])
        if last < first or last - first + len(found) >= _MOST:
            raise _wrong("nodes", text, f"has the range {word}; at most {_MOST} nodes, upwards, are possible")
        found += [str(number).zfill(len(numbers[1])) for number in range(first, last + 1)]
    return found


def expand_counts(text: str) -> list[int]:
    """Return the numbers that ``2(x3),1`` stands for."""
    counts: list[int] = []
    for word in text.split(","):
        found = _COUNT.fullmatch(word)
        if not found or len(counts) + int(found[2] or 1) > _MOST:
            raise _wrong("tasks", text, f"has {word!r} where NUMBER or NUMBER(xTIMES) is expected, for at most {_MOST} nodes")
        counts += [int(found[1])] * int(found[2] or 1)
    return counts


def _wrong(what: str, text: str, why: str) -> InvalidArgumentError:
    shown = text if len(text) < 200 else f"{text[:200]}..."
    return InvalidArgumentError(f"trireme launch: Slurm's list of {what}, {shown!r}, {why}; --hosts names the hosts instead")
