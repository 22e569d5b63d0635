"""The house keeps its order: the folders of a floor include upwards only, and no files need each other in a circle."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^#include "((?:proto|framework|kernels|storage|pserver|serving|trainer)/[^"]+)"', re.M)
QUIET = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
FUNCTION = re.compile(r"^(?!static\b|typedef\b)\w[\w *]*?\b(tr_\w+)\([^;{}]*\)\n\{", re.M)
WORD = re.compile(r"\btr_\w+")


def build_list(name: str) -> list[str]:
    """Return a list of the build's description of floors, or [] where it has none."""
    found = re.search(rf"^set\({name}\s([^)]+)\)", (ROOT / "cmake" / "TriremeFloors.cmake").read_text(), re.M)
    return found[1].split() if found else []


def folders(floor: str) -> list[str]:
    """Return the folders of a floor in the order that the build enforces."""
    return build_list(f"TR_{floor.upper()}_FOLDERS")


def folder_of(name: str) -> str:
    """Return a file's folder within its floor: "core/client" of pserver/core/client/client.h, "" of pserver/trireme_dist.h."""
    return "/".join(name.split("/")[1:-1])


def sources(folder: str) -> dict[str, str]:
    """Return the text of each C file of a floor."""
    paths = (ROOT / folder).rglob("*.[ch]")
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def bare(text: str) -> str:
    """Return C text without comments and strings."""
    return QUIET.sub("", text)


def units(files: dict[str, str]) -> dict[str, str]:
    """Return the unit of each file: a.h and a.c are "a".

    A noun may be too large for one file. Then its files a_*.c have no headers of their own, but share a_state.h: all of them are "a".
    """
    unit = {name: name[:-2] for name in files}
    for state in [name for name in files if name.endswith("_state.h")]:
        noun = state.removesuffix("_state.h")
        parts = [name for name in files if name.startswith(f"{noun}_") and name.endswith(".c")
                 and f"{name[:-2]}.h" not in files and state in INCLUDE.findall(files[name])]
        if parts:
            unit |= dict.fromkeys([*parts, state], noun)
    return unit


def needs(files: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return what each unit needs of the others: by an include, or by a call of a function that the other one defines.

    Two files may be hidden from each other's includes by a header that declares the functions of both. So calls count, too.
    """
    unit = units(files)
    home = {function: unit[name] for name, text in files.items() if name.endswith(".c") for function in FUNCTION.findall(bare(text))}
    graph: dict[str, dict[str, str]] = {one: {} for one in unit.values()}
    for name, text in files.items():
        own = unit[name]
        for other in INCLUDE.findall(text):
            if unit.get(other, own) != own:
                graph[own].setdefault(unit[other], f'#include "{other}"')
        for word in sorted(set(WORD.findall(bare(text)))) if name.endswith(".c") else ():
            if home.get(word, own) != own:
                graph[own].setdefault(home[word], f"{word}()")
    return graph


def circles(graph: dict[str, dict[str, str]]) -> list[set[str]]:
    """Return the sets of two or more nodes that reach each other (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(set(stack[at:]))
            del stack[at:]

    for name in graph:
        if name not in index:
            visit(name)
    return found


def way_around(graph: dict[str, dict[str, str]], circle: set[str]) -> str:
    """Return a shortest way from a circle's first node back to itself, one step a line."""
    start = min(circle)
    before: dict[str, str] = {}
    queue = [start]
    while start not in before:
        name = queue.pop(0)
        for other in sorted(set(graph[name]) & circle - set(before)):
            before[other] = name
            queue.append(other)
    steps = []
    name = start
    while not steps or name != start:
        steps.append(f"{before[name]} needs {name}: {graph[before[name]][name]}")
        name = before[name]
    return "\n".join(reversed(steps))


def test_circles_are_found_and_written_out():
    files = {
        "framework/a.h": '#include "framework/b.h"\n',
        "framework/a.c": '#include "framework/a.h"\n',
        "framework/b.h": "void tr_c_call(void);\n",
        "framework/b.c": "void tr_b_call(int x)\n{\n    tr_c_call(x);\n}\n",
        "framework/c.c": '#include "framework/a.h" /* tr_b_call */\nvoid tr_c_call(int x)\n{\n    puts("tr_b_call");\n}\n',
        "framework/d.c": '#include "framework/a.h"\n',
    }
    graph = needs(files)
    assert circles(graph) == [{"framework/a", "framework/b", "framework/c"}]
    assert way_around(graph, circles(graph)[0]).splitlines() == [
        'framework/a needs framework/b: #include "framework/b.h"',
        "framework/b needs framework/c: tr_c_call()",
        'framework/c needs framework/a: #include "framework/a.h"',
    ]
    del files["framework/c.c"]
    assert circles(needs(files)) == []


FLOORS = build_list("TR_FLOORS")
DIVIDED = [floor for floor in FLOORS if folders(floor)]


@pytest.mark.parametrize("floor", DIVIDED)
def test_folders_need_only_those_before_them(floor):
    """The build refuses includes of later folders. Calls count here, too, and a floor's own folder is the last one: but its public headers
    are for all."""
    order, files = [*folders(floor), ""], sources(floor)
    assert {folder_of(name) for name in files} == set(order)
    for unit, needed in needs(files).items():
        for other, how in needed.items():
            is_public = other.startswith(f"{floor}/trireme")
            assert is_public or order.index(folder_of(other)) <= order.index(folder_of(unit)), f"{unit} needs {other}: {how}"


@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_sees_its_own_messages_and_those_above(floor):
    """The tables and checkpoints of storage know nothing of the messages of servers."""
    seen = [name for one in FLOORS[:FLOORS.index(floor) + 1] for name in build_list(f"TR_{one.upper()}_PROTOS")]
    used = {other for text in sources(floor).values() for other in INCLUDE.findall(text) if other.startswith("proto/")}
    assert used <= {f"proto/{name}.pb-c.h" for name in seen}
    assert (floor == "trainer") == ({path.stem for path in (ROOT / "proto").glob("*.proto")} == set(seen))


@pytest.mark.parametrize("floor", DIVIDED)
def test_a_folder_has_neither_few_files_nor_many(floor):
    counts: dict[str, int] = {}
    for name in sources(floor):
        counts[folder_of(name)] = counts.get(folder_of(name), 0) + 1
    own = {name.split("/")[-1] for name in sources(floor) if not folder_of(name)}
    assert {name for name in own if not name.startswith("trireme")} <= {"ops.c", "fusions.c", "fusions.h",
                                                                        "main.c"}, "each has a folder of its noun or family"
    odd = {f"{floor}/{folder}" for folder, count in counts.items() if folder and not 4 <= count <= 40}
    assert odd <= {"pserver/state"}, "a folder is one noun, with what belongs to it"


def test_a_noun_in_several_files_is_one_unit():
    files = {
        "trainer/a.h": "",
        "trainer/a.c": '#include "trainer/a_state.h"\nvoid tr_a(void)\n{\n    tr_a_part();\n}\n',
        "trainer/a_state.h": '#include "trainer/a.h"\n',
        "trainer/a_part.c": '#include "trainer/a_state.h"\nvoid tr_a_part(void)\n{\n    tr_a();\n}\n',
        "trainer/a_other.h": "",
        "trainer/a_other.c": '#include "trainer/a_state.h"\n',
        "trainer/b_state.h": "",
    }
    assert set(units(files).values()) == {"trainer/a", "trainer/a_other", "trainer/b_state"}
    assert circles(needs(files)) == []


@pytest.mark.parametrize("floor", FLOORS)
def test_no_files_need_each_other_in_a_circle(floor):
    graph = needs(sources(floor))
    found = circles(graph)
    assert not found, "\n\n".join(f"{', '.join(sorted(circle))}:\n{way_around(graph, circle)}" for circle in found)


@pytest.mark.parametrize("floor", FLOORS)
def test_no_file_is_too_long(floor):
    """But trireme.h, which is all that a user of the C API includes."""
    lines = {name: text.count("\n") for name, text in sources(floor).items() if name != "framework/trireme.h"}
    long = {name: count for name, count in lines.items() if count > 500}
    assert not long, f"split these by their nouns: {long}"


# Operators whose arithmetic has their name: kernels/ has the operator, kernels/math/ the functions on arrays.
TWICE = {"activation.c", "cast.c", "conv.c", "dgc.c", "edit_distance.c", "elementwise.c", "gru.c", "interp.c", "lstm.c", "nce.c", "norm.c",
         "optimizer.c", "optimizer.h",
         "pool.c", "reduce.c", "sequence.c", "sequence.h", "softmax.c"}


def test_no_name_of_a_file_stands_for_two_nouns():
    """Texts name a file by its last part, and a debugger shows no more of it."""
    paths: dict[str, list[str]] = {}
    for name in (name for floor in FLOORS for name in sources(floor)):
        paths.setdefault(name.split("/")[-1], []).append(name)
    twice = {name: found for name, found in paths.items() if len(found) > 1}
    assert set(twice) == TWICE, twice
    assert all(len(found) == 2 and sum(name.startswith("kernels/math/") for name in found) == 1 for found in twice.values())


# To be split. Only what is longer than it should be stands here, and nothing is added.
TOO_LONG = {
    "python": {"block.py", "desc.py", "executor.py", "feeds.py", "io.py", "optimizer.py", "supervisor.py", "tensor.py", "training.py",
               "transpiler.py"},
    "tests": {"second_gradient_cases.py", "sim_job.c", "sim_store.c", "sim_trainer.c", "test_checkpoint.c", "test_client_core.c",
              "test_control_flow.py",
              "test_dataset.c", "test_explain.py", "test_faults.py", "test_fused.c", "test_hosts.py", "test_launch.py",
              "test_server_tasks.c",
              "test_serving.py", "test_snapshot.c", "test_sparse_tables.py", "test_table.c"},
    "benchmarks": {"bench_transport.c", "growth.py"},
    "docs": set(), "examples": set(),
}


@pytest.mark.parametrize("folder", TOO_LONG)
def test_no_other_file_is_too_long(folder):
    paths = [path for path in (ROOT / folder).rglob("*.*") if path.suffix in (".py", ".c", ".h")]
    long = {path.name: lines for path in paths if (lines := path.read_text().count("\n")) > 500}
    assert set(long) <= TOO_LONG[folder], f"split these by their nouns: { {name: long[name] for name in set(long) - TOO_LONG[folder]} }"


# Lines of C with more than 140 columns. The numbers may only become smaller; ruff holds Python to the same width.
WIDE = {"framework": 75, "kernels": 286, "storage": 90, "tests": 140}


@pytest.mark.parametrize("folder", [*FLOORS, "tests", "benchmarks", "examples"])
def test_lines_of_c_have_140_columns_at_most(folder):
    wide = [f"{path}:{number}" for path in sorted((ROOT / folder).rglob("*.[ch]"))
            for number, line in enumerate(path.read_text().split("\n"), 1) if len(line) > 140]
    assert len(wide) <= WIDE.get(folder, 0), f"break these lines: {wide}"


def test_no_file_of_an_operator_is_too_long():
    """One that defines operators is read from top to bottom; arithmetic belongs into kernels/math."""
    files = {name: text for folder in ("kernels", "pserver") for name, text in sources(folder).items() if "TR_REGISTER_OP(" in text}
    assert len(files) > 150
    long = {name: text.count("\n") for name, text in files.items() if text.count("\n") > 400}
    assert not long, f"split these by their operators: {long}"


@pytest.mark.parametrize("floor", DIVIDED)
def test_each_folder_is_explained(floor):
    text = (ROOT / floor / "README.md").read_text()
    assert re.findall(r"^\| `([\w/]+)/` ", text, re.M) == folders(floor)


def test_the_drivers_part_of_a_rank_is_seen_by_its_core_and_store_alone():
    drivers = {name for name, text in sources("pserver").items() if '"pserver/rank/rank_driver.h"' in text}
    assert drivers == {"pserver/rank/rank_core.c", "pserver/rank/rank_store.c"}


def test_the_insides_of_a_folder_stay_inside():
    """A header called *_state.h is for its own folder; those of the cores are for pserver/core/."""
    for path in [path for floor in ("storage", "pserver", "trainer") for path in (ROOT / floor).rglob("*.[ch]")]:
        for name in INCLUDE.findall(path.read_text()):
            if name.endswith("_state.h") and name.startswith(("storage/", "pserver/", "trainer/")):
                assert name.split("/")[1] == path.relative_to(ROOT).parts[1], f"{path.relative_to(ROOT)} includes {name}"


def test_operators_look_names_up_once_and_note_the_numbers():
    """tr__comm_begin notes what the two functions find, which operators only name."""
    called = {name: re.findall(r"\btr_job_find_(?:block|table)\(", bare(text)) for name, text in sources("pserver/ops").items()}
    assert not [name for name, calls in called.items() if calls]


def test_each_protocol_of_a_server_keeps_its_state_to_itself():
    """The struct of a protocol is defined in one .c file, and only that file looks into it."""
    core = ROOT / "pserver" / "core"
    texts = {path.name: bare(path.read_text()) for path in core.rglob("server*.[ch]")}
    pointers = dict(re.findall(r"^    (tr__\w+) +\*(\w+);", texts["server_state.h"], re.M))
    homes = {kind: [name for name, text in texts.items() if re.search(rf"^struct {kind} {{", text, re.M)] for kind in pointers}
    homes = {kind: names for kind, names in homes.items() if names}
    assert len(homes) > 12
    for kind, names in homes.items():
        assert len(names) == 1 and names[0].endswith(".c"), f"struct {kind} is defined in {names}"
        for name, text in texts.items():
            assert name == names[0] or not re.search(rf"\bserver->{pointers[kind]}->", text), f"{name} looks into {kind} of {names[0]}"


def test_each_protocol_of_a_trainer_keeps_its_state_to_itself():
    """A protocol's struct within tr_client is used by one file."""
    texts = {path.name: bare(path.read_text()) for path in (ROOT / "pserver" / "core" / "client").glob("client*.c")}
    state = (ROOT / "pserver" / "core" / "client" / "client_state.h").read_text()
    homes = re.findall(r"^/\* (client_\w+\.c) \*/\ntypedef struct tr__client_(\w+) \{", state, re.M)
    assert len(homes) == 4
    for home, name in homes:
        users = [file for file, text in texts.items() if re.search(rf"\bclient->{name}\.", text)]
        assert users == [home], f"{users} look into the state of {home}"


ALLOCATES = re.compile(r"(?<![\w.>])(?:malloc|calloc|realloc|strn?dup|v?asprintf|aligned_alloc|posix_memalign)\(")
ENDS = re.compile(r"(?<![\w.>])(?:_exit|exit|abort|raise|quick_exit)\(")
GROWS_WITH_DATA = ("checkpoint", "dataset", "files", "formats", "memory", "observe", "state", "store", "table", "util")
CHECKS = r"!\(?{0}\b(?!->|\.|\[)|\bif \({0}[ )]|{0} [?]|{0} (?:&&|\|\|)|[|&] !?{0}\b"


@pytest.mark.parametrize("floor", ["storage", "pserver", "trainer"])
def test_each_allocation_is_checked(floor):
    """Lists and messages come from tr__must_*, which end the process with a message; arrays that grow with data may be refused, and are
    looked at."""
    for path in (ROOT / floor).rglob("*.c"):
        lines = bare(path.read_text()).split("\n")
        for number, line in enumerate(lines):
            if not ALLOCATES.search(line):
                continue
            where, below = f"{path.relative_to(ROOT)}: {line.strip()}", "\n".join(lines[number:number + 15]).split("\n}\n")[0]
            assert path.parent.name in GROWS_WITH_DATA or "no memory" in path.read_text(), (f"{where}: use tr__must_* "
                                                                                            "(framework/base/memory.h)")
            name = re.search(r"\*?([\w>.\[\]-]+) = [^=]*$", line[:ALLOCATES.search(line).start()])
            held = {re.escape(name[1]), re.escape("*" + name[1])} if name else set()
            assert "TR_ENOMEM" in below or any(re.search(CHECKS.format(one), below)
                                               for one in held), f"{where}: its result is not looked at"


def test_a_rank_ends_itself_in_one_place():
    """MPI and the launcher must understand how a rank ends: only util/rank_end.c ends one, and the main() of a program.
    (trainer/files/command.c ends child processes.)"""
    for path in [*(ROOT / "storage").rglob("*.c"), *(ROOT / "pserver").rglob("*.c"), *(ROOT / "trainer").rglob("*.c")]:
        if path.name not in ("rank_end.c", "trireme_pserver.c", "main.c", "command.c"):
            assert not ENDS.search(bare(path.read_text())), f"{path.relative_to(ROOT)}: use tr__rank_end (pserver/util/rank_end.h)"


LOCALE = re.compile(r"\b(v\w*printf|\w*scanf|strto(?:d|f|ld)|atof|setlocale|uselocale|localeconv|str(?:n?casecmp|coll|ftime)|"
                    r"is(?:alnum|alpha|space|digit|xdigit|upper|lower|print|punct|cntrl|graph)|to(?:upper|lower)|wcs\w+|mbs?\w+towcs?)\s*\(")
PRINTS = re.compile(r"\b(?:f|sn?|d|as)?printf\s*\(")
FLOAT = re.compile(r"%[-+ #0'\d.*]*[lL]?[aAeEfFgG]")
STRING = re.compile(r'"(?:\\.|[^"\\])*"')
WHOLE_SCANS = re.compile(r'scanf\([^"]*"(?:[^"%]|%d|%lld)*"')          # whole numbers are read alike in every locale


def call_at(text: str, at: int) -> str:
    """Return a call up to its closing bracket; `at` is behind its opening one."""
    depth, begin = 1, at
    while depth and at < len(text):
        literal = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'').match(text, at)
        depth += {"(": 1, ")": -1}.get(text[at], 0) if not literal else 0
        at = literal.end() if literal else at + 1
    return text[begin:at]


def locale_calls(text: str) -> list[str]:
    """Return what depends on the locale in a C source: reading and writing of floats, classes of characters, comparisons without case."""
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = [call[1] for call in LOCALE.finditer(bare(code)) if not call[1].endswith("scanf")]
    found += [call[0] for call in re.finditer(r'\w*scanf\([^"]*"[^"]*"', code) if not WHOLE_SCANS.match(call[0], call[0].index("scanf"))]
    prints = [(call[0], call_at(code, call.end())) for call in PRINTS.finditer(code)]
    return found + [name + args for name, args in prints if any(FLOAT.search(text.replace("%%", "")) for text in STRING.findall(args))]


def test_calls_that_depend_on_the_locale_are_found():
    assert locale_calls('x = strtod(text, &end); /* strtof(a) */ y = "atof(";') == ["strtod"]
    assert locale_calls('printf("%d %s)", a, f("("), "%5.2f");') == ['printf("%d %s)", a, f("("), "%5.2f")']
    assert locale_calls('tr_text_add(t, "%g", x); tr__print(out, "%.3f", x); snprintf(s, n, "%5d%%", x % f);') == []
    assert locale_calls('sscanf(a, "%d %lld", &b, &c); sscanf(a, "%lf", &d);') == ['sscanf(a, "%lf"']
    assert locale_calls("if (isspace(c) || toupper(c) || strcasecmp(a, b)) vsnprintf(a, b, c, d);") == ["isspace", "toupper", "strcasecmp",
                                                                                                        "vsnprintf"]


@pytest.mark.parametrize("floor", ["framework", "kernels", "storage", "pserver", "serving", "trainer"])
def test_numbers_are_read_and_written_in_the_c_locale(floor):
    """A script may call setlocale: framework/base/number.h alone reads and writes floats. (The programs call main() and never
    setlocale.)"""
    allowed = {"framework/base/number.c", "trainer/main.c", "pserver/trireme_pserver.c"}
    found = {name: calls for name, text in sources(floor).items() if name not in allowed and (calls := locale_calls(text))}
    assert not found, "use framework/base/number.h, or tr_text_add, tr_fail, tr__must_format"


def test_python_reads_and_writes_numbers_without_the_locale():
    for path in (ROOT / "python").rglob("*.py"):
        assert not re.search(r"\b(?:import locale|locale\.\w+\()|:[^}\"' ]*n\}|%[-+ \d.]*n\b", path.read_text()), path


ELAPSED = re.compile(r"^\s*assert\b[^\n]*(?:monotonic|perf_counter|process_time|\btime)\(\) *- *[\w.\[\]]+ *<=? *[\d(]|"
                     r"^\s*assert\b[^\n]*\b(?:took|elapsed|duration)\b *<=? *\d", re.M)
ELAPSED_C = re.compile(r"assert_\w+\([^;]*(?:tr__clock|tr__now|clock_gettime)\(\)?[^;]*<[^;]*\);")


def test_no_test_asserts_seconds_of_a_clock():
    """A busy machine is late. A promise in seconds is held against what the machine needs for nothing at that moment: assert_within."""
    assert ELAPSED.search("    assert time.monotonic() - pressed[0] < 1\n") and ELAPSED.search("assert took < 2.5\n")
    assert not ELAPSED.search("assert time.monotonic() < deadline\n") and not ELAPSED.search("assert time.monotonic() - begin > 3\n")
    own = ROOT / "tests" / "python" / "test_structure.py"
    late = [str(path) for path in (ROOT / "tests").rglob("*.py") if path != own and ELAPSED.search(path.read_text())]
    late += [str(path) for path in (ROOT / "tests").rglob("*.c") if ELAPSED_C.search(path.read_text())]
    assert not late
