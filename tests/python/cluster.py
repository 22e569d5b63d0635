"""A cluster on one machine: each host has its own network, name, processes, /tmp, /dev/shm and sshd.

    python tests/python/cluster.py 3 trireme launch --hostfile {hostfile} --ssh '{ssh}' --servers 2 --trainers 2 train.py

runs a command on the first of three hosts. It needs root, and leaves with 77 where that or a program is missing.

Hosts are namespaces without names: they end with the process that made them, however it ends, and all that they mounted,
their links and their processes with them. Traffic stays on pairs of veth between the hosts and a bridge, in a namespace
of its own: there is no way out. Nothing of this machine's /root/.ssh, /etc/ssh or /run is read or written.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SSHD = "/usr/sbin/sshd"
_TOOLS = ("ip", "tc", "unshare", "nsenter", "setpriv", "ssh", "ssh-keygen", SSHD)
_UP = 10.0                             # seconds for a host to come up
_PREFIX = "trireme-cluster-"
_WITH_US = ["setpriv", "--pdeathsig", "KILL"]

_INIT = r"""
# pid 1 of a host: $1 folder of the cluster, $2 name, $3... folders of this machine that the hosts share
set -e
folder=$1 name=$2; shift 2
hostname "$name"
mount --bind "$folder/hosts" /etc/hosts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=1777 tmpfs "$folder/$name/tmp"
for shared in "$@"; do case $shared in /tmp/*)
    mkdir -p "$folder/$name$shared"
    mount --rbind "$shared" "$folder/$name$shared"
esac; done
sshd_config=$(cat "$folder/$name/sshd_config")
mount --rbind "$folder/$name/tmp" /tmp
mount -t tmpfs -o mode=755 tmpfs /run
mount -t sysfs sysfs /sys              # of this host's network
mkdir /run/sshd
echo "$sshd_config" > /run/sshd_config
"""


def missing() -> str | None:
    """Return what is missing on this machine for a cluster."""
    if os.geteuid():
        return "a cluster of namespaces needs root"
    tools = [tool for tool in _TOOLS if not shutil.which(tool)]
    if tools:
        return f"a cluster of namespaces needs {', '.join(tools)}: deploy/setup.sh hosts"
    tried = subprocess.run(["unshare", "--net", "--uts", "--mount", "--pid", "--ipc", "--fork", "true"],
                           capture_output=True, text=True, check=False, timeout=10)
    return f"no namespaces here: {tried.stderr.strip()}" if tried.returncode else None


@dataclass
class Host:
    name: str
    number: int
    outer: subprocess.Popen[str]       # `unshare`, with whose end the host ends
    init: int                          # its pid 1, as seen from here


class Cluster:
    """Hosts h1, h2, ... with the addresses 10.99.0.1, ... The folders in `shared` are the same on all of them."""

    def __init__(self, count: int, shared: tuple[Path, ...] = (ROOT,), slots: int = 4) -> None:
        _remove_stale()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self.shared = [self.folder, *(path.resolve() for path in shared)]
        self.hosts: dict[str, Host] = {}
        self.names = [f"h{number + 1}" for number in range(count)]
        self.hostfile = self.folder / "hostfile"
        self.hostfile.write_text("".join(f"{name} slots={slots}\n" for name in self.names))
        self.ssh = f"ssh -F {self.folder}/ssh_config"
        self._switch: subprocess.Popen[str] | None = None

    def __enter__(self) -> Cluster:
        try:
            self._write_files()
            self._switch = subprocess.Popen([*_WITH_US, "unshare", "--net", "sh", "-c", "echo up; exec sleep infinity"],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
            assert self._switch.stdout and self._switch.stdout.readline() == "up\n", "there is no switch"
            self._in_switch("ip", "link", "add", "bridge", "type", "bridge")
            self._in_switch("ip", "link", "set", "bridge", "up")
            for number, name in enumerate(self.names, 1):
                self._start(name, number)
            for name in self.names:
                self._await_ssh(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts.values():               # `unshare` waits for it, so the CPU time of all that ran there counts as ours
            with contextlib.suppress(ProcessLookupError):
                os.kill(host.init or host.outer.pid, signal.SIGKILL)
        if self._switch:
            self._switch.kill()
        for process in [host.outer for host in self.hosts.values()] + [self._switch] * bool(self._switch):
            process.wait(10)
            if process.stdout:
                process.stdout.close()
        deadline = time.monotonic() + 5
        while any(Path(f"/proc/{host.init}").exists() for host in self.hosts.values()) and time.monotonic() < deadline:
            time.sleep(0.01)
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- hosts ------------------------------------------------------------------------------------------------------

    def _write_files(self) -> None:
        self._write("hosts", "127.0.0.1 localhost", *(f"10.99.0.{i} {name}" for i, name in enumerate(self.names, 1)))
        self._make_key("id")
        self._write("ssh_config", "Host h*", "User root", f"IdentityFile {self.folder}/id", "IdentitiesOnly yes",
                    f"UserKnownHostsFile {self.folder}/known_hosts", "StrictHostKeyChecking yes", "LogLevel ERROR")
        for name in self.names:
            (self.folder / name / "tmp").mkdir(parents=True)
            self._make_key(f"{name}/key")
            self._write(f"{name}/sshd_config", f"HostKey {self.folder}/{name}/key",
                        f"AuthorizedKeysFile {self.folder}/id.pub", "PermitRootLogin prohibit-password",
                        "PasswordAuthentication no", "KbdInteractiveAuthentication no", "UsePAM no", "StrictModes no",
                        "PidFile none", "MaxStartups 100")
        self._write("known_hosts", *(f"{name} {(self.folder / name / 'key.pub').read_text().strip()}" for name in self.names))

    def _write(self, name: str, *lines: str) -> None:
        (self.folder / name).write_text("\n".join(lines) + "\n")

    def _make_key(self, name: str) -> None:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", self.folder / name], check=True, timeout=10)

    def _start(self, name: str, number: int) -> None:
        script = f"{_INIT}{SSHD} -f /run/sshd_config -E {self.folder}/{name}/sshd.log\necho up\nwhile :; do sleep 3600 & wait; done\n"
        outer = subprocess.Popen(
            [*_WITH_US, "unshare", "--net", "--uts", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc",
             "bash", "-c", script, "init", self.folder, name, *self.shared],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.hosts[name] = Host(name, number, outer, 0)
        assert outer.stdout and outer.stdout.readline() == "up\n", f"host {name} did not come up"
        init = int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[0])
        self.hosts[name].init = init
        self._in_switch("ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", str(init))
        self._in_switch("ip", "link", "set", f"v{number}", "master", "bridge", "up")
        for words in ("link set lo up", f"addr add 10.99.0.{number}/24 dev eth0", "link set eth0 up"):
            self._in_host(name, "ip", *words.split())

    def _await_ssh(self, name: str) -> None:
        deadline = time.monotonic() + _UP
        while self.run([*shlex.split(self.ssh), name, "true"], host=self.names[0]).returncode:
            assert time.monotonic() < deadline, f"no ssh to {name}: {(self.folder / name / 'sshd.log').read_text()}"
            time.sleep(0.05)

    def _in_switch(self, *command: str) -> None:
        assert self._switch
        subprocess.run(["nsenter", "-t", str(self._switch.pid), "-n", *command], check=True, timeout=10)

    def _in_host(self, name: str, *command: str) -> None:
        subprocess.run(["nsenter", "-t", str(self.hosts[name].init), "-n", *command], check=True, timeout=10)

    # -- what runs on them -----------------------------------------------------------------------------------------

    def command(self, command: list[object], host: str = "h1", folder: Path = ROOT) -> list[str]:
        """Return the command line that runs another one on a host, in a folder."""
        return ["nsenter", "-t", str(self.hosts[host].init), "-n", "-u", "-m", "-p", "-i", "--", "sh", "-c",
                'cd "$0" && exec "$@"', str(folder), *map(str, command)]

    def run(self, command: list[object], host: str = "h1", timeout: float = 30) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(command, host), capture_output=True, text=True, timeout=timeout, check=False,
                              stdin=subprocess.DEVNULL)

    def processes(self, host: str) -> dict[int, str]:
        """The command lines of what runs on a host, but for pid 1 and its sshd; by their pids there."""
        listed = self.run(["ps", "-e", "-o", "pid=,ppid=,stat=,args=", "--cols", "400"], host).stdout
        found = {}
        for line in listed.splitlines():
            pid, _, state, text = line.split(None, 3)
            if pid != "1" and state[0] != "Z" and not text.startswith(("sshd", SSHD, "ps ")):
                found[int(pid)] = text
        return found

    def files(self, host: str) -> set[str]:
        """What lies in a host's own /tmp and /dev/shm."""
        shared = " ".join(f"-path {path} -prune -o" for path in self.shared)
        return set(self.run(["sh", "-c", f"find /tmp /dev/shm -mindepth 1 {shared} -not -type d -print"], host).stdout.split())

    # -- mishaps -----------------------------------------------------------------------------------------------------

    def cut(self, host: str) -> None:
        """Pull the cable."""
        self._in_switch("ip", "link", "set", f"v{self.hosts[host].number}", "down")

    def heal(self, host: str) -> None:
        self._in_switch("ip", "link", "set", f"v{self.hosts[host].number}", "up")

    def power_off(self, host: str) -> None:
        os.kill(self.hosts[host].init, signal.SIGKILL)

    def limit(self, host: str, mbit: int) -> None:
        """Limit a host's link to so many Mbit/s each way."""
        shape = ["root", "tbf", "rate", f"{mbit}mbit", "burst", "64kb", "latency", "50ms"]
        self._in_switch("tc", "qdisc", "replace", "dev", f"v{self.hosts[host].number}", *shape)
        self._in_host(host, "tc", "qdisc", "replace", "dev", "eth0", *shape)

    def unlimit(self, host: str) -> None:
        self._in_switch("tc", "qdisc", "del", "dev", f"v{self.hosts[host].number}", "root")
        self._in_host(host, "tc", "qdisc", "del", "dev", "eth0", "root")


def _remove_stale() -> None:
    """Remove the folders of those that were killed, and their hosts, if one has outlived them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        if Path("/proc", folder.name.removeprefix(_PREFIX).split("-")[0]).exists():
            continue
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.fsencode(folder) in (process / "cmdline").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def _leave(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def main(usage: str | None, reason: str | None, command: Callable[[Cluster, list[str]], list[str]]) -> int:
    """Run what `command` makes of the words after the first, which is the number of hosts; `reason`: why it cannot be here."""
    if len(sys.argv) < 3 or not sys.argv[1].isdigit():
        print(usage, file=sys.stderr)
        return 2
    if reason:
        print(f"{Path(sys.argv[0]).stem}: {reason}", file=sys.stderr)
        return 77
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    with Cluster(int(sys.argv[1]), (ROOT, Path.cwd())) as hosts:
        return subprocess.call(command(hosts, sys.argv[2:]))


def _on_first(hosts: Cluster, words: list[str]) -> list[str]:
    return hosts.command([word.replace("{hostfile}", str(hosts.hostfile)).replace("{ssh}", hosts.ssh) for word in words],
                         folder=Path.cwd())


if __name__ == "__main__":
    sys.exit(main(__doc__, missing(), _on_first))
