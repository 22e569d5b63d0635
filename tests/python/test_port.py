"""``trireme port``: what is said of scripts in the manner of others, line by line; and its tables are those of docs/fluid.md."""

import subprocess
import sys
from pathlib import Path

import pytest

import trireme as fluid
from trireme.launch import cli
from trireme import port
from trireme.port import tables
from trireme.port.fluid_names import names_of_fluid
from trireme.port.names import say

DOC = (Path(__file__).resolve().parents[2] / "docs" / "fluid.md").read_text()

LINE = '''import paddle
import paddle.fluid as fluid

def train(use_cuda):
    x = fluid.layers.data(name='x', shape=[13], dtype='float32')
    y = fluid.layers.data(name='y', shape=[1], dtype='float32')
    cost = fluid.layers.mean(fluid.layers.square_error_cost(input=fluid.layers.fc(input=x, size=1), label=y))
    fluid.optimizer.SGD(learning_rate=0.001).minimize(cost)
    reader = paddle.batch(paddle.reader.shuffle(paddle.dataset.uci_housing.train(), buf_size=500), batch_size=20)
    place = fluid.CUDAPlace(0) if use_cuda else fluid.CPUPlace()
    exe = fluid.Executor(place)
    exe.run(fluid.default_startup_program())
'''


def said(text, shows_all=True):
    """Return {line: [(status, name)]} of a script, and all its lines."""
    lines, counts = port.report("s.py", text, shows_all)
    found = {}
    for line in lines:
        _, number, rest = line.split(":", 2)
        status, name = rest.split(maxsplit=1)
        found.setdefault(int(number), []).append((status, name.partition(": ")[0]))
    return found, "\n".join(lines), counts


def test_a_script_that_stays_within_what_there_is():
    found, text, counts = said(LINE)
    assert found[1] == [("differs", "import paddle")] and found[2] == [("differs", "import paddle.fluid as fluid")]
    assert ("there", "fluid.layers.fc") in found[7] and ("there", "fluid.layers.square_error_cost") in found[7]
    assert found[9] == [("there", "fluid.batch"), ("there", "fluid.reader.shuffle"), ("there", "fluid.dataset.uci_housing.train")]
    assert ("differs", "fluid.CUDAPlace") in found[10] and counts["missing"] == 0
    assert "s.py:2: differs  import paddle.fluid as fluid: write import trireme as fluid" in text
    assert not any(status == "there" for rows in said(LINE, shows_all=False)[0].values() for status, _ in rows)


def test_a_missing_name_is_told_with_its_substitute():
    found, text, _ = said("import paddle.fluid as fluid\nfrom paddle.fluid.layers import multiclass_nms, fc\nx = fluid.data('x', [3])\n"
                          "with fluid.dygraph.guard():\n    fluid.layers.fcc(x)\n    fluid.layers.prior_box(x)\n    "
                          "fluid.contrib.slim.Compressor()\nimport paddle.v2 as old\nimport paddle.nn\nx = multiclass_nms(x)\n")
    assert ("missing", "fluid.layers.multiclass_nms") in found[2] and ("missing", "fluid.layers.multiclass_nms") in found[10]
    assert "from paddle.fluid.layers import fc: write from trireme.layers import fc" in text
    assert "s.py:3: missing  fluid.data: use fluid.layers.data" in text
    assert ("missing", "fluid.dygraph") in found[4]
    assert "fluid.layers.fcc: no name of Fluid 1.x that Trireme knows; did you mean 'fc'" in text
    assert found[6] == [("missing", "fluid.layers.prior_box")] and ("missing", "fluid.contrib.slim") in found[7]
    assert "paddle.v2: the interface of before Fluid" in text and "paddle.nn: the interface of Paddle 2" in text


def test_aliases_and_arguments_are_followed():
    found, text, _ = said("from paddle import fluid\nimport paddle.fluid.layers as L\nlayers = fluid.layers\nmy = layers.fc\n"
                          "a = layers.fc(1, 2, is_tst=True)\nb = my(1, 2)\nc = L.relu\nL.roi_pool(c)\nlayers = 3\nlayers.fc(1)\n")
    assert "s.py:5: differs  fluid.layers.fc: it takes no 'is_tst'; did you mean 'is_test'" in text
    assert found[6] == [("there", "fluid.layers.fc")] and found[7] == [("there",
                                                                        "fluid.layers.relu")] and ("missing",
                                                                                                   "fluid.layers.roi_pool") in found[8]
    assert "import trireme as fluid" in text and 10 not in found


def test_the_differences_that_port_tells_come_from_its_tables():
    _, text, _ = said("import paddle.fluid as fluid\nfluid.memory_optimize(1)\nt = fluid.DistributeTranspiler()\n"
                      "pe = fluid.ParallelExecutor(use_cuda=False)\nimport os\nrole = os.getenv('PADDLE_TRAINING_ROLE', 'TRAINER')\n")
    assert "fluid.memory_optimize: they do nothing" in text and "docs/distributed.md" in text and "docs/threads.md" in text
    assert "s.py:6: differs  'PADDLE_TRAINING_ROLE': a job knows its roles: trireme launch" in text


def test_arguments_of_methods_of_such_objects_are_checked():
    found, text, _ = said("import paddle.fluid as fluid\nexe = fluid.Executor(fluid.CPUPlace())\nexe.run(feed={}, "
                          "nope=2)\nexe.run(feed={}, fetch_list=[])\n"
                          "fluid.optimizer.SGD(0.1).minimize(1, foo=1)\nfluid.default_main_program().clone(True)\n")
    differs = {line: name for line, names in found.items() for status, name in names if status == "differs" and line > 1}
    assert differs == {3: "Executor.run", 5: "SGDOptimizer.minimize"}, text
    assert "it takes no 'nope'" in text and "it takes no 'foo'" in text


def test_attributes_of_objects_that_fluid_makes_are_looked_up():
    found, text, _ = said("import paddle.fluid as fluid\nmain = fluid.default_main_program()\nblock = "
                          "main.global_block()\nblock.append_op(type='mul')\nblock.appendop()\nfluid.default_main_program().global_block().no_such()\n"
                          "reader = fluid.layers.py_reader(8, [[-1, 1]], ['float32'])\n"
                          "reader.queue.size()\nreader.kue()\ny = fluid.layers.fc(1, 2)\ny.op.no_such\ny.block.program.random_seed = "
                          "1\nprint(y.persistable)\nfluid.core.LoDTensor.no_such\nfluid.core.LoDTensor.set\n")
    missing = {line: name for line, names in found.items() for status, name in names if status == "missing"}
    assert missing == {5: "Block.appendop", 6: "Block.no_such", 9: "PyReader.kue", 14: "fluid.core.LoDTensor.no_such"}, text
    assert "a Block has no attribute 'appendop'; did you mean 'append_op'" in text


def test_names_whose_values_come_from_elsewhere_are_left_alone():
    found, text, counts = said("import paddle.fluid as fluid\nimport numpy as np\nx = fluid.layers.data('x', [1])\nx = "
                               "np.ones(3)\nx.cumsum()\ny = fluid.layers.data('y', [1])\ndef f(y):\n    return y.cumsum()\nz, w = "
                               "fluid.layers.fc(1, 2), 3\nz.cumsum()\nfor v in range(3):\n    v.cumsum()\nv = fluid.layers.fc(1, "
                               "2)\nv.cumsum()\n")
    assert counts["missing"] == 0, text


OLD = '''import paddle.fluid as fluid
print "cost", 3
print
print >>log, "x",
try:
    x = fluid.layers.fc(1, 2)
except ValueError, e:
    raise IOError, "bad"
for i in xrange(0100):
    if i <> 3L: print `i`
exec "y = 1"
y = fluid.layers.prior_box(x)
f = lambda (a, b): a
'''


def test_python_2_is_read_and_said():
    found, text, counts = said(OLD)
    for line, what in ((2, "print statement"), (4, "print statement"), (7, "except with a comma"), (8, "raise with a comma"),
                       (9, "octal number"), (10, "long number"), (11, "exec statement"), (13, "a tuple")):
        assert any(row.startswith(f"s.py:{line}: differs") and f"Python 2 ({what}" in row or f"s.py:{line}:" in row and what in row
                   for row in text.splitlines()), (line, what, text)
    assert ("there", "fluid.layers.fc") in found[6] and ("missing", "fluid.layers.prior_box") in found[12]


@pytest.mark.parametrize("broken", ["def bad(:\n    pass\n", "x = = 3\n", "class\n", "if x:\ny = 1\n", "x = (1,\n", "'''\n",
                                    "\tx\n  y\n z\n", "else:\n    pass\n"])
def test_a_cell_that_cannot_be_parsed_is_named_and_the_rest_is_read(broken):
    head, tail = "import paddle.fluid as fluid\na = fluid.layers.fc(1, 2)\n", "b = fluid.layers.prior_box(1)\n"
    found, text, _ = said(head + broken + tail)
    assert any("cannot be parsed" in line for line in text.splitlines()), text
    if "'''" not in broken and "(1,\n" not in broken:
        assert ("there", "fluid.layers.fc") in found[2] and any(name == "fluid.layers.prior_box" for _, name in found[max(found)]), text


@pytest.mark.parametrize("text", ["", "\x00", "print 'x'\n" * 50, "((((((\n" * 60, "`" * 501, "if x:\n" * 400, "import os\nprint('hi')\n"])
def test_no_text_keeps_the_command(text):
    _, _, counts = said(text)
    assert counts["there"] == 0


def test_the_command(tmp_path, capsys):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(LINE)
    bad.write_bytes(b"# -*- coding: latin-1 -*-\n# caf\xe9\nimport paddle.fluid as fluid\nfluid.layers.prior_box(1)\n")
    assert cli.main(["port", str(good)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("0 missing")
    assert cli.main(["port", "--brief", str(good), str(bad)]) == 1
    out = capsys.readouterr().out
    assert f"{bad}:4: missing  fluid.layers.prior_box: Trireme does not have it" in out and "there    " not in out
    assert cli.main(["port", str(tmp_path / "none.py")]) == 2
    assert "cannot open" in capsys.readouterr().err
    (tmp_path / "plain.py").write_text("print(3)\n")
    assert cli.main(["port", str(tmp_path / "plain.py")]) == 0 and "it uses nothing of paddle" in capsys.readouterr().out


def test_port_reads_a_script_without_running_it(tmp_path):
    script = tmp_path / "s.py"
    script.write_text(f"import paddle.fluid as fluid\nopen({str(tmp_path / 'ran')!r}, 'w')\n")
    done = subprocess.run([sys.executable, "-m", "trireme", "port", script], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not (tmp_path / "ran").exists(), done.stderr


# -- the tables ------------------------------------------------------------------------------------


def test_the_tables_are_those_of_the_document():
    for names, text in tables.DIFFERS:
        assert tables.rendered(names, text) in DOC, f"docs/fluid.md, 'What differs', lacks\n{tables.rendered(names, text)}"
        for name in names:
            assert say(f"paddle.fluid.{name}", 1).status == "differs", name
    for names, text in tables.COUNTERPARTS:
        assert tables.rendered(names, text, "fluid.") in DOC, f"docs/fluid.md lacks\n{tables.rendered(names, text, 'fluid.')}"
        for name in names:
            assert say(f"paddle.fluid.{name}", 1).status == "missing", f"fluid.{name} is there now: take it out of tables.COUNTERPARTS"


def test_every_name_of_fluid_has_an_answer():
    names = names_of_fluid()
    for module, known in names.items():
        for name in known:
            dotted = {"fluid": "paddle.fluid", "reader": "paddle.reader", "dataset": "paddle.dataset"}.get(module, f"paddle.fluid.{module}")
            finding = say(f"{dotted}.{name}", 1)
            assert finding.status != "missing" or not hasattr(getattr(fluid, module, fluid), name), finding
            assert finding.status != "missing" or finding.text


def test_names_that_come_by_a_star_are_followed():
    found, text, _ = said("from paddle.fluid.layers import *\nfrom paddle.fluid.contrib.decoder.beam_search_decoder import *\n"
                          "def net(data, scale):\n    return prelu(data, scale, activation='relu')\n"
                          "cell = StateCell(inputs={}, states={}, out_state='h')\nboxes = prior_box(cell)\n"
                          "from paddle.fluid.dygraph import *\nfrom paddle.fluid import *\nexe = Executor(CPUPlace())\n")
    assert "s.py:1: differs  from paddle.fluid.layers import *: write from trireme.layers import *" in text
    assert "s.py:8: differs  from paddle.fluid import *: write from trireme import *" in text
    # `data` is the function's argument
    assert found[4] == [("differs", "fluid.layers.prelu")] and "it takes no 'activation'" in text
    assert found[5] == [("there", "fluid.contrib.decoder.beam_search_decoder.StateCell")]
    assert found[6] == [("missing", "fluid.layers.prior_box")] and found[7] == [("missing", "fluid.dygraph")]
    assert found[9] == [("there", "fluid.Executor"), ("there", "fluid.CPUPlace")]
