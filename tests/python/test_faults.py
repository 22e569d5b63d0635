"""What docs/faults.md promises and no other file tests: deaths at the start, of the launcher, in bad surroundings."""

import contextlib
import glob
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from job_support import (
    LIMIT,
    MPIS,
    SCRIPT,
    Launched,
    assert_finite,
    assert_within,
    bad_transport,
    each_mpi,
    environment,
    job_lines,
    launch,
    launch_command,
    launch_under_mpi,
    needs_mpi,
    said_in,
)

from trireme.launch import ends
from trireme.launch.watch import Ranks

pytestmark = pytest.mark.mpi
STEPS = 80
ARGS = ("--steps", STEPS, "--optimizer", "adam", "--pause", 0.004)
MODES = ["async", "ssp(2)", "geo(3)", "sync(backups=1)"]


def results(path):
    with np.load(path) as data:
        return {name: data[name] for name in data.files if name != "losses"}


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(condition, what, seconds=LIMIT):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def launched(*args, replacements=True, **how):
    """A job with standbys for all, as the launcher starts them by itself."""
    return Launched(*args, replacements=replacements, **how)


def begin(tmp_path, *args, servers=2, trainers=2, standbys=1, **how):
    """A job that has made its first step, and the processes of its ranks."""
    mark = tmp_path / "begun"
    mark.unlink(missing_ok=True)
    job = launched(servers, trainers, *args, "--mark", mark, hold=tmp_path / "go", **how)
    ranks = Ranks(job.process.pid, Path("/nonexistent"), servers, trainers, standbys)
    job.wait_for(lambda: ranks.look(0.0) or len(ranks.known) == ranks.size and mark.exists(), "a step of all ranks")
    return job, ranks


def mpirun_of(ranks):
    return int(Path(f"/proc/{ranks.known[0].pid}/stat").read_text().rpartition(")")[2].split()[1])


def kept_by(job):
    """The job's files in shared memory and where temporary files are."""
    return [path for place in (tempfile.gettempdir(), "/dev/shm") for path in glob.glob(f"{place}/trireme-*-{job.process.pid}-*")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "r.npz"
    launch(2, 2, *ARGS, "--out", out)
    return results(out)


def assert_undisturbed(path, undisturbed):
    for name, value in undisturbed.items():
        np.testing.assert_array_equal(results(path)[name], value, err_msg=name)


def test_every_test_that_the_table_of_faults_names_exists():
    root = Path(__file__).resolve().parents[2]
    named = set(re.findall(r"(?<!/)\b[a-z]+(?:_[a-z0-9]+){2,}\b", (root / "docs" / "faults.md").read_text()))
    files = [*root.glob("tests/python/test_*.py"), *root.glob("tests/pserver/test_*.c"), *root.glob("tests/storage/test_*.c")]
    tests = "".join(path.name + path.read_text() for path in files)
    assert len(named) > 30 and not [name for name in named if name not in tests]


# -- before all have joined ----------------------------------------------------------------------------------------------


@each_mpi
@pytest.mark.parametrize("victim", [0, 3])
@pytest.mark.turns(2)
def test_a_rank_that_dies_before_it_has_joined_is_started_again(version, victim, undisturbed, tmp_path):
    job = launched(2, 2, *ARGS, "--prepare", 1.0, "--out", tmp_path / "r.npz", version=version)
    ranks = job.ranks()
    until(lambda: said_in(job, f"began.{victim}"), "it does not begin")
    time.sleep(random.uniform(0, 0.3))
    os.kill(ranks.known[victim].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "starting the job again (1 of 3)" in text, text
    assert_undisturbed(tmp_path / "r.npz", undisturbed)


@pytest.mark.parametrize("has_run_before, files, is_death", [
    (False, {}, True),
    (True, {}, True),
    (False, {"began.0": ""}, True),
    (False, {"began.0": "", "failed.0": "3\nexit code 3"}, False),
    (True, {"told.0": "they disagree"}, False),
    (True, {"told.0": "rank 0 died", "died.0": "died"}, True),
    (True, {"late.0": "", "began.0": ""}, True),
])
def test_a_rank_that_vanishes_without_a_word_has_died(has_run_before, files, is_death, tmp_path):
    rank = subprocess.Popen(["sleep", "60"], env={"OMPI_COMM_WORLD_RANK": "0", "PATH": "/usr/bin:/bin"})
    ranks = Ranks(os.getpid(), tmp_path, 0, 1, has_run_before=has_run_before)
    until(lambda: ranks.look(0) or ranks.known, "it is not found")
    assert ranks.failure() is None
    rank.kill()
    rank.wait()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    until(lambda: ranks.look(0) or ranks.known[0].gone, "it lives")
    assert ranks.failure().is_death == is_death and ranks.failure().code == (3 if "failed.0" in files else 1)
    assert "rank 0 (trainer 0)" in ranks.failure().text
    ranks.close()


def test_a_process_that_ends_before_it_is_a_rank_has_not_died(tmp_path):
    """An interpreter that does not find the package."""
    rank = subprocess.Popen(["sh", "-c", "read word; exit 7"], stdin=subprocess.PIPE,
                            env={"OMPI_COMM_WORLD_RANK": "0", "PATH": "/usr/bin:/bin"})
    ranks = Ranks(os.getpid(), tmp_path, 0, 1)
    until(lambda: ranks.look(0) or ranks.known, "it is not found")
    rank.stdin.close()
    until(lambda: ranks.look(0) or ranks.known[0].gone, "it lives")
    failure = ranks.failure()
    assert failure.code == 7 and not failure.is_death and "ended with exit code 7 before it had joined the job" in failure.text
    rank.wait()
    ranks.close()


@pytest.mark.parametrize("is_reaped", [False, True])
def test_the_kernel_tells_how_a_process_ended(is_reaped):
    process = subprocess.Popen(["sleep", "60"])
    fd = os.pidfd_open(process.pid)
    assert ends.status_of(process.pid, fd) is None
    process.send_signal(signal.SIGTERM)
    if is_reaped:
        process.wait()
    else:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    status = ends.status_of(process.pid, fd)
    process.wait()
    os.close(fd)
    assert ends.describe(status) == "killed by SIGTERM" or status is None and is_reaped       # before Linux 6.15


@each_mpi
@pytest.mark.skipif(tuple(map(int, os.uname().release.split(".")[:2])) < (6, 15),
                    reason="the kernel does not tell how others' children ended")
@pytest.mark.turns(2)
def test_a_trainer_that_is_killed_before_its_first_import_is_started_again(version, tmp_path):
    (tmp_path / "script.py").write_text(
        "import os, signal\nfrom pathlib import Path\n"
        f"mark = Path({str(tmp_path / 'mark')!r})\n"
        "if os.environ['OMPI_COMM_WORLD_RANK'] == '1' and not mark.exists():\n    mark.touch(); os.kill(os.getpid(), signal.SIGKILL)\n"
        f"import runpy, sys\nsys.argv[1:] = ['--steps', '5']\nrunpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n")
    code, text = launched(1, 2, script=tmp_path / "script.py", version=version).end()
    assert code == 0 and "killed by SIGKILL before it had joined the job; starting the job again (1 of 3)" in text, text


OLD_KERNEL = ("import sys; from trireme.launch import ends; ends.status_of = lambda *_: None; from trireme.launch.cli import main; "
              "sys.exit(main(sys.argv[1:]))")


@each_mpi
@pytest.mark.parametrize(("end", "starts"), [("os.kill(os.getpid(), signal.SIGKILL)", 2), ("sys.exit('no data')", 1)])
@pytest.mark.turns(2)
def test_a_kernel_that_does_not_tell_how_a_process_ended(version, end, starts, tmp_path):
    """A script that gives up before it imports the package says why; a process that is killed says nothing."""
    (tmp_path / "script.py").write_text(
        "import os, runpy, signal, sys\nfrom pathlib import Path\n"
        f"mark = Path({str(tmp_path / 'mark')!r} + os.environ['TRIREME_ATTEMPT'])\n"
        f"mark.touch()\nif os.environ['OMPI_COMM_WORLD_RANK'] == '1' and mark.name == 'mark0':\n    {end}\n"
        f"sys.argv[1:] = ['--steps', '5']\nrunpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n")
    command = launch_command(1, 2, version=version, script=tmp_path / "script.py", options=("--progress", 0))
    done = subprocess.run([sys.executable, "-c", OLD_KERNEL, *command[3:]], env=environment(), capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    assert (done.returncode == 0) == (starts == 2), done.stderr
    assert len(list(tmp_path.glob("mark?"))) == starts and "ended before it had joined the job" in done.stderr, done.stderr


@each_mpi
@pytest.mark.parametrize("mode", ["sync(backups=1)", "async"])
@pytest.mark.turns(2)
def test_a_trainer_lost_in_one_start_is_not_lost_in_the_next(version, mode, tmp_path):
    """Server 0 dies there before all have agreed: what counts is of the start before, in which trainer 0 had died."""
    job, ranks = begin(tmp_path, "--steps", 300, "--pause", 0.01, servers=1, trainers=3, replacements=False, version=version,
                       options=("--mode", mode), env=environment(TRIREME_TRANSPORT=bad_transport(tmp_path, "DEAF")))
    os.kill(ranks.known[1].pid, signal.SIGKILL)
    until(lambda: said_in(job, "lost.1"), "the server does not miss trainer 0")
    time.sleep(0.1)
    os.kill(mpirun_of(ranks), signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "starting the job again (2 of 3)" in text and text.count(" of 3: ") == 3, text
    assert "server 0 died before all trainers had agreed on the work" in text, text


@each_mpi
@pytest.mark.turns(2, at=1)
def test_deaths_at_every_start_end_the_job(version):
    code, text = launched(1, 2, "--fault", "kill early", version=version, options=("--restarts", 1)).end()
    assert code != 0 and "starting the job again (1 of 1)" in text, text
    assert re.search("(ended|killed by SIGKILL) before it had joined", text), text


@needs_mpi
def test_a_rank_that_sleeps_at_the_start_is_started_again(undisturbed, tmp_path):
    """Who waits for it in vain says so, without a traceback."""
    job = launched(2, 2, *ARGS, "--prepare", 1.0, "--out", tmp_path / "r.npz", env=environment(TRIREME_START_TIMEOUT="6"))
    ranks = job.ranks()
    until(lambda: said_in(job, "joins.0"), "it does not join")
    os.kill(ranks.known[0].pid, signal.SIGSTOP)
    code, text = job.end()
    assert code == 0 and "starting the job again" in text and "within 6 s" in text and "Traceback" not in text, text
    assert_undisturbed(tmp_path / "r.npz", undisturbed)


@needs_mpi
def test_a_script_that_is_late_for_its_first_step_is_named():
    job = launched(1, 2, "--prepare", 30, env=environment(TRIREME_START_TIMEOUT="3"))
    code, text = job.end()
    assert code == 1 and "again" not in text, text
    assert "rank 1 (trainer 0), rank 2 (trainer 1): no first step within TRIREME_START_TIMEOUT seconds" in text, text


@needs_mpi
@pytest.mark.parametrize("fault, code", [("exit early", 3), ("import", 1)])
def test_a_script_that_ends_by_itself_before_it_joins_is_not_started_again(fault, code):
    got, text = launched(1, 2, "--fault", fault).end()
    assert got == code and "again" not in text, text
    assert f"the job failed, exit code {code}: rank " in text and "ended before it had joined the job: " in text, text


# -- trainers that do not wait for each other ---------------------------------------------------------------------------


@needs_mpi
def test_a_server_and_its_standby_may_die_at_once(undisturbed, tmp_path):
    job, ranks = begin(tmp_path, *ARGS, "--out", tmp_path / "r.npz")
    for rank in 1, 4:
        os.kill(ranks.known[rank].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "starting the job again" in text, text
    assert_undisturbed(tmp_path / "r.npz", undisturbed)


@needs_mpi
@pytest.mark.parametrize("mode", MODES)
def test_a_standby_takes_a_servers_place_in_every_mode(mode, tmp_path):
    servers = 1 if "backups" in mode else 2
    job, ranks = begin(tmp_path, *ARGS, "--out", tmp_path / "r.npz", servers=servers, trainers=3,
                       options=("--mode", mode))
    os.kill(ranks.known[servers - 1].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and f"rank {servers - 1} (server {servers - 1}) died; the others go on" in text, text
    assert "again" not in text and text.count(" of 3: ") == 3, text
    assert_finite(results(tmp_path / "r.npz"))


@needs_mpi
@pytest.mark.parametrize("mode", ["sync", *MODES])
def test_a_trainer_whose_data_end_early_stops_nobody(mode):
    text = launch(1 if "backups" in mode else 2, 3, "--steps", 30, "--fault", "no more data", "--fault-trainer", 1,
                  options=("--mode", mode))
    assert text.count(" of 3: ") == 3 and "died" not in text and "again" not in text, text


@each_mpi
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.turns(2)
def test_a_rank_that_dies_after_its_goodbye_is_missed_by_nobody(version, mode, tmp_path):
    """A trainer whose data end early waits for the others' ends, for hours, say."""
    args = ("--steps", 60, "--fault", "no more data", "--fault-trainer", 1)
    job, ranks = begin(tmp_path, *args, "--pause", 0.04, "--out", tmp_path / "r.npz", trainers=3, version=version, options=("--mode", mode))
    until(lambda: said_in(job, "done.3"), "trainer 1 does not leave")
    time.sleep(0.3)
    assert job.process.poll() is None and not said_in(job, "done.2")
    os.kill(ranks.known[3].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "again" not in text and text.count(" of 3: ") == 3, text
    if mode == "sync":
        launch(2, 3, *args, "--out", tmp_path / "w.npz")
        assert_undisturbed(tmp_path / "r.npz", results(tmp_path / "w.npz"))


@each_mpi
@pytest.mark.parametrize("victim", [0, 2, 4], ids=["server", "trainer", "standby"])
@pytest.mark.turns(2)
def test_a_rank_that_dies_after_all_goodbyes_is_missed_by_nobody(version, victim, tmp_path):
    library = bad_transport(tmp_path, f"LAST={victim}")
    job = launched(2, 2, *ARGS, version=version, env=environment(TRIREME_TRANSPORT=library))
    code, text = job.end()
    assert code == 0 and "again" not in text and "died" not in text, text
    assert kept_by(job) == []


@needs_mpi
def test_a_standby_serves_within_a_second(tmp_path):
    """The longest step of the best of three, on a machine that does other things as well."""
    gaps = []
    while len(gaps) < 3 and (not gaps or min(gaps) > 1):
        job, ranks = begin(tmp_path, *ARGS, "--times", tmp_path / "times")
        os.kill(ranks.known[1].pid, signal.SIGKILL)
        code, text = job.end()
        assert code == 0 and "the others go on" in text, text
        gaps.append(np.diff(np.loadtxt(tmp_path / "times")).max())
    assert_within(1, min(gaps), gaps)


# -- all at once -----------------------------------------------------------------------------------------------------------


def halt_and_kill(tmp_path, mode, servers, who, *, standbys=1, options=()):
    """Let both trainers halt behind half of their steps, and kill them and whoever else is named. Return the job's end."""
    halted = tmp_path / "halted"
    job = launched(servers, 2, "--steps", STEPS, "--optimizer", "adam", "--fault", "halt once", "--fault-trainer", -1, "--halted", halted,
                   "--out", tmp_path / "r.npz", replacements=standbys > 1, options=("--mode", mode, "--standbys", standbys, *options))
    ranks = Ranks(job.process.pid, Path("/nonexistent"), servers, 2, standbys)
    job.wait_for(lambda: ranks.look(0.0) or all(Path(f"{halted}.{index}").exists() for index in (0, 1)) and len(ranks.known) == ranks.size,
                 "two that halt")
    job.wait_for(lambda: said_in(job, f"listens.{servers}") or "--checkpoint" not in options, "one that listens")
    victims = {"trainers": (), "and server 0": (0,), "and servers": range(servers),
               "all": (*range(servers), *range(servers + 2, ranks.size))}
    for rank in (servers, servers + 1, *victims[who]):
        signal.pidfd_send_signal(ranks.known[rank].fd, signal.SIGKILL)
    return job.end()


def assert_nothing_was_lost(code, text):
    """But for what was on its way when they died: some steps, in mode geo an exchange."""
    behind = re.search(r"the job continues after step (\d+) of trainer 0, from the memory of its servers", text)
    computed = dict(re.findall(r"^trainer (\d) of 2: .*, (\d+) of \d+$", text, re.M))
    assert code == 0 and behind and STEPS // 2 - 4 <= int(behind[1]) <= STEPS // 2, text
    assert set(computed) == {"0", "1"} and max(map(int, computed.values())) <= STEPS // 2 + 4, text


@needs_mpi
@pytest.mark.parametrize("mode, who", [                # of each kind of mode each
    ("sync", "trainers"), ("sync", "and server 0"), ("sync", "all"), ("sync(degraded)", "all"), ("sync(backups=1)", "and server 0"),
    ("async", "trainers"), ("async", "all"), ("ssp(2)", "and server 0"), ("geo(4)", "trainers"), ("geo(4)", "all")])
def test_a_rank_that_dies_with_all_trainers_loses_nothing_acknowledged(mode, who, undisturbed, tmp_path):
    code, text = halt_and_kill(tmp_path, mode, 2, who)
    assert_nothing_was_lost(code, text)
    assert "starting the job again (1 of 3)" in text, text
    if mode == "sync":
        assert_undisturbed(tmp_path / "r.npz", undisturbed)


@needs_mpi
@pytest.mark.parametrize("mode", ["ssp(2)", "sync(degraded)"])
def test_servers_know_more_than_a_checkpoint_after_the_death_of_all_trainers(mode, tmp_path):
    """It is of step 25 of 40; who halts takes part in none, so no trainer may be far ahead."""
    code, text = halt_and_kill(tmp_path, mode, 1, "and server 0", options=("--checkpoint", tmp_path / "c", "--checkpoint-steps", 25))
    assert_nothing_was_lost(code, text)
    assert (tmp_path / "c").exists(), text


@pytest.mark.skipif("5" not in MPIS, reason="no Open MPI 5 is installed")
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_standby_does_not_leave_because_the_only_server_has_died(mode, undisturbed, tmp_path):
    """It is to be a trainer's replacement when another standby has taken the server's place."""
    code, text = halt_and_kill(tmp_path, mode, 1, "and server 0", standbys=3)
    assert code == 0 and text.count(" of 2: ") == 2, text
    assert "again" in text or text.count("takes the place of trainer") == 2, text
    if mode == "sync":
        assert_undisturbed(tmp_path / "r.npz", undisturbed)


# -- silence -----------------------------------------------------------------------------------------------------------------


@each_mpi
@pytest.mark.turns(2)
def test_a_user_chooses_how_long_a_rank_may_be_silent(version, undisturbed, tmp_path):
    job, ranks = begin(tmp_path, *ARGS, "--out", tmp_path / "r.npz", version=version, env=environment(TRIREME_TIMEOUT="1.5"))
    os.kill(ranks.known[0].pid, signal.SIGSTOP)
    code, text = job.end()
    assert code == 0 and "rank 0 (server 0) was silent for 1.5 s; the others go on" in text, text
    assert_undisturbed(tmp_path / "r.npz", undisturbed)


@each_mpi
@pytest.mark.soak
@pytest.mark.parametrize("victim", [0, 3])             # a server, trainer 1
def test_a_rank_that_wakes_after_half_a_minute_changes_nothing(version, victim, tmp_path):
    steps = 45 / 0.02
    job, ranks = begin(tmp_path, "--steps", int(steps), "--pause", 0.02, "--out", tmp_path / "r.npz", version=version,
                       options=("--mode", "async", "--timeout", 200))
    signal.pidfd_send_signal(ranks.known[victim].fd, signal.SIGSTOP)
    time.sleep(30)
    try:
        signal.pidfd_send_signal(ranks.known[victim].fd, signal.SIGCONT)
    except ProcessLookupError:
        assert victim == 0 or version == "5"           # who took its place has ended it
    code, text = job.end(150)
    assert code == 0 and "was silent for 3.0 s; the others go on" in text, text
    assert_finite(results(tmp_path / "r.npz"))


@each_mpi
@pytest.mark.parametrize("mode, victim, name", [("async", 3, "trainer 1"), ("sync(degraded)", 3, "trainer 1"), ("sync", 4, "standby 0")])
@pytest.mark.turns(2)
def test_a_rank_that_wakes_when_the_others_have_gone_on_ends_quietly(version, mode, victim, name, tmp_path):
    job, ranks = begin(tmp_path, "--steps", 300, "--pause", 0.02, "--out", tmp_path / "r.npz", version=version,
                       options=("--mode", mode), env=environment(TRIREME_TIMEOUT="1.5"))
    sleeper = ranks.known[victim]
    signal.pidfd_send_signal(sleeper.fd, signal.SIGSTOP)
    until(lambda: said_in(job, f"lost.{victim}"), "it is not missed")
    with contextlib.suppress(ProcessLookupError):      # its replacement has ended it
        signal.pidfd_send_signal(sleeper.fd, signal.SIGCONT)
    until(lambda: not is_running(sleeper.pid), "it lives")
    assert job.process.poll() is None, "the job was at its end too soon for this test"
    code, text = job.end()
    assert code == 0 and f"rank {victim} ({name}) was silent for 1.5 s; the others go on" in text, text
    assert text.count("silent for 1.5 s; the others go on") == 1 and "Traceback" not in text and not job_lines(text), text
    assert text.count(" of 2: ") == (2 if mode == "sync" or version == "5" else 1), text


@needs_mpi
@pytest.mark.parametrize("victim, said", [
    (1, "rank 1 (server 1) was silent for 3.0 s; the others go on"),
    (3, "takes the place of trainer 1" if "5" in MPIS else "starting the job again (1 of 3)")])
def test_a_rank_that_loops_for_ever_inside_mpi_is_declared_dead(victim, said, undisturbed, tmp_path):
    flag = tmp_path / "stuck"
    library = bad_transport(tmp_path, f"STUCK={victim}", f'FLAG="{flag}"')
    job, ranks = begin(tmp_path, *ARGS, "--out", tmp_path / "r.npz", env=environment(TRIREME_TRANSPORT=library))
    flag.touch()
    code, text = job.end()
    assert code == 0 and said in text, text
    assert not any(is_running(one.pid) for one in ranks.known.values())
    assert_undisturbed(tmp_path / "r.npz", undisturbed)


@each_mpi
def test_a_daemon_that_sleeps_holds_up_nobody(version, undisturbed, tmp_path):
    job, ranks = begin(tmp_path, *ARGS, "--out", tmp_path / "r.npz", version=version)
    mpirun = mpirun_of(ranks)
    os.kill(mpirun, signal.SIGSTOP)
    code, text = job.end()
    assert code == 0 and not is_running(mpirun), text
    assert_undisturbed(tmp_path / "r.npz", undisturbed)
    assert not kept_by(job)


@needs_mpi
def test_a_sleeping_mpirun_does_not_hold_up_the_end_of_a_failed_job(tmp_path):
    job, ranks = begin(tmp_path, *ARGS, servers=1, trainers=2, replacements=False, options=("--mode", "async", "--restarts", 0))
    os.kill(mpirun_of(ranks), signal.SIGSTOP)
    for rank in (1, 2):
        os.kill(ranks.known[rank].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 1 and "the job failed, exit code 1: all trainers have died" in text, text


# -- the launcher ---------------------------------------------------------------------------------------------------------


@each_mpi
def test_no_process_is_left_of_a_job_whose_launcher_is_killed(version, tmp_path):
    for seconds in (random.uniform(0, 0.3), random.uniform(0, 2)):       # at the start; in the middle
        job = launched(2, 2, "--steps", 100_000, version=version)
        ranks = job.ranks()
        time.sleep(seconds)
        mpirun = mpirun_of(ranks)
        ranks.look(0)
        job.process.kill()
        job.process.communicate(timeout=LIMIT)
        pids = [mpirun, *(one.pid for one in ranks.known.values())]
        until(lambda: not any(map(is_running, pids)), "processes are left")
        launch_under_mpi(1, 1, "--steps", 3, version=version)
        assert not kept_by(job)


# -- bad surroundings ------------------------------------------------------------------------------------------------------


def in_small_memory(command, megabytes):
    """Run a command where /dev/shm has only so much room."""
    if os.geteuid() or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("a /dev/shm of one's own needs root")
    script = f'mount -t tmpfs -o size={megabytes}m tmpfs /dev/shm && exec "$@"'
    return subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", *map(str, command)], env=environment(),
                          capture_output=True, text=True, timeout=LIMIT, check=False)


@needs_mpi
@pytest.mark.parametrize("megabytes", [1, 40])
def test_a_full_shared_memory_is_said(megabytes):
    """The first is too little for the ranks, which the launcher says; the second is enough for them, and not for the parameters."""
    script = Path(__file__).parent / "jobs" / "train.py"
    done = in_small_memory([sys.executable, "-m", "trireme", "launch", "--trainers", 2, script, "--width", 2_000_000], megabytes)
    print(done.stdout + done.stderr)
    if megabytes == 1:
        assert done.returncode == 2 and "free space in /dev/shm, 1 MB of the 6 MB for each rank" in done.stderr
        return
    assert done.returncode == 1
    assert "no room for" in done.stderr and "/dev/shm" in done.stderr, done.stdout + done.stderr


def corrupt(path, at=None):
    """Change some bits of what says where everything is, and what is to be done."""
    with open(path, "r+b") as file:
        at = at if at is not None else 4096 + random.randrange(300)
        file.seek(at)
        byte, = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 0x24]))


def state_of(job, server):
    path, = [path for path in kept_by(job) if path.endswith(f".server{server}")]
    return path


@each_mpi
@pytest.mark.turns(2, at=1)
def test_a_damaged_state_is_not_used(version, undisturbed, tmp_path):
    """All die at once, and while the launcher looks away, what a server has kept is damaged."""
    job, ranks = begin(tmp_path, *ARGS, "--out", tmp_path / "r.npz", version=version, options=("--standbys", 0), standbys=0)
    job.process.send_signal(signal.SIGSTOP)
    for one in ranks.known.values():
        os.kill(one.pid, signal.SIGKILL)
    until(lambda: not any(is_running(one.pid) for one in ranks.known.values()), "they live")
    corrupt(state_of(job, 1), 4096 + 24)
    job.process.send_signal(signal.SIGCONT)
    code, text = job.end()
    assert code == 0 and "starting the job again (1 of 3)" in text, text
    assert re.search(r"trireme-pserver: the state '\S+server1' is damaged: .*; it is not used", text), text
    assert "the job starts from the beginning" in text, text
    assert_undisturbed(tmp_path / "r.npz", undisturbed)


@each_mpi
@pytest.mark.turns(2)
def test_a_standby_refuses_a_damaged_state(version, undisturbed, tmp_path):
    job, ranks = begin(tmp_path, *ARGS, "--out", tmp_path / "r.npz", version=version, env=environment(TRIREME_TIMEOUT="10"))
    os.kill(ranks.known[4].pid, signal.SIGSTOP)
    os.kill(ranks.known[0].pid, signal.SIGKILL)
    until(lambda: not is_running(ranks.known[0].pid), "it lives")
    corrupt(state_of(job, 0), 4096 + 24)
    os.kill(ranks.known[4].pid, signal.SIGCONT)
    code, text = job.end()
    assert code == 0 and "starting the job again (1 of 3)" in text and "is damaged" in text, text
    assert_undisturbed(tmp_path / "r.npz", undisturbed)
