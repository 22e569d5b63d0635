"""Datasets of text files, as Python sees them."""

import gzip

import numpy as np
import pytest

import trireme as fluid


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return str(path)


def fluid_dataset(kind, folder, lines=7, threads=2):
    """The dataset of Fluid's documentation: ids of any number, a label."""
    ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
    label = fluid.layers.data("label", [1], dtype="int64")
    text = "".join(f"{i % 3} {' '.join(str(10 * i + j) for j in range(i % 3))} 1 {i}\n" for i in range(lines))
    dataset = fluid.DatasetFactory().create_dataset(kind)
    dataset.set_batch_size(3)
    dataset.set_thread(threads)
    dataset.set_filelist([write(folder, "a.txt", text)])
    dataset.set_use_var([ids, label])
    dataset.set_pipe_command("cat")
    return dataset


def labels(dataset):
    return [batch["label"].ravel().tolist() for batch in dataset]


def test_a_queue_dataset_reads_batches_of_sequences(tmp_path):
    batches = list(fluid_dataset("QueueDataset", tmp_path))
    assert [batch["label"].ravel().tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5], [6]]
    assert batches[0]["ids"].lod() == [[0, 0, 1, 3]]
    assert np.asarray(batches[0]["ids"]).ravel().tolist() == [10, 20, 21]


def test_lines_in_memory_are_shuffled_by_seed(tmp_path):
    dataset = fluid_dataset("InMemoryDataset", tmp_path, lines=50)
    dataset.load_into_memory()
    assert dataset.get_memory_data_size() == 50
    in_order = sum(labels(dataset), [])
    dataset.local_shuffle(seed=5)
    shuffled = sum(labels(dataset), [])
    assert in_order == list(range(50)) != shuffled and sorted(shuffled) == in_order
    again = fluid_dataset("InMemoryDataset", tmp_path, lines=50, threads=1)
    again.load_into_memory()
    again.global_shuffle(seed=5)
    assert sum(labels(again), []) == shuffled
    dataset.release_memory()
    assert sum(labels(dataset), []) == in_order


def test_a_queue_dataset_does_not_shuffle(tmp_path):
    with pytest.raises(NotImplementedError, match="InMemoryDataset"):
        fluid_dataset("QueueDataset", tmp_path).local_shuffle()


def test_packed_files_and_commands_give_the_same(tmp_path):
    dataset = fluid_dataset("QueueDataset", tmp_path, lines=1000)
    want = labels(dataset)
    path = str(tmp_path / "a.txt.gz")
    with gzip.open(path, "wb") as out:
        out.write((tmp_path / "a.txt").read_bytes())
    dataset.set_filelist([path])
    assert labels(dataset) == want
    dataset.set_pipe_command("zcat")
    assert labels(dataset) == want
    (tmp_path / "cut.gz").write_bytes((tmp_path / "a.txt.gz").read_bytes()[:-20])
    dataset.set_pipe_command("cat")
    dataset.set_filelist([str(tmp_path / "cut.gz")])
    with pytest.raises(ValueError, match="cut.gz' cannot be unpacked: .*unexpected end of file"):
        labels(dataset)
    write(tmp_path, "plain.gz", "1 1 1 1\n")
    dataset.set_filelist([str(tmp_path / "plain.gz")])
    with pytest.raises(ValueError, match="is not packed by gzip"):
        labels(dataset)


def test_csv_agrees_with_numpy(tmp_path):
    table = np.random.RandomState(3).randn(200, 5).astype("float32")
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="a,b,c,d,e", comments="")
    x, e = fluid.layers.data("x", [4]), fluid.layers.data("e", [1])
    data = fluid.Dataset(str(tmp_path / "*.csv"), "csv", batch_size=64, header=True, threads=3, block_bytes=500,
                         slots=[fluid.Slot(x, columns=["a", "b", "c", "d"]), e])
    batches = list(data)
    assert [len(batch["e"]) for batch in batches] == [64, 64, 64, 8]
    read = np.loadtxt(tmp_path / "t.csv", delimiter=",", skiprows=1).astype("float32")
    np.testing.assert_array_equal(np.concatenate([batch["x"] for batch in batches]), read[:, :4])
    np.testing.assert_array_equal(np.concatenate([batch["e"] for batch in batches]), read[:, 4:])


def test_csv_has_categories_and_missing_values(tmp_path):
    path = write(tmp_path, "t.csv", "age,city\n31,Oslo\n,\"Oslo\"\nNA,Rome\n")
    data = fluid.Dataset(path, "csv", batch_size=3, header=True, slots=[
        fluid.Slot("age", "float32", [-1, 1], missing=-1), fluid.Slot("city", "int64", [-1, 1], hash=100)])
    batch, = data
    assert batch["age"].ravel().tolist() == [31, -1, -1]
    assert batch["city"].ravel().tolist() == [fluid.feeds.hash_id(city, 100) for city in ("Oslo", "Oslo", "Rome")]
    with pytest.raises(ValueError, match=r"t.csv, line 3, column 1: slot 'age': expected a finite number that fits float32 \(the slot says "
                                         r"no"):
        list(fluid.Dataset(path, "csv", header=True, slots=[fluid.Slot("age", "float32", [-1, 1])]))


@pytest.mark.parametrize("dtype, missing", [("float32", float("nan")), ("float32", float("inf")), ("float32", 1e39), ("int64", 0.5),
                                            ("int64", 2 ** 53 + 1), ("int64", 1e19)])
def test_a_value_for_missing_fields_must_fit(tmp_path, dtype, missing):
    path = write(tmp_path, "t.csv", "1\n")
    with pytest.raises(ValueError, match="missing"):
        list(fluid.Dataset(path, "csv", slots=[fluid.Slot("age", dtype, [-1, 1], missing=missing)]))


def test_libsvm_is_dense(tmp_path):
    path = write(tmp_path, "t.svm", "1 2:0.5\n-1 1:2 3:1\n")
    data = fluid.Dataset(path, "libsvm", batch_size=2, slots=[fluid.layers.data("y", [1]), fluid.layers.data("x", [3])])
    batch, = data
    assert batch["y"].ravel().tolist() == [1, -1]
    assert batch["x"].tolist() == [[0, 0.5, 0], [2, 0, 1]]


def test_bad_lines_are_counted(tmp_path):
    path = write(tmp_path, "t.txt", "1 0\n1 oops\n1 2\n")
    label = fluid.layers.data("label", [1], dtype="int64")
    data = fluid.Dataset(path, slots=[label], bad_lines="skip", batch_size=5)
    assert labels(data) == [[0, 2]] and data.bad_lines == 1 and data.lines_read == 2
    assert data.first_bad_line.endswith("t.txt, line 2, column 3: slot 'label': expected an integer as value 1 of 1, got 'oops'")
    with pytest.raises(ValueError, match="t.txt, line 2, column 3"):
        labels(fluid.Dataset(path, slots=[label]))


@pytest.mark.parametrize("how, text", [
    ({"format": "json"}, "format='json'; 'multislot', 'csv', 'libsvm', 'parquet', 'arrow' are possible"),
    ({"split": "rows"}, "split='rows'"),
    ({"batch_size": 0}, "batch_size=0"),
    ({"threads": "x"}, "Dataset: threads='x'; a whole number from 0 to 256 is possible"),
    ({"task_bytes": -5}, "Dataset: task_bytes=-5; a whole number"),
    ({"block_bytes": 1 << 40}, "Dataset: block_bytes=1099511627776; a whole number from 0 to 268435456"),
    ({"bad_lines": "all"}, "Dataset: bad_lines='all'; a whole number"),
    ({"first_index": 0.5}, "Dataset: first_index=0.5; a whole number"),
    ({"lease": "x"}, "Dataset: lease='x'; seconds above 0"),
    ({"header": "a,b"}, "Dataset: header='a,b'; True, False or a list of names"),
    ({"pipe_command": 3}, "Dataset: pipe_command=3; a shell command, or None"),
    ({"files": 3}, "Dataset: files=3; a name, a pattern or a list of them"),
    ({"delimiter": ";;"}, "delimiter=';;'"),
    ({"files": "/nowhere/*.txt"}, "no file fits"),
])
def test_senseless_options_of_a_dataset_are_refused(how, text):
    with pytest.raises(ValueError, match=text.replace("*", r"\*")):
        fluid.Dataset(**how)


def test_a_pass_may_end_early(tmp_path):
    dataset = fluid_dataset("QueueDataset", tmp_path, lines=10000)
    for _ in dataset:
        break
    assert labels(dataset)[0] == [0, 1, 2]
