"""Text files as other programs leave them: their ends of lines, marks, members of gzip, and what a message says about them."""

import gzip

import numpy as np
import pytest

import trireme as fluid

ROWS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
LINES = {"csv": ["1,2", "3,4", "5,6"], "multislot": ["2 1 2", "2 3 4", "2 5 6"], "libsvm": ["7 1:1 2:2", "7 1:3 2:4", "7 1:5 2:6"]}


def dataset(path, form, **options):
    slots = [fluid.Slot("x", "float32", [-1, 2])]
    if form == "libsvm":
        slots.insert(0, fluid.Slot("y", "float32", [-1, 1]))
    return fluid.Dataset(str(path), form, batch_size=100, slots=options.pop("slots", slots), **options)


def rows(path, form, **options):
    return [row for batch in dataset(path, form, **options) for row in np.asarray(batch["x"]).tolist()]


def message(path, form, **options):
    with pytest.raises((fluid.errors.EnforceNotMet, ValueError)) as caught:
        rows(path, form, **options)
    return str(caught.value).split("\n")[0].replace(str(path), "FILE")


@pytest.mark.parametrize("form", LINES)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n", "\n\n", "\r\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_lines_may_end_in_three_ways_and_begin_with_a_mark(tmp_path, form, end, mark):
    path = tmp_path / "f"
    for last in (end, ""):
        path.write_bytes((mark + end.join(LINES[form]) + last).encode())
        assert rows(path, form) == ROWS
        for size in (1, 2, 3, 5, 7):                       # a block may end between CR and LF
            assert rows(path, form, block_bytes=size) == ROWS
    packed = tmp_path / "f.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert rows(packed, form) == ROWS and rows(path, form, pipe_command="cat") == ROWS


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_tasks_are_cut_at_any_end_of_a_line(tmp_path, end):
    lines = [f"{i},{10 ** (i % 5)}" for i in range(60)]
    path = tmp_path / "f.csv"
    path.write_text(end.join(lines) + end, newline="")
    want = [[float(i), 10.0 ** (i % 5)] for i in range(60)]
    for size in range(1, 40):
        got = rows(path, "csv", split="tasks", task_bytes=size)
        assert got == want, size
    path.write_text(end.join([*lines[:40], "oops,1", *lines[40:]]) + end, newline="")
    for size in (1, 7, 50, 10000):
        assert "FILE, line 41, column 1:" in message(path, "csv", split="tasks", task_bytes=size)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_of_names_may_end_in_three_ways(tmp_path, end):
    path = tmp_path / "f.csv"
    slots = [fluid.Slot("x", "float32", [-1, 2], columns=["b", "a"])]
    path.write_bytes(f"\ufeffa,b{end}2,1{end}4,3{end}6,5".encode())
    assert rows(path, "csv", header=True, slots=slots) == ROWS
    path.write_bytes(f"a,b{end}".encode())
    assert rows(path, "csv", header=True, slots=slots) == []


@pytest.mark.parametrize("form", LINES)
def test_an_empty_file_has_no_rows(tmp_path, form):
    path = tmp_path / "f"
    for text in (b"", b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n"):
        path.write_bytes(text)
        assert rows(path, form) == []
    path.write_bytes(b"")
    assert "it is empty, and its first line should name the columns" in message(path, "csv", header=True)


@pytest.mark.parametrize("text, what", [
    ("1,2\n".encode("utf-16"), "text in UTF-16: convert it: iconv -f UTF-16 -t UTF-8"),
    ("1,2\n".encode("utf-32"), "text in UTF-32"),
    (gzip.compress(b"1,2\n", mtime=0), "packed by gzip: let its name end in .gz"),
    (b"BZh91AY&SY\0\0", "packed by bzip2: use pipe_command=\"bzcat\""),
    (b"PK\3\4....", "a zip archive"),
    (b"PAR1\x15\4", "Parquet: use format=\"parquet\""),
])
def test_a_file_of_another_kind_is_refused_by_name(tmp_path, text, what):
    path = tmp_path / "f"
    path.write_bytes(text)
    for form in LINES:
        assert message(path, form, bad_lines="skip").startswith("FILE: expected text in UTF-8; its first bytes say that it is " + what)


MEMBERS = gzip.compress(b"1,2\n3,4\n", mtime=0), gzip.compress(b"5,6\n", mtime=0)


def test_all_members_of_a_gzip_file_are_read(tmp_path):
    path = tmp_path / "f.gz"
    first, second = MEMBERS
    for data in (first + second, first + gzip.compress(b"") + second + gzip.compress(b""), first + second + b"\0" * 512,
                 first + second + b"\0"):
        path.write_bytes(data)
        for size in (1, 7, 8, 9, 1 << 20):
            assert rows(path, "csv", block_bytes=size) == ROWS
    path.write_bytes(gzip.compress(b"1,") + gzip.compress(b"2\n3,4\n5") + gzip.compress(b",6"))      # lines run over members
    assert rows(path, "csv") == ROWS
    path.write_bytes(b"".join(gzip.compress(b"%d,0\n" % i) for i in range(40000)))                   # and members over reads
    assert rows(path, "csv") == [[float(i), 0.0] for i in range(40000)]


def test_a_damaged_gzip_file_is_refused_wherever_it_is_cut_or_changed(tmp_path):
    path = tmp_path / "f.gz"
    first, second = MEMBERS
    whole = first + second
    for size in [*range(len(first)), *range(len(first) + 1, len(whole))]:
        path.write_bytes(whole[:size])
        assert "'FILE' cannot be unpacked: byte" in message(path, "csv") and "unexpected end of file" in message(path, "csv"), size
    header = {0, 1, 2, 3}                                  # of the rest of a header only some bits mean something
    for at in [*range(len(first), len(whole))]:
        if header.isdisjoint({at - len(first)}) and at - len(first) < 10:
            continue
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1:])
        assert f"member 2, which begins at byte {len(first)}" in message(path, "csv"), at


@pytest.mark.parametrize("tail, what", [
    (b"garbage", "member 3, which begins at byte"),
    (b"\0" * 30 + gzip.compress(b"7,8\n", mtime=0), "are zeros, and more follows; is there a hole in the file?"),
    (b"\x1f", "unexpected end of file"),
    (b"\n", "expected another member, or the end of the file"),
])
def test_garbage_behind_the_last_gzip_member_is_refused(tmp_path, tail, what):
    path = tmp_path / "f.gz"
    path.write_bytes(b"".join(MEMBERS) + tail)
    assert what in message(path, "csv")


def test_columns_of_one_name_are_told_apart_by_number(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("a,a,b\n1,2,3\n")
    slots = [fluid.Slot("x", "float32", [-1, 2], columns=["a", "b"])]
    assert message(path, "csv", header=True, slots=slots).endswith(
        "FILE: slot 'x': the columns 0 and 1 (from 0) are both named 'a'; say which one by its number: columns=[0]")
    assert "are both named 'a'" in message(path, "csv", header=["a", "a", "b"], slots=slots)
    by_number = [fluid.Slot("x", "float32", [-1, 2], columns=[1, 2])]
    assert rows(path, "csv", header=True, slots=by_number) == [[2.0, 3.0]]
    unused = [fluid.Slot("x", "float32", [-1, 1], columns=["b"])]
    assert rows(path, "csv", header=True, slots=unused) == [[3.0]]


INTEGERS = [fluid.Slot("x", "int64", [-1, 2])]


@pytest.mark.parametrize("text, options, want", [
    ("1\t2\n", {}, "line 1, column 1: slot 'x': expected an integer, got '1\\t2'; is the delimiter a tab? Say delimiter=\"\\t\""),
    ("1;2\n", {}, "got '1;2'; say delimiter=\";\", if that is the delimiter"),
    ("1|2\n", {}, "got '1|2'; say delimiter=\"|\""),
    ("1 2\n", {}, "got '1 2'; is the delimiter a space? Say delimiter=\" \""),
    ("1,2\n", {"delimiter": "\t"}, "got '1,2'; say delimiter=\",\""),
    ("\t2\n", {"delimiter": "\t"}, "column 1: slot 'x': expected an integer (the slot says no `missing=` value), got an empty field"),
    ("1,\n", {}, "column 3: slot 'x': expected an integer (the slot says no `missing=` value), got the end of the line"),
    ("1,5;2\n", {"delimiter": ";"}, "got '1,5'; numbers have a point, and no comma"),
    ("age,height\n1,2\n", {}, "got 'age'; does the first line name the columns? Say header=True"),
    ("1,Oslo\n", {"header": ["a", "b"]}, "expected an integer, got 'Oslo'"),
    ("1,2\n3,Oslo\n", {}, "expected an integer, got 'Oslo'; for ids of texts give the slot a `hash=`"),
    ("1,2.0\n", {}, "got '2.0'; if its values have fractions, make the slot float32"),
    ("1,2\x00\n", {}, "got '2\\x00'; the line has NUL bytes: if it is text in UTF-16"),
    ("\x00,2\n", {}, "column 1: slot 'x': expected an integer, got '\\x00'"),
    ("1,\u2028\n", {}, "got '\\u2028'"),
    ("1,2\u00a0\n", {}, "got '2\\u00a0'"),
    ("1,\ufeff2\n", {}, "got '\\ufeff2'"),
    ("1,\u00fc\n", {}, "got '\u00fc'"),
    ('1,"2\n3",4\n', {}, "column 3: expected quotes that end on their line, and then a delimiter, got '\"2'"),
    ("1\n", {}, "expected at least 2 fields, found 1, got the end of the line"),
    ("a;b\n1;2\n", {"header": True, "slots": [fluid.Slot("x", "int64", [-1, 2], columns=["a", "b"])]},
     "there is no column 'a'; there are a;b; say delimiter=\";\""),
    ("a\tb\n1\t2\n", {"header": True}, "there is no column 1 (from 0); there are a\tb; is the delimiter a tab? Say delimiter="),
])
def test_a_wrong_csv_line_says_what_to_do(tmp_path, text, options, want):
    path = tmp_path / "f"
    path.write_bytes(text.encode())
    got = message(path, "csv", **{"slots": INTEGERS, **options})
    assert want in got and got.startswith("FILE")


@pytest.mark.parametrize("form, text, want", [
    ("multislot", "1,2\n", "expected the count of slot 1 of 1, got '1,2'; is it format=\"csv\"?"),
    ("multislot", "1 3:1 2:5\n", "line 1, column 1: slot 'x': expected the count 2, for the elements of the variable, got '1'"),
    ("multislot", "2 3:1 2:5\n", "got '3:1'; is it format=\"libsvm\"?"),
    ("libsvm", "1 qid:3 1:2\n", "column 3: expected index:value, got 'qid:3'; query ids are not read: take them out, with pipe_command="),
    ("libsvm", "1,2 1:2\n", "got '1,2'; a line has one label"),
    ("libsvm", "1,2\n", "got '1,2'; is it format=\"csv\"?"),
    ("libsvm", "1 2:1 2:5\n", "column 7: slot 'x': expected each index once, and 2 has a value already, got '2:5'"),
])
def test_a_wrong_line_of_words_says_what_to_do(tmp_path, form, text, want):
    path = tmp_path / "f"
    path.write_text(text)
    assert want in message(path, form)


def test_lines_of_comments_alone_are_no_rows(tmp_path):
    path = tmp_path / "f"
    path.write_text("# a comment\n7 1:1 2:2\n  # another\n\n7 1:3 2:4 # behind\n#\n7 1:5 2:6\n")
    assert rows(path, "libsvm") == ROWS


def test_query_ids_are_taken_out_as_the_message_says(tmp_path):
    path = tmp_path / "f"
    path.write_text("".join(line.replace(" ", " qid:3 ", 1) + "\n" for line in LINES["libsvm"]))
    assert rows(path, "libsvm", pipe_command="sed 's/ qid:[0-9]*//'") == ROWS


def test_a_command_that_fails_before_the_line_of_names_is_named(tmp_path):
    path = tmp_path / "f"
    path.write_text("a,b\n1,2\n")
    assert message(path, "csv", header=True, pipe_command="exit 3") == "data: 'exit 3' on 'FILE' ended with exit code 3"
