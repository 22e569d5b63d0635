"""Data sets of Fluid that are read from archives: small archives of the same build."""

import importlib
import io
import tarfile

import numpy as np
import pytest

import trireme as fluid
from trireme.dataset import common


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Return a function that puts an archive with these files where data sets are looked for."""
    monkeypatch.setenv("TRIREME_DATA_HOME", str(tmp_path))
    for name in ("imdb", "imikolov", "flowers", "wmt14"):
        module = importlib.import_module(f"trireme.dataset.{name}")
        for value in vars(module).values():
            getattr(value, "cache_clear", lambda: None)()

    def put(folder, name, files):
        (tmp_path / folder).mkdir(exist_ok=True)
        with tarfile.open(tmp_path / folder / name, "w:gz") as tar:
            for path, content in files.items():
                member = tarfile.TarInfo(path)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        return tmp_path / folder

    return put


def test_reviews_are_words_without_punctuation(data):
    data("imdb", "aclImdb_v1.tar.gz", {"aclImdb/train/pos/0_9.txt": b"Good, good film!\n", "aclImdb/train/neg/0_1.txt": b"A bad film.",
                                       "aclImdb/test/pos/0_8.txt": b"good", "aclImdb/README": b"text"})
    words = fluid.dataset.imdb.build_dict(r"aclImdb/train/.*\.txt$", 1)
    assert words == {"film": 0, "good": 1, "<unk>": 2}
    assert list(fluid.dataset.imdb.train(words)()) == [([1, 1, 0], 0), ([2, 2, 0], 1)]
    assert list(fluid.dataset.imdb.test(words)()) == [([1], 0)]
    assert fluid.dataset.imdb.word_dict() == {"<unk>": 0}


def test_lines_are_windows_or_sequences(data):
    data("imikolov", "simple-examples.tgz", {"./simple-examples/data/ptb.train.txt": b" a b a \n b <unk>\n",
                                             "./simple-examples/data/ptb.valid.txt": b"a c\n"})
    imikolov = fluid.dataset.imikolov
    ids = imikolov.build_dict(1)
    assert ids == {"<e>": 0, "<s>": 1, "a": 2, "b": 3, "<unk>": 4}
    assert list(imikolov.train(ids, 3)()) == [(1, 2, 3), (2, 3, 2), (3, 2, 0), (1, 3, 4), (3, 4, 0)]
    assert list(imikolov.test(ids, 0, imikolov.DataType.SEQ)()) == [([1, 2, 4], [2, 4, 0])]
    assert list(imikolov.train(ids, 3, imikolov.DataType.SEQ)()) == [([1, 3, 4], [3, 4, 0])]


def test_pairs_of_sentences_have_both_ends(data):
    data("wmt14", "wmt14.tgz", {"wmt14/src.dict": b"<s>\n<e>\n<unk>\nle\nchat\nrare\n", "wmt14/trg.dict": b"<s>\n<e>\n<unk>\nthe\ncat\n",
                                "wmt14/train/train": b"le chat rare\tthe cat\nno tab\n", "wmt14/test/test": b"chat\tcat\n"})
    wmt14 = fluid.dataset.wmt14
    assert list(wmt14.train(5)()) == [([0, 3, 4, 2, 1], [0, 3, 4], [3, 4, 1])]
    assert list(wmt14.test(5)()) == [([0, 4, 1], [0, 4], [4, 1])]
    assert wmt14.get_dict(4)[0] == {0: "<s>", 1: "<e>", 2: "<unk>", 3: "le"} and wmt14.get_dict(4, reverse=False)[1]["the"] == 3


def test_flowers_are_pictures_of_one_size(data):
    scipy_io, image = pytest.importorskip("scipy.io"), pytest.importorskip("PIL.Image")

    def jpeg(colour):
        file = io.BytesIO()
        image.new("RGB", (300, 280), colour).save(file, "JPEG", quality=100)
        return file.getvalue()

    folder = data("flowers", "102flowers.tgz", {f"jpg/image_{i:05d}.jpg": jpeg((10 * i, 0, 200)) for i in (1, 2, 3)})
    scipy_io.savemat(folder / "imagelabels.mat", {"labels": np.array([[7, 5, 1]])})
    scipy_io.savemat(folder / "setid.mat", {"tstid": np.array([[3, 1]]), "trnid": np.array([[2]]), "valid": np.array([[2]])})
    samples = list(fluid.dataset.flowers.train(use_xmap=False)())
    assert [label for _, label in samples] == [6, 0]
    pixels, label = next(fluid.dataset.flowers.test()())
    assert pixels.shape == (3 * 224 * 224,) and pixels.dtype == np.float32 and label == 4
    np.testing.assert_allclose(pixels.reshape(3, -1).mean(1), [200 - 103.94, -116.78, 20 - 123.68], atol=3)
    assert len(list(zip(range(5), fluid.dataset.flowers.train(mapper=None, cycle=True)()))) == 5


def test_a_damaged_archive_is_an_error_with_its_name(data, tmp_path):
    data("imdb", "aclImdb_v1.tar.gz", {"aclImdb/train/pos/0_9.txt": bytes(np.random.default_rng(0).integers(0, 256, 100_000, np.uint8))})
    path = tmp_path / "imdb" / "aclImdb_v1.tar.gz"
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(common.DataSetError, match="aclImdb_v1.tar.gz is damaged"):
        fluid.dataset.imdb.word_dict()


def test_a_downloaded_file_is_compared_with_its_checksum(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "some.tgz").write_bytes(b"content")
    url = (tmp_path / "some.tgz").as_uri()
    with pytest.raises(common.DataSetError, match="has? the MD5|with the MD5"):
        common.archive("some", "some.tgz", url, "0" * 32)
    path = common.archive("some", "some.tgz", url, "9a0364b9e99bb480dd25e1f0284c8555")
    assert open(path, "rb").read() == b"content" and path.startswith(str(tmp_path / "cache"))
