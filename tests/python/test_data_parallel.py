"""Replicas of a program on threads of one process: what they compute is what one executor computes on the whole batch."""

import numpy as np
import pytest
from job_support import SCRIPT, alone, launch, needs_mpi, results

import trireme as fluid
from trireme import core, layers

REPLICAS = SCRIPT.with_name("replicas.py")
BATCHES = (12, 7, 12, 1, 12)


def network(sparse=False, table=False, norm=False, twice=False):
    ids, label = layers.data("ids", [5, 1], dtype="int64"), layers.data("label", [1], dtype="int64")
    rows = layers.embedding(ids, [50, 8], is_sparse=sparse, is_distributed=table, param_attr="rows")
    if twice:
        rows += layers.embedding(layers.scale(ids, 1.0), [50, 8], is_sparse=sparse, is_distributed=table, param_attr="rows")
    hidden = layers.fc(layers.reshape(rows, [-1, 40]), 16, act="tanh")
    hidden = layers.batch_norm(hidden, momentum=0.5) if norm else hidden
    chances = layers.fc(hidden, 3, act="softmax")
    return layers.mean(layers.cross_entropy(chances, label)), chances, label


def batches(sizes=BATCHES):
    rng = np.random.default_rng(0)
    for size in sizes:
        ids = rng.integers(0, 50, (size, 5, 1))
        yield {"ids": ids, "label": ids[:, 0] % 3}


class Run:
    """A training in programs and a scope of its own. ``places`` 0: one executor, no replicas."""

    def __init__(self, places, optimizer, build=network, execution=None, strategy=None, **kind):
        self.main, startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        self.main.random_seed = startup.random_seed = 7
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            self.loss, *self.others = build(**kind)
            optimizer().minimize(self.loss)
        self.exe, self.program = fluid.Executor(fluid.CPUPlace()), self.main
        self.exe.run(startup, scope=self.scope)
        if places:
            self.program = fluid.CompiledProgram(self.main).with_data_parallel(
                loss_name=self.loss.name, places=fluid.cpu_places(places), exec_strategy=execution, build_strategy=strategy)

    def step(self, feed, fetch=None):
        return self.exe.run(self.program, feed=feed, fetch_list=fetch or [self.loss], scope=self.scope)

    def train(self, sizes=BATCHES):
        for feed in batches(sizes):
            self.step(feed)
        return self

    def values(self):
        names = sorted(var.name for var in self.main.list_vars() if var.persistable and self.scope.find_var(var.name).kind() is not None)
        return {name: np.array(self.scope.find_var(name).get_tensor()) for name in names if "embedding_0.w_0" not in name
                or "tab" not in name}


def sgd():
    return fluid.optimizer.SGD(0.5)


def momentum_with_decay():
    return fluid.optimizer.Momentum(0.1, 0.9, regularization=fluid.regularizer.L2Decay(1e-2))


def adam_by_schedule():
    return fluid.optimizer.Adam(layers.exponential_decay(0.05, 2, 0.5))


def clipped():
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(0.05))
    return fluid.optimizer.SGD(0.5)


def compare(one, other, tolerance=2e-5):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("optimizer", [sgd, momentum_with_decay, adam_by_schedule, clipped])
@pytest.mark.parametrize("sparse", [False, True])
def test_replicas_train_as_one_executor_does(optimizer, sparse):
    compare(Run(0, optimizer, sparse=sparse).train().values(), Run(3, optimizer, sparse=sparse).train().values())


@pytest.mark.parametrize("optimizer", [sgd, adam_by_schedule])
@pytest.mark.parametrize("twice", [False, True])
def test_rows_of_a_sparse_table_are_looked_up_and_updated_once(optimizer, twice):
    one, three = (Run(places, optimizer, table=True, twice=twice) for places in (0, 3))
    for run in (one, three):
        run.train()
    feed = next(batches([20]))
    test = one.main.clone(for_test=True)
    fetch = [run.exe.run(test, feed=feed, fetch_list=[run.others[0]], scope=run.scope)[0] for run in (one, three)]
    np.testing.assert_allclose(*fetch, rtol=1e-5)


def test_bits_depend_on_the_number_of_places_and_on_no_thread():
    before = core.num_threads()
    try:
        runs = []
        for threads in (1, 2, 4):
            core.set_num_threads(threads)
            runs.append(Run(3, adam_by_schedule, sparse=True).train().values())
    finally:
        core.set_num_threads(before)
    for other in runs[1:]:
        for name, value in runs[0].items():
            np.testing.assert_array_equal(value, other[name])


def test_fetches_of_replicas_are_concatenated(exe):
    run = Run(3, sgd)
    feed = next(batches([7]))
    plain = run.exe.run(run.main.clone(for_test=True), feed=feed, fetch_list=[run.others[0]], scope=run.scope)[0]
    loss, chances, weight, gradient = run.step(feed, [run.loss, run.others[0], "fc_0.w_0", "fc_0.w_0@GRAD"])
    assert loss.shape == (3,) and weight.shape == gradient.shape == (40, 16)
    np.testing.assert_allclose(chances, plain, rtol=1e-6)
    shares = np.array([3, 2, 2]) / 7
    costs = -np.log(plain[np.arange(7), feed["label"][:, 0]])
    np.testing.assert_allclose(loss @ shares, costs.mean(), rtol=1e-5)
    assert run.step(next(batches([2])))[0].shape == (2,)     # no more replicas than samples


def test_each_place_may_be_fed_itself():
    run, other = Run(2, sgd), Run(2, sgd)
    feed = next(batches([8]))
    halves = [{name: value[i:i + 4] for name, value in feed.items()} for i in (0, 4)]
    np.testing.assert_array_equal(run.step(feed)[0], other.step(halves)[0])
    with pytest.raises(core.InvalidArgumentError, match="a list of 1, there are 2 places"):
        run.step(halves[:1])
    with pytest.raises(TypeError, match="dicts of the same names"):
        run.step([feed, {"ids": feed["ids"]}])
    with pytest.raises(core.ShapeError, match="'label' has 3 samples, feed 'ids' has 8"):
        run.step({**feed, "label": feed["label"][:3]})


def test_gradients_may_be_summed_or_seeded_by_the_script():
    kinds = fluid.BuildStrategy.GradientScaleStrategy
    one, summed, own = fluid.BuildStrategy(), fluid.BuildStrategy(), fluid.BuildStrategy()
    summed.gradient_scale_strategy, own.gradient_scale_strategy = kinds.One, kinds.Customized
    feed = next(batches([8]))
    grad = "fc_0.w_0@GRAD"
    mean, = Run(2, sgd, strategy=one).step(feed, [grad])
    twice, = Run(2, sgd, strategy=summed).step(feed, [grad])
    np.testing.assert_allclose(twice, 2 * mean, rtol=1e-5)
    run = Run(2, sgd, strategy=own)
    seeded, = run.step({**feed, run.loss.name + "@GRAD": np.array([0.25], "float32")}, [grad])
    np.testing.assert_allclose(seeded, 0.5 * mean, rtol=1e-5)


def test_statistics_are_means_and_counts_are_sums():
    def build():
        loss, chances, label = network(norm=True)
        two = layers.concat([1.0 - layers.slice(chances, [1], [0], [1]), layers.slice(chances, [1], [0], [1])], axis=1)
        area = layers.auc(two, layers.cast(layers.equal(label, layers.zeros_like(label)), "int64"), num_thresholds=63)
        return loss, area[0]

    run, lone = Run(2, sgd, build=build), Run(0, sgd, build=build)
    names = [var.name for var in run.main.list_vars() if var.persistable and "batch_norm_0.w_1" in var.name]
    before = run.values()[names[0]]
    feed = next(batches([8]))
    hidden = "fc_0.tmp_2"
    value, = run.step(feed, [hidden])
    np.testing.assert_allclose(run.values()[names[0]], 0.5 * before + 0.5 * value.mean(axis=0), rtol=1e-5, atol=1e-6)
    lone.step(feed)
    counts = ["auc_0.tmp_0", "auc_0.tmp_1"]       # of all steps, not of the last one
    for name in counts:
        assert run.values()[name].sum() == lone.values()[name].sum() > 0, name


def normed(layer=layers.batch_norm, dtype="float64", layout="NCHW"):
    x, y = layers.data("x", [3, 4, 4], dtype=dtype), layers.data("y", [1], dtype=dtype)
    image = layers.transpose(x, [0, 2, 3, 1]) if layout == "NHWC" else x
    hidden = layer(image, momentum=0.5, data_layout=layout, act="tanh")
    hidden = layer(layers.fc(hidden, 5), momentum=0.5)
    return layers.mean(layers.square_error_cost(layers.fc(hidden, 1), y)), hidden


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("by_option", [False, True], ids=["layer", "option"])
def test_synchronized_norms_have_the_statistics_of_the_whole_batch(by_option, layout):
    rng = np.random.default_rng(3)
    strategy = fluid.BuildStrategy()
    strategy.sync_batch_norm = by_option
    layer = layers.batch_norm if by_option else layers.sync_batch_norm
    lone = Run(0, momentum_with_decay, build=normed, layout=layout)
    runs = [Run(places, momentum_with_decay, build=normed, layer=layer, layout=layout, strategy=strategy if by_option else None)
            for places in (2, 3)]
    names = [var.name for var in lone.main.list_vars() if var.persistable]
    for size in (7, 12, 1, 8):                         # one sample: one replica
        feed = {"x": 100 + 3 * rng.normal(size=(size, 3, 4, 4)), "y": rng.normal(size=(size, 1))}
        want, = lone.step(feed, [lone.others[0]])
        for run in runs:
            got, = run.step(feed, [run.others[0]])
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
    for run in runs:
        assert "sync_batch_norm" not in {op.type for op in run.main.global_block().ops} or not by_option
        for name in names:
            mine = name.replace("batch_norm", layer.__name__)
            np.testing.assert_allclose(np.array(run.scope.find_var(mine).get_tensor()), np.array(lone.scope.find_var(name).get_tensor()),
                                       rtol=1e-8, atol=1e-9, err_msg=name)


def test_synchronized_norms_give_one_result_on_any_number_of_threads():
    before = core.num_threads()
    rng = np.random.default_rng(5)
    feed = {"x": rng.normal(size=(9, 3, 4, 4)).astype("float32"), "y": rng.normal(size=(9, 1)).astype("float32")}
    try:
        results = []
        for threads in (1, 2, 4):
            core.set_num_threads(threads)
            run = Run(3, sgd, build=normed, layer=layers.sync_batch_norm, dtype="float32")
            results.append([run.step(feed)[0] for _ in range(3)])
    finally:
        core.set_num_threads(before)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_sequences_are_cut_between_samples():
    def build():
        words, label = layers.data("words", [1], dtype="int64", lod_level=1), layers.data("label", [1], dtype="int64")
        last = layers.sequence_pool(layers.embedding(words, [20, 6]), "sum")
        chances = layers.fc(last, 2, act="softmax")
        return layers.mean(layers.cross_entropy(chances,
                                                label)), chances, layers.sequence_softmax(layers.fc(layers.embedding(words, [20, 1]), 1))

    words = fluid.create_lod_tensor(np.arange(12).reshape(-1, 1), [[2, 1, 4, 3, 2]], fluid.CPUPlace())
    feed = {"words": words, "label": np.array([[0], [1], [0], [1], [1]])}
    one, two = Run(0, sgd, build=build), Run(2, sgd, build=build)
    for _ in range(3):
        expected, got = (run.exe.run(run.program, feed=feed, fetch_list=[run.others[1]], scope=run.scope, return_numpy=False)[0]
                         for run in (one, two))
    assert got.recursive_sequence_lengths() == expected.recursive_sequence_lengths() == [[2, 1, 4, 3, 2]]
    np.testing.assert_allclose(np.array(got), np.array(expected), rtol=1e-5)
    compare(one.values(), two.values())


def test_dropout_differs_between_replicas():
    def build():
        x = layers.data("x", [100])
        out = layers.dropout(x, 0.5)
        return layers.mean(layers.fc(out, 1)), out

    out, = Run(2, sgd, build=build).step({"x": np.ones((2, 100), "float32")}, ["dropout_0.tmp_0"])
    assert (out[0] != out[1]).any()


def test_a_test_program_runs_as_replicas_too():
    run = Run(2, sgd).train()
    feed = next(batches([9]))
    test = run.main.clone(for_test=True)
    compiled = fluid.CompiledProgram(test).with_data_parallel(places=fluid.cpu_places(4), share_vars_from=run.program)
    for program in (compiled, test):
        chances, = run.exe.run(program, feed=feed, fetch_list=[run.others[0]], scope=run.scope)
        assert chances.shape == (9, 3)
    plain, = run.exe.run(test, feed=feed, fetch_list=[run.others[0]], scope=run.scope)
    np.testing.assert_allclose(run.exe.run(compiled, feed=feed, fetch_list=[run.others[0]], scope=run.scope)[0], plain, rtol=1e-6)


def test_a_failure_names_the_replica_and_the_line():
    run = Run(2, sgd)
    feed = next(batches([8]))
    feed["ids"] = np.where(np.arange(8)[:, None, None] == 6, 99, feed["ids"])      # in the second half
    with pytest.raises(core.EnforceNotMet, match=r"(?s)99.*in replica 1 of 2"):
        run.step(feed)
    run.step(next(batches([8])))
    run.exe.check_nan = True
    run.scope.find_var("fc_0.b_0").get_tensor().set(np.full(16, np.nan, "float32"))
    with pytest.raises(core.NotFiniteError, match="in replica 0 of 2"):
        run.step(next(batches([8])))


def test_memory_is_given_back_as_often_as_asked():
    execution = fluid.ExecutionStrategy()
    execution.num_iteration_per_drop_scope = 2
    a, b = Run(2, momentum_with_decay, execution=execution).train(), Run(2, momentum_with_decay).train()
    for name, value in a.values().items():
        np.testing.assert_array_equal(value, b.values()[name])


def test_fluids_parallel_executor(monkeypatch):
    monkeypatch.setenv("CPU_NUM", "2")
    run = Run(0, sgd)
    with fluid.scope_guard(run.scope):
        execution, build = core.ParallelExecutor.ExecutionStrategy(), core.ParallelExecutor.BuildStrategy()
        build.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
        parallel = fluid.ParallelExecutor(use_cuda=False, loss_name=run.loss.name, main_program=run.main, exec_strategy=execution,
                                          build_strategy=build)
        test = fluid.ParallelExecutor(False, main_program=run.main.clone(for_test=True), share_vars_from=parallel)
    assert parallel.device_count == 2 and build.is_distribution is False
    for feed in batches():
        parallel.run([run.loss.name], feed=feed)
        parallel.drop_local_exe_scopes()
    compare(run.values(), Run(2, sgd).train().values(), 0)
    assert test.run(fetch_list=[run.others[0].name], feed_dict=next(batches([4])))[0].shape == (4, 3)


def test_fluids_trainer_may_be_parallel(monkeypatch):
    def build():
        x, y = layers.data("x", [1]), layers.data("y", [1])
        return layers.mean(layers.square_error_cost(layers.fc(x, 1), y))

    def trained(parallel):
        trainer = fluid.contrib.trainer.Trainer(build, lambda: fluid.optimizer.SGD(0.1), parallel=parallel)
        batch, shapes = [(np.array([a]), np.array([2 * a])) for a in (0.0, 1.0, 2.0, 3.0)], set()
        trainer.train(50, lambda event: shapes.add(event.metrics[0].shape) if hasattr(event, "metrics") else None, lambda: [batch],
                      ["x", "y"])
        return trainer.test(lambda: [batch], ["x", "y"])[0], shapes

    monkeypatch.setenv("CPU_NUM", "2")
    (alone, shape), (parallel, shapes) = trained(False), trained(True)
    assert parallel == pytest.approx(alone, rel=1e-3, abs=1e-7) and shape == {(1,)} and shapes == {(2,)}


def test_is_distribution_comes_from_the_program():
    run = Run(0, sgd)
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(0, program=run.main, pservers="a:1,b:2", trainers=2)
    build = fluid.BuildStrategy()
    fluid.CompiledProgram(transpiler.get_trainer_program(), build).with_data_parallel(loss_name=run.loss.name)
    assert build.is_distribution is True


def test_impossible_arguments_of_data_parallel_programs_are_refused(monkeypatch):
    run = Run(2, sgd)
    main = run.main
    with pytest.raises(TypeError, match="takes a Program, got 3"):
        fluid.CompiledProgram(3)
    with pytest.raises(core.NotFoundError, match="loss_name='mean_0.tmp' is no variable.*did you mean 'mean_0.tmp_0'"):
        fluid.CompiledProgram(main).with_data_parallel(loss_name="mean_0.tmp")
    with pytest.raises(core.InvalidArgumentError, match="called already"):
        run.program.with_data_parallel()
    with pytest.raises(core.InvalidArgumentError, match="places=0"):
        fluid.CompiledProgram(main).with_data_parallel(places=[])
    with pytest.raises(core.UnsupportedError, match="processors alone"):
        fluid.ParallelExecutor(use_cuda=True, main_program=main)
    with pytest.raises(core.UnsupportedError, match="trireme launch --trainers N"):
        fluid.ParallelExecutor(num_trainers=2, main_program=main)
    build = fluid.BuildStrategy()
    with pytest.raises(AttributeError, match="no option 'reduce_strateg'; did you mean 'reduce_strategy'"):
        build.reduce_strateg = 1
    with pytest.raises(core.InvalidArgumentError, match="reduce_strategy=7"):
        build.reduce_strategy = 7
    with pytest.raises(TypeError, match="sync_batch_norm must be True or False, got 'yes'"):
        build.sync_batch_norm = "yes"
    run.step(next(batches([4])))
    with pytest.raises(core.InvalidArgumentError, match="set after the first run"):
        run.program._build.reduce_strategy = 1
    monkeypatch.setenv("CPU_NUM", "many")
    with pytest.raises(core.InvalidArgumentError, match="CPU_NUM of the environment is 'many'"):
        fluid.cpu_places()


def test_a_compiled_program_without_replicas_runs_as_it_is():
    run = Run(0, sgd)
    run.program = fluid.CompiledProgram(run.main)
    compare(run.train().values(), Run(0, sgd).train().values(), 0)


def test_the_update_can_be_drawn(tmp_path):
    build = fluid.BuildStrategy()
    build.debug_graphviz_path = str(tmp_path / "update.dot")
    Run(2, sgd, strategy=build).train([4])
    assert "fc_0.w_0@GRAD@REPLICA@1" in (tmp_path / "update.dot").read_text()


# -- jobs ------------------------------------------------------------------------------------------


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("kind", [(), ("--table",), ("--function",)], ids=["dense", "table", "function"])
def test_trainers_of_a_job_have_replicas_of_their_own(tmp_path, kind):
    alone("--out", tmp_path / "alone.npz", *[word for word in kind if word != "--function"], script=REPLICAS)
    launch(2, 2, "--out", tmp_path / "job.npz", "--places", 2, *kind, script=REPLICAS)
    want, got = results(tmp_path / "alone.npz"), results(tmp_path / "job.npz")
    for name in ("guesses", "weight", "costs"):
        np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-5, err_msg=name)
