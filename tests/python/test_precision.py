"""Matrix products in bfloat16: who may ask for them, which operators multiply so, and what is refused."""

import os
import subprocess
import sys

import numpy as np
import pytest
from job_support import SCRIPT, environment, launch_under_mpi, needs_mpi, results

import trireme as fluid
from trireme.launch import cli
from trireme.errors import InvalidArgumentError
from trireme.launch import doctor
from trireme.launch.programs import trainer_program
from trireme.precision import bfloat16_way

VARIABLE = "TRIREME_MATMUL_PRECISION"
A, B = 1.001, 3.003                                    # in bfloat16 1 and 3


@pytest.fixture(autouse=True)
def float32_again():
    fluid.set_matmul_precision("float32")
    yield
    fluid.set_matmul_precision(None)


def rounded(x):
    """Round to bfloat16, to nearest even."""
    bits = np.asarray(x, "float32").view("uint32").astype("uint64")
    return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).astype("uint32").view("float32")


def product(exe):
    x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
    feed = {"x": np.array([[A]], "float32"), "y": np.array([[B]], "float32")}
    return exe.run(feed=feed, fetch_list=[fluid.layers.matmul(x, y)])[0].item()


def is_bfloat16(exe):
    value = product(exe)
    assert value == 3 or abs(value - A * B) < 1e-6
    return value == 3


# -- who asks -------------------------------------------------------------------------------------------------------


def test_the_process_has_a_precision():
    assert fluid.get_matmul_precision() == "float32" and not is_bfloat16(fluid.Executor())
    fluid.set_matmul_precision("bfloat16")
    assert fluid.get_matmul_precision() == "bfloat16" and is_bfloat16(fluid.Executor())
    fluid.set_matmul_precision("float32")
    assert not is_bfloat16(fluid.Executor())


def test_an_executor_has_its_own():
    exact, rough, usual = fluid.Executor(matmul_precision="float32"), fluid.Executor(matmul_precision="bfloat16"), fluid.Executor()
    assert (exact.matmul_precision, rough.matmul_precision, usual.matmul_precision) == ("float32", "bfloat16", "float32")
    assert not is_bfloat16(exact) and is_bfloat16(rough) and not is_bfloat16(usual)
    fluid.set_matmul_precision("bfloat16")
    assert not is_bfloat16(exact) and is_bfloat16(rough) and is_bfloat16(usual)
    exact.matmul_precision = None
    assert exact.matmul_precision == "bfloat16" and is_bfloat16(exact)


def test_a_plan_that_was_made_before_has_the_new_precision():
    exe, seen = fluid.Executor(), []
    x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
    out, feed = fluid.layers.matmul(x, y), {"x": np.array([[A]], "float32"), "y": np.array([[B]], "float32")}
    for name in ("float32", "bfloat16", "float32"):
        fluid.set_matmul_precision(name)
        seen.append(exe.run(feed=feed, fetch_list=[out])[0].item() == 3)
    assert seen == [False, True, False]


SAYS = "import trireme as fluid; print(fluid.get_matmul_precision(), fluid.Executor().matmul_precision)"


@pytest.mark.parametrize("text, said", [("bfloat16", "bfloat16 bfloat16"), ("float32", "float32 float32"), ("", "float32 float32")])
def test_the_environment_is_asked(text, said):
    done = subprocess.run([sys.executable, "-c", SAYS], env={**os.environ, VARIABLE: text}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == said


def test_an_environment_that_makes_no_sense_is_refused_at_the_first_run():
    script = ("import trireme as fluid, numpy as np\nx = fluid.layers.data('x', [1])\n"
              "fluid.Executor().run(feed={'x': np.ones((1, 1), 'float32')}, fetch_list=[fluid.layers.scale(x, 2.0)])")
    done = subprocess.run([sys.executable, "-c", script], check=False, env={**os.environ, VARIABLE: "bfloat"}, capture_output=True,
                          text=True)
    assert done.returncode != 0 and "did you mean 'bfloat16'?" in done.stderr and VARIABLE in done.stderr


@pytest.mark.parametrize("word, hint", [("bf16", "did you mean 'bfloat16'"), ("float16", "did you mean 'bfloat16'|did you mean 'float32'"),
                                        ("bloat16", "did you mean 'bfloat16'"), ("double", "float32 and bfloat16 are possible"),
                                        ("", "float32 and bfloat16 are possible"), ("a\0b", "float32 and bfloat16 are possible")])
def test_words_that_are_none_are_refused(word, hint, capsys):
    with pytest.raises(InvalidArgumentError, match=hint):
        fluid.set_matmul_precision(word)
    with pytest.raises(InvalidArgumentError, match=hint):
        fluid.Executor(matmul_precision=word)
    assert fluid.get_matmul_precision() == "float32"
    if word and "\0" not in word:
        assert cli.main(["launch", "--matmul-precision", word, str(SCRIPT)]) == 2
        assert f"matmul precision '{word}'" in capsys.readouterr().err


@pytest.mark.parametrize("value", [16, True, b"bfloat16"])
def test_a_precision_that_is_no_text_is_refused(value):
    with pytest.raises(TypeError, match="takes 'float32' or 'bfloat16', got"):
        fluid.set_matmul_precision(value)
    with pytest.raises(TypeError, match="Executor: matmul_precision takes 'float32' or 'bfloat16', got"):
        fluid.Executor(matmul_precision=value)


def test_the_launcher_tells_all_ranks(monkeypatch):
    from trireme.launch.mpi import Layout
    from trireme.launch.supervisor import Launch

    monkeypatch.delenv("OMPI_COMM_WORLD_SIZE", raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)
    assert Launch(Layout(1, 1), [str(SCRIPT)], matmul_precision="bfloat16").environment(".")[VARIABLE] == "bfloat16"
    assert VARIABLE not in Launch(Layout(1, 1), [str(SCRIPT)]).environment(".")


def test_the_doctor_says_what_multiplies():
    check = doctor.check_bfloat16()
    assert check.what == "bfloat16 products" and check.advice == ""
    assert {"amx_bf16": "AMX-BF16", "avx512_bf16": "AVX512_BF16", "float32": "float32"}[bfloat16_way()] in check.got


# -- what multiplies so -----------------------------------------------------------------------------------------------


def both(fetch, feed, wants_start=False):
    """Return what is fetched in float32 and in bfloat16, from the same parameters."""
    results = []
    for precision in ("float32", "bfloat16"):
        exe, scope = fluid.Executor(matmul_precision=precision), fluid.Scope()
        if wants_start:
            exe.run(fluid.default_startup_program(), scope=scope)
        results.append(exe.run(feed=feed, fetch_list=fetch, scope=scope))
    return results


def assert_close_but_not_equal(exact, rough, most=0.03):
    """Rounding factors changes a value by less than ``most`` of the largest; that nothing changes means that nothing was rounded."""
    for one, other in zip(exact, rough, strict=True):
        size = np.abs(one).max()
        assert 0 < np.abs(one - other).max() <= most * size


@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (3, 5, 7), (33, 17, 64), (100, 70, 300)])
def test_matmul_rounds_its_operands_and_sums_in_float32(m, n, k):
    rng = np.random.default_rng(m)
    a, b = rng.normal(size=(m, k)).astype("float32"), rng.normal(size=(k, n)).astype("float32")
    x, y = fluid.layers.data("x", [m, k], append_batch_size=False), fluid.layers.data("y", [k, n], append_batch_size=False)
    got, = both([fluid.layers.matmul(x, y)], {"x": a, "y": b})[1]
    want = rounded(a).astype("float64") @ rounded(b)
    bound = (k + 2) * 2.0**-24 * (np.abs(rounded(a)).astype("float64") @ np.abs(rounded(b)))
    assert (np.abs(got - want) <= bound).all()


def test_double_products_keep_their_precision():
    x, y = (fluid.layers.data(name, [1], dtype="float64") for name in "xy")
    feed = {"x": np.array([[A]]), "y": np.array([[B]])}
    exact, rough = both([fluid.layers.matmul(x, y)], feed)
    assert exact == rough


def test_dense_layers_and_their_gradients():
    x = fluid.layers.data("x", [30])
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(fluid.layers.fc(x, 40, act="tanh"), 5)))
    grads = [grad for _, grad in fluid.backward.append_backward(loss)]
    feed = {"x": np.random.default_rng(1).normal(size=(16, 30)).astype("float32")}
    assert_close_but_not_equal(*both([loss, *grads], feed, wants_start=True))


def test_convolutions_and_their_gradients():
    x = fluid.layers.data("x", [3, 9, 9])
    out = fluid.layers.conv2d(fluid.layers.conv2d(x, 8, 3, padding=1, act="tanh"), 4, 3, stride=2)
    loss = fluid.layers.mean(fluid.layers.square(out))
    grads = [grad for _, grad in fluid.backward.append_backward(loss)]
    feed = {"x": np.random.default_rng(2).normal(size=(5, 3, 9, 9)).astype("float32")}
    assert_close_but_not_equal(*both([loss, *grads], feed, wants_start=True))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("count, width", [(3, 8), (40, 24)])
def test_recurrent_layers_and_their_gradients(kind, count, width):
    x = fluid.layers.data("x", [6], lod_level=1)
    if kind == "lstm":
        hidden, _ = fluid.layers.dynamic_lstm(fluid.layers.fc(x, 4 * width), 4 * width)
    else:
        hidden = fluid.layers.dynamic_gru(fluid.layers.fc(x, 3 * width), width)
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.sequence_pool(hidden, "last")))
    grads = [grad for _, grad in fluid.backward.append_backward(loss)]
    lengths = [1 + i % 5 for i in range(count)]
    rows = np.random.default_rng(3).normal(size=(sum(lengths), 6)).astype("float32")
    feed = {"x": fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())}
    assert_close_but_not_equal(*both([loss, *grads], feed, wants_start=True))


@pytest.mark.parametrize("kind", ["fc", "conv", "lstm"])
def test_threads_change_no_bit(kind):
    rng, feed = np.random.default_rng(4), {}
    if kind == "fc":
        x = fluid.layers.data("x", [500])
        out, feed["x"] = fluid.layers.fc(x, 700), rng.normal(size=(300, 500)).astype("float32")
    elif kind == "conv":
        x = fluid.layers.data("x", [8, 20, 20])
        out, feed["x"] = fluid.layers.conv2d(x, 16, 3), rng.normal(size=(24, 8, 20, 20)).astype("float32")
    else:
        x = fluid.layers.data("x", [6], lod_level=1)
        out, _ = fluid.layers.dynamic_lstm(fluid.layers.fc(x, 256), 256)
        feed["x"] = fluid.create_lod_tensor(rng.normal(size=(640, 6)).astype("float32"), [[10] * 64], fluid.CPUPlace())
    loss = fluid.layers.mean(fluid.layers.square(out))
    grads = [grad for _, grad in fluid.backward.append_backward(loss)]
    exe, results = fluid.Executor(matmul_precision="bfloat16"), []
    exe.run(fluid.default_startup_program())
    try:
        for threads in (1, 2, 3):
            fluid.core.set_num_threads(threads)
            results.append(exe.run(feed=feed, fetch_list=[loss, *grads]))
    finally:
        fluid.core.set_num_threads(0)
    for other in results[1:]:
        for got, want in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(got, want)


# -- loops over data and saved jobs -----------------------------------------------------------------------------------


def loop_program(folder):
    """A dataset of lines `a label`, and a layer of one product that does not learn."""
    (folder / "data.txt").write_text("".join(f"1 {A} 1 {B}\n" for _ in range(8)))
    x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
    out = fluid.layers.mean(fluid.layers.matmul(x, y, transpose_y=True))
    data = fluid.DatasetFactory().create_dataset("QueueDataset")
    data.set_use_var([x, y])
    data.set_batch_size(4)
    data.set_filelist([str(folder / "data.txt")])
    return data, out


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_loops_have_the_executors_precision(precision, tmp_path, capfd):
    data, out = loop_program(tmp_path)
    fluid.Executor(matmul_precision=precision).infer_from_dataset(dataset=data, fetch_list=[out], print_period=1)
    printed = [line.rpartition("=")[2].split()[0] for line in capfd.readouterr().out.splitlines() if "step" in line and "=" in line]
    assert printed and all((abs(float(text) - 3) < 1e-6) == (precision == "bfloat16") for text in printed), printed


@pytest.mark.parametrize("saved, asked, is_rough", [(None, None, False), (None, "bfloat16", True), ("bfloat16", None, True),
                                                    ("float32", "bfloat16", False)])
def test_saved_jobs_keep_theirs(saved, asked, is_rough, tmp_path):
    data, out = loop_program(tmp_path)
    fluid.io.save_job(str(tmp_path / "fit.job"), data, fetch_list=[out], fetch_info=["out"], print_period=1, matmul_precision=saved)
    env = environment(**({VARIABLE: asked} if asked else {}))
    done = subprocess.run([trainer_program(), str(tmp_path / "fit.job")], check=False, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    values = [float(line.rpartition("out=")[2].split()[0]) for line in done.stdout.splitlines() if "out=" in line]
    assert values and all((abs(value - 3) < 1e-6) == is_rough for value in values), done.stdout


def test_a_saved_job_refuses_words_that_are_none(tmp_path):
    data, out = loop_program(tmp_path)
    with pytest.raises(InvalidArgumentError, match="did you mean 'bfloat16'"):
        fluid.io.save_job(str(tmp_path / "fit.job"), data, fetch_list=[out], matmul_precision="bf16")


@needs_mpi
@pytest.mark.mpi
def test_a_job_has_the_precision_that_its_launcher_environment_or_executor_says(tmp_path):
    def trained(name, *args, options=(), **env):
        launch_under_mpi(2, 2, "--steps", 20, *args, "--out", tmp_path / name, options=options, env=environment(**env),
                         script=SCRIPT.with_name("digits.py"))
        return results(tmp_path / name)

    exact = trained("exact.npz")
    rough = [trained("launcher.npz", options=("--matmul-precision", "bfloat16")), trained("environment.npz", **{VARIABLE: "bfloat16"}),
             trained("executor.npz", "--precision", "bfloat16")]
    assert 1e-6 < np.abs(exact["losses"] - rough[0]["losses"]).max() < 0.02
    for other in rough[1:]:
        for name, value in rough[0].items():
            np.testing.assert_array_equal(other[name], value, err_msg=name)


# -- Winograd's convolutions ------------------------------------------------------------------------------------------


def convolved(x, w):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        out = fluid.layers.conv2d(fluid.layers.data("x", list(x.shape[1:])), w.shape[0], 3, padding=1, bias_attr=False,
                                  param_attr=fluid.ParamAttr(name="w", initializer=fluid.initializer.NumpyArrayInitializer(w)))
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        return exe.run(feed={"x": x}, fetch_list=[out])[0]


def test_winograd_is_a_switch():
    random = np.random.default_rng(0)
    x, w = random.uniform(-1, 1, (2, 16, 8, 8)).astype("float32"), random.uniform(-1, 1, (16, 16, 3, 3)).astype("float32")
    assert fluid.get_winograd()
    fast = convolved(x, w)
    fluid.set_winograd(False)
    try:
        exact = convolved(x, w)
        assert not fluid.get_winograd()
    finally:
        fluid.set_winograd(True)
    assert np.abs(fast - exact).max() <= 9 * 2.0 ** -24 * np.abs(w).sum((1, 2, 3)).max()
    with pytest.raises(TypeError, match="set_winograd takes True or False, got 0"):
        fluid.set_winograd(0)


def test_the_environment_forbids_winograd():
    code = "import trireme as fluid; print(fluid.get_winograd())"
    for value, answer in (("0", "False"), ("1", "True"), ("", "True")):
        env = {**os.environ, "TRIREME_WINOGRAD": value}
        assert subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout.strip() == answer
