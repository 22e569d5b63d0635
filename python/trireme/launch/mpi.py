"""Finds mpirun and its libmpi, and makes the command line that each version needs.

Open MPI 5 (with ULFM) and 4.1 share their ABI, so the same programs run under both. But mpirun and the library must be of the same
version.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..native.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from . import fabric
from .network import network_of

LIBMPI = "libmpi.so.40"
BRING_ONE = "`pip install '.[mpi]'` in a clone of Trireme"
# If a host or the connection to it is gone, its ssh must not hang for ever.
SSH = "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=1 -o ServerAliveCountMax=4"


_HOST = re.compile(r"(?:[^\W-][\w.+\\@-]*@)?[^\W-][\w.-]*")


@dataclass(frozen=True)
class Mpi:
    """An installation of Open MPI."""

    mpirun: str
    version: tuple[int, ...]
    libdir: str                        # where its libmpi lies

    @property
    def major(self) -> int:
        return self.version[0]

    def __str__(self) -> str:
        return f"Open MPI {'.'.join(map(str, self.version))} ({self.mpirun}, {self.libdir}/{LIBMPI})"


def find(mpirun: str | None = None, way: str = "") -> Mpi:
    """Return the MPI to use: the requested one, else that of this environment, else that on the PATH. ``way``: the transport, as
    fabric.chosen says it."""
    path = _find_mpirun(mpirun)
    text = _ask(path, "--version")
    found = re.search(r"\((?:Open MPI|OpenRTE)\) (\d+(?:\.\d+)*)", text)      # 4.1's binaries other than mpirun call themselves OpenRTE
    if not found:
        raise UnsupportedError(f"{path} is not Open MPI's: `{path} --version` says {text.strip().splitlines()[:1]}")
    version = tuple(int(part) for part in found[1].split("."))
    if version < (4, 1):
        raise UnsupportedError(f"{path} is Open MPI {found[1]}; 4.1 or newer is needed. {BRING_ONE} brings one")
    mpi = Mpi(path, version, _find_libdir(path))
    _check_way(mpi, way)
    return mpi


def _check_way(mpi: Mpi, way: str) -> None:
    """Refuse a transport whose component this Open MPI lacks. An installation without `ompi_info` is not checked."""
    needed, info = fabric.needed(way), Path(mpi.mpirun).with_name("ompi_info")
    if needed and info.exists() and needed[0] not in _ask(str(info), "--parsable"):
        raise UnsupportedError(f"--transport {way}: {mpi} was built without {needed[1]}. Use --transport tcp, or name the mpirun of an "
                               f"Open MPI with {needed[1]} by --mpirun (on a cluster: load the site's module)")


def _find_mpirun(asked: str | None) -> str:
    if asked:
        path = shutil.which(asked)
        if path is None:
            raise NotFoundError(f"there is no program {asked!r}")
        return path
    own = Path(sys.prefix) / "bin" / "mpirun"
    path = str(own) if os.access(own, os.X_OK) else shutil.which("mpirun")
    if path is None:
        raise NotFoundError("no mpirun: neither in this Python's environment nor on the PATH; "
                            f"{BRING_ONE} brings one, --mpirun names one")
    return path


def _ask(*command: str) -> str:
    env = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    env.setdefault("HOME", "/tmp")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=env, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnsupportedError(f"{' '.join(command)} does not run: {error}") from None
    return done.stdout + done.stderr


def _find_libdir(mpirun: str) -> str:
    """The folder of the libmpi that belongs to an mpirun: beside it, or beside the libraries that it loads itself."""
    looked: dict[str, None] = {}
    for folder in itertools.chain(_beside(mpirun), _beside(str(Path(mpirun).resolve())), _linked(mpirun)):
        if (folder / LIBMPI).exists():
            return str(folder)
        looked[str(folder)] = None
    raise NotFoundError(f"there is no {LIBMPI} that belongs to {mpirun}; looked in {', '.join(looked)}")


def _beside(mpirun: str) -> list[Path]:
    return [Path(mpirun).parent.parent / name for name in ("lib", "lib64")]


def _linked(mpirun: str) -> Iterator[Path]:
    """Return the folders of the libraries that mpirun loads. This is the last resort: it takes as long as everything else here."""
    for line in _ask("ldd", mpirun).splitlines():
        found = re.match(r"\s*lib(?:open-rte|open-pal|prrte)\S* => (\S+)/[^/]+ ", line)
        if found:
            yield Path(found[1])


def check_mixture(mpi: Mpi, library_path: str) -> None:
    """Refuse a library path that leads to another installation's libmpi."""
    own = Path(mpi.libdir).resolve()
    for folder in filter(None, library_path.split(":")):
        other = Path(folder)
        if (other / LIBMPI).exists() and other.resolve() != own:
            raise UnsupportedError(
                f"LD_LIBRARY_PATH leads to {other / LIBMPI}, but the mpirun to be used is {mpi.mpirun}, whose library is "
                f"{own / LIBMPI}: take {folder} out of LD_LIBRARY_PATH, or name its mpirun by --mpirun")
        if own == other.resolve():
            return                                     # our folder comes first


@dataclass(frozen=True)
class Layout:
    """The programs to start, and the hosts to start them on."""

    servers: int
    trainers: int
    hosts: str | None = None           # "h1,h2:4"
    hostfile: str | None = None
    ssh: str = SSH                     # with its options; or what is called alike
    standbys: int = 0                    # on each host
    replicas: int = 0                  # replicas of each server, on other hosts
    transport: str = "auto"            # of fabric.TRANSPORTS

    @property
    def is_remote(self) -> bool:
        return bool(self.hosts or self.hostfile)

    @property
    def way(self) -> str:
        """The transport of messages between ranks: see fabric.py."""
        return fabric.chosen(self.transport, self.is_remote)

    @property
    def all_standbys(self) -> int:
        return self.standbys * (len(self.slots()) if self.is_remote else 1)

    @property
    def all_replicas(self) -> int:
        """The number of replicas. Each host gets as many as the largest number of servers on any host. So every server finds a replica
        on another host.
        """
        hosts = len(self.slots()) if self.is_remote else 1
        return hosts * self._most_servers() if self.replicas and hosts > 1 else 0

    def _most_servers(self) -> int:
        return max(Counter(itertools.islice(self._turns(), self.servers)).values(), default=0)

    def _turns(self) -> Iterator[str]:
        """Return an endless sequence of hosts for servers and then trainers. In each turn every host that still has a free slot takes
        one rank. When all slots are taken, they are counted anew.
        """
        slots: dict[str, int] = {}
        for word in self.slots().values():
            host, _, count = word.partition(":")
            slots[host] = int(count or 1)
        for turn in itertools.cycle(range(max(slots.values()))):
            yield from (host for host, count in slots.items() if turn < count)

    def _server_places(self) -> list[tuple[str | None, int]]:
        """Return the places of the servers: hosts, each with the number of neighbouring ranks that it takes. The host is None if the job
        has just this host.
        """
        if not self.is_remote or not self.servers:
            return [(None, self.servers)] * bool(self.servers)
        return [(host, len(list(same))) for host, same in itertools.groupby(itertools.islice(self._turns(), self.servers))]

    def _trainer_places(self) -> list[tuple[str | None, int]]:
        """Return the places of the trainers. Those of one host have neighbouring numbers, since a host group is made of them."""
        if not self.is_remote:
            return [(None, self.trainers)]
        return list(Counter(itertools.islice(self._turns(), self.servers, self.servers + self.trainers)).items())

    def host_groups(self) -> str:
        """Return the sizes of the trainers' host groups, such as ``4,4,2``."""
        return ",".join(str(count) for _, count in self._trainer_places())

    def places_on_each(self, count: int) -> list[tuple[str | None, int]]:
        """Return the hosts of the ranks that wait on every host, ``count`` on each."""
        if not self.is_remote:
            return [(None, count)]
        return [(host, count) for host in dict.fromkeys(itertools.islice(self._turns(), len(self.slots())))]

    def all_places(self) -> list[list[tuple[str | None, int]]]:
        """Return the places of servers, trainers, standbys and replicas, in the order of the job's ranks."""
        return [self._server_places(), self._trainer_places(),
                self.places_on_each(self.standbys) if self.servers and self.standbys else [],
                self.places_on_each(self.all_replicas // len(self.slots())) if self.all_replicas else []]

    def hosts_of_ranks(self) -> list[str]:
        """Return the name of each rank's host; "" if the job has just this host."""
        return [(host or "").rpartition("@")[2] for places in self.all_places() for host, count in places for _ in range(count)]

    def slots(self) -> dict[str, str]:
        """Return the hosts with their arguments for ``--host``: the name, and the slots if they are given."""
        if self.hostfile:
            try:
                lines = Path(self.hostfile).read_text(errors="replace").splitlines()
            except OSError as error:
                raise NotFoundError(f"trireme launch: cannot read the hosts of {self.hostfile}: {error.strerror}") from None
            words = [re.sub(r"^\s*(\S+)(?:\s.*?\bslots\s*=\s*(\d+))?.*$", r"\1:\2", line.split("#")[0]).strip(" :")
                     for line in lines]
        else:
            words = [word.strip() for word in (self.hosts or "").split(",")]
        found: dict[str, str] = {}
        for word in filter(None, words):
            host, _, count = word.partition(":")
            name = host.rpartition("@")[2]
            if not name:
                raise InvalidArgumentError(f"trireme launch: host {word!r} has no name")
            if not _HOST.fullmatch(host):              # ssh, srun and mpirun would read it as an option, or as several words
                raise InvalidArgumentError(f"trireme launch: {host!r} is no name of a host: letters, digits, '.', '_' and '-' are "
                                           "possible, '-' not at the beginning, and USER@ before it")
            if count and not (count.isdecimal() and int(count)):
                raise InvalidArgumentError(f"trireme launch: host {word!r}: {count!r} is no number of slots")
            if name in found:                          # as MPI reads the file: each line adds slots
                host, _, more = found[name].partition(":")
                word = f"{host}:{int(count or 1) + int(more or 1)}"
            found[name] = word
        if not found:
            raise NotFoundError(f"trireme launch: {self.hostfile or '--hosts'} names no host")
        return found


def command_line(mpi: Mpi, layout: Layout, server: Sequence[str], trainer: Sequence[str], exported: Iterable[str] = (),
                 scratch: str | None = None, shared: str | None = None, standby: Sequence[str] = (),
                 wrapper: Sequence[str] = ()) -> list[str]:
    """Return the mpirun line. ``standby`` is the program of standbys, if it is not the servers' program; ``wrapper`` starts each rank's
    program. ``exported`` names the variables that other hosts need; MPI keeps its files in the folders ``scratch`` and ``shared`` (in
    memory)."""
    exports = [word for name in sorted(exported) for word in ("-x", name)] if layout.is_remote else []
    line = [mpi.mpirun, *_flags(mpi, layout)]
    if wrapper and mpi.major >= 5:
        # The launcher sees exit codes itself. When mpirun ends a job because of one, ranks that still join print pages about that.
        # Without the launcher only mpirun's own exit code tells of a failure.
        line += ["--runtime-options", "error-nonzero-status=false"]
    if scratch and mpi.major >= 5:
        line += ["--prtemca", "prte_tmpdir_base", scratch]
    elif scratch:
        line += ["--mca", "orte_tmpdir_base", scratch]
    if shared:
        line += ["--mca", "btl_sm_backing_directory" if mpi.major >= 5 else "btl_vader_backing_directory", shared]
    # One application for each group of neighbouring ranks on one host: mpirun's own mapping would begin again at the first host with each
    # kind.
    programs = (server, trainer, standby or [*server, "--standby"], [*server, "--replica"])
    applications = [[*(["--host", f"{host}:{count}"] if host else []), *exports, "-np", str(count), *wrapper, *program]
                    for places, program in zip(layout.all_places(), programs) for host, count in places]
    return line + [word for application in applications for word in (":", *application)][1:]


def _flags(mpi: Mpi, layout: Layout) -> list[str]:
    flags = ["--oversubscribe", "--bind-to", "none"]
    if os.geteuid() == 0:
        flags.append("--allow-run-as-root")
    # Version 5 reports deaths. Both versions let living ranks go on until they have told what happened. With UCX and libfabric 5 has no
    # such reports: it reads fields that their requests do not have, and crashes. There mpirun ends all ranks when one dies.
    if mpi.major < 5:
        flags += ["--enable-recovery"]
    elif fabric.needed(layout.way) is None:
        flags += ["--with-ft", "ulfm"]
    for key, value in (*fabric.settings(layout.way), ("mpi_yield_when_idle", "1")):
        flags += ["--mca", key, value]
    if mpi.major < 5:
        flags += ["--mca", "odls_base_sigkill_timeout", "0"]
    if layout.is_remote:
        option, starter = ("--prtemca", "ssh") if mpi.major >= 5 else ("--mca", "rsh")
        # Ignore a scheduler on this machine: the user names the hosts, and the agent reaches them.
        settings = (("plm", starter), ("ras", "^slurm"), (f"plm_{starter}_agent", layout.ssh), ("oob_tcp_keepalive_time", "3"),
                    ("oob_tcp_keepalive_intvl", "1"), ("oob_tcp_keepalive_probes", "3"))
        flags += [word for pair in settings for word in (option, *pair)]
        flags += _network_flags(mpi, layout)
    return flags


def _network_flags(mpi: Mpi, layout: Layout) -> list[str]:
    """Return the network that MPI should use, if one network reaches all hosts and the user has named none."""
    if any(name.startswith(("OMPI_MCA_", "PRTE_MCA_")) and name.endswith(("_if_include", "_if_exclude")) for name in os.environ):
        return []
    network = network_of(layout.slots())
    if network is None:
        return []
    daemons = ["--prtemca", "prte_if_include"] if mpi.major >= 5 else ["--mca", "oob_tcp_if_include"]
    return [*daemons, network, "--mca", "btl_tcp_if_include", network]
