"""Before a job begins: the line of mpirun, where ranks are placed, and mistakes that the launcher finds by itself."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from job_support import MPIS, SCRIPT, environment, launch_under_mpi, needs_mpi

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
