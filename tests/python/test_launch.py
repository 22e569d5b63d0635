"""``trireme launch``: the line it runs, and how jobs end."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from job_support import (LIMIT, MPIS, SCRIPT, UNLIKE, Launched, ended, assert_within,
                         each_mpi, environment, job_lines, launch_under_mpi, listeners, needs_mpi)

import trireme as fluid
from trireme.launch import cli
from trireme.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from trireme.launch import mpi, supervisor, watch
from trireme.launch.mpi import Layout, Mpi
from trireme.launch.programs import trainer_command
from trireme.launch.states import Checkpoints, States
from trireme.launch.watch import Failure, Ranks

pytestmark = pytest.mark.mpi
FIVE, FOUR = Mpi("/opt/five/bin/mpirun", (5, 0, 11), "/opt/five/lib"), Mpi("/usr/bin/mpirun", (4, 1, 4), "/usr/lib")
SOON = {"5": 1.0, "4": 5.0}                            # seconds from a rank's death to the launcher's end


# -- the line ---------------------------------------------------------------------------------------------------


def line(which, layout, **more):
    return mpi.command_line(which, layout, ["pserver"], ["python", "train.py"], **more)


def test_the_line_of_open_mpi_5():
    words = line(FIVE, Layout(2, 4))
    assert words[0] == FIVE.mpirun
    assert words[words.index("--with-ft") + 1] == "ulfm" and "--enable-recovery" not in words
    assert words[-8:] == ["-np", "2", "pserver", ":", "-np", "4", "python", "train.py"]


def test_the_line_of_open_mpi_4():
    words = line(FOUR, Layout(1, 3))
    assert "--enable-recovery" in words and "--with-ft" not in words
    assert words[words.index("odls_base_sigkill_timeout") + 1] == "0"


@pytest.mark.parametrize("which", [FIVE, FOUR])
def test_no_key_stands_twice(which):
    words = line(which, Layout(1, 1, hosts="a,b"), exported=["X"], scratch="/s", shared="/m")
    keys = [words[i + 1] for i, word in enumerate(words) if word in ("--mca", "--prtemca")]
    assert len(keys) == len(set(keys))


def test_variables_go_to_both_kinds_of_ranks_on_other_hosts():
    words = line(FIVE, Layout(1, 1, hosts="a,b"), exported=["TRIREME_JOB"])
    colon = words.index(":")
    assert "TRIREME_JOB" in words[:colon] and "TRIREME_JOB" in words[colon:]
    assert words[words.index("--host") + 1] == "a:1"
    assert "-x" not in line(FIVE, Layout(1, 1), exported=["TRIREME_JOB"])


def start_with_replicas(folder, lost=(), follows={4: 0, 5: 1}):    # noqa: B006 - it stays as it is
    """A start of two servers on hosts a and b, whose replicas, ranks 4 and 5, are on b and a; trainer 0 is on a, a standby, rank 3, on
    c."""
    ranks = Ranks(os.getpid(), folder, 2, 1, 1, False, 2)
    ranks.known = {rank: SimpleNamespace(rank=rank, host=host) for rank, host in enumerate("abacba")}
    for path in folder.iterdir():
        path.unlink()
    for rank in lost:
        (folder / f"lost.{rank}").touch()
    for rank, server in follows.items():
        (folder / f"follows.{rank}").write_text(str(server))
    return ranks


def test_deaths_that_follow_from_a_failed_script_are_not_told_as_deaths(tmp_path):
    ranks = Ranks(os.getpid(), tmp_path, 1, 2)
    (tmp_path / "failed.2").write_text("3\nexit code 3\n")
    (tmp_path / "lost.0").write_text("died")
    assert not ranks.news() and ranks.failure().code == 3
    (tmp_path / "failed.2").rename(tmp_path / "failed.0")              # of a rank without which the others go on
    assert ranks.news() == ["rank 0 (server 0) died; the others go on"]


def test_a_dead_replicas_state_is_not_used_until_another_replica_has_it(tmp_path):
    states = States()
    states.note(start_with_replicas(tmp_path, lost=[4]), True)
    assert states.outdated == {"b"}
    states.note(start_with_replicas(tmp_path, follows={5: 1}), True)      # started again, and over before the new one had it
    assert states.outdated == {"b"}
    assert states.usable(set()) == 0 and states.usable({"a"}) == 1     # server 0 and its newest state went with host a
    states = States()
    states.note(start_with_replicas(tmp_path, lost=[4]), True)
    states.note(start_with_replicas(tmp_path), True)
    assert states.outdated == set() and states.usable({"a"}) == 0


def test_a_standby_that_has_become_a_replica_makes_up_for_one_that_died(tmp_path):
    follows = {3: 0, 4: 0, 5: 1}
    states = States()
    ranks = start_with_replicas(tmp_path, lost=[4], follows=follows)
    assert ranks.news()[1:] == ["rank 3 (standby 0) is the replica of server 0 from here on"] and not ranks.news()
    states.note(ranks, True)
    assert states.outdated == set() and states.usable({"a"}) == 0
    states.note(start_with_replicas(tmp_path, lost=[3, 4], follows=follows), True)
    assert states.outdated == {"b", "c"}
    states.note(start_with_replicas(tmp_path, lost=[5], follows=follows), True)      # both had one, and server 1 has none now
    assert states.outdated == {"a"} and states.usable({"b"}) == 1


def placed(layout):
    """The hosts of each kind of rank, in the order of ranks."""
    found, words = {"pserver": [], "python": [], "--standby": [], "--replica": []}, line(FIVE, layout)
    for at in (at for at, word in enumerate(words) if word == "-np"):
        host, kind = words[at - 1].partition(":")[0], words[at + 2]
        if kind == "pserver" and words[at + 3:at + 4] in (["--standby"], ["--replica"]):
            kind = words[at + 3]
        found[kind] += [host] * int(words[at + 1])
    return [found[kind] for kind in ("pserver", "python", "--standby", "--replica")]


@pytest.mark.parametrize("layout, asked, found", [
    (Layout(2, 2, hosts="a,b,c,d"), 0, 8), (Layout(2, 2, hosts="a,b"), 0, None),
    (Layout(1, 1), 0, None), (Layout(1, 1), 3, 3), (Layout(2, 2, hosts="a,b,c,d"), 3, 3)])
def test_servers_have_their_hosts_cores(layout, asked, found, monkeypatch):
    monkeypatch.delenv("TRIREME_SERVER_THREADS", raising=False)
    hosts = SimpleNamespace(cores=lambda: 8, count=4)
    env = supervisor.Launch(layout, [str(SCRIPT)], server_threads=asked).environment(".", hosts if layout.hosts else None)
    assert env.get("TRIREME_SERVER_THREADS") == (None if found is None else str(found))


def test_other_hosts_compute_products_as_this_one(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    job = supervisor.Launch(Layout(1, 1, hosts="a,b"), [str(SCRIPT)])
    words = job.command(job.environment(".", SimpleNamespace(cores=lambda: 8, count=2)), None, None)
    assert ["-x", "OPENBLAS_CORETYPE"] in [words[at:at + 2] for at in range(len(words))]


def test_trainers_begin_where_servers_end():
    assert placed(Layout(2, 4, hosts="a,b,c", standbys=1)) == [["a", "b"], ["c", "c", "a", "b"], ["a", "b", "c"], []]
    assert placed(Layout(3, 3, hosts="a,b,c")) == [["a", "b", "c"], ["a", "b", "c"], [], []]
    assert placed(Layout(0, 2, hosts="u@a,b"))[1] == ["u@a", "b"]


def test_a_host_has_as_much_as_it_has_slots():
    assert placed(Layout(1, 6, hosts="a:4,b:2"))[:2] == [["a"], ["b", "b", "a", "a", "a", "a"]]
    servers, _, _, replicas = placed(Layout(4, 1, hosts="a:3,b", replicas=1))
    assert servers == ["a", "b", "a", "a"] and replicas == ["a"] * 3 + ["b"] * 3
    assert placed(Layout(3, 0, hosts="a,b,u@a:1"))[0] == ["a", "b", "a"]     # named twice: two slots
    for wrong in ("a:x", "a:0"):
        with pytest.raises(InvalidArgumentError, match=f"host '{wrong}': '{wrong[2:]}' is no number of slots"):
            line(FIVE, Layout(1, 1, hosts=wrong))
    with pytest.raises(InvalidArgumentError, match="host ':3' has no name"):
        line(FIVE, Layout(1, 1, hosts=":3"))


def test_trainers_of_a_host_follow_each_other_and_are_a_group():
    assert placed(Layout(2, 7, hosts="a:3,b:2,c:4"))[1] == ["c"] * 4 + ["a"] * 2 + ["b"]
    assert Layout(2, 7, hosts="a:3,b:2,c:4").host_groups() == "4,2,1"
    assert Layout(2, 7).host_groups() == "7"


def groups_of(launch):
    return launch.environment(".")["TRIREME_HOST_GROUPS"]


def test_a_run_keeps_its_groups_in_all_starts(monkeypatch):
    monkeypatch.delenv("TRIREME_HOST_GROUPS", raising=False)
    job = supervisor.Launch(Layout(1, 5, hosts="a:3,b:3"), [str(SCRIPT)])
    assert groups_of(job) == "3,2"
    job.layout = Layout(1, 5, hosts="a:3")                     # b is lost
    assert groups_of(job) == "3,2"
    monkeypatch.setenv("TRIREME_HOST_GROUPS", "1,4")
    assert groups_of(supervisor.Launch(Layout(1, 5, hosts="a:3,b:3"), [str(SCRIPT)])) == "1,4"


def test_a_run_that_goes_on_keeps_its_groups_if_it_has_as_many_trainers(tmp_path, monkeypatch, exe):
    monkeypatch.delenv("TRIREME_HOST_GROUPS", raising=False)
    fluid.layers.fc(fluid.layers.data("x", [2]), 1)
    exe.run(fluid.default_startup_program())
    fluid.io.save_checkpoint(exe, str(tmp_path))               # of one process: one trainer

    def found(trainers, **how):
        layout = Layout(1, trainers, hosts="a,b,c")
        return groups_of(supervisor.Launch(layout, [str(SCRIPT)], checkpoints=Checkpoints(str(tmp_path), **how)))

    assert found(1, resume=True) == found(1) == "1"
    assert found(4, resume=True) == found(4, resume_or_begin=True) == found(4) == "2,1,1"


@pytest.mark.parametrize("options, message", [
    (["--trainers", "0"], "--trainers: '0'; a whole number from 1 on is possible"),
    (["--standbys", "-1"], "--standbys: '-1'; a whole number from 0 on is possible"),
    (["--timeout", "nan"], "--timeout: 'nan'; a number above 0 is possible"),
    (["--progress", "inf"], "--progress: 'inf'; a number from 0 on is possible"),
    (["--checkpoint-seconds", "soon"], "--checkpoint-seconds: 'soon'; a number above 0 is possible"),
    (["--log", ""], "--log: '' is no folder"),
    (["--hosts", ""], "--hosts: '' is no list of hosts"),
    ([], "the following arguments are required: script"),
])
def test_options_that_make_no_sense_are_named_at_once(options, message, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["launch", *options, *[str(SCRIPT)] * bool(options)])
    said = capsys.readouterr().err
    assert end.value.code == 2 and message in said.splitlines()[0]


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "u@-x", "-u@a", "a b", "a;b", "$(a)"])
def test_a_host_that_ssh_would_take_for_something_else_is_refused(host, tmp_path):
    with pytest.raises(InvalidArgumentError, match="is no name of a host"):
        Layout(1, 1, hosts=host).slots()
    if " " not in host:
        (tmp_path / "hosts").write_text(f"good\n{host} slots=2\n")
        with pytest.raises(InvalidArgumentError, match="is no name of a host"):
            Layout(1, 1, hostfile=str(tmp_path / "hosts")).slots()


def test_names_of_hosts():
    assert list(Layout(1, 1, hosts="node-01.cluster_a:2,me@10.0.0.1,domain\\me@b").slots()) == ["node-01.cluster_a", "10.0.0.1", "b"]


def test_a_script_is_no_option_of_python_and_its_arguments_are_none_of_mpiruns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("-c.py").touch()
    assert trainer_command(["-c.py", "-x"])[1:] == ["./-c.py", "-x"]
    with pytest.raises(InvalidArgumentError, match="argument ':' cannot pass"):
        trainer_command(["-c.py", ":"])


@needs_mpi
def test_an_option_of_the_launcher_behind_the_script_is_said(capsys):
    assert cli.main(["launch", "--dry-run", str(SCRIPT), "--servers", "2", "--steps", "3", "--mode=sync", "--", "--log"]) == 0
    said = capsys.readouterr().err
    assert f"--servers, --mode after {SCRIPT} goes to the script" in said and f"trireme launch --servers ... {SCRIPT}" in said
    assert cli.main(["launch", "--servers", "2", "--dry-run", str(SCRIPT), "--steps", "3"]) == 0
    assert capsys.readouterr().err == ""


def test_a_misspelled_option_is_answered_with_the_right_one(capsys):
    with pytest.raises(SystemExit):
        cli.main(["launch", "--serverz=2", "--trainers=2", "--reestarts=1", str(SCRIPT)])
    assert "did you mean --servers and --restarts?" in capsys.readouterr().err


def test_a_folder_without_a_checkpoint_is_not_resumed_from(tmp_path):
    (tmp_path / "checkpoints" / "step-000000001").mkdir(parents=True)
    (tmp_path / "checkpoints" / "step-000000001" / "manifest").touch()
    (tmp_path / "empty").mkdir()
    for name, why in (("chekpoints", rf"does not exist; did you mean '{tmp_path}/checkpoints'\?"), ("empty", "holds no checkpoint;")):
        with pytest.raises(NotFoundError, match=f"--resume: the folder '{tmp_path}/{name}' {why}"):
            Checkpoints(str(tmp_path / name), resume=True).check()


def test_a_command_for_ssh_that_has_no_end(capsys):
    assert cli.main(["launch", "--hosts", "a", "--ssh", "ssh 'x", str(SCRIPT)]) == 2
    assert "--ssh \"ssh 'x\": No closing quotation" in capsys.readouterr().err


def test_a_job_of_trainers_alone_has_one_part():
    assert ":" not in line(FIVE, Layout(0, 2))


def test_a_mixture_is_refused_by_name(tmp_path):
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
        (folder / mpi.LIBMPI).touch()
    installed = Mpi("/x/mpirun", (5, 0, 11), str(own))
    mpi.check_mixture(installed, f"/nothing:{own}:{other}")
    with pytest.raises(UnsupportedError, match=f"{other}/libmpi.so.40, but the mpirun to be used is /x/mpirun"):
        mpi.check_mixture(installed, f"{other}:{own}")


def test_an_mpirun_that_is_not_there():
    with pytest.raises(NotFoundError, match="no program '/no/mpirun'"):
        mpi.find("/no/mpirun")


def test_an_mpirun_that_is_not_open_mpi(tmp_path):
    other = tmp_path / "mpirun"
    other.write_text("#!/bin/sh\necho HYDRA build details\n")
    other.chmod(0o755)
    with pytest.raises(UnsupportedError, match="is not Open MPI's.*HYDRA"):
        mpi.find(str(other))


def test_an_mpirun_of_4_by_another_name(tmp_path):
    """Debian's mpirun.openmpi, orterun."""
    folder, other = tmp_path / "lib", tmp_path / "bin" / "mpirun.openmpi"
    for path in (folder, other.parent):
        path.mkdir()
    (folder / mpi.LIBMPI).touch()
    other.write_text("#!/bin/sh\necho 'mpirun.openmpi (OpenRTE) 4.1.4'\n")
    other.chmod(0o755)
    assert mpi.find(str(other)) == Mpi(str(other), (4, 1, 4), str(folder))


def test_a_script_that_is_not_there(capsys):
    if not MPIS:
        pytest.skip("no Open MPI is installed")
    assert cli.main(["launch", "nowhere.py"]) == 2
    assert "there is no script or saved job 'nowhere.py'" in capsys.readouterr().err


@needs_mpi
def test_a_server_program_that_is_not_there(monkeypatch, capsys):
    monkeypatch.setenv("TRIREME_PSERVER", "/no/trireme-pserver")
    assert cli.main(["launch", str(SCRIPT)]) == 2
    assert "TRIREME_PSERVER is '/no/trireme-pserver', where there is no program" in capsys.readouterr().err


def test_a_program_that_ends_before_anybody_sees_it(tmp_path):
    """One that lacks a library, say. Nobody waits for it as long as for a rank that is slow to join."""
    ranks = Ranks(os.getpid(), tmp_path, 1, 2)
    ranks.note_remote(1, 11, "h1")
    ranks.note_remote(2, 12, "h1")
    assert ranks.failure() is None
    ranks.grown -= watch._TO_APPEAR
    assert ranks.failure() == Failure(1, "rank 0 (server 0): ended as soon as it was started", unknown=[0])


def test_a_job_without_a_living_trainer_is_not_asked_for_a_checkpoint(tmp_path):
    ranks = Ranks(os.getpid(), tmp_path, 1, 2)
    for name in ("joined.0", "joined.1", "joined.2", "listens.2", "lost.1"):
        (tmp_path / name).touch()
    assert ranks.all_listen()
    (tmp_path / "lost.2").touch()
    assert not ranks.all_listen()


def test_a_resumed_job_tells_its_step_once_and_a_new_one_does_not(tmp_path):
    (tmp_path / "begins.1").write_text("continues after step 7 of trainer 0, from a checkpoint")
    assert not Ranks(os.getpid(), tmp_path, 1, 2).news()
    ranks = Ranks(os.getpid(), tmp_path, 1, 2, has_run_before=True)
    assert ranks.news() == ["the job continues after step 7 of trainer 0, from a checkpoint"] and not ranks.news()


@needs_mpi
def test_a_launcher_that_srun_has_started_is_no_trainer():
    assert "-> " in launch_under_mpi(1, 1, "--steps", 5, env=environment(PMIX_RANK="3"))


def test_a_job_of_processes_that_join_none(monkeypatch, capsys):
    monkeypatch.setenv("TRIREME_LOCAL", "1")
    assert cli.main(["launch", str(SCRIPT)]) == 2
    assert "TRIREME_LOCAL=1 in the environment" in capsys.readouterr().err


@needs_mpi
def test_dry_run_prints_the_line(capsys):
    assert cli.main(["launch", "--servers", "2", "--trainers", "3", "--dry-run", str(SCRIPT), "--steps", "5"]) == 0
    words = capsys.readouterr().out.split()
    assert words[words.index("--steps") + 1] == "5" and "trireme-pserver" in " ".join(words)
    assert words[-1] == "--standby" or words[-4:] == ["trireme.launch.standby", str(SCRIPT), "--steps", "5"]


# -- good ends ---------------------------------------------------------------------------------------------------


@each_mpi
def test_the_first_line_says_which_mpi(version):
    text = launch_under_mpi(1, 1, "--steps", 5, version=version)
    assert f"trireme launch: 1 server, 1 trainer, 1 standby, {MPIS[version]}" in text
    assert text.count("trireme launch:") == 1


@each_mpi
def test_a_job_leaves_no_files_behind(version):
    def leftovers():
        return {path for place in ("/tmp", "/dev/shm") for path in Path(place).glob("trireme-job-*")}

    before = leftovers()
    job = Launched(1, 2, "--steps", 5, version=version)
    assert job.end()[0] == 0
    assert not {path for path in leftovers() - before if f"-{job.process.pid}-" in path.name}


LOOPBACK = {"0100007F", "00000000000000000000000001000000"}


def processes_below(pid):
    children = [int(word) for task in Path(f"/proc/{pid}/task").iterdir() for word in (task / "children").read_text().split()]
    return [pid, *(one for child in children for one in processes_below(child))]


@each_mpi
def test_a_job_of_one_host_listens_on_this_host_alone(version, tmp_path):
    job = Launched(2, 2, "--steps", 100_000, "--mark", tmp_path / "trains", version=version)
    job.await_training(tmp_path / "trains")
    found = [address for pid in processes_below(job.process.pid) for address, _ in listeners(pid)]
    job.process.send_signal(signal.SIGINT)
    job.end()
    assert found and set(found) <= LOOPBACK, found


@needs_mpi
def test_servers_that_hold_nothing_are_said_once(tmp_path):
    (tmp_path / "go").touch()
    text = launch_under_mpi(5, 2, tmp_path / "go", 1, script=SCRIPT.with_name("says.py"))
    assert text.count("servers have nothing to hold") == 1 and re.search(r"^trireme: (\d) of 5 servers have nothing to hold: --servers "
                                                                         r"(\d) is", text, re.M), text
    assert "nothing to hold" not in launch_under_mpi(1, 2, tmp_path / "go", 1, script=SCRIPT.with_name("says.py"))


@needs_mpi
def test_libraries_that_mpirun_preloads_are_not_loaded_by_ranks(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os, trireme; print(os.environ.get('LD_PRELOAD'), 'loopback' in open('/proc/self/maps').read()); os._exit(0)")
    for env, said in ((environment(), "None False"), (environment(LD_PRELOAD="libdl.so.2"), "libdl.so.2 False")):
        assert said in Launched(1, 1, script=script, env=env, options=("--restarts", 0)).end()[1]


@needs_mpi
@pytest.mark.parametrize("option", ["--checkpoint", "--log"])
def test_a_folder_is_for_one_job_at_a_time(option, tmp_path):
    first = Launched(1, 1, "--steps", 100_000, options=(option, tmp_path))
    first.ranks()
    code, text = Launched(1, 1, options=(option, tmp_path)).end()
    first.process.send_signal(signal.SIGINT)
    assert code == 2 and f"{option} {tmp_path}: another job that runs keeps its own there" in text, text
    assert "stopped by SIGINT" in first.end()[1]


def test_a_file_is_no_folder_for_checkpoints(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert cli.main(["launch", "--checkpoint", str(tmp_path / "file"), str(SCRIPT)]) == 2
    assert f"--checkpoint {tmp_path}/file: this is no folder" in capsys.readouterr().err


@each_mpi
@pytest.mark.turns(2, at=1)
def test_a_job_whose_output_nobody_reads_ends_as_any_program_does(version, tmp_path):
    job = Launched(1, 1, "--fault", "print", version=version, options=("--log", tmp_path))
    job.process.stdout.close()
    job.process.stdout = None
    assert job.process.wait(LIMIT) == 128 + signal.SIGPIPE
    assert "nobody reads any more what it prints" in (tmp_path / "launcher.jsonl").read_text()


@needs_mpi
def test_a_log_that_vanishes_ends_no_job(tmp_path):
    job = Launched(1, 1, "--steps", 50, "--pause", 0.01, "--mark", tmp_path / "trains", options=("--log", tmp_path / "log"))
    while not (tmp_path / "trains").exists() and job.process.poll() is None:
        time.sleep(0.01)
    shutil.rmtree(tmp_path / "log")
    code, text = job.end()
    assert code == 0 and f"the log '{tmp_path}/log' cannot be written and ends here" in text, text


def test_files_of_a_killed_launcher_that_is_a_zombie_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed = subprocess.Popen(["sleep", "100"])
    for name in (f"trireme-job-{killed.pid}-x", f"trireme-job-{os.getpid()}-x"):
        (tmp_path / name).mkdir()
    (hosts := tmp_path / "trireme-hosts-x").mkdir()
    (hosts / "owner").write_text(str(killed.pid))
    supervisor._remove_stale()
    assert len(list(tmp_path.iterdir())) == 3          # all owners live
    killed.kill()
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
    supervisor._remove_stale()
    assert [path.name for path in tmp_path.iterdir()] == [f"trireme-job-{os.getpid()}-x"]
    killed.wait()


# -- bad ends ------------------------------------------------------------------------------------------------------


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


ONCE = ("--restarts", 0, "--standbys", 0)


@each_mpi
@pytest.mark.parametrize("victim", [0, 1, 2, 3])
@pytest.mark.turns(2)
def test_a_killed_rank_ends_the_job_soon_and_is_named(version, victim, tmp_path):
    job = Launched(2, 2, "--steps", 100_000, "--mark", tmp_path / "trains", version=version, options=ONCE)
    ranks = job.ranks()
    job.await_training(tmp_path / "trains")          # the start has a test of its own
    time.sleep(random.uniform(0.0, 0.3))
    os.kill(ranks.known[victim].pid, signal.SIGKILL)
    killed = time.monotonic()
    code, text = job.end()
    took = time.monotonic() - killed
    assert code not in (0, None), text
    assert_within(SOON[version], took, text)
    role = f"server {victim}" if victim < 2 else f"trainer {victim - 2}"
    said = job_lines(text)
    assert len(said) == 1 and re.match(rf"rank {victim} \({role}, host .*, pid {ranks.known[victim].pid}\) died; rank \d+ "
                                       r"\(.*\) (was waiting for|had ended)", said[0]), text
    assert f"trireme launch: the job failed, exit code {code}" in text
    assert not any(is_alive(one.pid) for one in ranks.known.values())


def kill_one(version, servers, trainers, latest):
    """Kill a random rank at a random moment after the ranks' processes have started."""
    job = Launched(servers, trainers, "--steps", 100_000, version=version, options=ONCE)
    ranks = job.ranks()
    time.sleep(random.uniform(0.0, latest))
    victim = random.randrange(ranks.size)
    os.kill(ranks.known[victim].pid, signal.SIGKILL)
    killed = time.monotonic()
    code, text = job.end()
    took = time.monotonic() - killed
    assert code not in (0, None) and f"rank {victim} " in text, text
    assert not any(is_alive(one.pid) for one in ranks.known.values())
    assert_within(SOON[version], took, text)


@each_mpi
def test_a_rank_killed_at_any_moment_of_the_start(version):
    for _ in range(3):
        kill_one(version, 1, 2, 1.5)


@each_mpi
@pytest.mark.soak
def test_ranks_killed_at_any_moment(version):
    end = time.monotonic() + float(os.environ.get("TRIREME_SOAK_SECONDS", "60"))
    while time.monotonic() < end:
        kill_one(version, random.randint(1, 3), random.randint(1, 3), 4.0)


@each_mpi
@pytest.mark.turns(2)
def test_an_exception_comes_first_and_ends_the_job(version):
    begin = time.monotonic()
    code, text = Launched(2, 2, "--fault", "raise", "--fault-trainer", 1, version=version).end()
    assert code == 1, text
    assert_within(10, time.monotonic() - begin, text)      # its start and some steps are in it
    assert text.count("Traceback") == 1
    assert text.index("ValueError: the data is bad") < text.index("trireme: rank 3 (trainer 1")
    assert job_lines(text)[0].endswith("ended by ValueError: the data is bad")


@needs_mpi
def test_an_exception_does_not_wait_for_threads_of_the_script():
    """The interpreter does, before it ends, and these go on for minutes."""
    begin = time.monotonic()
    code, text = Launched(2, 2, "--fault", "raise with a thread", "--fault-trainer", 1).end()
    assert code == 1, text
    assert_within(10, time.monotonic() - begin, text)
    assert text.index("ValueError: the data is bad") < text.index("trireme: rank 3 (trainer 1")
    assert job_lines(text)[0].endswith("ended by ValueError: the data is bad")


@needs_mpi
def test_the_exit_code_of_the_script_is_that_of_the_job():
    code, text = Launched(1, 2, "--fault", "exit").end()
    assert code == 3 and "(trainer 0" in job_lines(text)[0] and "exit code 3" in job_lines(text)[0], text


@needs_mpi
@pytest.mark.parametrize("fault, expected", [("SystemExit", 3), ("raise after a hook", 1), ("exit 256", 1)])
def test_no_way_to_fail_looks_like_success(fault, expected):
    """What raises SystemExit itself, as the builtin exit does, is seen by nothing but the process's exit code."""
    code, text = Launched(1, 2, "--fault", fault).end()
    assert code == expected and re.search(rf"rank 1 \(trainer 0, .*ended with exit code {expected}\n", text), text


@each_mpi
@pytest.mark.turns(2, at=1)
def test_a_script_that_fails_before_it_joins(version):
    code, text = Launched(1, 2, "--fault", "import", version=version).end()
    assert code == 1 and "No module named 'no_such_module'" in text
    assert re.search(r"the job failed, exit code 1: rank [12] \(trainer [01]\), pid \d+, ended before it had joined", text)


@needs_mpi
@pytest.mark.parametrize("fault, message", [
    ("fetch", "'unknown_1' is computed on the parameter servers"),
    ("change", "the program was changed after its first step"),
    ("second", "a job trains one program, and this is a second one"),
    ("precision", "this step multiplies matrices in bfloat16, the steps before it did so in float32: a job trains in one precision"),
    ("startup", "has no value yet: run the startup program before the first step"),
    ("disagree", "do not mean the same work:\n  block"),
])
def test_mistakes_end_the_job_and_are_explained(fault, message):
    code, text = ended(2, 2, "--optimizer", "momentum", "--fault", fault)
    assert code == 1 and message in text, text


@needs_mpi
@pytest.mark.parametrize("what, message", [
    ("rate", r"first value of learning_rate_0: .*'value': 0\.1.* here, .*'value': 0\.2.* there"),
    ("startup seed", r"first value of w: .*random seed 3.* here, .*random seed 4.* there"),
    ("initializer", r"first value of w: .*'max': 0\.1.* here, .*'max': 0\.2.* there"),
    ("initializer seed", r"first value of w: .*'seed': 0.* here, .*'seed': 5.* there"),
    ("array", r"first value of v: .*assign_value.* here, .*assign_value.* there"),
    ("momentum",
     (r"operator \d+ of server 0: .*mu=0\.9.* here, .*mu=0\.8.* there|operator \d+ of the trainers: .*'mu': 0\.89.* here, .*'mu': 0\.8.* "
      r"there")),
])
@pytest.mark.parametrize("mode", ["sync", "geo(2)"])
@pytest.mark.turns(2)
def test_values_that_trainer_0_alone_would_have_are_the_same_in_all_scripts(what, message, mode):
    """Trainer 0's counted, and nobody said so."""
    code, text = ended(1, 2, what, script=UNLIKE, options=("--mode", mode))
    assert code == 1 and re.search(r"\(trainer 0, .* \(here\) and rank \d \(trainer 1, .* \(there\) do not mean the same work:", text), text
    assert re.search(message, text), text


@needs_mpi
@pytest.mark.parametrize("what", ["", "loaded", "data", "dropout seed"])
def test_variables_of_one_trainer_alone_may_differ(what):
    code, text = ended(1, 2, what, script=UNLIKE)
    assert code == 0, text


@needs_mpi
@pytest.mark.parametrize("name, text", [("TRIREME_NUM_THREADS", "1e3"), ("TRIREME_NUM_THREADS", "4 "), ("TRIREME_SERVER_THREADS", "0"),
                                        ("TRIREME_TIMEOUT", "abc"),
                                        ("TRIREME_LOG_SECONDS", "0"), ("TRIREME_MODE", "synk"), ("TRIREME_COMPRESS", "int9")])
def test_a_variable_that_makes_no_sense_ends_the_job_and_is_named(name, text):
    code, said = Launched(1, 1, script=UNLIKE, env=environment(**{name: text})).end()
    assert code == 1 and (f"{name}='{text}' in the environment" in said or f"'{text}'" in said), said


@needs_mpi
def test_an_empty_variable_is_one_that_is_not_there():
    names = ("NUM_THREADS", "TIMEOUT", "START_TIMEOUT", "LOG_SECONDS", "MODE", "COMPRESS", "CHECKPOINT", "CHECKPOINT_STEPS", "LOCAL")
    launch_under_mpi(1, 1, script=UNLIKE, env=environment(**{f"TRIREME_{name}": "" for name in names}))


@needs_mpi
@pytest.mark.parametrize("how", [(), ("--own",), ("--own", "--prepare")])
def test_threads_of_a_trainer_take_turns(how):
    """Two in a run at once ended the process by a signal."""
    code, text = Launched(1, 2, *how, script=SCRIPT.with_name("threads.py")).end()
    count = 240 if "--prepare" in how else 241
    assert code == 0 and text.count(f"{count} steps, the last {count}, {count} numbers") == 2, text


@needs_mpi
def test_a_copy_of_a_trainer_makes_no_steps():
    """It had the trainer's connections, and two that wrote to them ended both, or hung."""
    code, text = Launched(1, 2, "--fault", "fork").end()
    assert code == 0 and text.count("-> ") == 2, text
    assert "this process is a copy (os.fork) of a trainer, which alone is a rank of the job" in text


@needs_mpi
@pytest.mark.parametrize("mode", ["sync", "geo(2)"])
def test_a_trainer_without_any_data_stops_nobody(mode, tmp_path):
    options = ("--mode", mode, "--checkpoint", tmp_path / "c")
    code, text = Launched(1, 2, "--no-data", 0, options=options).end()
    assert code == 0 and re.search(r"trainer 1 of 2: .* -> ", text), text


@needs_mpi
def test_a_job_without_servers_is_refused():
    code, text = Launched(0, 2).end()
    assert code == 2 and text.startswith("trireme launch: argument --servers: '0'; a whole number from 1 on is possible"), text
    line = [next(iter(MPIS.values())).mpirun, "--oversubscribe", "--allow-run-as-root", "-np", "2", sys.executable, SCRIPT]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode and "a job of 0 servers and 2 trainers" in done.stderr, done.stderr


@needs_mpi
def test_a_job_that_takes_too_long_names_a_trainer_that_makes_no_step():
    code, text = Launched(1, 2, "--prepare", 60, options=("--timeout", 4, "--progress", 0)).end()
    assert code == 124 and re.search(r"it did not end within 4 s; rank 1 \(trainer 0\) has made no step for \d+ s; rank 2 \(trainer 1\) "
                                     r"has made", text), text


@needs_mpi
@pytest.mark.parametrize("again", [False, True])
def test_a_key_that_interrupts_ends_a_job_within_a_second(again, tmp_path):
    """The terminal sends it to all processes of its foreground."""
    for version in MPIS:
        job = Launched(1, 2, "--steps", 100_000, "--mark", tmp_path / version, version=version)
        ranks = job.ranks()
        job.await_training(tmp_path / version)
        begin = time.monotonic()
        job.process.send_signal(signal.SIGINT)
        while again and job.process.poll() is None:    # an impatient user, until the launcher's last moment
            time.sleep(0.01)
            job.process.send_signal(signal.SIGINT)
        code, text = job.end()
        assert code == 130 and text.count("trireme launch:") == 2 and "Traceback" not in text, text
        assert_within(1.0, time.monotonic() - begin, text)
        assert not any(is_alive(one.pid) for one in ranks.known.values())
        assert not [path for place in ("/tmp", "/dev/shm") for path in Path(place).glob(f"trireme-*{job.process.pid}-*")]


@needs_mpi
def test_a_job_that_takes_too_long():
    begin = time.monotonic()
    code, text = Launched(1, 1, "--steps", 100_000, options=("--timeout", "2")).end()
    assert code == 124 and "did not end within 2 s" in text
    assert_within(8, time.monotonic() - begin, text)


@each_mpi
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
@pytest.mark.turns(2)
def test_a_signal_to_the_launcher_ends_all_ranks(version, number):
    job = Launched(1, 2, "--steps", 100_000, version=version)
    ranks = job.ranks()
    time.sleep(0.5)
    job.process.send_signal(number)
    code, text = job.end()
    assert code == 128 + number and f"stopped by {number.name}" in text, text
    assert not any(is_alive(one.pid) for one in ranks.known.values())


@each_mpi
def test_a_killed_mpirun_ends_all_ranks(version):
    job = Launched(1, 2, "--steps", 100_000, version=version, options=ONCE)
    ranks = job.ranks()
    time.sleep(0.8)
    mpirun = int(Path(f"/proc/{ranks.known[0].pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(mpirun, signal.SIGKILL)
    code, text = job.end()
    assert code != 0, text
    assert not any(is_alive(one.pid) for one in ranks.known.values())


@needs_mpi
def test_a_rank_does_not_launch():
    words = [next(iter(MPIS.values())).mpirun, *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "-np", "1"]
    done = subprocess.run([*words, sys.executable, "-m", "trireme", "launch", str(SCRIPT)], env=environment(), capture_output=True,
                          text=True, timeout=LIMIT, check=False)
    assert done.returncode == 2 and "is itself a rank of a job" in done.stderr
