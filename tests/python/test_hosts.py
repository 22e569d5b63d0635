"""Jobs on several hosts, which are namespaces of this machine: see cluster.py."""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cluster
import pytest
from host_support import SHARED, SLACK, OnHosts, assert_same, fresh_mark, three_hosts
from job_support import (LIMIT, MPIS, ROW_SETS, SCRIPT, alone, assert_same_tables, assert_within, each_mpi, environment, job_lines,
                         launch, launch_command, launch_under_mpi, needs_mpi)

from trireme.launch import cli
from trireme.errors import NotFoundError
from trireme.launch import advice, fabric, hosts, supervisor
from trireme.launch.figures import figures_of
from trireme.launch.logs import read as read_logs
from trireme.launch.mpi import Layout, command_line
from trireme.launch.network import network_of
from trireme.launch.states import Checkpoints

pytestmark = pytest.mark.mpi


# -- names --------------------------------------------------------------------------------------------------------


def test_hosts_of_a_list_and_of_a_file(tmp_path):
    assert Layout(1, 1, hosts="h1,h2:4,root@h3,h1").slots() == {"h1": "h1:2", "h2": "h2:4", "h3": "root@h3"}
    (tmp_path / "hosts").write_text("# ours\nh1 slots=2\n\n  h2   # the big one\nh1\nh3 max_slots=9 slots = 8\n")
    assert Layout(1, 1, hostfile=str(tmp_path / "hosts")).slots() == {"h1": "h1:3", "h2": "h2", "h3": "h3:8"}


def test_a_hostfile_without_hosts(tmp_path):
    (tmp_path / "hosts").write_text("# none\n")
    with pytest.raises(NotFoundError, match="hosts names no host"):
        Layout(1, 1, hostfile=str(tmp_path / "hosts")).slots()
    with pytest.raises(NotFoundError, match="cannot read the hosts of /no/hosts: No such file"):
        Layout(1, 1, hostfile="/no/hosts").slots()


def test_this_host_is_known_by_each_of_its_names():
    assert hosts.is_here("localhost") and hosts.is_here("127.0.0.1")
    assert not hosts.is_here("192.0.2.1") and not hosts.is_here("no-such-host.invalid")


@needs_mpi
def test_ssh_is_bounded_whatever_is_asked_for(capsys):
    assert cli.main(["launch", "--dry-run", "--hosts", "a,b", "--ssh", "ssh -p 2222", str(SCRIPT)]) == 0
    assert "'ssh -p 2222 -o BatchMode=yes" in capsys.readouterr().out
    for mpi in MPIS.values():
        words = command_line(mpi, Layout(1, 1, hosts="a,b"), ["s"], ["t"])
        assert "ServerAliveInterval" in words[words.index("plm_ssh_agent" if mpi.major >= 5 else "plm_rsh_agent") + 1]


@needs_mpi
def test_a_host_that_cannot_be_reached_is_named(capsys, tmp_path):
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho 'ssh: no route to it' >&2; exit 255\n")
    ssh.chmod(0o755)
    assert cli.main(["launch", "--hosts", "192.0.2.1", "--ssh", str(ssh), str(SCRIPT)]) == 2
    assert "host 192.0.2.1: ssh ended with exit code 255: ssh: no route to it" in capsys.readouterr().err


@needs_mpi
@pytest.mark.parametrize("ssh, text",
                         [("no-such-ssh -p 22", "host 192.0.2.1: 'no-such-ssh', which is to reach it, cannot be started: No such file"),
                                       ("'ssh", "--ssh \"'ssh\": No closing quotation"), (" ", "--ssh ' ': this is no command")])
def test_an_ssh_that_reaches_no_host_is_named(ssh, text, capsys):
    assert cli.main(["launch", "--hosts", "192.0.2.1", "--ssh", ssh, str(SCRIPT)]) == 2
    assert text in capsys.readouterr().err
    assert cli.main(["doctor", "--hosts", "192.0.2.1", "--ssh", ssh]) in (1, 2)
    assert text in "".join(capsys.readouterr())


# -- three hosts -----------------------------------------------------------------------------------------------------


class Job(OnHosts):
    """A job under ``trireme launch`` on the hosts of a cluster, started on its first one."""

    def __init__(self, hosts, *args, version=None, servers=2, trainers=2, restarts=0, replicas=0,
                 standbys_for="all", script=SCRIPT, way="auto", options=(), env=None):
        super().__init__(hosts)
        command = launch_command(servers, trainers, *args, version=version, script=script, options=(
            "--hostfile", hosts.hostfile, "--ssh", hosts.ssh, "--timeout", 100, "--restarts", restarts, "--replicas", replicas,
            "--standbys-for", standbys_for, "--transport", way, *options))
        with self.output.open("w") as output:          # a pipe would be held by an ssh that outlives the rest
            self.process = subprocess.Popen(hosts.command(command), env=env or environment(), stdin=subprocess.DEVNULL,
                                            stdout=output, stderr=subprocess.STDOUT)

    def is_running(self):
        return self.process.poll() is None

    def end(self, seconds):
        """Return the exit code and the output."""
        text = self.await_end(seconds)
        return self.process.returncode, text


@pytest.fixture(scope="module")
def three():
    with three_hosts(cluster.missing()) as found:
        yield found


@pytest.fixture
def mark(three):
    return fresh_mark(three)


def assert_trains_as_on_one_host(three, version, tmp_path, way="tcp", words="over TCP"):
    """``way`` and ``words``: which one messages take, and how the job's first line says it."""
    job = Job(three, "--steps", 12, "--optimizer", "adam", "--out", three.folder / "r.npz", version=version, way=way)
    code, text = job.end(60)
    assert code == 0, text
    assert re.search(rf"^trireme launch: 2 servers, 2 trainers, .*, {words}$", text, re.M), text
    launch(2, 2, "--steps", 12, "--optimizer", "adam", "--out", tmp_path / "r.npz")
    assert_same(three.folder / "r.npz", tmp_path / "r.npz")
    job.assert_nothing_left()


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_cluster_ends_with_its_process(number, three):
    """Beside another one, which does not notice."""
    command = [sys.executable, cluster.__file__, "2", "sh", "-c", "echo up; exec sleep 4711"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "up\n"
        folder, = Path(tempfile.gettempdir()).glob(f"trireme-cluster-{other.pid}-*")
        other.send_signal(number)
        other.wait(LIMIT)
    deadline = time.monotonic() + SLACK
    while running(str(folder), "sleep\0004711") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(str(folder), "sleep\0004711")
    assert three.run(["hostname"], "h2").stdout == "h2\n"
    with cluster.Cluster(1):
        assert not folder.exists()


def running(*words):
    """The processes of this machine that have one of these on their command lines."""
    def command(pid):
        try:
            return (pid / "cmdline").read_text(errors="replace")
        except OSError:
            return ""

    return [pid.name for pid in Path("/proc").glob("[0-9]*") if any(word in command(pid) for word in words)]


@needs_mpi
@pytest.mark.parametrize("way, words", [("auto", "over TCP"), ("ucx", "over UCX"), ("ofi", "over libfabric")])
def test_a_job_on_three_hosts_is_the_job_of_one(way, words, three, tmp_path):
    if way == "auto" and fabric.devices():
        words = "over what Open MPI takes for .*"
    assert_trains_as_on_one_host(three, None, tmp_path, way, words)


@needs_mpi
def test_trainers_of_a_host_send_one_gradient_and_the_run_keeps_its_bits(three, tmp_path):
    """A server on h1, two trainers on h2 and two on h3: with carriers, without them, and resumed on one host."""
    places, folder = three.folder / "two-and-two", three.folder / tmp_path.name
    places.write_text("h1 slots=1\nh2 slots=2\nh3 slots=2\n")
    arguments = ("--steps", 8, "--width", 1024, "--out")         # two of the parameters are too large to travel with others
    for carriers in "10":
        job = Job(three, *arguments, three.folder / f"{carriers}.npz", servers=1, trainers=4, options=(
            "--hostfile", places, "--standbys", 0, *(("--checkpoint", folder, "--checkpoint-steps", 4) if carriers == "1" else ())),
            env=environment(TRIREME_CARRIERS=carriers, TRIREME_TRACE="messages"))
        code, text = job.end(60)
        assert code == 0, text
        assert ("PUSH" in text and " part=1" in text and " part=2" in text) == (carriers == "1")
    assert_same(three.folder / "1.npz", three.folder / "0.npz")
    shutil.rmtree(folder / "step-000000008")
    launch_under_mpi(1, 4, *arguments, tmp_path / "resumed.npz", options=("--checkpoint", folder, "--resume", "--standbys", 0))
    assert_same(three.folder / "1.npz", tmp_path / "resumed.npz")
    assert groups_of(folder, 4) == "2,2" and groups_of(folder, 3) == "3"
    launch(1, 4, *arguments, tmp_path / "begun.npz")
    with pytest.raises(AssertionError):
        assert_same(three.folder / "1.npz", tmp_path / "begun.npz")      # one host has another order


def groups_of(folder, trainers):
    """The host groups of a job that goes on from there on this host."""
    job = supervisor.Launch(Layout(1, trainers), [str(SCRIPT)], checkpoints=Checkpoints(str(folder), resume=True))
    return job.environment(".")["TRIREME_HOST_GROUPS"]


@needs_mpi
@pytest.mark.soak
@pytest.mark.parametrize("way", ["ucx", "ofi"])
def test_a_job_over_ucx_or_libfabric_starts_again_when_a_rank_is_killed(way, three, mark):
    """Open MPI reports deaths over its own TCP alone: over these the launcher starts the job again."""
    job = Job(three, "--steps", 300, "--pause", 0.02, "--mark", mark, way=way, restarts=1)
    job.await_training(mark)
    rank, pid = next(iter(job.ranks_on("h2").items()))
    three.run(["kill", "-KILL", str(pid)], "h2")
    code, text = job.end(60)
    assert code == 0 and "starting the job again (1 of 1)" in text, (rank, text)


@each_mpi
@pytest.mark.soak
@pytest.mark.parametrize("way, words", [("tcp", "over TCP"), ("ucx", "over UCX"), ("ofi", "over libfabric")])
def test_each_way_under_each_mpi(version, way, words, three, tmp_path):
    assert_trains_as_on_one_host(three, version, tmp_path, way, words)


@each_mpi
@pytest.mark.soak
def test_a_job_on_three_hosts_is_the_job_of_one_under_each_mpi(version, three, tmp_path):
    assert_trains_as_on_one_host(three, version, tmp_path)


@each_mpi
@pytest.mark.soak
@pytest.mark.parametrize("host", ["h2", "h3"])
def test_a_host_that_is_cut_off_is_named(version, host, three, mark):
    job = Job(three, "--steps", 100_000, "--mark", mark, version=version, servers=3, trainers=3)
    job.await_training(mark)
    ranks = job.ranks_on(host)
    assert ranks, job.output.read_text()
    three.cut(host)
    try:
        code, text = job.end(12 + SLACK)
        assert code == 1 and f"host {host}" in text, text
        named = [int(rank) for rank in re.findall(r"^trireme: rank (\d+) \(.*\) (?:was silent|died)", text, re.M)]
        named += [int(rank) for rank in re.findall(rf"rank (\d+) \([a-z]+ \d\)(?:, rank.*)? on host {host}, which is lost", text)]
        assert named and set(named) <= set(ranks), text
        job.assert_nothing_left()                      # on the host that is cut off as well
    finally:
        three.heal(host)


@each_mpi
@pytest.mark.soak
def test_a_host_that_is_powered_off_is_named(version, mark, three):
    with cluster.Cluster(3, SHARED) as hosts:
        job = Job(hosts, "--steps", 100_000, "--mark", hosts.folder / "trains", version=version, servers=3, trainers=3)
        job.await_training(hosts.folder / "trains")
        hosts.power_off("h3")
        code, text = job.end(12 + SLACK)
        assert code == 1 and "host h3" in text, text
        job.assert_nothing_left(("h1", "h2"))


@each_mpi
@pytest.mark.soak
def test_a_job_goes_on_without_a_host_that_is_cut_off(version, three, mark, tmp_path):
    args = ("--steps", 150, "--optimizer", "momentum", "--out")
    job = Job(three, *args, three.folder / "r.npz", "--mark", mark, "--pause", 0.01, version=version, restarts=1)
    job.await_training(mark)
    three.cut("h2")
    try:
        code, text = job.end(60)
        assert code == 0 and "starting the job again (1 of 1)" in text, text
        assert re.search("^trireme launch: host h2 is lost: ", text, re.M), text
        launch(2, 2, *args, tmp_path / "r.npz")
        assert_same(three.folder / "r.npz", tmp_path / "r.npz")
        job.assert_nothing_left()
    finally:
        three.heal("h2")


@needs_mpi
def test_servers_keep_what_they_have_when_a_host_without_one_is_lost(three, mark, tmp_path):
    # So many that the standby which takes the trainer's place, before ssh finds the host lost, does not finish the job first.
    args = ("--steps", 800, "--optimizer", "momentum", "--out")
    job = Job(three, *args, three.folder / "r.npz", "--mark", mark, "--pause", 0.01, servers=1, restarts=1)
    job.await_training(mark)
    assert sorted(job.ranks_on("h2")) == [1, 4]        # a trainer, a standby
    three.cut("h2")
    try:
        code, text = job.end(60)
    finally:
        three.heal("h2")
    assert code == 0 and "starting the job again (1 of 1)" in text and "host h2 is lost" in text, text
    launch(1, 2, *args, tmp_path / "r.npz")
    assert_same(three.folder / "r.npz", tmp_path / "r.npz", {"losses"})
    assert steps_from_memory(text) > 0, text           # not computed again: the server had it
    job.assert_nothing_left()


def steps_from_memory(text):
    """How many steps trainer 0 had after it when the job was started again."""
    found = re.search(r"continues after step (\d+) of trainer 0, from the memory of its servers", text)
    return int(found[1]) if found else 0


def assert_replica_goes_on(three, mark, tmp_path, version, host, options=()):
    """What the lost host's server had, rows of a table among it, is its replica's, and all is as if nothing had happened: the same
    bits, and the steps of before are not made again."""
    args = ("--steps", 300, "--optimizer", "momentum", "--table", "--clip", 0.5, "--out")
    job = Job(three, *args, three.folder / "r.npz", "--count", mark, "--pause", 0.01, version=version, restarts=1, servers=3,
              replicas=1, options=options)
    job.await_steps(mark, 10)
    three.cut(host)
    try:
        code, text = job.end(70)
        assert code == 0 and "a replica of each server" in text and "starting the job again (1 of 1)" in text, text
        launch(3, 2, *args, tmp_path / "r.npz")
        assert steps_from_memory(text) > 3, text
        assert_same(three.folder / "r.npz", tmp_path / "r.npz", {"losses"})
        job.assert_nothing_left()
    finally:
        three.heal(host)


@needs_mpi
def test_a_replica_takes_the_place_of_a_server_whose_host_is_lost(three, mark, tmp_path):
    assert_replica_goes_on(three, mark, tmp_path, None, "h2")


@needs_mpi
def test_a_replica_takes_the_place_of_a_server_with_rows_on_disk(three, mark, tmp_path):
    spill = three.folder / "spill"
    spill.mkdir()
    assert_replica_goes_on(three, mark, tmp_path, None, "h2", ("--table-memory", "1KB", "--table-spill", spill))
    assert not [file for file in spill.iterdir() if ".h2." not in file.name]


@needs_mpi
def test_a_replica_has_the_rows_that_a_script_sets(three, tmp_path):
    seen = three.folder.joinpath(f"seen-{time.monotonic_ns()}")
    job = Job(three, "--out", three.folder / "r", "--seen", seen, "--pause", 0.4, script=ROW_SETS, servers=3, replicas=1, restarts=1)
    job.wait_for(lambda: "11\n" in Path(f"{seen}.0").read_text() if Path(f"{seen}.0").exists() else None,
                 "the steps after a table is loaded")
    three.cut("h2")
    try:
        code, text = job.end(110)
        assert code == 0 and "starting the job again (1 of 1)" in text and steps_from_memory(text) >= 9, text
        alone("--out", tmp_path / "r", script=ROW_SETS)
        assert_same_tables(three.folder / "r", tmp_path / "r")
        job.assert_nothing_left()
    finally:
        three.heal("h2")


@each_mpi
@pytest.mark.soak
@pytest.mark.parametrize("host", ["h2", "h3"])
def test_a_replica_takes_the_place_of_a_server_under_each_mpi(version, host, three, mark, tmp_path):
    assert_replica_goes_on(three, mark, tmp_path, version, host)


@needs_mpi
def test_a_replica_that_dies_is_missed_by_nobody(three, mark, tmp_path):
    args = ("--steps", 100, "--optimizer", "adam", "--out")
    job = Job(three, *args, three.folder / "r.npz", "--mark", mark, "--pause", 0.02, replicas=1)
    job.await_training(mark)
    ranks = job.ranks_on("h2")
    assert max(ranks, default=0) >= 7, (ranks, job.output.read_text())     # after 2 servers, 2 trainers and 3 standbys
    rank, pid = max(ranks.items())
    three.run(["kill", "-9", pid], "h2")
    code, text = job.end(60)
    assert code == 0 and f"rank {rank} (replica " in text and "the others go on" in text, text
    launch(2, 2, *args, tmp_path / "r.npz")
    assert_same(three.folder / "r.npz", tmp_path / "r.npz")
    job.assert_nothing_left()


@needs_mpi
@pytest.mark.skipif("5" not in MPIS, reason="no Open MPI 5 is installed")
def test_a_standby_becomes_the_replica_of_a_server_that_has_lost_its_own(three, mark, tmp_path):
    """The replica of server 1 dies, on h3, and the standby there follows it in the middle of the job; the server dies, and a standby of h2
    takes its place; then h2 is lost."""
    args = ("--steps", 500, "--optimizer", "momentum", "--table", "--clip", 0.5, "--out")
    job = Job(three, *args, three.folder / "r.npz", "--count", mark, "--pause", 0.01, restarts=1, replicas=1, version="5")
    job.await_steps(mark, 1)
    replica, server = job.ranks_on("h3"), job.ranks_on("h2")
    assert 9 in replica and 1 in server, (replica, server)     # after 2 servers, 2 trainers, 3 standbys and 2 replicas
    three.run(["kill", "-9", replica[9]], "h3")
    job.await_line("rank 6 (standby 2) is the replica of server 1 from here on")
    three.run(["kill", "-9", server[1]], "h2")
    job.await_line("rank 1 (server 1) died; the others go on")
    job.await_steps(mark, mark.stat().st_size + 10)    # with the standby
    three.cut("h2")
    try:
        code, text = job.end(70)
    finally:
        three.heal("h2")
    assert code == 0 and "starting the job again (1 of 1)" in text, text
    launch(2, 2, *args, tmp_path / "r.npz")
    assert steps_from_memory(text) > 3, text           # else it had begun anew
    assert_same(three.folder / "r.npz", tmp_path / "r.npz", {"losses"})
    job.assert_nothing_left()


@needs_mpi
def test_a_replica_on_the_servers_own_host_is_refused(capsys):
    assert cli.main(["launch", "--replicas", "1", str(SCRIPT)]) == 2
    assert "a replica is to be on another host than its server" in capsys.readouterr().err
    assert cli.main(["launch", "--replicas", "2", "--hosts", "a,b", str(SCRIPT)]) == 2
    assert "--replicas 2; 0 and 1 are possible" in capsys.readouterr().err


@each_mpi
@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_job_outlives_a_daemon_of_mpi(version, number, three, mark, tmp_path):
    args = ("--steps", 150, "--optimizer", "momentum", "--out")
    job = Job(three, *args, three.folder / "r.npz", "--mark", mark, "--pause", 0.01, version=version, restarts=1)
    job.await_training(mark)
    daemons = [pid for pid, text in three.processes("h2").items() if text.split()[0].endswith(("prted", "orted"))]
    assert daemons, three.processes("h2")
    three.run(["kill", f"-{int(number)}", *daemons], "h2")
    code, text = job.end(90)
    assert code == 0, text
    launch(2, 2, *args, tmp_path / "r.npz")
    assert_same(three.folder / "r.npz", tmp_path / "r.npz", {"losses"})
    job.assert_nothing_left()


@each_mpi
@pytest.mark.soak
@pytest.mark.parametrize("standbys_for", ["all", "servers"])
def test_a_job_goes_on_when_a_rank_is_killed_on_another_host(version, standbys_for, three, mark, tmp_path):
    args = ("--steps", 150, "--optimizer", "momentum", "--out")
    job = Job(three, *args, three.folder / "r.npz", "--mark", mark, "--pause", 0.01, version=version, restarts=1,
              standbys_for=standbys_for)
    job.await_training(mark)
    pid = job.ranks_on("h3")[2]                        # a trainer
    three.run(["kill", "-9", pid], "h3")
    code, text = job.end(60)
    said = "takes the place of trainer 0" if (version, standbys_for) == ("5", "all") else "starting the job again (1 of 1)"
    assert code == 0 and said in text and "is lost" not in text, text
    launch(2, 2, *args, tmp_path / "r.npz")
    assert_same(three.folder / "r.npz", tmp_path / "r.npz", {"losses"})    # those of replayed steps went with their host
    job.assert_nothing_left()


@each_mpi
@pytest.mark.turns(2)
def test_a_standby_takes_the_place_of_a_server_of_its_host(version, three, mark, tmp_path):
    args = ("--steps", 150, "--optimizer", "momentum", "--out")
    job = Job(three, *args, three.folder / "r.npz", "--mark", mark, "--pause", 0.01, version=version)
    job.await_training(mark)
    assert {host: sorted(job.ranks_on(host)) for host in three.names} == {"h1": [0, 3, 4], "h2": [1, 5], "h3": [2, 6]}
    three.run(["kill", "-9", job.ranks_on("h2")[1]], "h2")
    code, text = job.end(60)
    assert code == 0 and "rank 1 (server 1) died; the others go on" in text, text
    launch(2, 2, *args, tmp_path / "r.npz")
    assert_same(three.folder / "r.npz", tmp_path / "r.npz")
    job.assert_nothing_left()


@pytest.mark.skipif("5" not in MPIS, reason="no Open MPI 5 is installed")
@pytest.mark.parametrize("victims, replacement", [((2,), "rank 6 (standby 2)"), ((6, 2), "standby")], ids=["same host", "another host"])
def test_a_standby_takes_the_place_of_a_trainer(victims, replacement, three, mark, tmp_path):
    """That of its host; where that one has died, another."""
    args = ("--steps", 150, "--optimizer", "momentum", "--sparse", "--out")
    job = Job(three, *args, three.folder / "r.npz", "--mark", mark, "--pause", 0.01, version="5")
    job.await_training(mark)
    assert {host: sorted(job.ranks_on(host)) for host in three.names} == {"h1": [0, 3, 4], "h2": [1, 5], "h3": [2, 6]}
    for victim in victims:
        three.run(["kill", "-9", job.ranks_on("h3")[victim]], "h3")
    code, text = job.end(60)
    assert code == 0 and "rank 2 (trainer 0) died; the others go on" in text, text
    assert re.search(f"{re.escape(replacement)}.* takes the place of trainer 0", text), text
    launch(2, 2, *args, tmp_path / "r.npz")
    assert_same(three.folder / "r.npz", tmp_path / "r.npz", {"losses"})
    job.assert_nothing_left()


@each_mpi
@pytest.mark.soak
def test_a_rank_that_is_killed_on_another_host_is_named(version, three, mark):
    job = Job(three, "--steps", 100_000, "--mark", mark, version=version, servers=3, trainers=3,
              standbys_for="servers")
    job.await_training(mark)
    rank, pid = 5, job.ranks_on("h3")[5]
    three.run(["kill", "-9", pid], "h3")
    code, text = job.end(5 + SLACK)
    said = job_lines(text)
    assert code == 1 and len(said) == 1, text
    assert re.match(rf"rank {rank} \(.*, host h3, pid {pid}\) died; rank \d+ \(.*\) (was waiting for|had ended)", said[0]), text
    job.assert_nothing_left()


@each_mpi
@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_on_any_host_when_the_launcher_is_killed(version, number, three, mark):
    job = Job(three, "--steps", 100_000, "--mark", mark, version=version, servers=3, trainers=3)
    job.await_training(mark)
    launcher, = (pid for pid, text in three.processes("h1").items() if " -m trireme launch " in text)
    three.run(["kill", f"-{number}", launcher])
    code, text = job.end(SLACK)
    assert code != 0
    job.assert_nothing_left(("h2", "h3"), 10 + SLACK)
    if number == signal.SIGTERM:
        assert "stopped by SIGTERM" in text
        job.assert_nothing_left()


ROUTES = """Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
eth0 00000000 0100000A 0003 0 0 0 00000000 0 0 0
eth0 0000000A 00000000 0001 0 0 0 00FFFFFF 0 0 0
ib0 0000A8C0 00000000 0001 0 0 0 0000FFFF 0 0 0
ib0 0001A8C0 00000000 0001 0 0 0 00FFFFFF 0 0 0
"""


@pytest.mark.parametrize("addresses, network", [
    (["10.0.0.1", "10.0.0.200"], "10.0.0.0/24"), (["192.168.1.4"], "192.168.1.0/24"), (["192.168.1.4", "192.168.7.4"], "192.168.0.0/16"),
    (["10.0.0.1", "192.168.1.4"], None), (["8.8.8.8"], None), (["no-such-host.invalid"], None), ([], None)])
def test_the_network_that_reaches_all_hosts(addresses, network, tmp_path):
    (tmp_path / "route").write_text(ROUTES)
    assert network_of(addresses, tmp_path / "route") == network


@each_mpi
@pytest.mark.turns(2, at=1)
def test_the_output_of_all_ranks_comes_from_other_hosts(version, three):
    (three.folder / "go").touch()
    job = Job(three, three.folder / "go", 5000, version=version, script=SCRIPT.with_name("says.py"))
    code, text = job.end(60)
    assert code == 0, text[-2000:]
    for trainer in (0, 1):
        prefix = f"trainer {trainer} says "
        assert [row for row in text.splitlines() if row.startswith(prefix)] == [f"{prefix}{row}" for row in range(5000)]


@each_mpi
@pytest.mark.turns(2)
def test_a_key_that_interrupts_ends_a_job_on_all_hosts_soon(version, three, mark):
    job = Job(three, "--steps", 100_000, "--mark", mark, version=version, servers=3, trainers=3)
    job.await_training(mark)
    launcher, = (pid for pid, text in three.processes("h1").items() if " -m trireme launch " in text)
    begin = time.monotonic()
    three.run(["kill", "-INT", launcher])
    code, text = job.end(SLACK)
    assert code == 130 and "stopped by SIGINT" in text and "Traceback" not in text and "died" not in text, text
    assert_within(1.5, time.monotonic() - begin, text)
    job.assert_nothing_left()


@needs_mpi
@pytest.mark.soak
def test_an_exit_code_comes_from_another_host(three):
    code, text = Job(three, "--fault", "exit", "--fault-trainer", 1).end(60)
    assert code == 3 and "exit code 3" in job_lines(text)[0], text


@needs_mpi
def test_an_exception_ends_a_job_with_replicas(three):
    job = Job(three, "--fault", "raise", "--fault-trainer", 1, replicas=1, restarts=1)
    code, text = job.end(60)
    said = job_lines(text)
    assert code == 1 and "again" not in text and len(said) == 1 and said[0].endswith("ended by ValueError: the data is bad"), text
    assert text.count("Traceback") == 1 and text.index("ValueError: the data is bad") < text.index("trireme: rank"), text
    job.assert_nothing_left()


# -- doctor ----------------------------------------------------------------------------------------------------------


def diagnose(three, *options):
    command = [sys.executable, "-m", "trireme", "doctor", "--hostfile", three.hostfile, "--ssh", three.ssh, "--slack", 12, *options]
    return subprocess.run(three.command(command), env=environment(), capture_output=True, text=True, timeout=100, check=False,
                          stdin=subprocess.DEVNULL)


@needs_mpi
def test_doctor_names_a_host_with_a_slow_link(three):
    three.limit("h3", 200)
    try:
        done = diagnose(three)
    finally:
        three.unlimit("h3")
    assert done.returncode == 1, done.stdout + done.stderr
    slow = re.search(r"^WRONG host h3: look at its link: speed of messages of 16 MiB (\S+) MB/s, (\S+) times worse than the best, "
                     r"(\S+) between rank 0 \(host h1\) and rank 1 \(host h2\)", done.stdout, re.M)
    assert slow and 10 < float(slow[1]) < 27, done.stdout            # 200 Mbit/s are 25 MB/s
    assert "host h1: look" not in done.stdout and "host h2: look" not in done.stdout


# -- explain ---------------------------------------------------------------------------------------------------------


def explained(three, *options):
    """Run a small job over slow links; return the figures of its logs."""
    logs = three.folder / "logs"
    command = [sys.executable, "-m", "trireme", "launch", "--servers", 1, "--trainers", 1, "--standbys", 0, "--hostfile", three.hostfile,
               "--ssh", three.ssh,
               "--log", logs, *options, SCRIPT.with_name("paced.py"), "--steps", 15, "--width", 600, "--batch", 1]
    done = subprocess.run(three.command(command), env=environment(), capture_output=True, text=True, timeout=100, check=False,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return figures_of(read_logs(logs))


@needs_mpi
def test_compression_brings_what_its_advice_promises_at_most(three):
    for host in ("h1", "h2"):
        three.limit(host, 100)
    try:
        plain, smaller = explained(three), explained(three, "--compress", "int8")
    finally:
        for host in ("h1", "h2"):
            three.unlimit(host)
    found = advice.compressible(plain)
    assert str(found) in advice.advice_of(plain) and found.bound > 0.25, advice.advice_of(plain)
    saved = 1 - smaller.mean("step") / plain.mean("step")
    assert found.bound / 2 < saved < found.bound + 0.1, f"{saved:.0%} was saved: {found}"


@needs_mpi
@pytest.mark.soak
@pytest.mark.parametrize("options, found", [((), "3 ways between 3 ranks"), (("--ranks", 4), "6 ways between 4 ranks")])
def test_doctor_is_content_with_equal_links(options, found, three):
    """Other work may make a pair slow for as long as it is measured: once, but not each time."""
    for _ in range(4):
        done = diagnose(three, *options)
        if done.returncode == 0:
            break
        assert "times worse than the best" in done.stdout, done.stdout + done.stderr
    assert f"{found}, all bytes right" in done.stdout, done.stdout + done.stderr
