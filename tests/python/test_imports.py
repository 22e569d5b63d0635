"""What is loaded when: the launcher, and a standby that waits, load little; every name of the package is there when it is asked for."""

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("numpy", "trireme.layers", "trireme.program", "trireme.run")


def loaded(*command, **variables):
    """Return the modules that a process loads, and what it prints beside."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_", "TRIREME_JOB"))}
    done = subprocess.run([sys.executable, "-X", "importtime", *map(str, command)], capture_output=True, text=True, timeout=60,
                          env={**env, **variables}, check=False)
    told = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    return set(told), done.stdout + "\n".join(line for line in done.stderr.splitlines() if not line.startswith("import time:"))


@pytest.mark.mpi
def test_the_launcher_loads_neither_numpy_nor_the_compiled_library(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("")
    modules, text = loaded("-m", "trireme", "launch", "--servers", 2, "--trainers", 2, "--dry-run", script)
    assert "trireme-pserver" in text
    assert "trireme.launch.supervisor" in modules
    assert modules.isdisjoint((*HEAVY, "trireme._core")), text


def test_a_standby_waits_without_numpy(tmp_path):
    modules, text = loaded("-m", "trireme.launch.standby", tmp_path / "script.py", OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="1",
                           TRIREME_TRANSPORT=str(tmp_path / "none.so"))
    assert "a standby did not join" in text and "none.so" in text, text
    assert "trireme.job.job" in modules
    assert modules.isdisjoint(HEAVY)


def test_a_trainer_is_seen_from_its_import_on(tmp_path):
    """Whatever it uses of the package: here nothing."""
    modules, text = loaded("-c", "import random, trireme, numpy; print(random.random(), numpy.random.random()); raise KeyError('mine')",
                           OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="1", PMIX_NAMESPACE="a job", TRIREME_JOB_FOLDER=str(tmp_path))
    again = loaded("-c", "import random, trireme, numpy; print(random.random(), numpy.random.random())",
                   OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0", PMIX_NAMESPACE="a job")[1]
    assert text.splitlines()[0] == again.splitlines()[0]
    assert (tmp_path / "began.1").exists()
    assert (tmp_path / "failed.1").read_text() == "1\nKeyError: 'mine'\n"


# What a script of nearly any kind uses. Each module of ours costs 0.15 ms, some of Python's 2 ms.
USES = "import numpy, sys; before = set(sys.modules); import trireme; {}; print(*sorted(set(sys.modules) - before))"
PYTHONS = {"__future__", "_cffi_backend", "errno", "fcntl", "gc"}


def new_modules(what, **variables):
    plain = {name: value for name, value in os.environ.items() if not name.startswith("TRIREME_")}
    done = subprocess.run([sys.executable, "-c", USES.format(what)], env={**plain, **variables}, capture_output=True, text=True, timeout=60,
                          check=True)
    return set(done.stdout.split())


def test_the_package_alone_loads_nothing():
    alone = {"__future__", "trireme", "trireme.native", "trireme.native.lazy"}
    assert new_modules("trireme") == alone
    # which knows what variables there are
    assert new_modules("trireme", TRIREME_NUM_THREADS="1") == {*alone, "trireme.native.env_names"}


def test_a_script_loads_few_modules_beside_numpy():
    """`benchmarks/imports.py` measures the time, which must be at most 18 ms."""
    found = new_modules("trireme.layers, trireme.optimizer, trireme.Executor, trireme.io")
    ours = {name for name in found if name.startswith("trireme")}
    assert found - ours <= PYTHONS, "load these where they are used"
    assert len(ours) <= 67, f"{len(ours)} modules: load some of them where they are used (lazy.py)"
    assert ours.isdisjoint(f"trireme.{name}" for name in ("distributed", "launch", "formats", "contrib", "observe", "serving", "port",
                                                          "feeding", "reader"))


def test_a_script_that_trains_a_classifier_loads_few_modules():
    found = new_modules("""fluid = trireme
x, y = fluid.layers.data("x", [4]), fluid.layers.data("y", [1], dtype="int64")
p = fluid.layers.fc(fluid.layers.fc(x, 3, act="relu"), 2, act="softmax")
fluid.layers.accuracy(p, y)
fluid.optimizer.Adam().minimize(fluid.layers.mean(fluid.layers.cross_entropy(p, y)))
fluid.Executor().run(fluid.default_startup_program())""")
    ours = {name for name in found if name.startswith("trireme")}
    assert found - ours <= PYTHONS
    assert len(ours) <= 62
    assert {name for name in ours if name.startswith("trireme.layers.")} == {
        f"trireme.layers.{name}" for name in ("io", "loss", "math", "metric_op", "nn", "ops", "tensor")}


@pytest.mark.parametrize("module", ["control_flow", "io", "learning_rate_scheduler", "metric_op", "nn", "ops", "tensor"])
def test_a_module_of_layers_that_is_imported_alone_knows_all_layers(module):
    code = f"from trireme.layers.{module} import relu, While, warpctc, no_such_layer"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert f"cannot import name 'no_such_layer' from 'trireme.layers.{module}'" in done.stderr


@pytest.mark.parametrize("package", ["trireme", "trireme.checkpoint", "trireme.distributed", "trireme.reader"])
def test_the_names_for_type_checkers_are_the_names_that_are_loaded(package):
    module = importlib.import_module(package)
    tree = ast.parse(Path(module.__file__).read_text())
    block, = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    told = {name.name: f"{'.' * (statement.level - 1)}{'.' if statement.level > 1 else ''}{statement.module or ''}"
            for statement in block.body for name in statement.names}
    call, = (node.value for node in ast.walk(tree) if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("load_later("))
    later = {name: where for where, names in ast.literal_eval(call.args[1]).items() for name in names}
    assert later == told
    assert set(module.__all__) <= {*told, *vars(module)}
    for name, where in told.items():
        home = importlib.import_module(where if where.startswith(".") else f".{where}", package) if where else module
        there = getattr(home, name, None) if where else None
        assert getattr(module, name) is (there or importlib.import_module(f"{home.__name__}.{name}")), name
        assert name in dir(module)


def test_a_name_that_is_not_there_is_refused_by_name():
    import trireme
    with pytest.raises(AttributeError, match="module 'trireme' has no attribute 'layerz'"):
        trireme.layerz
