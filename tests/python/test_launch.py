"""``trireme launch``: how jobs end."""

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

import pytest
from job_support import (LIMIT, MPIS, SCRIPT, UNLIKE, Launched, ended, assert_within,
                         each_mpi, environment, job_lines, launch_under_mpi, listeners, needs_mpi)

from trireme.launch import cli
from trireme.launch import supervisor

pytestmark = pytest.mark.mpi
SOON = {"5": 1.0, "4": 5.0}                            # seconds from a rank's death to the launcher's end


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
