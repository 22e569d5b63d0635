"""A model that was saved with its slots takes rows of raw values: they are fed as the reader of the training's data would feed them."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trireme as fluid
from trireme.native import errors
from trireme.serving import Exporter, Predictor, export_model, predict

layers, Slot = fluid.layers, fluid.Slot
KEYS = 1 << 40
NAMES = ["user", "tags", "genres", "count", "price", "pair"]


class Model:
    """A feed of each kind, and a sum of them all."""

    def __init__(self) -> None:
        self.vars = {"user": layers.data("user", [1], dtype="int64"), "tags": layers.data("tags", [1], dtype="int64", lod_level=1),
                     "genres": layers.data("genres", [1], dtype="int64", lod_level=1), "count": layers.data("count", [1], dtype="int64"),
                     "price": layers.data("price", [1]), "pair": layers.data("pair", [2], dtype="float64")}
        sums = [layers.cast(self.vars[name], "float32") for name in ("user", "count", "price")]
        sums += [layers.sequence_pool(layers.cast(self.vars[name], "float32"), "sum") for name in ("tags", "genres")]
        sums += [layers.cast(layers.reduce_sum(self.vars["pair"], dim=1, keep_dim=True), "float32")]
        self.total = layers.fc(layers.concat(sums, axis=1), 1)
        self.exe = fluid.Executor()
        self.exe.run(fluid.default_startup_program())
        self.slots = [Slot(self.vars["user"], hash=KEYS), Slot(self.vars["tags"], hash=1000), self.vars["genres"],
                      Slot(self.vars["count"], missing=-1), Slot(self.vars["price"], missing=0.1),
                      Slot(self.vars["pair"], columns=["pair", "right"], missing=2.5)]

    def dataset(self, path: str | Path) -> fluid.Dataset:
        return fluid.Dataset([str(path)], "csv", header=True, batch_size=100, slots=self.slots)

    def save(self, folder: Path, slots: Any) -> Predictor:
        fluid.io.save_inference_model(str(folder), NAMES, [self.total], self.exe, slots=slots)
        return Predictor(folder)


def row(**changes: Any) -> dict[str, Any]:
    return {"user": "u7", "tags": ["a", "b"], "genres": [8], "count": 3, "price": 0.5, "pair": [1.0, 2.0], **changes}


ROWS = [row(), row(user="Ålesund, west \"side\"", tags=[], genres=[], price=0.1), row(user=None, count=None, price=None, pair=None),
        row(user=-42, tags=[7, "7", "ä"], genres=[2**64 - 1, -5, 0], count=2**63), row(user="", price=math.nan, pair=[None, 1e300]),
        row(price=16777217, pair=[9007199254740993, 2**70], count=-2**63), row(price=1.1754944e-38, count=True, pair=[0.1, -0.0]),
        row(user=" u7 ", price=np.float32(0.3), count=np.int32(5), pair=np.array([3, 4]), genres=np.arange(3), tags=("x",)),
        row(user=np.str_("n"), tags=None, genres=[[1], [2]], price=np.float64(1e38)), row(user=b"u7", price=False)]


def text_of(value: Any) -> str:
    """Return a value as a field of CSV has it."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple, np.ndarray)):
        return " ".join(text_of(one) for one in np.array(value, object).reshape(-1))
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, str) else str(int(value)) if isinstance(value, (bool, int, np.integer)) else repr(float(value))


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    with open(path, "w", newline="") as file:
        out = csv.writer(file, quoting=csv.QUOTE_ALL)
        out.writerow([*NAMES, "right"])
        for one in rows:
            pair = [None, None] if one["pair"] is None else one["pair"]
            out.writerow([text_of(one[name]) for name in NAMES[:-1]] + [text_of(value) for value in pair])
    return path


def bits(feed: dict[str, Any]) -> dict[str, Any]:
    arrays = {name: np.asarray(value) for name, value in feed.items()}
    return {name: (array.tobytes(), array.dtype, array.shape, feed[name].lod() if isinstance(feed[name], fluid.LoDTensor) else None)
            for name, array in arrays.items()}


def test_rows_are_fed_as_the_reader_of_the_training_feeds_their_text(tmp_path: Path) -> None:
    model = Model()
    data = model.dataset(write(tmp_path / "rows.csv", ROWS))
    (batch,) = data
    with model.save(tmp_path / "model", data) as predictor:
        assert bits(predictor.feed_of(ROWS)) == bits(batch)
        whole = predictor.run_rows(ROWS)[0]
        assert np.array_equal(whole, predictor.run(batch)[0]) and whole.shape == (len(ROWS), 1)
        for i, one in enumerate(ROWS):                 # in a batch of its own, too
            assert np.array_equal(predictor.run_rows([one])[0], whole[i:i + 1])
        assert predictor.run_rows([])[0].shape == (0, 1)
        assert [slot.name for slot in predictor.slots] == NAMES
        assert repr(predictor.slots[0]) == f"Slot('user', int64[-1, 1], hash={KEYS})" and predictor.slots[3].missing == -1


def test_slots_say_what_a_list_has_or_the_data_of_another_format(tmp_path: Path) -> None:
    """Slots of multislot lines are numbers, whatever they say of texts and missing values: their reader ignores it."""
    model = Model()
    (tmp_path / "rows.txt").write_text("1 7 2 3 4 1 8 1 3 1 0.5 2 1 2\n")
    data = fluid.Dataset([str(tmp_path / "rows.txt")], slots=model.slots)
    with model.save(tmp_path / "a", data) as predictor:
        (batch,) = data
        assert bits(predictor.feed_of([row(user=7, tags=[3, 4])])) == bits(batch)
        with pytest.raises(errors.InvalidArgumentError, match=r"slot 'user': expected an integer, got 'u7'"):
            predictor.run_rows([row()])
        with pytest.raises(errors.InvalidArgumentError, match=r"slot 'price': .* \(the slot says no `missing=` value\), got null"):
            predictor.run_rows([row(user=7, tags=[], price=None)])
    x, ids = layers.data("x", [2]), layers.data("ids", [1], dtype="int64", lod_level=1)
    (tmp_path / "rows.svm").write_text("1 1:0.5\n")
    svm = fluid.Dataset([str(tmp_path / "rows.svm")], "libsvm", slots=[layers.data("y", [1]), ids])
    with pytest.raises(errors.InvalidArgumentError, match="indices of libsvm files"):
        export_model(tmp_path / "b", ["ids"], [layers.cast(ids, "float32")], model.exe, slots=svm)
    dense = fluid.Dataset([str(tmp_path / "rows.svm")], "libsvm", slots=[layers.data("y", [1]), x])
    export_model(tmp_path / "c", ["x"], [layers.scale(x, 2.0)], model.exe, slots=dense)
    assert Predictor(tmp_path / "c").run_rows([{"x": [0.5, 0]}])[0].tolist() == [[1.0, 0.0]]


WRONG = {
    "a missing slot": (row(), {"tags"}, r"slot 'tags': expected a value, got none; a row has user, tags"),
    "an unknown name": (row(usr="u7"), {"user"}, r"slot 'usr': the model has no such slot; it has user, .*'user'"),
    "a list for one value": (row(user=["u7"]), set(), r"slot 'user': expected a text or an integer, got \['u7'\]"),
    "one value for a list": (row(genres=8), set(), r"slot 'genres': expected a list of values, each an integer, got 8"),
    "a text for a list": (row(tags="a b"), set(), r"slot 'tags': expected a list of values, each a text or an integer, got 'a b'"),
    "a text for a number": (row(price="0.5"), set(), r"slot 'price': expected a finite number that fits float32, got '0.5'"),
    "a float for a text": (row(user=1.5), set(), r"slot 'user': expected a text or an integer, got 1.5"),
    "a truth value for a text": (row(user=True), set(), r"slot 'user': expected a text or an integer, got True"),
    "a whole float for an integer": (row(count=1.0), set(), r"slot 'count': expected an integer, got 1.0"),
    "a large integer": (row(count=2**64), set(), r"slot 'count': expected an integer, got 18446744073709551616"),
    "a huge integer": (row(user=10**5000), set(), r"slot 'user': expected a text or an integer, got an integer of 16610 bits"),
    "a huge number": (row(price=10**400), set(), r"slot 'price': .*, got an integer of 1329 bits"),
    "a number beyond float32": (row(price=1e39), set(), r"slot 'price': expected a finite number that fits float32, got 1e\+39"),
    "infinity": (row(pair=[1, math.inf]), set(), r"slot 'pair': expected a finite number that fits float64, got inf"),
    "a null in a sequence": (row(genres=[1, None]), set(), r"slot 'genres': expected an integer \(the slot says .*\), got null"),
    "another length": (row(pair=[1]), set(), r"slot 'pair': expected a list of 2 values, each a finite number .* float64, got \[1\]"),
    "lists of another shape": (row(pair=[[1], [2]]), set(), r"slot 'pair': expected a list of 2 values"),
    "lists that differ": (row(genres=[[1], [2, 3]]), set(), r"slot 'genres': expected a list of values"),
    "half a character": (row(user="\ud800"), set(), r"slot 'user': expected a text or an integer in UTF-8, got '\\ud800'"),
    "bytes that are no UTF-8": (row(tags=["ok", b"a\xff"]), set(),
                                r"slot 'tags': expected a text or an integer, got 'a\\xff', of which byte 1 \(from 0\) is no UTF-8"),
    "an object": (row(user={"a": 1}), set(), r"slot 'user': expected a text or an integer, got \{'a': 1\}"),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw") / "model"
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        model = Model()
        model.save(folder, model.slots).close()
    return folder


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_row_is_explained(what: str, saved: Path) -> None:
    wrong, without, text = WRONG[what]
    wrong = {name: value for name, value in wrong.items() if name not in without}
    with Predictor(saved) as predictor:
        with pytest.raises((errors.InvalidArgumentError, errors.NotFoundError), match=f"^{text}"):
            predictor.run_rows([wrong])
        with pytest.raises((errors.InvalidArgumentError, errors.NotFoundError), match=rf"^row 2 \(from 0\), {text}"):
            predictor.run_rows([row(), row(genres=[1, 2]), wrong])
        assert predictor.run_rows([row()])[0].shape == (1, 1)


def test_what_is_no_list_of_rows_is_refused(saved: Path) -> None:
    with Predictor(saved) as predictor:
        for rows in (row(), "rows", 5):
            with pytest.raises(TypeError, match="rows are a list of dicts"):
                predictor.run_rows(rows)               # type: ignore[arg-type]
        with pytest.raises(errors.InvalidArgumentError, match=r"expected a dict, such as \{\"user\": .*; got \[1\]"):
            predictor.run_rows([[1]])                  # type: ignore[list-item]


def test_a_model_without_slots_says_what_to_do(tmp_path: Path) -> None:
    with Model().save(tmp_path / "model", None) as predictor:
        assert predictor.slots == []
        with pytest.raises(errors.UnsupportedError, match=r"was saved without slots.* save it with slots=, as in save_inference_model"):
            predictor.run_rows([row()])


def test_slots_that_do_not_fit_are_refused_when_the_model_is_saved(tmp_path: Path) -> None:
    model = Model()

    def save(**changes: Any) -> None:
        slots = {**{slot.name: slot for slot in model.slots}, **changes}
        model.save(tmp_path / "model", [slot for slot in slots.values() if slot is not None])

    for changes, text in (({"user": None}, "slots= has no slot of the feed 'user'; it has tags"),
                          ({"user": Slot("user", "float32", [-1, 1])}, r"Slot\('user', float32.* does not fit the feed, Slot\('user'"),
                          ({"pair": Slot("pair", "float64", [-1, 3])}, "does not fit the feed"),
                          ({"genres": Slot("genres", "int64", [-1, 1])}, "does not fit the feed"),
                          ({"price": Slot("price", "float32", [-1, 1], hash=5)}, "hashed fields are int64"),
                          ({"count": Slot("count", "int64", [-1, 1], missing=0.5)}, "a whole number is possible")):
        with pytest.raises(errors.TriremeError, match=text):
            save(**changes)
    for slots in ("user", model.slots[0], 5):
        with pytest.raises(TypeError, match="slots= is a Dataset, or a list"):
            model.save(tmp_path / "model", slots)
    assert not (tmp_path / "model").exists()


def test_exports_keep_the_slots_and_a_newer_one_has_the_same(tmp_path: Path) -> None:
    model = Model()
    exporter = Exporter(tmp_path, NAMES, [model.total], model.exe, slots=model.slots)
    exporter.export()
    exporter.export()                                  # of changes: the slots lie beside the program
    with Predictor(tmp_path) as predictor:
        before = predictor.run_rows([row()])[0]
        exporter.export(full=True)
        assert predictor.refresh() and np.array_equal(predictor.run_rows([row()])[0], before)
        for slots in ([*model.slots[1:], Slot("user", hash=5)], None):
            Exporter(tmp_path, NAMES, [model.total], model.exe, slots=slots).export()
            with pytest.raises(errors.InvalidArgumentError, match="the newer export in .* has other slots"):
                predictor.refresh()
            assert np.array_equal(predictor.run_rows([row()])[0], before)


def test_train_from_dataset_exports_with_the_slots_of_its_data(tmp_path: Path) -> None:
    model = Model()
    data = model.dataset(write(tmp_path / "rows.csv", [row(), row(user="u8")]))
    loss = layers.mean(layers.scale(model.total, 1e-9))
    fluid.optimizer.SGD(0.1).minimize(loss)
    model.exe.run(fluid.default_startup_program())
    for folder, feeds, targets, slots in (("a", NAMES, [model.total], 6), ("b", ["price"], [layers.scale(model.vars["price"], 2.0)], 1),
                                          ("c", [model.total.name], [layers.scale(model.total, 2.0)], 0)):
        model.exe.train_from_dataset(dataset=data, epochs=1, fetch_list=[loss], fetch_info=["loss"], callbacks=[
            fluid.callbacks.ExportModel(tmp_path / folder, feeds, targets)])
        assert len(Predictor(tmp_path / folder).slots) == slots        # of a feed that the data do not have there are none


def test_a_damaged_file_of_slots_is_refused(tmp_path: Path) -> None:
    model = Model()
    model.save(tmp_path, model.slots).close()
    path = tmp_path / "__model__.slots"
    good = path.read_bytes()
    assert good.splitlines()[:3] == [b"trireme-slots 1", b"slot int64 0 -1x1 hash fnv1a64 1099511627776 : user",
                                     b"slot int64 1 -1x1 hash fnv1a64 1000 : tags"]
    for bad in (good.replace(b"fnv1a64 1000 ", b"fnv1a64 1001 "), good[:-1], b""):
        path.write_bytes(bad)
        with pytest.raises(errors.FormatError, match=r"__model__.slots' is damaged"):
            Predictor(tmp_path)
    path.unlink()
    with pytest.raises(errors.FileError, match="__model__.slots"):
        Predictor(tmp_path)
    Model().save(tmp_path, None).close()               # a model without slots does not take those of another one
    path.write_bytes(good)
    assert Predictor(tmp_path).slots == []


@pytest.mark.parametrize("change", [b"hash fnv1a65", b"hash fnv1a64 0", b"missing x", b"missing 0.5 missing", b"missing inf", b"later 1",
                                    b""])
def test_slots_of_a_newer_version_are_refused(change: bytes, tmp_path: Path) -> None:
    """Their checksum is right, but a rule is none that this version has."""
    model = Model()
    path = tmp_path / "__model__.slots"
    model.save(tmp_path, model.slots).close()
    path.write_bytes(path.read_bytes().replace(b"slot float32 0 -1x1 missing 0.1 :", b"slot float32 0 -1x1 " + change + b" 0.1 :"))
    from trireme.native import checksums
    checksums.renew(str(tmp_path), ["__model__.slots"])
    with pytest.raises(errors.FormatError, match="line 6 is no slot, or one of a newer version: 'slot float32"):
        Predictor(tmp_path)


# -- the command ------------------------------------------------------------------------------------------------------


def as_json(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(one) + "\n" for one in rows)


def test_predict_reads_rows_from_a_file(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(), row(user="ä", genres=[]), row(price=None, user=7)] * 30
    (tmp_path / "rows.jsonl").write_text(as_json(rows[:2]) + "\n" + as_json(rows[2:]))
    assert predict.command(str(saved), "json", 64, ",", None, raw=str(tmp_path / "rows.jsonl")) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    with Predictor(saved) as predictor:
        expected = predictor.run_rows(rows)[0]
    assert np.array_equal(np.array(said, "float32"), expected[:, 0])


@pytest.mark.parametrize(("line", "text"), [
    (b'{"user": 5}', r"line 3: slot 'tags': expected a value, got none"),
    (b"{", r"line 3: '\{' is no JSON .*expected \{\"user\": \.\.\., \"tags\""),
    (b"[1]", r"line 3: expected a dict"), (json.dumps(row(count=0.5)).encode(), "line 3: slot 'count': expected an integer, got 0.5$"),
    (json.dumps(row()).encode().replace(b"u7", b"\xff"), r"line 3: slot 'user': expected a text or an integer in UTF-8, got '\\udcff'"),
    (b'{"user": NaN}', "line 3: .*NaN is no number"), (b'{"a": 1, "a": 2}', "line 3: the line has the name 'a' twice")])
def test_predict_names_the_line_of_a_wrong_row(line: bytes, text: str, saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(as_json([row()]).encode() + b"\n" + line + b"\n" + as_json([row()]).encode())
    with pytest.raises(errors.FormatError, match=f"^{path}, {text}"):
        predict.command(str(saved), "json", 64, ",", None, raw=str(path))
