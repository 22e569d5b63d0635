"""Means of parameters: against NumPy, applied and restored, and in a job."""

import sys

import numpy as np
import pytest
from job_support import SCRIPT, launch, needs_mpi, results

import trireme as fluid
from trireme import layers
from trireme.errors import UnsupportedError

AVERAGES = SCRIPT.with_name("averages.py")
sys.path.insert(0, str(AVERAGES.parent))
import averages  # noqa: E402 - the job's script has the net


@pytest.fixture
def exe():
    with fluid.scope_guard(fluid.Scope()), fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield fluid.Executor(fluid.CPUPlace())


def test_means_are_those_of_numpy_and_are_taken_out_again(exe):
    loss, ema, window = averages.build()
    fluid.default_startup_program().random_seed = 3
    exe.run(fluid.default_startup_program())
    seen = []
    for batch in averages.batches(7):
        exe.run(feed=batch, fetch_list=[loss])
        seen.append(averages.values())
    last = seen[-1]
    with ema.apply(exe):
        weights = 0.2 * 0.8 ** np.arange(6, -1, -1)
        for name, value in averages.values().items():
            np.testing.assert_allclose(value, sum(w * s[name] for w, s in zip(weights, seen)) / (1 - 0.8 ** 7), rtol=1e-4, atol=1e-6)
        with pytest.raises(RuntimeError, match="applied already"):
            ema.apply(exe).__enter__()
    with window.apply(exe):                                # windows end after steps 2, 4 and 7: at least 2 values, at most half of all
        for name, value in averages.values().items():
            np.testing.assert_allclose(value, np.mean([s[name] for s in seen[4:]], axis=0), rtol=1e-4, atol=1e-6)
    for name, value in averages.values().items():
        np.testing.assert_array_equal(value, last[name])


def test_means_may_stay(exe):
    loss, ema, _ = averages.build()
    exe.run(fluid.default_startup_program())
    exe.run(feed=next(averages.batches(1)), fetch_list=[loss])
    with ema.apply(exe, need_restore=False):
        inside = averages.values()
    for name, value in averages.values().items():
        np.testing.assert_array_equal(value, inside[name])
    ema.restore(exe)


def test_the_decay_may_grow_with_the_steps(exe):
    x = layers.data("x", [2])
    w = layers.create_parameter([2, 1], "float32", name="w")
    fluid.optimizer.SGD(0.1).minimize(layers.mean(layers.mul(x, w)))
    steps = layers.autoincreased_step_counter()
    ema = fluid.optimizer.ExponentialMovingAverage(0.5, thres_steps=steps)
    ema.update()
    exe.run(fluid.default_startup_program())
    mean, power = 0.0, 1.0
    for _ in range(6):
        step, value = exe.run(feed={"x": np.ones((1, 2), "float32")}, fetch_list=[steps, w])
        decay = min(0.5, (1 + float(step[0])) / (10 + float(step[0])))
        mean, power = decay * mean + (1 - decay) * fluid.executor.fetch_var("w"), power * decay
    with ema.apply(exe):
        np.testing.assert_allclose(fluid.executor.fetch_var("w"), mean / (1 - power), rtol=1e-5)


def test_mistakes(exe):
    for make in (fluid.optimizer.ExponentialMovingAverage().update, lambda: fluid.optimizer.ModelAverage(0.1)):
        with pytest.raises(ValueError, match="no parameter that trains"):
            make()
    with pytest.raises(ValueError, match="decay"):
        fluid.optimizer.ExponentialMovingAverage(1.5)
    _, ema, window = averages.build()
    exe.run(fluid.default_startup_program())
    for average in (ema, window):
        with pytest.raises(RuntimeError, match="no mean before the first step"):
            average.apply(exe).__enter__()


@pytest.mark.parametrize("average", [lambda: fluid.optimizer.ExponentialMovingAverage(0.5).update(),
                                     lambda: fluid.optimizer.ModelAverage(0.5, 2, 4)])
@pytest.mark.parametrize("size", [100, 1 << 40])
def test_a_distributed_table_is_refused_by_name_before_anything_is_appended(size, average):
    words = fluid.layers.embedding(fluid.layers.data("ids", [1], dtype="int64"), [size, 3], is_distributed=True, param_attr="words")
    fluid.optimizer.SGD(0.5).minimize(fluid.layers.mean(fluid.layers.fc(words, 1)))
    before = str(fluid.default_main_program()), str(fluid.default_startup_program())
    with pytest.raises(UnsupportedError, match=r"Average: means are kept of all .* distributed table 'words' "
                                               r"(.|\n)*is_sparse=True(.|\n)*test_averages.py"):
        average()
    assert before == (str(fluid.default_main_program()), str(fluid.default_startup_program()))


def test_a_distributed_table_that_does_not_train_has_no_mean(exe):
    frozen = fluid.ParamAttr(name="words", trainable=False)
    words = fluid.layers.embedding(fluid.layers.data("ids", [1], dtype="int64"), [1 << 40, 3], is_distributed=True, param_attr=frozen)
    loss = fluid.layers.mean(fluid.layers.fc(words, 1, param_attr="w"))
    fluid.optimizer.SGD(0.5).minimize(loss)
    ema = fluid.optimizer.ExponentialMovingAverage(0.5)
    ema.update()
    exe.run(fluid.default_startup_program())
    exe.run(feed={"ids": np.array([[1], [2]])}, fetch_list=[loss])
    with ema.apply(exe):
        assert np.isfinite(fluid.executor.fetch_var("w")).all()


@needs_mpi
@pytest.mark.mpi
def test_trainers_of_a_job_average_the_values_of_all_updates(tmp_path):
    """The means are those of one process: each has the parameters of the last update, and none has the first values."""
    launch(2, 2, "--out", tmp_path / "job.npz", script=AVERAGES)
    got = results(tmp_path / "job.npz")
    weights = 0.2 * 0.8 ** np.arange(6, -1, -1)
    for name in ("w1", "b1", "w2", "b2"):
        seen = [got[f"{step}.{name}"] for step in range(1, 8)]
        np.testing.assert_allclose(got[f"ema.{name}"], sum(w * s for w, s in zip(weights, seen)) / (1 - 0.8 ** 7), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(got[f"window.{name}"], np.mean(seen[4:], axis=0), rtol=1e-4, atol=1e-5)


def test_replicas_of_a_program_average_once_in_a_step(exe):
    """Also what a script averages by itself behind the updates."""
    def run(is_compiled):
        scope = fluid.Scope()
        with fluid.scope_guard(scope), fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            loss, ema, window = averages.build()
            main = fluid.default_main_program()
            mean = layers.create_global_var([5, 4], 0.0, "float32", persistable=True, name="mean")
            layers.assign(mean * 0.5 + main.global_block().var("w1") * 0.5, mean)
            fluid.default_startup_program().random_seed = 3
            exe.run(fluid.default_startup_program())
            compiled = fluid.CompiledProgram(main).with_data_parallel(loss_name=loss.name, places=[fluid.CPUPlace()] * 2)
            for batch in averages.batches(5):
                exe.run(compiled if is_compiled else main, feed=batch, fetch_list=[loss])
            found = [fluid.executor.fetch_var("mean")]
            for average in (ema, window):
                with average.apply(exe):
                    found += averages.values().values()
        return found

    for got, want in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
