"""Scripts of Fluid's Fleet: three in the manner of public ones, alone and in jobs; and what its names refuse."""

from __future__ import annotations

import io
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from job_support import SCRIPT, alone, environment, launch, launch_under_mpi, needs_mpi
from simulated_jobs import simulate

import trireme as fluid
from trireme import port
from trireme.errors import InvalidArgumentError, UnsupportedError
from trireme.incubate.data_generator import DataGenerator, MultiSlotDataGenerator, MultiSlotStringDataGenerator
from trireme.incubate.fleet.base import fleet_base, role_maker
from trireme.incubate.fleet.parameter_server import pslib
from trireme.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory, TrainerRuntimeConfig, fleet
from trireme.job.session import session
from trireme.transpiler.distribute_transpiler import DistributeTranspilerConfig

JOBS = {name: SCRIPT.with_name(f"fleet_{name}.py") for name in ("click", "word2vec", "rank")}
MODES = ("sync", "async", "geo")


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """A folder with lines for the click model: whether a line has more words of one kind than of another."""
    draw = random.Random(0)
    for part in range(4):
        rows = [[draw.randrange(30) for _ in range(draw.randint(1, 5))] for _ in range(96)]
        clicked = [int(sum(word % 3 == 0 for word in row) > sum(word % 3 == 1 for word in row)) for row in rows]
        lines = [f"{click}\t{' '.join(f'w{word}' for word in row)}\t{draw.random():.3f}" for click, row in zip(clicked, rows)]
        (tmp_path / f"part-{part}").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture(autouse=True)
def as_before():
    """Settings of the session are those of before, and no fleet has a role."""
    kept = session.mode, session.min_block_bytes, session.slice_params
    yield
    session.mode, session.min_block_bytes, session.slice_params = kept
    for one in (fleet, pslib.fleet):
        one._role_maker = one._main = one._startup = None
    fleet_base._said.clear()


def costs(text: str) -> dict[int, tuple[float, float]]:
    """The costs at the begin and at the end, of each worker."""
    return {int(worker): (float(first), float(last))
            for worker, first, last in re.findall(r"worker (\d+) of .*cost ([\d.]+), then ([\d.]+)", text)}


def assert_learnt(text: str, workers: int) -> None:
    found = costs(text)
    assert set(found) == set(range(workers)) and all(last < 0.8 * first for first, last in found.values()), text


# -- scripts --------------------------------------------------------------------------------------------------


def test_scripts_learn_alone(clicks: Path) -> None:
    for script in JOBS.values():
        assert_learnt(alone("sync", clicks, script=script), 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", JOBS)
def test_a_script_learns_in_a_job(name: str, mode: str, clicks: Path) -> None:
    text = launch(2, 2, mode, clicks, script=JOBS[name])
    assert_learnt(text, 2)
    assert name != "click" or text.count(" of 2, 2 files") == 2, text


@needs_mpi
@pytest.mark.parametrize("name, mode", [*zip(JOBS, MODES)])
def test_a_script_learns_under_mpirun(name: str, mode: str, clicks: Path) -> None:
    assert_learnt(launch_under_mpi(2, 2, mode, clicks, script=JOBS[name]), 2)


def test_what_a_job_has_saved_is_what_it_has_learnt(clicks: Path) -> None:
    """A saved model of a job predicts, and all parameters go on in one process."""
    launch(2, 2, "half_async", clicks, script=JOBS["click"])
    exe = fluid.Executor(fluid.CPUPlace())
    program, feeds, targets = fluid.io.load_inference_model(str(clicks / "model"), exe)
    words = fluid.create_lod_tensor(np.array([[1], [4], [2], [5]], "int64"), [[2, 2]], fluid.CPUPlace())     # w0 w3, and w1 w4
    guess, = exe.run(program, feed=dict(zip(feeds, (words, np.full((2, 1), 0.5, "float32")))), fetch_list=targets)
    assert feeds == ["words", "weight"] and guess[0, 1] > 0.5 > guess[1, 1]
    assert {"words_emb", "words_emb_moment1_0", "fc_0.w_0"} <= {path.name for path in (clicks / "all").iterdir()}


@pytest.mark.parametrize("path", [*JOBS.values(), SCRIPT.with_name("fleet_lines.py")], ids=lambda path: path.name)
def test_port_misses_no_name_of_such_scripts(path: Path) -> None:
    text = re.sub(r"^(import|from) trireme", r"\1 paddle.fluid", path.read_text(), flags=re.M)
    lines, counts = port.report(path.name, re.sub(r"fluid\.distributed\.trainer_\w+\(\)", "0", text))    # names of Trireme alone
    missing = [line for line in lines if " missing " in line]
    assert not missing and counts["there"] + counts["differs"] >= 2


def test_port_tells_what_of_fleet_differs_and_what_is_missing() -> None:
    text = ("import paddle.fluid as fluid\n"
            "from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet\n"
            "fleet.init_server('model')\nfleet.run_server()\nfleet.init(role_maker=None)\n"
            "from paddle.fluid.incubate.fleet.parameter_server import pslib\npslib.fleet.shrink_dense_table(0.98)\n"
            "from paddle.fluid.incubate.fleet.collective import fleet as ring\n"
            "from paddle.fluid.incubate.fleet.utils.hdfs import HDFSClient\nfleet.init_workers()\nfleet.init(nobody=1)\n")
    said = "\n".join(port.report("s.py", text)[0])
    where = "fluid.incubate.fleet.parameter_server.distribute_transpiler.fleet"
    assert f"s.py:3: differs  {where}.init_server: " in said and "fluid.io.load_persistables" in said
    assert f"s.py:4: differs  {where}.run_server" in said and f"s.py:5: there    {where}.init" in said
    assert "s.py:7: missing  fluid.incubate.fleet.parameter_server.pslib.fleet.shrink_dense_table: Trireme does not have it" in said
    assert "s.py:8: missing  fluid.incubate.fleet.collective: use " in said and "s.py:9: missing  fluid.incubate.fleet.utils" in said
    assert "did you mean 'init_worker'" in said and "it takes no 'nobody'" in said


# -- roles ----------------------------------------------------------------------------------------------------


def test_roles_are_those_of_the_job_whatever_the_environment_says(tmp_path: Path) -> None:
    script = tmp_path / "roles.py"
    script.write_text("""
import trireme as fluid
from trireme.incubate.fleet.base import role_maker
from trireme.incubate.fleet.parameter_server.distribute_transpiler import fleet
for role in (role_maker.PaddleCloudRoleMaker(), role_maker.MPISymetricRoleMaker(), role_maker.GeneralRoleMaker(path="x"), None):
    fleet.init(role)
    assert fleet.is_worker() and not fleet.is_server() and (fleet.worker_num(), fleet.server_num(), fleet.server_index()) == (3, 2, -1)
assert fleet.server_endpoints(to_string=True) == "server-0,server-1" and len(fleet.worker_endpoints()) == 3
print(fleet.worker_index(), fleet.is_first_worker(), fleet.split_files([*"abcde"]))
named = role_maker.UserDefinedRoleMaker(fleet.worker_index(), role_maker.Role.WORKER, 3, ["a:1", "b:1"])
fleet.init(named)
assert fleet.server_endpoints() == ["a:1", "b:1"]
for wrong in ((fleet.worker_index() + 1, 1, 3, []), (fleet.worker_index(), 1, 2, []), (0, 2, 3, []), (fleet.worker_index(), 1, 3, ["a:1"])):
    try:
        fleet.init(role_maker.UserDefinedRoleMaker(*wrong))
    except fluid.core.InvalidArgumentError as error:
        assert "of a job of 3" in str(error), error
    else:
        raise AssertionError(wrong)
""")
    text = launch(2, 3, script=script, env=environment(PADDLE_TRAINING_ROLE="PSERVER", PADDLE_TRAINERS_NUM="7", PADDLE_TRAINER_ID="5"))
    assert sorted(line for line in text.splitlines() if "[" in line) == [
        "0 True ['a', 'b']", "1 False ['c', 'd']", "2 False ['e']"], text


def test_a_process_alone_is_the_only_worker_and_refuses_a_role_in_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.init(role_maker.PaddleCloudRoleMaker())
    assert (fleet.worker_index(), fleet.worker_num(), fleet.server_endpoints(), fleet.split_files(["a"])) == (0, 1, [], ["a"])
    total = np.zeros(2)
    fleet.all_reduce_worker([1.0, 2.0], total)
    assert total.tolist() == [1, 2]
    for name, value in (("PADDLE_TRAINERS_NUM", "2"), ("PADDLE_TRAINING_ROLE", "PSERVER")):
        with monkeypatch.context() as patched, pytest.raises(InvalidArgumentError, match=f"{name}={value}: this process is in no job"):
            patched.setenv(name, value)
            fleet.init(role_maker.PaddleCloudRoleMaker())
    with pytest.raises(InvalidArgumentError, match="Role.SERVER: this process is in no job"):
        fleet.init(role_maker.UserDefinedRoleMaker(role=role_maker.Role.SERVER))
    with pytest.raises(UnsupportedError, match="mode sync has the same numbers"):
        role_maker.PaddleCloudRoleMaker(is_collective=True)
    with pytest.raises(UnsupportedError, match="PaddleCloudRoleMaker"):
        role_maker.UserDefinedCollectiveRoleMaker()


@pytest.mark.parametrize("call, error, text", [
    (lambda: fleet.worker_num(), InvalidArgumentError, "call fleet.init"),
    (lambda: fleet.init("trainer"), TypeError, "role_maker must be one of"),
    (lambda: role_maker.UserDefinedRoleMaker(current_id=-1), InvalidArgumentError, "current_id"),
    (lambda: role_maker.UserDefinedRoleMaker(server_endpoints="a:1"), InvalidArgumentError, "a list of names"),
    (lambda: role_maker.UserDefinedRoleMaker(role=7), InvalidArgumentError, "Role.WORKER is possible"),
])
def test_wrong_roles_are_explained(call: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


# -- strategies -----------------------------------------------------------------------------------------------


def net() -> fluid.Variable:
    return fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1))


def config(**values: object) -> DistributeTranspilerConfig:
    made = DistributeTranspilerConfig()
    for name, value in values.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize("strategy, mode", [
    (lambda: None, "sync"), (StrategyFactory.create_sync_strategy, "sync"), (StrategyFactory.create_async_strategy, "async"),
    (StrategyFactory.create_half_async_strategy, "async"), (lambda: StrategyFactory.create_geo_strategy(7), "geo(7)"),
    (lambda: config(sync_mode=False, runtime_split_send_recv=True), "async"), (lambda: config(mode="pserver"), "sync"),
    (lambda: config(sync_mode=False, geo_sgd_mode=True, geo_sgd_need_push_nums=9), "geo(9)"), (lambda: config(mode="ssp(2)"), "ssp(2)"),
])
def test_a_strategy_is_a_mode(strategy: object, mode: str) -> None:
    fleet.init()
    optimizer = fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy())
    optimizer.minimize(net())
    assert session.mode == mode and fleet.main_program is fluid.default_main_program()


def test_a_strategy_says_how_parameters_are_cut() -> None:
    fleet.init()
    strategy = StrategyFactory.create_sync_strategy()
    strategy.set_program_config({"min_block_size": 16, "slice_var_up": False})
    fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize([net()], startup_programs=[fluid.Program()])
    assert (session.min_block_bytes, session.slice_params) == (64, False) and fleet.startup_program is not fluid.default_startup_program()


def test_parameters_of_a_job_are_cut_as_a_strategy_says(tmp_path: Path) -> None:
    """With large blocks all of a small parameter lies on one server, and the other has nothing to hold."""
    script = tmp_path / "cut.py"
    script.write_text("""
import sys
import numpy as np
import trireme as fluid
from trireme.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory, fleet
fleet.init()
strategy = StrategyFactory.create_sync_strategy()
strategy.set_program_config({"min_block_size": int(sys.argv[1])})
x = fluid.layers.data("x", [64])
fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(fluid.layers.mean(fluid.layers.fc(x, 1, bias_attr=False)))
exe = fluid.Executor()
exe.run(fleet.startup_program)
exe.run(fleet.main_program, feed={"x": np.ones((2, 64), "float32")})
""")
    says = "has nothing to hold"
    assert says in launch(2, 1, 8192, script=script) and says not in launch(2, 1, 16, script=script)


def test_wrong_strategies_are_explained() -> None:
    fleet.init()
    pslib.fleet.init()
    sgd, strategy = fluid.optimizer.SGD(0.1), StrategyFactory.create_sync_strategy()
    for call, error, text in [
            (lambda: fleet.distributed_optimizer(sgd, "sync"), TypeError, "one of StrategyFactory"),
            (lambda: fleet.distributed_optimizer("sgd"), ValueError, "one of fluid.optimizer"),
            (lambda: fleet.distributed_optimizer(sgd, config(enable_dc_asgd=True)).minimize(net()), ValueError, "compensation=0.04"),
            (lambda: fleet.distributed_optimizer(sgd, config(mode="nccl2")).minimize(net()), ValueError, "nccl2"),
            (lambda: fleet.distributed_optimizer(sgd).minimize([net(), net()]), UnsupportedError, "2 losses"),
            (lambda: StrategyFactory.create_geo_strategy(0), ValueError, "update_frequency"),
            (lambda: strategy.set_program_config({"min_block": 1}), ValueError, "did you mean 'min_block_size'"),
            (lambda: strategy.set_build_strategy(3), TypeError, "BuildStrategy or a dict"),
            (lambda: pslib.fleet.distributed_optimizer(sgd, {"use_cvm": True}), UnsupportedError, "use_cvm"),
            (lambda: pslib.fleet.save_persistables(None, "x", mode=1), UnsupportedError, "mode=0")]:
        with pytest.raises(error, match=text):
            call()


def test_settings_of_fluids_threads_are_kept_and_change_nothing() -> None:
    strategy = StrategyFactory.create_async_strategy()
    strategy.set_trainer_runtime_config({"send_queue_size": 8})
    strategy.set_server_runtime_config({"_rpc_get_thread_num": 4})
    strategy.set_execute_strategy({"num_threads": 2})
    strategy.get_trainer_runtime_config().runtime_configs["communicator_send_wait_times"] = "7"
    flags = strategy.get_trainer_runtime_config().get_communicator_flags()
    assert (flags["communicator_send_queue_size"], flags["communicator_send_wait_times"]) == (8, "7")
    assert strategy.get_server_runtime_config()._rpc_get_thread_num == 4 and strategy.get_execute_strategy().num_threads == 2
    strategy.set_trainer_runtime_config(own := TrainerRuntimeConfig())
    assert strategy.get_trainer_runtime_config() is own


# -- servers, files -------------------------------------------------------------------------------------------


def test_calls_for_servers_do_nothing_and_say_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    fleet.init()
    for _ in range(2):
        fleet.init_server()
        fleet.run_server()
    assert capsys.readouterr().err.count("does nothing") == 2
    with pytest.raises(UnsupportedError, match=r"after the startup program"):
        fleet.init_server("model")


def test_rows_are_shrunk_as_tables_say_or_the_call_is_refused() -> None:
    fleet.init()
    ids = fluid.layers.data("ids", [1], dtype="int64")

    def table(name: str, **how: int) -> fluid.Variable:
        return fluid.layers.embedding(ids, [100, 4], is_distributed=True, param_attr=name, **how)
    rows = table("young", max_age=10)
    fleet.shrink_sparse_table()
    fleet.distributed_optimizer(fluid.optimizer.Adagrad(0.1)).minimize(fluid.layers.mean(rows + table("old")))
    with pytest.raises(UnsupportedError, match="the rows of old stay"):
        fleet.shrink_sparse_table()


def test_plain_calls_of_pslib(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = fluid.layers.data("ids", [1], dtype="int64")
    cost = fluid.layers.mean(fluid.layers.embedding(ids, [100, 4], is_distributed=True, param_attr="clicks"))
    pslib.fleet.init()
    pslib.fleet.set_pull_local_thread_num(4)
    pslib.fleet.distributed_optimizer(fluid.optimizer.Adagrad(0.1), strategy={}).minimize([cost], [fluid.global_scope()])
    assert session.mode == "async"
    exe = fluid.Executor()
    exe.run(pslib.fleet.startup_program)
    pslib.fleet.init_worker()
    exe.run(pslib.fleet.main_program, feed={"ids": np.array([[3], [4]])})
    pslib.fleet.print_table_stat(0)
    assert "clicks: 2 rows" in capsys.readouterr().out
    with pytest.raises(InvalidArgumentError, match="has 1 sparse tables"):
        pslib.fleet.print_table_stat(1)
    pslib.fleet.save_persistables(None, str(tmp_path / "all"), mode=0)
    assert (tmp_path / "all" / "clicks").is_dir()
    with pytest.raises(InvalidArgumentError, match="name the variables to feed"):
        pslib.fleet.save_inference_model(exe, str(tmp_path / "model"), [], [])
    pslib.fleet.stop_worker()


# -- generators of lines --------------------------------------------------------------------------------------


class Pairs(MultiSlotDataGenerator):
    """"1,2" becomes two samples, "" none."""

    def generate_sample(self, line: str | None) -> object:
        words = (line or "5,6,7").strip().split(",")
        return lambda: [[("n", [int(word), 7]), ("x", [np.float32(0.5)])] if word else None for word in words]


def lines_of(generator: DataGenerator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str) -> list[str]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    generator.run_from_stdin()
    return capsys.readouterr().out.splitlines()


def test_a_generator_writes_the_samples_of_each_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines_of(Pairs(), monkeypatch, capsys, "1,2\n\n3\n") == ["2 1 7 1 0.5", "2 2 7 1 0.5", "2 3 7 1 0.5"]
    Pairs().run_from_memory()
    assert capsys.readouterr().out.splitlines() == ["2 5 7 1 0.5", "2 6 7 1 0.5", "2 7 7 1 0.5"]


def test_a_generator_hands_over_batches(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Counted(Pairs):
        def generate_batch(self, samples: list) -> object:
            return lambda: iter([[*sample, ("size", [len(samples)])] for sample in samples])
    generator = Counted()
    generator.set_batch(2)
    assert [line.split()[-1] for line in lines_of(generator, monkeypatch, capsys, "1,2\n3\n")] == ["2", "2", "1"]


def test_texts_are_written_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    class Texts(MultiSlotStringDataGenerator):
        def generate_sample(self, line: str | None) -> object:
            return lambda: iter([[("n", ["007", "8"]), ("x", ["1e3"])], [("x", [])]])
    Texts().run_from_memory()
    assert capsys.readouterr().out == "2 007 8 1 1e3\n0\n"


@pytest.mark.parametrize("sample, text", [
    ("words", "a sample must be a list of pairs"), ([("n", 3)], "its values must be a list, got 3"), ([("n", [])], "has no value"),
    ([(1, [3])], "a pair of a name and a list"), ([("n", ["3"])], "whole numbers or floats, got '3'"), ([("n", [True])], "got True")])
def test_a_wrong_sample_is_explained(sample: object, text: str) -> None:
    class Wrong(MultiSlotDataGenerator):
        def generate_sample(self, line: str | None) -> object:
            return lambda: iter([sample])
    with pytest.raises(ValueError, match=text):
        Wrong().run_from_memory()


def test_all_samples_have_the_slots_of_the_first() -> None:
    class Two(MultiSlotDataGenerator):
        def generate_sample(self, line: str | None) -> object:
            return lambda: iter([[("a", [1])], [("b", [1])]])
    with pytest.raises(ValueError, match="the first sample has the slots a; this one has b"):
        Two().run_from_memory()
    for wrong in (0, True, "8"):
        with pytest.raises(ValueError, match="set_batch"):
            Two().set_batch(wrong)
    with pytest.raises(NotImplementedError, match="must have generate_sample"):
        MultiSlotDataGenerator().run_from_memory()


def test_a_generator_loads_no_numpy(tmp_path: Path) -> None:
    """It starts once for each file."""
    script = tmp_path / "light.py"
    script.write_text("import sys\nimport trireme.incubate.data_generator\nprint('numpy' in sys.modules)\n")
    assert alone(script=script) == "False\n"


def test_a_generator_in_a_job_takes_no_rank(clicks: Path) -> None:
    """It runs beside a trainer, in its environment."""
    ended = simulate(1, 2, "async", clicks, script=JOBS["click"])
    assert ended.code == 0 and set(costs(ended.text)) == {0, 1}, ended.text
