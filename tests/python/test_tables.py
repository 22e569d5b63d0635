"""Data sets of Parquet and Arrow files mean what CSV files of the same rows mean."""

import random
import re
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from job_support import launch, needs_mpi, results

import trireme as fluid
from trireme.errors import FormatError, MissingLibraryError, NotFoundError, UnsupportedError
from trireme.feeding.tables import TableReader

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

LOOPS = Path(__file__).parent / "jobs" / "loops.py"
FORMATS = ("parquet", "arrow")


def write(folder, table, format, group=64, name="a"):
    """Write a table in row groups; return its path."""
    path = str(folder / f"{name}.{format}")
    if format == "parquet":
        pq.write_table(table, path, row_group_size=group)
    else:
        with pa.ipc.new_file(path, table.schema) as out:
            out.write_table(table, max_chunksize=group)
    return path


def slot(name, dtype="float32", width=1, lod_level=0, **more):
    return fluid.Slot(name, dtype, [-1, width], lod_level, **more)


def read(files, format, slots, **how):
    """All rows: of each slot a list of each batch's values, and of sequences the offsets."""
    found = []
    for batch in fluid.Dataset(files, format, slots=slots, **{"batch_size": 7, **how}):
        found.append({name: (np.asarray(value).tolist(), value.lod() if isinstance(value, fluid.LoDTensor) else None)
                      for name, value in batch.items()})
    return found


def one(folder, array, slot, format="parquet"):
    """The values that a slot makes of a column."""
    table = pa.table({slot.name: array})
    (batch,) = read([write(folder, table, format)], format, [slot], batch_size=100)
    return batch[slot.name]


CITIES = [None, "Oslo", "Bergen, west", "Ålesund", "", "7"]
ROWS = [{"x": None if i % 11 == 3 else i / 8, "n": None if i % 5 == 4 else i * 3, "city": CITIES[i % 6], "zip": i * 7919 % 1000,
         "ids": [j * i for j in range(i % 4)]} for i in range(200)]
SLOTS = [slot("x", missing=-1), slot("n", "int64", missing=0), slot("city", "int64", hash=1000), slot("zip", "int64", hash=77),
         slot("ids", "int64", lod_level=1)]


def csv_of(folder):
    """The rows as a CSV file."""
    def text(value):
        if isinstance(value, list):
            return " ".join(map(str, value))
        return "" if value is None else f'"{value}"' if isinstance(value, str) else str(value)

    path = folder / "a.csv"
    path.write_text("x,n,city,zip,ids\n" + "".join(",".join(map(text, row.values())) + "\n" for row in ROWS))
    return str(path)


def table_of(**types):
    kinds = {"x": pa.float64(), "n": pa.int16(), "city": pa.string(), "zip": pa.int32(), "ids": pa.list_(pa.int64()), **types}
    return pa.table({name: pa.array([row[name] for row in ROWS], kind) for name, kind in kinds.items()})


@pytest.mark.parametrize("format", FORMATS)
def test_rows_are_what_lines_of_csv_are(format, tmp_path):
    want = read([csv_of(tmp_path)], "csv", SLOTS, header=True)
    path = write(tmp_path, table_of(), format)
    for how in ({}, {"threads": 3, "block_bytes": 300}, {"block_bytes": 1}):
        assert read([path], format, SLOTS, **how) == want
    other = table_of(x=pa.float32(), n=pa.uint64(), city=pa.dictionary(pa.int8(), pa.large_string()), zip=pa.uint16(),
                     ids=pa.large_list(pa.int16()))
    assert read([write(tmp_path, other, format, name="b")], format, SLOTS) == want


@pytest.mark.parametrize("format", FORMATS)
def test_lines_in_memory_are_shuffled_as_those_of_csv(format, tmp_path):
    def shuffled(path, format, **how):
        data = fluid.feeds.InMemoryDataset([path], format, 7, SLOTS, **how)
        data.load_into_memory()
        data.local_shuffle(seed=3)
        assert data.get_memory_data_size() == len(ROWS)
        return [batch["zip"].ravel().tolist() for batch in data]

    assert shuffled(write(tmp_path, table_of(), format), format) == shuffled(csv_of(tmp_path), "csv", header=True)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("array, want, how", [
    (pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)), [[1, 2], [3, 4]], {"width": 2}),
    (pa.array([[1, 2], None], pa.list_(pa.float32(), 2)), [[1, 2], [9, 9]], {"width": 2, "missing": 9}),
    (pa.array([[1, 2], [3, None]]), [[1, 2], [3, 9]], {"width": 2, "missing": 9}),
    (pa.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], pa.list_(pa.list_(pa.int8(), 2), 2)), [[1, 2, 3, 4], [5, 6, 7, 8]], {"width": 4}),
    (pa.array([True, False, None]), [[1], [0], [5]], {"missing": 5}),
    (pa.array([Decimal("1.25"), Decimal("-0.5")]), [[1.25], [-0.5]], {}),
    (pa.array([1.5, float("nan")]), [[1.5], [5]], {"missing": 5}),
    (pa.array(np.array([0.5, 2], "float16")), [[0.5], [2]], {"dtype": "float64"}),
    (pa.nulls(2), [[5], [5]], {"missing": 5}),
    (pa.array([2**64 - 1, 2**63], pa.uint64()), [[-1], [-2**63]], {"dtype": "int64"}),
    (pa.array([b"Oslo", None, b"\xff"]), [[394], [fluid.feeds.hash_id("", 1000)], [fluid.feeds.hash_id(b"\xff", 1000)]],
     {"dtype": "int64", "hash": 1000}),
])
def test_a_column_becomes_dense_rows(array, want, how, format, tmp_path):
    if format == "parquet" and pa.types.is_float16(array.type):
        pytest.importorskip("pyarrow", minversion="16")
    assert one(tmp_path, array, slot("c", **how), format)[0] == want


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("array, values, ends, how", [
    (pa.array([[1, 2], [], None, [3]]), [1, 2, 3], [0, 2, 2, 2, 3], {}),
    (pa.array([[1, None], [None]]), [1, 9, 9], [0, 2, 3], {"missing": 9}),
    (pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2)), [1, 2, 3, 4], [0, 2, 4], {}),
    (pa.array([5, None, 6]), [5, 6], [0, 1, 1, 2], {}),
    (pa.array([["Oslo", "x"], None, ["Oslo"]]), [394, fluid.feeds.hash_id("x", 1000), 394], [0, 2, 2, 3], {"hash": 1000}),
    (pa.array([[1, 2, 3, 4], [5, 6]]), [[1, 2], [3, 4], [5, 6]], [0, 2, 3], {"width": 2}),
    (pa.array([[[1, 2], [3, 4]], None, [[5, 6], None]], pa.list_(pa.list_(pa.int32(), 2))), [[1, 2], [3, 4], [5, 6], [9, 9]], [0, 2, 2, 4],
     {"width": 2, "missing": 9}),
])
def test_a_column_becomes_sequences(array, values, ends, how, format, tmp_path):
    found, lod = one(tmp_path, array, slot("c", "int64", lod_level=1, **how), format)
    assert np.array(found).reshape(np.shape(values)).tolist() == values and lod == [ends]


def test_several_columns_make_one_row(tmp_path):
    path = write(tmp_path, pa.table({"a": [1, 2], "b": [3, 4], "c": [5, 6]}), "parquet")
    (batch,) = read([path], "parquet", [slot("x", width=3, columns=["c", 0, "b"])])
    assert batch["x"][0] == [[5, 1, 3], [6, 2, 4]]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("slots, error, text", [
    ([slot("x", "int64")], FormatError, r"slot 'x': column 'x': expected integers, got double"),
    ([slot("city", "int64")], FormatError, r"column 'city': expected integers, got string; a slot with hash= makes ids of texts"),
    ([slot("ids", "int64")], FormatError,
     r"row group 0, row 0 \(from 0\): slot 'ids': column 'ids': expected a list of 1 values, got one of 0"),
    ([slot("ids", "int64", 3, lod_level=1)], FormatError, r"row 1 .*expected a list of a multiple of 3 values, got one of 1"),
    ([slot("x", width=2)], FormatError, r"column 'x': expected lists of 2 numbers, got double"),
    ([slot("x", "int64", hash=5)], FormatError, r"column 'x': expected texts or integers, got double"),
    ([slot("price")], NotFoundError, r"slot 'price': there is no column 'price'; there are x, n, city, zip, ids"),
    ([slot("y", columns=[9])], NotFoundError, r"there is no column 9"),
    ([slot("y", width=3, columns=["x", "n"])], FormatError, r"slot 'y' has 2 columns; it is rows of 3 elements"),
    ([slot("y", "int64", lod_level=1, columns=["n", "zip"])], FormatError, r"slot 'y' has 2 columns; it is a sequence"),
    ([slot("x")], FormatError, (r"a\.\w+, row group 0, row 3 \(from 0\): slot 'x': column 'x': expected a finite number that fits float32 "
                                r"\(the slot says no `missing=` value\), got null")),
])
def test_columns_that_do_not_fit_their_slots_are_explained(slots, error, text, format, tmp_path):
    path = write(tmp_path, table_of(), format)
    with pytest.raises(error, match=text) as caught:
        read([path], format, slots)
    assert path in str(caught.value)


def test_a_value_beyond_its_type_is_explained(tmp_path):
    path = write(tmp_path, pa.table({"x": [1.0, 1e39]}), "parquet")
    with pytest.raises(FormatError, match="row 1 .*expected a finite number that fits float32, got inf"):
        read([path], "parquet", [slot("x")])


def test_nested_lists_of_any_length_are_refused(tmp_path):
    path = write(tmp_path, pa.table({"x": [[[1], [2, 3]]]}), "parquet")
    with pytest.raises(FormatError, match=r"expected lists of integers, got list<"):
        read([path], "parquet", [slot("x", "int64", lod_level=1)])


def test_each_file_is_checked(tmp_path):
    first = write(tmp_path, pa.table({"x": [1.0]}), "parquet", name="first")
    second = write(tmp_path, pa.table({"x": ["one"]}), "parquet", name="second")
    with pytest.raises(FormatError, match=r"second\.parquet: slot 'x': column 'x': expected numbers, got string"):
        read([first, second], "parquet", [slot("x")])


def test_bad_rows_are_skipped_and_counted(tmp_path):
    path = write(tmp_path, table_of(), "parquet")
    data = fluid.Dataset([path], "parquet", 50, [slot("x"), slot("zip", "int64")], bad_lines="skip")
    rows = sum(len(batch["x"]) for batch in data)
    missing = sum(row["x"] is None for row in ROWS)
    assert rows == len(ROWS) - missing and data.bad_lines == missing and "row 3 (from 0)" in data.first_bad_line


@pytest.mark.parametrize("format", FORMATS)
def test_damaged_files_are_refused(format, tmp_path):
    """Whatever a file holds: rows come out, or our own error."""
    path = Path(write(tmp_path, table_of(), format))
    whole, rng = path.read_bytes(), random.Random(7)
    refused = 0
    for i in range(60):
        data = bytearray(whole)
        if i < 20:
            del data[rng.randrange(len(data)):]
        for _ in range(3 if i >= 20 else 0):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        try:
            read([str(path)], format, SLOTS)
        except (FormatError, NotFoundError):
            refused += 1
    assert refused >= 20
    path.write_text("x,n\n1,2\n")
    with pytest.raises(FormatError, match=f"cannot be read as {format.capitalize()}; it is damaged, or of another format"):
        read([str(path)], format, SLOTS)


def test_folders_and_lost_files_are_refused(tmp_path):
    with pytest.raises(NotFoundError, match="lost.parquet"):
        read([str(tmp_path / "lost.parquet")], "parquet", SLOTS)
    with pytest.raises(OSError, match="is no regular file"):
        read([str(tmp_path)], "parquet", SLOTS)


def rows_of(reader, path, begin, end):
    """The row numbers of a piece, block by block."""
    reader.open(path, begin, end)
    found = [rows.batch.column("x").to_pylist() for rows in reader._rows]
    reader.close()
    return found


@pytest.mark.parametrize("format", FORMATS)
def test_blocks_are_small_and_pieces_hold_each_row_once(format, tmp_path):
    path = write(tmp_path, pa.table({"x": np.arange(1000), "other": ["long text" * 9] * 1000}), format, group=100)
    reader = TableReader(format, [slot("x")], block_bytes=1000)
    blocks = rows_of(reader, path, 0, sys.maxsize)
    assert sum(blocks, []) == list(range(1000)) and max(map(len, blocks)) <= 100 and len(blocks) >= 10
    size = Path(path).stat().st_size
    cuts = [0, 1, size // 7, size // 2, size - 1, sys.maxsize]
    assert sum((row for begin, end in zip(cuts, cuts[1:]) for row in rows_of(reader, path, begin, end)), []) == list(range(1000))


@pytest.mark.parametrize("format", FORMATS)
def test_tasks_are_parts_of_files(format, tmp_path):
    path = write(tmp_path, pa.table({"x": np.arange(1000)}), format, group=50)
    data = fluid.Dataset([path], format, 100, [slot("x", "int64")], split="tasks", task_bytes=Path(path).stat().st_size // 4)
    batches = [batch["x"].ravel().tolist() for batch in data]
    assert sum(batches, []) == list(range(1000)) and len(batches) > 1000 // 100       # no batch has rows of two tasks


@pytest.mark.parametrize("format", FORMATS)
def test_training_is_that_on_csv_to_the_bit(format, tmp_path):
    def trained(files, format, **how):
        main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        startup.random_seed = 3
        with fluid.program_guard(main, startup), fluid.scope_guard(scope), fluid.unique_name.guard():
            x, y = fluid.layers.data("x", [1]), fluid.layers.data("zip", [1])
            loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
            fluid.optimizer.SGD(1e-4).minimize(loss)
            exe = fluid.Executor()
            exe.run(startup)
            data = fluid.Dataset(files, format, batch_size=16, slots=[fluid.Slot(x, columns="x", missing=0), fluid.Slot(y, columns="zip")],
                                 **how)
            exe.train_from_dataset(main, data, epochs=3)
            return np.array(scope.find_var("fc_0.w_0").get_tensor())

    want = trained([csv_of(tmp_path)], "csv", header=True)
    np.testing.assert_array_equal(trained([write(tmp_path, table_of(), format)], format), want)


def test_a_pass_may_be_left(tmp_path):
    path = write(tmp_path, table_of(), "parquet", group=10)
    data = fluid.Dataset([path], "parquet", 3, [slot("zip", "int64")], block_bytes=1, threads=2)
    for _ in range(3):
        passes = iter(data)
        first = next(passes)["zip"].ravel().tolist()
        passes.close()
        assert first == [0, 919, 838]


def test_a_process_may_end_within_a_pass(tmp_path):
    import subprocess

    path = write(tmp_path, table_of(), "parquet", group=10)
    script = (f"import trireme as fluid\nit = iter(fluid.Dataset([{path!r}], 'parquet', 1, [fluid.Slot('zip', 'int64', [-1, 1])],"
              "threads=3, block_bytes=1))\nprint(next(it)['zip'].item())")
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_a_saved_job_cannot_have_them(tmp_path):
    path = write(tmp_path, table_of(), "parquet")
    x = fluid.layers.data("x", [1])
    fluid.layers.mean(x)
    with pytest.raises(UnsupportedError, match="format 'parquet', which Python reads; trireme-trainer"):
        fluid.io.save_job(str(tmp_path / "job"), fluid.Dataset([path], "parquet", slots=[x]))
    with pytest.raises(ValueError, match="a command writes lines, and Parquet and Arrow files have none"):
        read([path], "parquet", SLOTS, pipe_command="zcat")


def test_the_library_is_named_where_it_is_missing(monkeypatch, tmp_path):
    path = write(tmp_path, table_of(), "parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingLibraryError, match=r"format='parquet'\) needs the library pyarrow, .*'\.\[arrow\]' in a clone"):
        read([path], "parquet", SLOTS)


@needs_mpi
@pytest.mark.mpi
def test_a_job_trains_on_each_row_of_parquet(tmp_path):
    launch(2, 2, tmp_path / "data", "--format", "parquet", "--out", tmp_path / "r.npz", script=LOOPS)
    counts = -results(tmp_path / "r.npz")["counts"][:, 0] * 4 / 0.5
    np.testing.assert_allclose(counts, 1)              # two epochs, and the mean of two trainers' gradients


@needs_mpi
@pytest.mark.mpi
def test_a_job_leases_tasks_of_arrow_files(tmp_path):
    text = launch(2, 2, tmp_path / "data", "--format", "arrow", script=LOOPS, options=("--mode", "async"))
    assert sum(map(int, re.findall(r"steps, (\d+) samples in", text))) == 2 * 8 * 4 * 4, text
