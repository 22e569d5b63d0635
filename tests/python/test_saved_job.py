"""What trireme-trainer makes of a saved job is what a script makes, to the bit: alone and beside servers."""

import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from job_support import MPIS, Launched, launch_under_mpi, needs_mpi
from saved_job_support import SCRIPT, assert_holds, begin, data, mpirun, run, script, values  # noqa: F401 - a fixture
from test_mutations import crc32c

import trireme as fluid
from trireme import checkpoint as checkpoints
from trireme.launch import cli
from trireme.launch.programs import trainer_program


def costs(out):
    return re.findall(r"^step \d+: cost=\S+(?: \w\S*=\S+)*", out, re.M)


@pytest.mark.parametrize("how", [(), ("--dropout", 0.3), ("--in-memory", "--dropout", 0.3), ("--split", "tasks"),
                                 ("--table", "--optimizer", "sgd")], ids=str)
def test_alone_it_is_a_script_to_the_bit(data, tmp_path, how):
    said = script(data, "--save", tmp_path / "python", *how)
    script(data, "--write", tmp_path / "job", "--save", tmp_path / "c", *how)
    code, out, err = run(trainer_program(), tmp_path / "job")
    assert code == 0, out + err
    assert_holds(tmp_path / "c", tmp_path / "python")
    if "--in-memory" not in how:
        assert costs(out) == costs(said) and len(costs(out)) > 5
    assert re.search(r"^\d+ steps, 300 samples in .* us a step$", out, re.M)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("how", [(), ("--optimizer", "sgd", "--dropout", 0.3), ("--split", "tasks"),
                                 ("--width", 3000, "--compress", "topk(0.1)"), ("--table", "--optimizer", "sgd")], ids=str)
def test_beside_servers_it_is_a_script_to_the_bit(data, tmp_path, how, monkeypatch):
    def losses(of):
        return [json.loads((tmp_path / of / f"trainer-{i}.jsonl").read_text().splitlines()[-1])["loss"] for i in (0, 1)]

    monkeypatch.setenv("TRIREME_LOG", str(tmp_path / "logs"))          # without the launcher, too
    code, out, err = mpirun(2, 2, sys.executable, SCRIPT, data, "--save", tmp_path / "python", *how)
    assert code == 0, out + err
    said = costs(out)
    assert f"cost={losses('logs')[0]:.6g}" in {cost.partition(": ")[2] for cost in said}
    for ahead, wanted in re.findall(r"(\d+) of (\d+) rows ahead", out):
        assert 0.5 * int(wanted) < int(ahead) < int(wanted)            # the loop knows the next batch, mostly
    assert ("rows ahead" in out) == ("--table" in how)
    script(data, "--write", tmp_path / "job", "--servers", 1, 2, *how)
    monkeypatch.setenv("TRIREME_LOG", str(tmp_path / "logs of a saved job"))
    code, out, err = mpirun(2, 2, trainer_program(), "--save", tmp_path / "c", tmp_path / "job")
    assert code == 0, out + err
    assert losses("logs of a saved job") == losses("logs")
    assert_holds(tmp_path / "c", tmp_path / "python")
    assert len(costs(out)) > 2 and set(costs(out)) <= set(said)


@needs_mpi
@pytest.mark.mpi
def test_a_trainers_program_finds_the_servers_rows_by_its_tables_variable_too(data, tmp_path):
    """Jobs that were saved before there was pull_sparse have it so, and their servers' programs do not name the pushed gradient."""
    how = ("--table", "--optimizer", "sgd", "--servers", 2)
    for name, more in (("job", ()), ("old", ("--by-variable",))):
        script(data, "--write", tmp_path / name, "--save", tmp_path / f"of_{name}", *how, *more)
        code, out, err = mpirun(2, 2, trainer_program(), tmp_path / name)
        assert code == 0, out + err
    assert_holds(tmp_path / "of_old", tmp_path / "of_job")
    new, old = ((tmp_path / name).read_bytes() for name in ("job", "old"))
    assert b"pull_sparse" in new and b"@PUSHED" in new and b"pull_sparse" not in old


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("mode", ["async", "ssp(1)", "geo(3)", "sync(backups=1)"])
def test_a_saved_job_runs_in_every_mode(data, tmp_path, mode):
    script(data, "--write", tmp_path / "job", "--servers", 2, "--mode", mode, "--save", tmp_path / "c", "--epochs", 20)
    code, out, err = mpirun(2, 2, trainer_program(), tmp_path / "job")
    assert code == 0, out + err
    assert len(values(tmp_path / "c")) > 3
    first, last = (float(line.partition("=")[2]) for line in (costs(out)[0], costs(out)[-1]))
    assert last < first


def many_files(folder, count=8, lines=9):
    """Small files, each a task: `count * lines` lines in all."""
    for i in range(count):
        (folder / f"f{i}.txt").write_text("".join(f"1 {j % 5} 6 1 2 3 4 5 {i} 1 {j}\n" for j in range(lines)))
    return str(folder / "f*.txt")


def samples(out):
    return [int(count) for count in re.findall(r"steps, (\d+) samples in", out)]


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("mode", ["async", "ssp(1)", "geo(2)"])
def test_leased_tasks_are_each_done_once(tmp_path, mode):
    files = many_files(tmp_path)
    script(files, "--write", tmp_path / "job", "--servers", 2, "--mode", mode, "--split", "tasks", "--optimizer", "sgd",
           *(["--table"] if mode == "async" else []))
    code, out, err = mpirun(2, 1, trainer_program(), tmp_path / "job")
    assert code == 0, out + err
    assert samples(out) == [3 * 72]
    code, out, err = mpirun(2, 2, trainer_program(), tmp_path / "job")
    assert code == 0, out + err
    assert 0 < samples(out)[0] <= 3 * 72


@needs_mpi
@pytest.mark.mpi
def test_a_script_leases_tasks_too(tmp_path):
    files = many_files(tmp_path)
    code, out, err = mpirun(1, 2, "env", "TRIREME_MODE=async", sys.executable, SCRIPT, files, "--split", "tasks", "--optimizer", "sgd",
                            "--debug")
    assert code == 0, out + err
    assert len(samples(out)) == 2 and sum(samples(out)) == 3 * 72


# A command's parent waits for it; the parent of that one is the trainer.
KILL = "read -r pid name state trainer rest < /proc/$PPID/stat; kill -9 $trainer"


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("mode, fault", [("async", "exec sleep 600"), ("async", KILL), ("ssp(1)", KILL)],
                         ids=["slow", "dead", "dead-ssp"])
def test_the_tasks_of_a_slow_or_dead_trainer_are_done_by_another(tmp_path, mode, fault):
    """Trainer 1 (rank 2) hangs, or dies, over its first task."""
    files = many_files(tmp_path)
    pipe = f"if [ $OMPI_COMM_WORLD_RANK = 2 ]; then {fault}; fi; cat"
    script(files, "--write", tmp_path / "job", "--servers", 1, "--mode", mode, "--split", "tasks", "--optimizer", "sgd",
           "--lease", 1.5, "--pipe", pipe)
    code, out, err = mpirun(1, 2, trainer_program(), tmp_path / "job")
    assert samples(out) == [3 * 72], out + err
    if "sleep" in fault:
        assert code == 0, out + err


@needs_mpi
@pytest.mark.mpi
def test_trainers_must_mean_the_same_tasks(tmp_path):
    files = many_files(tmp_path)
    script(files, "--write", tmp_path / "job", "--servers", 1, "--mode", "async", "--split", "tasks", "--optimizer", "sgd")
    code, out, err = mpirun(1, 2, "bash", "-c", f"exec {trainer_program()} {tmp_path}/job $(ls {tmp_path}/f*.txt | head "
                                                "-$OMPI_COMM_WORLD_RANK)")
    assert code != 0
    assert re.search(r"has \d tasks in 3 passes .*all trainers are to be given the same files", out + err), out + err


@needs_mpi
@pytest.mark.mpi
def test_a_trainer_that_ends_early_waits_for_the_others(tmp_path):
    """For longer than a silent rank counts as alive."""
    files = many_files(tmp_path, count=1)
    script(files, "--write", tmp_path / "job", "--servers", 1, "--mode", "async", "--split", "files", "--epochs", 1, "--pipe",
           "if [ $OMPI_COMM_WORLD_RANK = 2 ]; then sleep 4; fi; cat")
    code, out, err = mpirun(1, 2, trainer_program(), tmp_path / "job", timeout=2)
    assert code == 0, out + err


@needs_mpi
@pytest.mark.mpi
def test_a_mistake_in_a_job_is_told_once(data, tmp_path):
    script(data, "--write", tmp_path / "job", "--servers", 2)
    code, out, err = mpirun(1, 2, trainer_program(), tmp_path / "job")
    assert code != 0
    assert "the job was saved for 2 servers, but 1 are here" in out + err
    (tmp_path / "bad.txt").write_text("1 2 6 1 2 3 4 5 6 1 x\n")
    code, out, err = mpirun(2, 1, trainer_program(), tmp_path / "job", tmp_path / "bad.txt")
    assert code != 0
    assert (out + err).count("bad.txt, line 1, column 21: slot 'words': expected an integer") == 1


def test_a_damaged_job_is_refused(data, tmp_path):
    script(data, "--write", tmp_path / "job")
    whole = (tmp_path / "job").read_bytes()

    def said(content):
        (tmp_path / "bad").write_bytes(content)
        code, out, err = run(trainer_program(), tmp_path / "bad")
        assert code == 1 and err.startswith("trireme-trainer: ")
        return err

    assert 'is no saved job: it does not begin with "TRIREJOB"' in said(b"hello")
    assert "it was cut or written on" in said(whole[:-1])
    assert "it was cut or written on" in said(whole + b"x")
    for place in (24, len(whole) // 2, len(whole) - 1):
        flipped = bytearray(whole)
        flipped[place] ^= 4
        assert "is damaged: its checksum is" in said(bytes(flipped))
    assert "has the format's version 9" in said(whole[:8] + b"\x09" + whole[9:])
    code, _, err = run(trainer_program(), tmp_path / "nothing")
    assert code == 1 and f"cannot open '{tmp_path}/nothing': No such file" in err


@pytest.mark.parametrize("line, text", [
    ((), "a job is missing"),
    (("--epochs", "x", "job"), "not a number from 0 on: 'x'"),
    (("--speed", "job"), "there is no option '--speed'"),
    (("--steps",), "a value is missing after '--steps'"),
])
def test_a_wrong_command_line_is_explained(line, text):
    code, _, err = run(trainer_program(), *line)
    assert code == 2 and text in err


def test_options_take_the_place_of_what_the_job_says(data, tmp_path):
    script(data, "--write", tmp_path / "job", "--save", tmp_path / "saved")
    code, out, _ = run(trainer_program(), "--steps", 5, "--report", 1, "--threads", 1, "--save", tmp_path / "other",
                       tmp_path / "job", data.replace("*", "a"))
    assert code == 0 and len(costs(out)) == 5
    assert (tmp_path / "other").is_dir() and not (tmp_path / "saved").exists()


def test_a_trainer_saves_itself_as_a_job(tmp_path):
    x, y = fluid.layers.data("x", [2]), fluid.layers.data("y", [1])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    trainer = fluid.Trainer(loss, fluid.optimizer.SGD(0.1))
    (tmp_path / "d.csv").write_text("1,2,3\n4,5,9\n")
    trainer.save_job(str(tmp_path / "job"), fluid.Dataset(str(tmp_path / "d.csv"), "csv", slots=[x, y]), print_period=1)
    code, out, err = run(trainer_program(), tmp_path / "job")
    assert code == 0 and out.startswith("step 1: cost="), out + err


def test_the_program_says_first_which_code_a_job_runs(data, tmp_path):
    script(data, "--write", tmp_path / "job", "--pipe", "cat; : '\x1b[2J' " + 100 * "x")
    code, _, err = run(trainer_program(), "--steps", 1, tmp_path / "job")
    assert code == 0
    assert err.splitlines()[0] == (f"trireme-trainer: {tmp_path / 'job'} runs a command on each file of its data: "
                                   "cat; : '\\x1b[2J' " + 100 * "x")
    script(data, "--write", tmp_path / "plain")
    assert run(trainer_program(), "--steps", 1, tmp_path / "plain")[2] == ""


def test_the_program_says_first_that_a_job_has_operators_for_files(tmp_path):
    x, y = fluid.layers.data("x", [2]), fluid.layers.data("y", [1])
    trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y)), fluid.optimizer.SGD(0.1))
    fluid.default_startup_program().global_block().append_op(type="save", inputs={"X": ["fc_0.w_0"]},
                                                             attrs={"file_path": str(tmp_path / "w")})
    (tmp_path / "d.csv").write_text("1,2,3\n4,5,9\n")
    trainer.save_job(str(tmp_path / "job"), fluid.Dataset(str(tmp_path / "d.csv"), "csv", slots=[x, y]), print_period=1)
    code, _, err = run(trainer_program(), tmp_path / "job")
    assert code == 0 and err == f"trireme-trainer: {tmp_path / 'job'} has programs with operators that read or write files\n"


def test_names_of_a_job_lead_nowhere_else(data, tmp_path):
    """A job whose variables are saved at the end: their names are names of files in its folder."""
    script(data, "--write", tmp_path / "job", "--save", tmp_path / "saved")
    whole = (tmp_path / "job").read_bytes()
    for name in (b"../0.w_0", b"fc_\0.w_0"):
        body = whole[24:].replace(b"fc_0.w_0", name)
        (tmp_path / "bad").write_bytes(whole[:12] + crc32c(body).to_bytes(4, "little") + len(body).to_bytes(8, "little") + body)
        code, _, err = run(trainer_program(), "--steps", 1, tmp_path / "bad")
        assert code == 1 and ("has a zero byte in its text" if b"\0" in name else "is no name of a file in") in err, err
    assert not (tmp_path / "0.w_0").exists()


def test_mistakes_are_explained(tmp_path):
    x = fluid.layers.data("x", [2])
    data = fluid.Dataset("nothing", slots=[x])
    with pytest.raises(ValueError, match="shuffle_seed needs in_memory=True"):
        fluid.io.save_job(str(tmp_path / "job"), data, shuffle_seed=1)
    for wrong, text in [(dict(servers=0), "servers=0; a whole number from 1 to 1024"), (dict(servers=(1, "2")), "servers='2'"),
                        (dict(servers=1, mode=3), "mode 3; a text such as"), (dict(mode="fast"), "mode 'fast'; possible are sync"),
                        (dict(epochs=0), "save_job: epochs=0"),
                        (dict(in_memory=True, shuffle_seed=-1), "shuffle_seed=-1; a whole number from 0"),
                        (dict(save_folder=""), "save_folder='': this is no folder")]:
        with pytest.raises(ValueError, match=text):
            fluid.io.save_job(str(tmp_path / "job"), data, **wrong)
    with pytest.raises(ValueError, match="there is nothing to distribute"):
        fluid.io.save_job(str(tmp_path / "job"), data, servers=1)


@needs_mpi
@pytest.mark.mpi
def test_a_killed_rank_costs_no_bit(data, tmp_path):
    """The loop of the core reads what was trained before, and trains from there on."""
    script(data, "--epochs", 2000, "--dropout", 0.2, "--save", tmp_path / "whole")
    job = Launched(1, 1, data, "--epochs", 2000, "--dropout", 0.2, "--save", tmp_path / "again", script=SCRIPT)
    ranks = job.ranks()
    job.wait_for(lambda: list(Path("/dev/shm").glob(f"trireme-state-{job.process.pid}-*")), "memory of its servers")
    time.sleep(0.3)
    os.kill(ranks.known[1].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "starting the job again (1 of 3)" in text, text
    assert values(tmp_path / "again") == values(tmp_path / "whole"), text


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("victim", ["server 0", "trainer 1"])
def test_the_launcher_brings_it_home(data, tmp_path, victim):
    """A killed server's place is taken by a standby, and a killed trainer's job is started again: the same bits."""
    script(data, "--write", tmp_path / "job", "--epochs", 2000, "--servers", 2)
    launch_under_mpi(2, 2, "--save", tmp_path / "want", script=tmp_path / "job")
    job = Launched(2, 2, "--save", tmp_path / "got", script=tmp_path / "job")
    ranks = job.ranks()
    while len(list(Path("/dev/shm").glob(f"trireme-state-{job.process.pid}-*"))) < 2:
        assert job.process.poll() is None, job.process.stdout.read()
        time.sleep(0.01)
    time.sleep(0.3)
    os.kill(ranks.known[{"server 0": 0, "trainer 1": 3}[victim]].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and re.search(rf"\({victim}\b.*\) died", text), text
    assert values(tmp_path / "got") == values(tmp_path / "want"), text


needs_mpi_5 = pytest.mark.skipif("5" not in MPIS, reason="no Open MPI 5 is installed")


def kill_and_await_replacement(job, victim, condition):
    """Kill a trainer of the two behind two servers when that is so; return what the job printed to its good end."""
    ranks = job.ranks()
    job.wait_for(condition, "what its trainer is to die after")
    os.kill(ranks.known[2 + victim].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and f"rank 4 (standby 0) takes the place of trainer {victim}" in text and "again" not in text, text
    return text


@needs_mpi_5
@pytest.mark.mpi
@pytest.mark.parametrize("victim, resumes", [(0, True), (0, False), (1, True)], ids=str)
def test_a_standby_takes_the_place_of_its_trainer(data, tmp_path, victim, resumes):
    """It needs no Python, counts steps as the dead one did, and costs no bit."""
    script(data, "--write", tmp_path / "job", "--epochs", 300, "--dropout", 0.2, "--servers", 2, "--save", tmp_path / "got")
    launch_under_mpi(2, 2, "--save", tmp_path / "want", script=tmp_path / "job", version="5")
    keep, first = ("--checkpoint", tmp_path / "c", "--checkpoint-steps", 100), 0
    if resumes:
        launch_under_mpi(2, 2, "--steps", first := 150, script=tmp_path / "job", options=keep, version="5")
    job = Launched(2, 2, script=tmp_path / "job", options=(*keep, *["--resume"] * resumes), version="5", replacements=True)
    text = kill_and_await_replacement(job, victim, lambda: max(checkpoints.steps(tmp_path / "c"), default=0) > first)
    assert text.count("going on from step") == resumes, text
    assert_holds(tmp_path / "got", tmp_path / "want")
    newest = checkpoints.newest(tmp_path / "c")
    newest.verify()
    assert newest.step == 2700 and {newest.trainer(index)[0] for index in range(newest.trainers)} == {2700}


@needs_mpi_5
@pytest.mark.mpi
@pytest.mark.parametrize("mode", ["async", "ssp(1)", "geo(2)"])
def test_a_standby_takes_its_trainers_leased_tasks(mode, tmp_path):
    """Of all lines none is lost, and trainer 0 is told of its own alone."""
    files = many_files(tmp_path, count=20)
    script(files, "--write", tmp_path / "job", "--servers", 2, "--mode", mode, "--split", "tasks", "--optimizer", "sgd", "--pipe",
           f"echo >> {tmp_path}/begun-$OMPI_COMM_WORLD_RANK; sleep 0.1; cat")
    job = Launched(2, 2, script=tmp_path / "job", version="5", replacements=True)
    text = kill_and_await_replacement(job, 1, lambda: (tmp_path / "begun-3").exists())
    assert (tmp_path / "begun-4").exists(), text
    done, = samples(text)
    begun = {rank: len((tmp_path / f"begun-{rank}").read_text()) for rank in (2, 3, 4)}
    assert 0 < done < 3 * 20 * 9 and sum(begun.values()) >= 3 * 20, (begun, text)


@needs_mpi_5
@pytest.mark.mpi
def test_its_standby_takes_the_place_of_a_server(data, tmp_path):
    script(data, "--write", tmp_path / "job", "--epochs", 2000, "--servers", 2, "--save", tmp_path / "want")
    launch_under_mpi(2, 2, script=tmp_path / "job", version="5")
    job = Launched(2, 2, "--save", tmp_path / "got", script=tmp_path / "job", version="5", replacements=True)
    ranks = job.ranks()
    while len(list(Path("/dev/shm").glob(f"trireme-state-{job.process.pid}-*"))) < 2:
        assert job.process.poll() is None, job.process.stdout.read()
        time.sleep(0.01)
    time.sleep(0.3)
    os.kill(ranks.known[1].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "rank 1 (server 1) died; the others go on" in text and "again" not in text, text
    assert values(tmp_path / "got") == values(tmp_path / "want"), text


@needs_mpi
def test_a_saved_job_has_its_mode(data, tmp_path, capsys):
    script(data, "--write", tmp_path / "job", "--servers", 2)
    assert cli.main(["launch", "--servers", "2", "--mode", "async", str(tmp_path / "job")]) == 2
    assert "was saved with its mode" in capsys.readouterr().err


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("args, text, wanted", [(("nowhere-*.txt",), "nowhere-", 1), (("--epochs", "x"), "not a number from 0 on: 'x'", 2)])
def test_its_mistakes_are_no_deaths(data, tmp_path, args, text, wanted):
    script(data, "--write", tmp_path / "job", "--servers", 1)
    code, said = Launched(1, 2, *args, script=tmp_path / "job").end()
    assert code == wanted and text in said and "starting the job again" not in said, said
