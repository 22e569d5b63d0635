"""The documents say what is: links lead somewhere, examples run, excerpts and lists are those of the code."""

import fnmatch
import importlib.util
import inspect
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from job_support import LIMIT, environment, launch_under_mpi, needs_mpi

import trireme
from trireme.native import env_names

ROOT = Path(__file__).resolve().parents[2]
DOCS = [*(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")), *sorted((ROOT / "docs").rglob("*.md")),
        ROOT / "deploy" / "README.md"]
FOLDERS = "benchmarks|cmake|deploy|docs|examples|framework|kernels|proto|pserver|serving|storage|python|requirements|tests|trainer"
each_doc = pytest.mark.parametrize("doc", DOCS, ids=lambda path: str(path.relative_to(ROOT)))


def blocks(marker):
    """Return (what the marker says, the block of code after it, the document) for each ``<!-- marker: ... -->``."""
    pattern = rf"^<!-- {marker}: (.*?) -->\n```\w*\n(.*?)^```$"
    return [(found[1], found[2], doc) for doc in DOCS
            for found in re.finditer(pattern, doc.read_text(), re.M | re.S)]


def anchors(doc):
    """The names of a document's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", doc.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_argument_of_a_dataset_is_described():
    text = (ROOT / "docs" / "data.md").read_text()
    for what in (trireme.Dataset, trireme.Slot):
        named = [name for name in inspect.signature(what).parameters if name not in ("var", "files", "format", "slots")]
        assert [name for name in named if not re.search(rf"\b{name}=|`{name}`", text)] == [], what


# -- links and paths ------------------------------------------------------------------------------------------------


@each_doc
def test_links_lead_somewhere(doc):
    lost = []
    for target in re.findall(r"\]\(([^)\s]+)\)", doc.read_text()):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        found = (doc.parent / path) if path else doc
        if not found.exists() or (anchor and anchor not in anchors(found)):
            lost.append(target)
    assert not lost


@each_doc
def test_paths_of_the_tree_exist(doc):
    named = re.findall(rf"`((?:{FOLDERS})/[\w./*-]*)`", doc.read_text())
    assert [path for path in named if not list(ROOT.glob(path.rstrip("/")))] == []


SOURCE = r"[\w./*-]*\w\.(?:c|h|py|proto|cmake|def|supp)"
SOURCES = [f"/{path.relative_to(ROOT)}" for folder in FOLDERS.split("|") for path in (ROOT / folder).rglob("*.*")]


def lost_sources(named):
    return [name for name in sorted(named) if not fnmatch.filter(SOURCES, f"*/{name}")]


@each_doc
def test_files_that_are_named_exist(doc):
    text = doc.read_text()
    own = set(re.findall(r"^<!-- file: (\S+) -->$", text, re.M))          # what a page lets its reader write
    assert lost_sources(set(re.findall(rf"`({SOURCE})`", text)) - own) == []


@pytest.mark.parametrize("folder", ["framework", "kernels", "storage", "pserver", "serving", "trainer", "tests"])
def test_files_that_comments_name_exist(folder):
    comments = [comment for path in (ROOT / folder).rglob("*.[ch]") for comment in re.findall(r"/\*.*?\*/", path.read_text(), re.S)]
    named = {name for comment in comments for name in re.findall(rf"(?<![\w./*-])({SOURCE})\b(?!\()", comment)}
    assert len(named) > 5
    assert lost_sources(named - {"cblas.h"}) == []


@each_doc
def test_make_knows_what_is_named(doc):
    targets = set(re.findall(r"^([a-z]+(?: [a-z]+)*):", (ROOT / "Makefile").read_text(), re.M))
    known = {one for line in targets for one in line.split()}
    named = re.findall(r"^make (\w+)|`make (\w+)`", doc.read_text(), re.M)
    assert {a or b for a, b in named} <= known


def test_excerpts_are_those_of_the_code():
    found = blocks("from")
    assert len(found) > 10
    for path, text, doc in found:
        assert text in (ROOT / path).read_text(), f"{doc.name} shows what {path} does not have:\n{text}"


# -- examples -------------------------------------------------------------------------------------------------------


def example(name, folder):
    """Write an example of the documents to a file."""
    (text, said), = [(text, said) for said, text, _ in blocks("example") if said.partition(",")[0] == name]
    (folder / name).write_text(text)
    return folder / name, said


def run(script):
    done = subprocess.run([sys.executable, script], check=False, cwd=script.parent, env=environment(), capture_output=True, text=True,
                          timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(text):
    return [float(number) for number in re.findall(r"^epoch \d+: loss ([\d.]+)$", text, re.M)]


def promised():
    """The losses that the README shows: of one process, of a job."""
    shown = re.search(r"```console\n\$ python circle.py\n(.*?)\$ trireme launch(.*?)```", DOCS[0].read_text(), re.S)
    return losses(shown[1]), losses(shown[2])


def test_the_readmes_example_runs_as_printed(tmp_path):
    script, _ = example("circle.py", tmp_path)
    assert len(script.read_text().splitlines()) <= 20
    assert len(promised()[0]) == 5
    assert losses(run(script)) == pytest.approx(promised()[0], abs=0.002)


@needs_mpi
@pytest.mark.mpi
def test_the_readmes_example_runs_in_a_job(tmp_path):
    script, _ = example("circle.py", tmp_path)
    options = re.search(r"^\$ trireme launch --servers (\d+) --trainers (\d+) circle.py$", DOCS[0].read_text(), re.M)
    got = losses(launch_under_mpi(int(options[1]), int(options[2]), script=script))
    assert got == pytest.approx(promised()[1], abs=0.002)


@pytest.mark.parametrize("name", [said for said, *_ in blocks("example") if "circle" not in said and "," not in said])
def test_examples_run(name, tmp_path):
    assert run(example(name, tmp_path)[0])


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("name", [said.partition(",")[0] for said, *_ in blocks("example") if ", in a job" in said])
def test_examples_run_in_a_job(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)                        # what an example saves
    script, said = example(name, tmp_path)
    servers = int(re.search(r"of (\d+) servers", said)[1])
    assert launch_under_mpi(servers, 2, script=script).count("cost 0.0000") == 2


def stand_in(folder, name, text):
    """A program of that name in a folder, which does what the shell commands of ``text`` say."""
    (folder / name).write_text(f"#!/bin/bash\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("ends, queued", [(75, True), (0, False), (1, False)])
@pytest.mark.parametrize("signaled", [True, False])
def test_the_script_for_slurm_requeues_what_was_stopped(ends, queued, signaled, tmp_path):
    script = re.search(r"^    #SBATCH.*?\n\n", (ROOT / "docs" / "checkpoints.md").read_text(), re.M | re.S)[0]
    stand_in(tmp_path, "trireme", f"trap 'exit {ends}' USR1; echo started; "
             + ("while :; do sleep 0.05; done" if signaled else f"exit {ends}"))
    stand_in(tmp_path, "scontrol", 'echo "$@"')
    shell = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, text=True,
                             env={**environment(), "PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "7"})
    assert shell.stdout.readline() == "started\n"
    while signaled and shell.poll() is None:        # the shell may not know yet whom to pass it on to
        shell.send_signal(signal.SIGUSR1)
        time.sleep(0.1)
    said = shell.stdout.read()                      # communicate would lose what came with the first line
    shell.wait(LIMIT)
    assert said == ("requeue 7\n" if queued else "")


# -- lists ----------------------------------------------------------------------------------------------------------


def test_the_list_of_operators_is_fresh():
    spec = importlib.util.spec_from_file_location("make_operators", ROOT / "docs" / "make_operators.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PATH.read_text() == module.render(), "docs/operators.md is stale: `make operators` writes it anew"


def variables_read():
    """The environment variables that the code reads, by name, with a file that does."""
    patterns = [r'getenv\("(\w+)"\)', r'environ\.get\("(\w+)"', r'environ\["(\w+)"\]', r'"(\w+)" in os\.environ',
                r'startswith\(b?"([A-Z]+_[A-Z_]+[A-Z])=?"\)', r'"(TRIREME_[A-Z_]*[A-Z])"']
    found = {}
    for path in [*ROOT.glob("*/**/*.c"), *ROOT.glob("*/**/*.h"), *ROOT.glob("*/**/*.py")]:
        if path.relative_to(ROOT).parts[0] in FOLDERS.split("|"):
            text = path.read_text()
            found.update({name: path for pattern in patterns for name in re.findall(pattern, text)})
    return found


def test_every_environment_variable_is_described():
    described = set(re.findall(r"`([A-Z]\w+)`", "".join(
        "|".join(line.split("|")[:2]) for line in (ROOT / "docs" / "env.md").read_text().splitlines() if line[:1] == "|")))
    read = variables_read()
    assert {"TRIREME_NUM_THREADS", "TRIREME_TRANSPORT", "TRIREME_LOCAL", "XDG_CACHE_HOME", "PMIX_RANK"} <= set(read)
    missing = {name: str(path.relative_to(ROOT)) for name, path in read.items() if name not in described}
    assert not missing, "docs/env.md does not describe them"
    assert {name for name in described if name.startswith("TRIREME_")} == {f"TRIREME_{name}" for name in env_names.NAMES}
    everything = "".join(path.read_text() for path in {*read.values(), ROOT / "deploy" / "job.sbatch"})
    assert not [name for name in described if name not in everything and name not in (ROOT / "Makefile").read_text()]
