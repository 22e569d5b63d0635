"""A trainer whose gradients are NaN ends the job, or its step is left out; no parameter becomes NaN unnoticed."""

import json

import numpy as np
import pytest
from job_support import SCRIPT, ended, environment, launch, needs_mpi, own_of

import trireme as fluid
from trireme.launch import cli
from trireme.errors import InvalidArgumentError, NotFiniteError
from trireme.launch.explain import report
from trireme.launch.logs import read

NAN = SCRIPT.with_name("nan.py")
job = [needs_mpi, pytest.mark.mpi]


def marked(marks):
    def apply(test):
        for mark in marks:
            test = mark(test)
        return test
    return apply


def assert_same(got, want, text=""):
    assert got.keys() == want.keys() and len(got) > 4
    for key, value in want.items():
        np.testing.assert_array_equal(got[key], value, err_msg=f"{key}\n{text}")


# -- words ----------------------------------------------------------------------------------------------------------


def test_words_that_are_none_are_refused(capsys):
    for word in ("", "Stop", "halt", "\0"):
        with pytest.raises(InvalidArgumentError, match="possible"):
            fluid.distributed.set_on_nan(word)
    with pytest.raises(TypeError, match="set_on_nan takes a text such as 'skip', got 1"):
        fluid.distributed.set_on_nan(1)
    assert cli.main(["launch", "--on-nan", "halt", str(SCRIPT)]) == 2
    assert "on_nan 'halt'; stop, skip and ignore are possible" in capsys.readouterr().err


def test_options_become_variables(capsys, monkeypatch):
    from trireme.launch.mpi import Layout
    from trireme.launch.supervisor import Launch

    monkeypatch.delenv("OMPI_COMM_WORLD_SIZE", raising=False)
    env = Launch(Layout(1, 1), [str(SCRIPT)], on_nan="skip", check_nan=True).environment(".")
    assert env["TRIREME_ON_NAN"] == "skip" and env["TRIREME_CHECK_NAN"] == "1"
    env = Launch(Layout(1, 1), [str(SCRIPT)]).environment(".")
    assert "TRIREME_ON_NAN" not in env and "TRIREME_CHECK_NAN" not in env


# -- one process ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, is_on", [("1", True), ("0", False), ("", False)])
def test_a_variable_lets_all_executors_look(text, is_on, monkeypatch):
    monkeypatch.setenv("TRIREME_CHECK_NAN", text)
    assert fluid.Executor().check_nan == is_on
    assert not fluid.Executor(check_nan=False).check_nan
    x = fluid.layers.data("x", [2])
    y = fluid.layers.log(x)
    feed = {"x": -np.ones((1, 2), "float32")}
    if is_on:
        with pytest.raises(NotFiniteError, match="log"):
            fluid.Executor().run(feed=feed, fetch_list=[y])
    assert np.isnan(fluid.Executor(check_nan=False).run(feed=feed, fetch_list=[y])[0]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_place_of_a_value_does_not_hide_it(dtype):
    x = fluid.layers.data("x", [-1], append_batch_size=False, dtype=dtype)
    finite, exe = fluid.layers.isfinite(x), fluid.Executor()
    for count in (1, 63, 64, 65, 130, 2048, 2049, 2200):
        values = np.full(count, np.finfo(dtype).max, dtype)
        assert exe.run(feed={"x": values}, fetch_list=[finite])[0].all()
        for at in {0, count // 2, count - 1}:
            for bad in (np.nan, np.inf, -np.inf):
                values[at] = bad
                assert not exe.run(feed={"x": values}, fetch_list=[finite])[0].any()
            values[at] = 0


# -- jobs -----------------------------------------------------------------------------------------------------------


@marked(job)
@pytest.mark.parametrize("mode", ["sync", "sync(degraded)", "sync(backups=1)", "async", "ssp(2)", "geo(3)", "average(3)"])
def test_a_job_stops_at_the_first_gradient_that_is_nan(mode, tmp_path):
    code, text = ended(2, 2, "--bad", 5, "--out", tmp_path / "r", script=NAN, options=("--mode", mode))
    assert code == 1, text
    what = "the loss 'mean_0.tmp_0'" if mode.startswith("sync") else "element "
    assert "(trainer 1, host " in text and what in text and "is nan in step 6; the step does not count" in text, text
    assert "trireme launch --check-nan" in text and "--on-nan skip" in text
    assert "starting the job again" not in text and not (tmp_path / "r.1.npz").exists()


@marked(job)
def test_the_operator_that_makes_it_is_named_when_looked_for():
    code, text = ended(1, 2, "--bad", 5, script=NAN, options=("--check-nan",))
    assert code == 1 and "variable 'fc_0.tmp_2' has a value that is not finite" in text and "running operator 'fc'" in text, text


@marked(job)
def test_ignored_it_trains_on():
    out = ended(1, 2, "--bad", 5, "--on-nan", "ignore", script=NAN)
    assert out[0] == 0, out[1]


@marked(job)
@pytest.mark.parametrize("options", [(), ("--mode", "sync(degraded)"), ("--mode", "sync(backups=1)"), ("--compress", "int8"),
                                     ("--compress", "topk(0.1)")],
                         ids=["sync", "degraded", "backups", "int8", "topk"])
def test_a_step_that_is_left_out_weighs_nothing(options, tmp_path):
    """As one of a batch without samples."""
    args = ("--bad", 4, 5, 9, "--table") if "topk(0.1)" not in options else ("--bad", 4, 5, 9)
    trainers = 1 if "sync(backups=1)" in options else 2        # whose gradients make an update there depends on time
    who = ("--trainer", trainers - 1)
    launch(2, trainers, *args, *who, "--how", "empty", "--out", tmp_path / "want", script=NAN, options=options)
    text = launch(2, trainers, *args, *who, "--out", tmp_path / "got", script=NAN,
                  options=(*options, "--on-nan", "skip", "--log", tmp_path / "log"))
    assert_same(own_of(tmp_path / "got", trainers), own_of(tmp_path / "want", trainers), text)
    assert text.count("is left out, and so are others like it") == 1
    assert "3 steps of trainers left out (--on-nan skip)" in report(read(str(tmp_path / "log")))
    lines = [json.loads(line) for path in (tmp_path / "log").glob("trainer-*") for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines if line["event"] == "nan"] == [5, 6, 10]


@marked(job)
@pytest.mark.parametrize("mode", ["async", "ssp(2)"])
def test_in_asynchronous_modes_a_skipped_step_is_no_update(mode, tmp_path):
    args, options = ("--bad", 4, 5, 9, "--trainer", 0, "--table"), ("--mode", mode)
    launch(2, 1, *args, "--how", "none", "--out", tmp_path / "want", script=NAN, options=options)
    text = launch(2, 1, *args, "--on-nan", "skip", "--out", tmp_path / "got", script=NAN, options=options)
    got, want = own_of(tmp_path / "got", 1), own_of(tmp_path / "want", 1)
    losses = got.pop((0, "losses"))
    np.testing.assert_array_equal(losses[np.isfinite(losses)], want.pop((0, "losses")), err_msg=text)
    assert np.isnan(losses[[4, 5, 9]]).all()           # there a fetched loss is each trainer's own
    assert_same(got, want, text)


@marked(job)
def test_without_nan_all_choices_have_the_same_bits(tmp_path):
    for word in ("stop", "skip", "ignore"):
        launch(2, 2, "--on-nan", word, "--table", "--out", tmp_path / word, script=NAN)
    assert_same(own_of(tmp_path / "stop", 2), own_of(tmp_path / "ignore", 2))
    assert_same(own_of(tmp_path / "skip", 2), own_of(tmp_path / "ignore", 2))


@marked(job)
def test_mode_geo_has_nothing_to_skip():
    code, text = ended(1, 2, script=NAN, options=("--mode", "geo(3)", "--on-nan", "skip"))
    assert code == 1 and "on_nan skip: in mode geo" in text, text


@marked(job)
def test_a_metric_may_be_nan():
    text = launch(1, 2, "--metric", script=NAN)
    assert "metric [nan]" in text


@marked(job)
def test_the_variable_goes_before_the_script():
    code, text = ended(1, 2, "--bad", 5, "--on-nan", "stop", script=NAN, env=environment(TRIREME_ON_NAN="ignore"))
    assert code == 0, text
