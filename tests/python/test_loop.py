"""train_from_dataset and infer_from_dataset: what the core does without Python is what Executor.run does with it."""

import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from job_support import launch, needs_mpi

import trireme as fluid


def write_table(path, rows=103, seed=4):
    table = np.random.RandomState(seed).randn(rows, 5).astype("float32")
    table[:, 4] = table[:, :4].sum(axis=1)
    np.savetxt(path, table, delimiter=",", fmt="%.9g")
    return table


def regression():
    x, y = fluid.layers.data("x", [4]), fluid.layers.data("y", [1])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    fluid.optimizer.Adam(0.01).minimize(loss)
    return x, y, loss


def parameters():
    return {p.name: np.array(fluid.fetch_var(p.name)) for p in fluid.default_main_program().all_parameters()}


@pytest.fixture
def table(tmp_path):
    x, y, loss = regression()
    write_table(tmp_path / "t.csv")
    data = fluid.Dataset(str(tmp_path / "t.csv"), "csv", batch_size=20, slots=[x, y], threads=2)
    return data, loss


def test_a_loop_trains_as_runs_do_to_the_bit(table, exe):
    data, loss = table
    exe.run(fluid.default_startup_program())
    exe.train_from_dataset(dataset=data, epochs=3, fetch_list=[loss], print_period=4)
    got = parameters()
    with fluid.scope_guard(fluid.Scope()):
        exe.run(fluid.default_startup_program())
        for _ in range(3):
            for batch in data:
                exe.run(feed=batch, fetch_list=[loss])
        want = parameters()
    assert got.keys() == want.keys()
    for name in got:
        np.testing.assert_array_equal(got[name], want[name])


def test_sequences_train_as_runs_do_to_the_bit(exe, tmp_path):
    rng = np.random.RandomState(0)
    with open(tmp_path / "s.txt", "w") as out:
        for _ in range(60):
            ids = rng.randint(0, 50, rng.randint(1, 9))
            out.write(f"{len(ids)} {' '.join(map(str, ids))} 1 {ids.sum() % 2}\n")
    ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
    label = fluid.layers.data("label", [1], dtype="int64")
    pooled = fluid.layers.sequence_pool(fluid.layers.embedding(ids, [50, 8], is_sparse=True), "sum")
    drop = fluid.layers.dropout(pooled, 0.3)
    loss = fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(drop, 2, act="softmax"), label))
    fluid.optimizer.Adagrad(0.1).minimize(loss)
    data = fluid.Dataset(str(tmp_path / "s.txt"), slots=[ids, label], batch_size=16)
    exe.run(fluid.default_startup_program())
    exe.train_from_dataset(dataset=data)
    exe.train_from_dataset(dataset=data)                   # random numbers go on where they were
    got = parameters()
    with fluid.scope_guard(fluid.Scope()):
        other = fluid.Executor()
        other.run(fluid.default_startup_program())
        for _ in range(2):
            for batch in data:
                other.run(feed=batch)
        want = parameters()
    for name in got:
        np.testing.assert_array_equal(got[name], want[name])


def test_a_period_prints_lines(table, exe, capsys):
    data, loss = table
    exe.run(fluid.default_startup_program())
    exe.train_from_dataset(dataset=data, fetch_list=[loss], fetch_info=["cost"], print_period=2, debug=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["step 2", "step 4", "step 6"]
    assert float(lines[0].partition("cost=")[2].split()[0]) > 0
    assert lines[3].startswith("6 steps, 103 samples in ")


def test_steps_end_a_loop(table, exe, capsys):
    data, loss = table
    exe.run(fluid.default_startup_program())
    exe.train_from_dataset(dataset=data, epochs=100, steps=8, fetch_list=[loss], print_period=4, debug=True)
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[:2]] == ["4:", "8:"]


def test_inference_leaves_the_parameters_alone(table, exe, capsys):
    data, loss = table
    exe.run(fluid.default_startup_program())
    before = parameters()
    exe.infer_from_dataset(dataset=data, fetch_list=[loss], print_period=1)
    assert len(capsys.readouterr().out.splitlines()) == 6
    for name, value in parameters().items():
        np.testing.assert_array_equal(value, before[name])


@needs_mpi
@pytest.mark.mpi
def test_a_loop_that_trains_nothing_leaves_the_weight_of_a_jobs_steps(tmp_path):
    said = launch(1, 2, tmp_path / "data", script=Path(__file__).parent / "jobs" / "beside_loop.py")

    want = 0.0
    for _ in range(2):                                 # 4 samples of 1.0 and 12 of 2.0
        want -= 0.1 * (4 * 2 * (want - 1) + 12 * 4 * (2 * want - 1)) / 16
    assert [float(value) for value in re.findall(r"^w (\S+)", said, re.M)] == pytest.approx([want] * 2, rel=1e-6)


@pytest.mark.parametrize("in_memory", [False, True])
def test_several_threads_share_the_parameters(table, exe, capsys, in_memory):
    data, loss = table
    exe.run(fluid.default_startup_program())
    held = fluid.global_scope().find_var(fluid.default_main_program().all_parameters()[0].name).get_tensor().numpy()
    before = held.copy()
    if in_memory:
        data.load_into_memory()
        data.local_shuffle(seed=1)
    exe.train_from_dataset(dataset=data, thread=3, epochs=200, fetch_list=[loss], print_period=600, debug=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("1200 steps, 20600 samples in ")
    assert [line.split()[1] for line in lines[:2]] == ["600:", "1200:"]
    assert float(lines[1].partition("=")[2].split()[0]) < 0.05
    np.testing.assert_array_equal(held, before)            # what Python holds does not change under its hands


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_of_another_thread_waits_for_a_loop_that_it_shares_with(exe, tmp_path, threads):
    x, y, loss = regression()
    write_table(tmp_path / "t.csv")
    data = fluid.Dataset(str(tmp_path / "t.csv"), "csv", batch_size=20, slots=[x, y])
    steps = fluid.layers.autoincreased_step_counter()
    exe.run(fluid.default_startup_program())
    program, scope = fluid.default_main_program(), fluid.global_scope()
    before, batch = parameters(), {"x": np.ones((1, 4), "float32"), "y": np.ones((1, 1), "float32")}
    loop = threading.Thread(target=exe.train_from_dataset, args=(program, data, scope, threads), kwargs={"epochs": 3000})
    loop.start()
    while all(np.array_equal(before[name], value) for name, value in parameters().items()):
        time.sleep(0.001)                              # until it has made a step
    made = int(exe.run(program, feed=batch, fetch_list=[steps], scope=scope)[0][0])
    loop.join()
    assert int(fluid.fetch_var(steps)[0]) == made      # no step of the loop came after it
    assert made == 3000 * 6 + 1 or threads > 1         # which may lose one, where both count


def test_a_bad_line_ends_a_loop_with_its_place(table, exe, tmp_path):
    data, loss = table
    exe.run(fluid.default_startup_program())
    with open(tmp_path / "t.csv", "a") as out:
        out.write("1,2,3\n")
    for thread in (1, 2):
        with pytest.raises(ValueError, match=r"t.csv, line 104, column 6: expected at least 5 fields, found 3"):
            exe.train_from_dataset(dataset=data, thread=thread)


def test_a_value_that_is_not_finite_is_found(table, tmp_path):
    data, loss = table
    exe = fluid.Executor(check_nan=True)
    exe.run(fluid.default_startup_program())
    (tmp_path / "t.csv").write_text("1,2,3,3e38,5\n")
    with pytest.raises(ArithmeticError):
        exe.train_from_dataset(dataset=data)


def test_mistakes_are_explained(table, exe, tmp_path):
    data, loss = table
    with pytest.raises(KeyError, match="run the startup program|no value yet"):
        exe.train_from_dataset(dataset=data)
    exe.run(fluid.default_startup_program())
    with pytest.raises(TypeError, match="dataset must be a Dataset"):
        exe.train_from_dataset(dataset=[1, 2])
    with pytest.raises(KeyError, match="fetch 'nothing' is no variable of the program"):
        exe.train_from_dataset(dataset=data, fetch_list=["nothing"])
    with pytest.raises(ValueError, match="2 texts in fetch_info for 1"):
        exe.train_from_dataset(dataset=data, fetch_list=[loss], fetch_info=["a", "b"])
    for wrong, text in [(dict(fetch_list=loss), "fetch_list must be a list, got Variable"),
                        (dict(fetch_info=3), "fetch_info must be a list, got 3"),
                        (dict(epochs=0), "epochs=0; a whole number from 1 to"), (dict(epochs="9"), "epochs='9'; a whole"),
                        (dict(steps=-1), "steps=-1; a whole number from 0"), (dict(thread=257), "thread=257; a whole number from 0 to 256"),
                        (dict(print_period=1.5), "print_period=1.5; a whole number")]:
        with pytest.raises((TypeError, ValueError), match=f"train_from_dataset: {text}"):
            exe.train_from_dataset(dataset=data, **wrong)
    with pytest.raises(ValueError, match="infer_from_dataset: print_period=-1"):
        exe.infer_from_dataset(dataset=data, print_period=-1)
    other = fluid.Dataset(data.files, "csv", slots=[fluid.Slot("z", "float32", [-1, 4])])
    with pytest.raises(KeyError, match="slot 'z' of the data is no variable"):
        exe.train_from_dataset(dataset=other)
    wide = fluid.Dataset(data.files, "csv", slots=[fluid.Slot("x", shape=[-1, 5])])
    with pytest.raises(ValueError, match=r"slot 'x' of the data has the shape \[-1, 5\], the program wants \[-1, 4\]"):
        exe.train_from_dataset(dataset=wide)
    (tmp_path / "t.csv").write_text("")
    with pytest.raises(ValueError, match="the data gave no batch"):
        exe.train_from_dataset(dataset=data)


def test_a_dataset_is_looked_at_while_it_is_not_in_a_loop(table, exe):
    data, loss = table
    exe.run(fluid.default_startup_program())
    exe.train_from_dataset(dataset=data, steps=2)
    assert sum(len(batch["y"]) for batch in data) == 103
