"""Slurm on a cluster of namespaces: a controller on its first host, a daemon on each. See cluster.py.

    python tests/python/slurm_cluster.py 3 sbatch -N 3 -W job.sh

All that Slurm writes is in the hosts' own /run, so it ends with them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import cluster

_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "sinfo")
_READY = 20.0                          # seconds for all nodes to be idle
CONFIG = "/run/slurm/slurm.conf"
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

_SETTINGS = """\
ClusterName=test
SlurmctldHost={first}(10.99.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/run/munge/socket
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldLogFile=/run/slurm/slurmctld.log
SlurmdLogFile=/run/slurm/slurmd.log
SlurmdParameters=config_overrides
SlurmdTimeout={timeout}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=pmix
ReturnToService=2
KillWait=5
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

_START = """\
set -e
mkdir -p -m 755 /run/munge /run/slurm/state /run/slurm/spool
cp "$0/munge.key" /run/munge/key; chmod 400 /run/munge/key
cp "$0/slurm.conf" /run/slurm/slurm.conf
echo CgroupPlugin=cgroup/v1 >/run/slurm/cgroup.conf
munged --key-file=/run/munge/key --socket=/run/munge/socket --pid-file=/run/munge/pid --log-file=/run/munge/log \
    --seed-file=/run/munge/seed --num-threads=2
[ "$1" != first ] || slurmctld
slurmd
"""


def missing() -> str | None:
    """Return what is missing on this machine for it."""
    programs = [program for program in _PROGRAMS if not shutil.which(program, path=_PATH)]
    return f"no {', '.join(programs)}: deploy/setup.sh slurm" if programs else cluster.missing()


class Slurm:
    """Slurm on all hosts of a cluster; it ends with them."""

    def __init__(self, hosts: cluster.Cluster, cpus: int = 4, timeout: int = 10) -> None:
        self.hosts = hosts
        nodes = "\n".join(f"NodeName={name} NodeAddr=10.99.0.{number} CPUs={cpus}" for number, name in enumerate(hosts.names, 1))
        (hosts.folder / "munge.key").write_bytes(os.urandom(1024))
        (hosts.folder / "slurm.conf").write_text(_SETTINGS.format(first=hosts.names[0], nodes=nodes, timeout=timeout))
        for name in hosts.names:
            which = "first" if name == hosts.names[0] else "other"
            done = hosts.run([*self._environment(), "bash", "-c", _START, hosts.folder, which], name)
            assert done.returncode == 0, f"Slurm does not start on {name}: {done.stderr}"
        deadline = time.monotonic() + _READY
        while self.ask("sinfo", "-h", "-N", "-o", "%T").split() != ["idle"] * len(hosts.names):
            assert time.monotonic() < deadline, self.ask("sinfo", "-N", "-l")
            time.sleep(0.1)

    @staticmethod
    def _environment() -> list[str]:
        return ["env", f"PATH={_PATH}", f"SLURM_CONF={CONFIG}"]

    def command(self, command: list[object], folder: Path = cluster.ROOT) -> list[str]:
        """Return the command line that runs one of Slurm's programs on the first host."""
        return self.hosts.command([*self._environment(), *command], folder=folder)

    def ask(self, *command: object) -> str:
        """Run one of Slurm's programs; return what it says."""
        done = subprocess.run(self.command(list(command)), capture_output=True, text=True, timeout=30, check=False,
                              stdin=subprocess.DEVNULL)
        return done.stdout or done.stderr


if __name__ == "__main__":
    sys.exit(cluster.main(__doc__, missing(), lambda hosts, words: Slurm(hosts).command([*words], folder=Path.cwd())))
