"""Jobs in an allocation of Slurm: its lists, and jobs on three hosts that are namespaces of this machine, see slurm_cluster.py."""

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import cluster
import numpy as np
import pytest
import slurm_cluster
from host_support import SHARED, SLACK, OnHosts, assert_same, fresh_mark, three_hosts
from job_support import LIMIT, SCRIPT, each_mpi, environment, launch, launch_command, needs_mpi

from trireme.launch import cli
from trireme.errors import InvalidArgumentError
from trireme.launch import hosts, slurm

ROOT = cluster.ROOT


# -- lists -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, names", [
    ("h1", ["h1"]),
    ("h1,login", ["h1", "login"]),
    ("h[1-3]", ["h1", "h2", "h3"]),
    ("n[08-11,7]", ["n08", "n09", "n10", "n11", "n7"]),
    ("n[001-002],gpu-a[1,3],last.site", ["n001", "n002", "gpu-a1", "gpu-a3", "last.site"]),
    ("r[1-2]n[01-02]-ib", ["r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib"]),
    ("n[99-101]", ["n99", "n100", "n101"]),
])
def test_nodes_of_a_list(text, names):
    assert slurm.expand_nodes(text) == names


@pytest.mark.parametrize("text, why", [
    ("", "is none"), ("h1,,h2", "is none"), ("h[1-3", "is none"), ("h1]", "is none"), ("h1 h2", "is none"), ("h[[1]]", "is none"),
    ("h[]", "'' where a number or a range"), ("h[1-]", "'1-' where"), ("h[a-b]", "'a-b' where"), ("h[1-2-3]", "'1-2-3' where"),
    ("h[3-1]", "the range 3-1"), ("h[0-99999999]", "at most 65536"), ("h[1-999999999999999999]", "at most 65536"),
    ("h[0-40000,50000-90000]", "at most 65536"), ("a[0-999]b[0-999]", "has more than 65536"), ("h[9999999999999999999]", "where a number"),
])
def test_lists_that_are_none_are_refused(text, why):
    with pytest.raises(InvalidArgumentError, match=re.escape(why)):
        slurm.expand_nodes(text)


def test_tasks_of_each_node():
    assert slurm.expand_counts("4") == [4] and slurm.expand_counts("2(x3),1") == [2, 2, 2, 1]
    for text in ("", "2,", "x", "2(x3", "1(x70000)", "2(3)"):
        with pytest.raises(InvalidArgumentError, match="Slurm's list of tasks"):
            slurm.expand_counts(text)


def given(nodes, **more):
    return slurm.allocation({"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": nodes, **more})


def test_an_allocation_of_several_nodes_has_hosts():
    assert given("h[1-2]", SLURM_TASKS_PER_NODE="2(x2)").hosts() == "h1:2,h2:2"
    assert given("h[1-2]").hosts() == "h1:1,h2:1"
    assert given("h[1-2]", SLURM_TASKS_PER_NODE="4", SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="1").hosts() == "h1:1,h2:1"
    assert given("h[1-2]").has(["h2"]) and not given("h[1-2]").has(["h2", "h3"])
    with pytest.raises(InvalidArgumentError, match=r"2 nodes, 'h\[1-2\]', and the tasks of 3"):
        given("h[1-2]", SLURM_TASKS_PER_NODE="2(x3)").hosts()


def test_one_node_is_the_host_itself(monkeypatch):
    assert given("h1", SLURM_TASKS_PER_NODE="4", SLURMD_NODENAME="h1") is None and given("") is None
    monkeypatch.setattr(socket, "gethostname", lambda: "h1.site")
    assert given("h1", SLURM_TASKS_PER_NODE="4") is None
    assert slurm.allocation({"SLURM_JOB_NODELIST": "h[1-2]"}) is None


def test_one_node_is_another_host_in_a_shell_that_salloc_opened_elsewhere(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "login.site")
    assert given("h1", SLURM_TASKS_PER_NODE="4").hosts() == "h1:4"


def test_a_launcher_in_each_task_is_refused():
    with pytest.raises(InvalidArgumentError, match="srun has started it 3 times"):
        given("h[1-3]", SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="3")


# -- what is taken -----------------------------------------------------------------------------------------------------


@pytest.fixture
def inside(monkeypatch, tmp_path):
    """This process is in an allocation of two nodes; its srun says with what it was called."""
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "h[1-2]", "SLURM_TASKS_PER_NODE": "2(x2)"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "srun").write_text('#!/bin/sh\necho "$# $*"\nfor last; do :; done; exec sh -c "$last"\n')
    (tmp_path / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURMD_NODENAME"):
        monkeypatch.delenv(name, raising=False)


def planned(capsys, *options):
    """Return mpirun's words, and what is said."""
    assert cli.main(["launch", "--dry-run", "--servers", "2", "--trainers", "4", *options, str(SCRIPT)]) == 0
    out, err = capsys.readouterr()
    return shlex.split(out), err


def agent_of(words):
    return words[max(words.index(option) for option in ("plm_ssh_agent", "plm_rsh_agent") if option in words) + 1]


@needs_mpi
def test_the_nodes_are_taken_and_reached_by_srun(inside, capsys):
    words, said = planned(capsys)
    assert [word for before, word in zip(words, words[1:]) if before == "--host"][:2] == ["h1:1", "h2:1"]
    assert said == "trireme launch: Slurm's job 7, nodes h[1-2], tasks 2(x2), reached by srun\n"
    assert agent_of(words) == slurm.SRUN
    assert words[words.index("plm") + 1] in ("ssh", "rsh") and words[words.index("ras") + 1] == "^slurm"


@needs_mpi
def test_a_single_node_is_taken_from_a_login_node(inside, capsys, monkeypatch):
    """The job ran on the login node, and the node that had been waited for did nothing."""
    monkeypatch.setenv("SLURM_JOB_NODELIST", "h1")
    monkeypatch.setenv("SLURM_TASKS_PER_NODE", "4")
    words, said = planned(capsys)
    assert [word for before, word in zip(words, words[1:]) if before == "--host"][:2] == ["h1:2", "h1:4"]
    assert said == "trireme launch: Slurm's job 7, nodes h1, tasks 4, reached by srun\n" and agent_of(words) == slurm.SRUN
    monkeypatch.setenv("SLURMD_NODENAME", "h1")        # the node itself: in a batch script, say
    words, said = planned(capsys)
    assert not said and "--host" not in words


@needs_mpi
def test_options_come_before_slurms_allocation(inside, capsys, monkeypatch):
    words, said = planned(capsys, "--hosts", "h2,h7")
    assert not said and "h7:1" in words and agent_of(words).startswith("ssh -o BatchMode")
    words, said = planned(capsys, "--hosts", "h2")             # one of Slurm's
    assert not said and "h2:2" in words and agent_of(words) == slurm.SRUN
    words, said = planned(capsys, "--ssh", "ssh -p 22")
    assert "reached by ssh" in said and "h1:1" in words and agent_of(words).startswith("ssh -p 22 ")
    monkeypatch.setattr(slurm, "has_srun", lambda: False)
    assert agent_of(planned(capsys)[0]).startswith("ssh -o BatchMode")


def test_srun_is_called_as_ssh_is(inside, tmp_path):
    done = subprocess.run([*shlex.split(slurm.SRUN), "h2", "printf '<%s>' 'a  b' $((1 + 1)); exit 3"], capture_output=True, text=True,
                          timeout=30, check=False)
    called, said = done.stdout.splitlines()
    assert done.returncode == 3 and said == "<a  b><2>" and not done.stderr
    assert called.startswith("13 --overlap --nodes=1 --ntasks=1 ") and " --nodelist=h2 " in called
    (tmp_path / "srun").unlink()
    done = subprocess.run([*shlex.split(slurm.SRUN), "h2", "true"], capture_output=True, text=True, timeout=30, check=False,
                          env={**os.environ, "PATH": str(tmp_path)})
    assert done.returncode == 127 and done.stderr == "srun: No such file or directory\n"


def test_an_agent_that_srun_does_not_start_is_explained(inside, tmp_path):
    (tmp_path / "srun").write_text("#!/bin/sh\necho 'srun: error: h2: no such node' >&2; exit 1\n")
    host = hosts.Host("h2", shlex.split(slurm.SRUN), "trireme-test")
    deadline = time.monotonic() + LIMIT
    while host.lost is None and time.monotonic() < deadline:
        host.read()
        time.sleep(0.01)
    host.close(0)
    assert host.lost == "srun ended with exit code 1: srun: error: h2: no such node"


# -- three nodes -------------------------------------------------------------------------------------------------------


class Batch(OnHosts):
    """A batch script on three nodes."""

    LOOK = 0.1                                         # which asks Slurm

    def __init__(self, three, command, *options):
        super().__init__(three.hosts)
        self.slurm = three
        (three.hosts.folder / "job.sh").write_text(f"#!/bin/bash\n{command}\n")
        done = subprocess.run(three.command(["sbatch", "--parsable", "-N", 3, "--ntasks-per-node", 2, "-o", self.output, *options,
                                             three.hosts.folder / "job.sh"]),
                              env=environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}"), capture_output=True, text=True,
                              timeout=30, check=True)
        self.id = done.stdout.strip()

    def state(self):
        return re.search(r"JobState=(\w+)", self.slurm.ask("scontrol", "show", "job", self.id))[1]

    def is_running(self):
        return self.state() in ("RUNNING", "PENDING", "COMPLETING")

    def end(self, seconds):
        """Return the state in which it ended, and the output."""
        text = self.await_end(seconds)
        return self.state(), text


def launcher(*args, options=(), version=None):
    return shlex.join(launch_command(3, 3, *args, version=version, options=("--timeout", 100, "--restarts", 1, *options)))


@pytest.fixture(scope="module")
def three():
    with three_hosts(slurm_cluster.missing()) as found:
        yield slurm_cluster.Slurm(found)


@needs_mpi
def test_a_job_on_a_single_node_that_is_not_this_one(three):
    """In a shell that salloc opens on a login node: here the first host."""
    node = three.hosts.names[1]
    words = ["--servers", 1, "--trainers", 2, "--timeout", 100, SCRIPT]
    done = subprocess.run(three.command(["salloc", "-N", 1, "-w", node, "--ntasks-per-node", 2, sys.executable, "-m", "trireme", "launch",
                                         "--log", three.hosts.folder / "single", *words]),
                          env=environment(), capture_output=True, text=True, timeout=150, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and f"nodes {node}, tasks 2, reached by srun" in done.stderr, done.stdout + done.stderr
    assert f'"host":"{node}"' in (three.hosts.folder / "single" / "trainer-0.jsonl").read_text().replace(": ", ":")


@pytest.fixture
def mark(three):
    return fresh_mark(three.hosts)


ARGS = ("--steps", 150, "--optimizer", "momentum", "--out")


def assert_same_bits(three, tmp_path, args=ARGS, besides=("losses",)):
    """As those of a job on one host."""
    launch(3, 3, *args, tmp_path / "r.npz")
    assert_same(three.hosts.folder / "r.npz", tmp_path / "r.npz", besides)


@each_mpi
@pytest.mark.mpi
def test_a_job_takes_the_nodes(version, three, mark, tmp_path):
    out = three.hosts.folder / "r.npz"
    job = Batch(three, launcher(*ARGS, out, "--mark", mark, "--pause", 0.01, version=version))
    job.await_training(mark)
    found = {host: len(job.ranks_on(host)) for host in three.hosts.names}
    state, text = job.end(60)
    assert state == "COMPLETED" and f"Slurm's job {job.id}, nodes h[1-3], tasks 2(x3), reached by srun" in text, text
    assert found == {"h1": 3, "h2": 3, "h3": 3}, text              # a server, a trainer, a standby
    assert_same_bits(three, tmp_path, besides=())
    job.assert_nothing_left()


class Shipped(Batch):
    """deploy/job.sbatch on three nodes, with the environment of these tests."""

    LOOK = 0.1

    def __init__(self, three, *args):
        OnHosts.__init__(self, three.hosts)
        self.slurm = three
        folder = three.hosts.folder
        (folder / "bin").mkdir(exist_ok=True)
        (folder / "bin" / "activate").write_text(f"PATH={folder}/bin:{Path(sys.executable).parent}:$PATH\n")
        (folder / "bin" / "trireme").write_text(f'#!/bin/sh\nexec {sys.executable} -m trireme "$@"\n')
        (folder / "bin" / "trireme").chmod(0o755)
        done = subprocess.run(three.command(["sbatch", "--parsable", "-N", 3, "--cpus-per-task", 1, "-o", self.output, "--open-mode",
                                             "append", ROOT / "deploy" / "job.sbatch", *args], folder=folder),
                              env=environment(TRIREME_VENV=str(folder), TRIREME_CHECKPOINTS=str(folder / "shipped"),
                                              TRIREME_CHECKPOINT_STEPS="20"),
                              capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr
        self.id = done.stdout.strip()


@needs_mpi
@pytest.mark.mpi
@pytest.mark.soak
def test_the_script_of_deploy_begins_a_job_is_requeued_and_goes_on(three, mark):
    job = Shipped(three, SCRIPT, "--steps", 150, "--out", three.hosts.folder / "r.npz", "--mark", mark, "--pause", 0.01)
    job.await_training(mark)
    three.ask("scancel", "--batch", "--signal=USR1", job.id)
    deadline = time.monotonic() + LIMIT
    while job.state() != "PENDING":
        assert time.monotonic() < deadline and job.state() != "FAILED", job.text()
        time.sleep(0.1)
    assert list((three.hosts.folder / "shipped").glob("step-*")), job.text()
    three.ask("scontrol", "update", f"JobId={job.id}", "StartTime=now")
    state, text = job.end(120)
    assert state == "COMPLETED" and "Restarts=1" in three.ask("scontrol", "show", "job", job.id), text
    job.assert_nothing_left()


@each_mpi
@pytest.mark.mpi
@pytest.mark.soak
def test_a_standby_takes_the_place_of_a_server_on_its_node(version, three, mark, tmp_path):
    job = Batch(three, launcher(*ARGS, three.hosts.folder / "r.npz", "--mark", mark, "--pause", 0.01, version=version))
    job.await_training(mark)
    three.hosts.run(["kill", "-9", job.ranks_on("h2")[1]], "h2")
    state, text = job.end(60)
    assert state == "COMPLETED" and "rank 1 (server 1) died; the others go on" in text, text
    assert_same_bits(three, tmp_path)
    job.assert_nothing_left()


@each_mpi
@pytest.mark.mpi
@pytest.mark.soak
def test_a_job_is_started_again_when_a_daemon_of_mpi_is_killed(version, three, mark, tmp_path):
    job = Batch(three, launcher(*ARGS, three.hosts.folder / "r.npz", "--mark", mark, "--pause", 0.01, version=version))
    job.await_training(mark)
    daemon = next(pid for pid, text in three.hosts.processes("h3").items() if re.match(r"\S*(prted|orted) ", text))
    three.hosts.run(["kill", "-9", daemon], "h3")
    state, text = job.end(90)
    assert state == "COMPLETED" and "starting the job again (1 of 1)" in text, text
    assert_same_bits(three, tmp_path)
    job.assert_nothing_left()


@needs_mpi
@pytest.mark.mpi
@pytest.mark.soak
def test_a_job_that_was_signaled_is_requeued_and_goes_on(three, mark, tmp_path):
    """By the script of docs/checkpoints.md."""
    script = re.search(r"^    #SBATCH.*?\n\n", (ROOT / "docs" / "checkpoints.md").read_text(), re.M | re.S)[0]
    folder, out = three.hosts.folder / "checkpoints", three.hosts.folder / "r.npz"
    ours = launcher(*ARGS, out, "--mark", mark, "--pause", 0.02, options=("--checkpoint", folder))
    ours = ours.replace(f" {folder} ", f" {folder} --resume=auto ", 1)
    script = script.replace("DIR", str(folder))
    script, count = re.subn(r"^ *trireme launch .*(?= & job=)", ours.replace("\\", r"\\"), re.sub("^ +", "", script, flags=re.M),
                            flags=re.M)
    assert count == 1, script
    job = Batch(three, script)
    job.await_training(mark)
    three.ask("scancel", "--batch", "--signal=USR1", job.id)
    deadline = time.monotonic() + LIMIT
    while job.state() != "PENDING":
        assert time.monotonic() < deadline, job.text()
        time.sleep(0.1)
    assert "was stopped, exit code 75" in job.text() and list(folder.glob("step-*")), job.text()
    job.assert_nothing_left()
    three.ask("scontrol", "update", f"JobId={job.id}", "StartTime=now")
    state, text = job.end(120)
    assert state == "COMPLETED" and "Restarts=1" in three.ask("scontrol", "show", "job", job.id), text
    assert_same_bits(three, tmp_path)
    with np.load(out) as got:
        assert np.isfinite(got["losses"]).all()
    job.assert_nothing_left()


@needs_mpi
@pytest.mark.mpi
@pytest.mark.soak
def test_no_process_is_left_on_any_node_of_a_cancelled_job(three, mark):
    job = Batch(three, launcher("--steps", 100_000, "--mark", mark))
    job.await_training(mark)
    three.ask("scancel", job.id)
    state, text = job.end(20 + SLACK)
    assert state == "CANCELLED", text
    job.assert_nothing_left(seconds=8 + SLACK)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.soak
def test_a_job_goes_on_without_a_node_that_is_lost(mark, three, tmp_path):
    """If Slurm lets it: --no-kill."""
    with cluster.Cluster(3, SHARED) as found:
        others = slurm_cluster.Slurm(found)
        out = found.folder / "r.npz"
        job = Batch(others, launcher(*ARGS, out, "--mark", found.folder / "trains", "--pause", 0.02, options=("--replicas", 1)),
                    "--no-kill")
        job.await_training(found.folder / "trains")
        found.power_off("h3")
        state, text = job.end(120)
        assert state == "COMPLETED" and "host h3 is lost" in text and "starting the job again (1 of 1)" in text, text
        job.assert_nothing_left(("h1", "h2"))
        assert_same_bits(others, tmp_path)
