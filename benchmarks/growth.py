"""How the cost of everything whose size a user chooses grows from n to 4 n.

    python benchmarks/growth.py [--only WORD,...] [--rounds 3] [--list]

Run it with the package on PYTHONPATH or installed. A law is measured at n and at 4 n: CPU time of the process, or of all processes of a
job, best of the rounds, without what it costs at a size of 1. The exponent is the logarithm of their ratio to the base 4: 1 is linear, 2
quadratic. The exit code is 1 where one is above LIMIT and has no floor, which says why it cannot be less.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import trireme as fluid

layers = fluid.layers
CLUSTER = Path(__file__).resolve().parents[1] / "tests" / "python" / "cluster.py"
LIMIT = 1.15
CACHES = "n log n, 1.09 to 1.12 counted in instructions; the rest is memory that the caches no longer hold at 4 n"


@dataclass
class Law:
    name: str
    size: int                        # n
    measure: Callable[[int], float]  # seconds of CPU time
    floor: str = ""                  # why it may grow faster
    rounds: int = 0                  # 0: as many as asked for


LAWS: list[Law] = []


def law(name: str, size: int, floor: str = "", rounds: int = 0):
    """Register a function that takes a size and returns the seconds that count."""
    def register(measure):
        LAWS.append(Law(name, size, measure, floor, rounds))
        return measure
    return register


class Watch:
    """CPU time of this process and of processes that it has waited for."""

    seconds = 0.0

    @staticmethod
    def now() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    def __enter__(self) -> Watch:
        gc.collect()
        gc.disable()                 # the collector looks at all objects of the process, of which most are none of the law's
        self._start = self.now()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds = self.now() - self._start
        gc.enable()


def cpu(action: Callable[[], object]) -> float:
    with Watch() as watch:
        action()
    return watch.seconds


def one_batch(width: int = 4) -> dict[str, np.ndarray]:
    return {"x": np.ones((1, width), "float32")}


def started() -> fluid.Executor:
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    return exe


def deep(count: int, widths: int = 1):
    hidden = layers.data("x", [4])
    for i in range(count):
        hidden = layers.fc(hidden, 4 + i * 37 % widths)
    return layers.mean(hidden)


# -- programs ---------------------------------------------------------------------------------------------------


@law("layers: building them", 500)
def _(n):
    return cpu(lambda: deep(n))


@law("layers: append_backward", 2000)
def _(n):
    loss = deep(n)
    return cpu(lambda: fluid.backward.append_backward(loss))


@law("layers: append_backward(parameter_list=)", 2000)
def _(n):
    loss = deep(n)
    some = [one.name for one in fluid.default_main_program().all_parameters()[::2]]
    return cpu(lambda: fluid.backward.append_backward(loss, parameter_list=some))


@law("layers: Adam", 250)
def _(n):
    loss = deep(n)
    pairs = fluid.backward.append_backward(loss)
    return cpu(lambda: fluid.optimizer.Adam(0.01).apply_gradients(pairs))


@law("parameters: the startup program", 500)
def _(n):
    deep(n)
    return cpu(started)


def first_run(n, widths=1, new_shapes=False):
    fluid.optimizer.SGD(0.01).minimize(deep(n, widths))
    exe = started()
    if new_shapes:
        exe.run(feed=one_batch())
    return cpu(lambda: exe.run(feed={"x": np.ones((2, 4), "float32")}))


@law("layers with gradients: the first run", 600, floor=CACHES)
def _(n):
    return first_run(n)


@law("layers of many widths: the first run", 600, floor=CACHES)
def _(n):
    return first_run(n, widths=50)


@law("layers with gradients: a run of new shapes", 600, floor=CACHES)
def _(n):
    return first_run(n, new_shapes=True)


@law("layers with gradients: a repeated run", 500)
def _(n):
    fluid.optimizer.SGD(0.01).minimize(deep(n))
    exe = started()
    exe.run(feed=one_batch())
    return cpu(lambda: [exe.run(feed=one_batch()) for _ in range(50)])


@law("operators: the first run", 5000, floor=CACHES)
def _(n):
    x = layers.data("x", [4])
    for _ in range(n):
        x = layers.scale(x, 1.0)
    return cpu(lambda: fluid.Executor().run(feed=one_batch(), fetch_list=[x]))


@law("uses of a variable, with gradients", 500)
def _(n):
    x = layers.fc(layers.data("x", [4]), 4)
    total = layers.sums([layers.scale(x, 1.0) for _ in range(n)])

    def train():
        fluid.optimizer.SGD(0.01).minimize(layers.mean(total))
        started().run(feed=one_batch())
    return cpu(train)


@law("writes of a variable", 5000)
def _(n):
    x = layers.data("x", [4])
    total = layers.scale(x, 1.0)
    for _ in range(n):
        layers.sums([total, x], out=total)
    return cpu(lambda: fluid.Executor().run(feed=one_batch(), fetch_list=[total]))


def loop(body, times=2, within=None):
    i, end = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", times)
    condition = layers.less_than(i, end)
    turn = layers.While(condition)
    with turn.block():
        body(i)
        layers.increment(i)
        layers.less_than(i, end, cond=condition)
    return i


@law("blocks beside each other", 100)
def _(n):
    total = layers.fill_constant([1], "float32", 0.0)
    for _ in range(n):
        loop(lambda i: layers.increment(total))
    return cpu(lambda: fluid.Executor().run(fetch_list=[total]))


@law("blocks within each other", 8, floor="a name within is looked for in each block around it, and each block has names of its own")
def _(n):
    total = layers.fill_constant([1], "float32", 0.0)

    def within(depth):
        if depth:
            loop(lambda i: within(depth - 1), times=1)
        else:
            layers.increment(total)
    within(n)
    return cpu(lambda: [fluid.Executor().run(fetch_list=[total]) for _ in range(10)])


@law("steps of While", 100000)
def _(n):
    total = layers.fill_constant([1], "float32", 0.0)
    loop(lambda i: layers.increment(total), times=n)
    exe = fluid.Executor()
    return cpu(lambda: exe.run(fetch_list=[total]))


@law("steps of While over an array, with gradients", 1000)
def _(n):
    x = layers.data("x", [4])
    x.stop_gradient = False
    array = layers.create_array("float32")
    zero = layers.fill_constant([1], "int64", 0)
    layers.array_write(layers.fc(x, 4), zero, array)

    def body(i):
        following = layers.increment(layers.assign(i), in_place=True)
        layers.array_write(layers.scale(layers.array_read(array, i), 0.9), following, array)
    last = loop(body, times=n)
    fluid.optimizer.SGD(0.1).minimize(layers.mean(layers.array_read(array, last)))
    exe = started()
    return cpu(lambda: exe.run(feed=one_batch()))


@law("steps of StaticRNN, with gradients", 100)
def _(n):
    x = layers.data("x", [n, 1, 4], append_batch_size=False)
    start, rnn = layers.fill_constant([1, 4], "float32", 0.0), layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        memory = rnn.memory(init=start)
        hidden = layers.fc([word, memory], 4, act="tanh")
        rnn.update_memory(memory, hidden)
        rnn.step_output(hidden)
    fluid.optimizer.SGD(0.1).minimize(layers.mean(rnn()))
    exe = started()
    feed = {"x": np.ones((n, 1, 4), "float32")}
    exe.run(feed=feed)
    return cpu(lambda: [exe.run(feed=feed) for _ in range(10)])


@law("steps of DynamicRNN, with gradients", 100)
def _(n):
    x = layers.data("x", [4], lod_level=1)
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(x)
        memory = rnn.memory(shape=[4], value=0.0)
        hidden = layers.fc([word, memory], 4, act="tanh")
        rnn.update_memory(memory, hidden)
        rnn.output(hidden)
    fluid.optimizer.SGD(0.1).minimize(layers.mean(layers.sequence_last_step(rnn())))
    exe = started()
    feed = {"x": fluid.create_lod_tensor(np.ones((n, 4), "float32"), [[n]], fluid.CPUPlace())}
    exe.run(feed=feed)
    return cpu(lambda: [exe.run(feed=feed) for _ in range(5)])


@law("feeds", 250)
def _(n):
    xs = [layers.data(f"x{i}", [4]) for i in range(n)]
    total, feed = layers.sums(xs), {x.name: np.ones((1, 4), "float32") for x in xs}
    exe = fluid.Executor()
    return cpu(lambda: [exe.run(feed=feed, fetch_list=[total]) for _ in range(5)])


@law("fetches", 250)
def _(n):
    x = layers.data("x", [4])
    wanted = [layers.scale(x, 1.0) for _ in range(n)]
    exe = fluid.Executor()
    return cpu(lambda: [exe.run(feed=one_batch(), fetch_list=wanted) for _ in range(5)])


@law("calls of gradients() in one program", 25, floor="each call appends operators, and the next one walks over all operators before it")
def _(n):
    x = layers.data("x", [4])
    x.stop_gradient = False
    ends = [layers.mean(layers.scale(x, 1.0 + i)) for i in range(n)]
    return cpu(lambda: [fluid.backward.gradients([end], [x]) for end in ends])


@law("programs: clone, prune, save, parse, print", 250)
def _(n):
    loss = deep(n)
    fluid.optimizer.SGD(0.01).minimize(loss)
    program = fluid.default_main_program()

    def all_of_it():
        program.clone(), program.clone(for_test=True).prune([loss]), str(program)
        fluid.Program.parse_from_string(program.desc.serialize_to_string())
    return cpu(all_of_it)


@law("scopes that are in use", 100)
def _(n):
    deep(2)
    exe, scopes = fluid.Executor(), [fluid.Scope() for _ in range(n)]

    def use():
        for scope in scopes * 2:
            exe.run(fluid.default_startup_program(), scope=scope)
    return cpu(use)


@law("executors that are in use", 100)
def _(n):
    deep(2)
    started()
    executors = [fluid.Executor() for _ in range(n)]
    return cpu(lambda: [exe.run(feed=one_batch()) for exe in executors * 2])


# -- data, metrics ------------------------------------------------------------------------------------------------


def read(paths, batches, how, lod_level=0):
    slots = [layers.data("i", [1], dtype="int64", lod_level=lod_level), layers.data("y", [1])]
    if how == "memory":
        data = fluid.DatasetFactory().create_dataset("InMemoryDataset")
        data.set_use_var(slots)
        data.set_batch_size(100)
        data.set_filelist(paths)
        data.load_into_memory()
        data.local_shuffle()
    else:
        data = fluid.Dataset(paths, "multislot", batch_size=100, slots=slots)
    assert sum(1 for _ in data) >= batches


@law("lines of a file", 50000)
def _(n):
    Path("lines").write_text("1 3 1 0.5\n" * n)
    return cpu(lambda: read(["lines"], n // 100, "file"))


@law("lines in memory, shuffled", 25000)
def _(n):
    Path("lines").write_text("1 3 1 0.5\n" * n)
    return cpu(lambda: read(["lines"], n // 100, "memory"))


@law("files", 500)
def _(n):
    Path("many").mkdir(exist_ok=True)
    for k in range(n):
        Path(f"many/{k}").write_text("1 3 1 0.5\n")
    return cpu(lambda: read([f"many/{k}" for k in range(n)], n // 100, "file"))


@law("numbers of a line", 100000)
def _(n):
    Path("line").write_text((f"{n} " + "7 " * n + "1 0.5\n") * 4)
    return cpu(lambda: read(["line"], 1, "file", lod_level=1))


@law("readers: shuffle, batch", 20000, floor="a shuffled order misses the caches")
def _(n):
    reader = fluid.io.batch(fluid.io.shuffle(lambda: iter(range(n)), n // 2), 10)
    return cpu(lambda: sum(1 for _ in reader()))


@law("sequences", 20000)
def _(n):
    x = layers.data("x", [2], lod_level=1)
    pooled, exe = layers.sequence_pool(x, "sum"), fluid.Executor()
    value = fluid.create_lod_tensor(np.ones((n * 2, 2), "float32"), [[2] * n], fluid.CPUPlace())
    return cpu(lambda: [exe.run(feed={"x": value}, fetch_list=[pooled]) for _ in range(5)])


@law("metrics: Auc", 200000)
def _(n):
    auc, share = fluid.metrics.Auc(), np.random.default_rng(0).random(n)
    values, labels = np.stack([1 - share, share], 1), np.ones((n, 1), "int64")

    def all_of_it():
        auc.update(values, labels)
        auc.eval()
    return cpu(all_of_it)


# -- tables, files -------------------------------------------------------------------------------------------------


def table(keys, **more):
    ids = layers.data("ids", [1], dtype="int64")
    rows = layers.embedding(ids, [10, 8], is_distributed=True, param_attr="t", **more)
    fluid.optimizer.SGD(0.01).minimize(layers.mean(rows))
    exe = started()
    return exe, lambda: [exe.run(feed={"ids": keys[k:k + 10000].reshape(-1, 1)}) for k in range(0, len(keys), 10000)]


@law("rows of a table, keys in order", 50000)
def _(n):
    return cpu(table(np.arange(n))[1])


@law("rows of a table, any keys", 50000)
def _(n):
    return cpu(table(np.random.default_rng(0).integers(0, 2**62, n))[1])


@law("rows of a table, loaded", 25000)
def _(n):
    exe, fill = table(np.arange(n))
    fill()
    fluid.io.save_persistables(exe, "rows")
    with fluid.scope_guard(fluid.Scope()):
        exe.run(fluid.default_startup_program())
        return cpu(lambda: fluid.io.load_persistables(exe, "rows"))


@law("rows of a table, exported and served", 25000)
def _(n):
    exe, fill = table(np.arange(n))
    fill()
    rows = fluid.default_main_program().global_block().ops[0].output_arg_names[0]

    def export():
        fluid.serving.export_model("export", ["ids"], [fluid.default_main_program().global_block().var(rows)], exe)
        fluid.serving.Predictor("export").run({"ids": np.arange(1000).reshape(-1, 1)})
    return cpu(export)


@law("rows of a table, evicted", 25000)
def _(n):
    return cpu(table(np.arange(n), max_rows=10000)[1])


@law("tables", 20)
def _(n):
    ids = layers.data("ids", [1], dtype="int64")
    total = layers.sums([layers.embedding(ids, [10, 8], is_distributed=True, param_attr=f"t{i}") for i in range(n)])
    fluid.optimizer.SGD(0.01).minimize(layers.mean(total))

    def train():
        started().run(feed={"ids": np.ones((4, 1), "int64")})
    return cpu(train)


@law("parameters: saved and loaded", 200)
def _(n):
    deep(n)
    exe = started()

    def save():
        fluid.io.save_persistables(exe, "saved", filename="all")
        fluid.io.load_persistables(exe, "saved", filename="all")
        fluid.io.save_persistables(exe, "each")
        fluid.io.load_persistables(exe, "each")
    return cpu(save)


@law("parameters: exported and served", 500)
def _(n):
    target = deep(n)
    exe = started()

    def export():
        fluid.io.save_inference_model("model", ["x"], [target], exe)
        fluid.serving.Predictor("model").close()
    return cpu(export)


# -- processes ----------------------------------------------------------------------------------------------------------


class MissingError(Exception):
    """This machine lacks something that a law needs."""


def run(command, **more):
    done = subprocess.run([sys.executable, *command], check=False, capture_output=True, text=True, timeout=900, **more)
    if done.returncode == 77:
        raise MissingError(done.stderr.strip())
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


JOB = """
import sys, numpy as np, trireme as fluid
parameters, tables, steps, rows, cached = map(int, sys.argv[1:6])
between = sys.argv[6]
layers = fluid.layers
if cached:
    fluid.distributed.set_mode("async")
    fluid.distributed.set_row_cache(cached, 4)
hidden = layers.data("x", [16])
for i in range(parameters):
    weight = layers.create_parameter([16], "float32", name=f"w{i}", default_initializer=fluid.initializer.Constant(0.01))
    hidden = layers.elementwise_add(hidden, weight)
ids = layers.data("ids", [1], dtype="int64")
for i in range(tables):
    hidden = layers.elementwise_add(hidden, layers.embedding(ids, [10, 16], is_distributed=True, param_attr=f"t{i}"))
loss = layers.mean(hidden)
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
for step in range(steps):
    keys = (np.arange(rows) + step % 2 * rows).reshape(-1, 1)
    exe.run(feed={"x": np.ones((rows, 16), "float32"), "ids": keys}, fetch_list=[loss])
    if between == "set":
        fluid.io.set_table_rows("t0", keys.reshape(-1), np.ones((rows, 16), "float32"))
    if between == "load":
        fluid.io.save_persistables(exe, "rows")
        fluid.io.load_persistables(exe, "rows")
"""


def job(parameters=4, tables=0, steps=2, rows=8, cached=0, between="", trainers=1, servers=1, options=(), hosts=0):
    """``hosts``: so many hosts, made of namespaces, in place of this machine; the CPU time of all of them counts."""
    Path("job.py").write_text(JOB)
    on = [str(CLUSTER), str(hosts), sys.executable] if hosts else []
    options = [*options, "--hostfile", "{hostfile}", "--ssh", "{ssh}"] if hosts else options
    return cpu(lambda: run([*on, "-m", "trireme", "launch", "--servers", str(servers), "--trainers", str(trainers), "--progress", "0",
                            *options, "job.py", str(parameters), str(tables), str(steps), str(rows), str(cached), between]))


@law("a job's parameters", 200, rounds=2)
def _(n):
    return job(parameters=n)


@law("a job's tables", 40, rounds=2)
def _(n):
    return job(tables=n)


@law("a job's steps", 3000, rounds=2)
def _(n):
    return job(steps=n)


@law("a job's rows", 100000, rounds=2)
def _(n):
    return job(tables=1, rows=n)


@law("rows that a job's trainer keeps (set_row_cache)", 200000, rounds=2,
     floor="at n the rows and their index fit into the third cache, at 4 n they do not; 0.86 from n / 4 on, 1.10 from 4 n on")
def _(n):
    return job(tables=1, rows=n, cached=n + n // 2, steps=4)         # some are found there, and some are put out


@law("a job's rows, set between two steps", 50000, rounds=2)
def _(n):
    return job(tables=1, rows=n, between="set")


@law("a job's rows, saved and loaded between two steps", 50000, rounds=2)
def _(n):
    return job(tables=1, rows=n, between="load")


@law("rows that a resumed job's replica gets, on another host", 50000, rounds=2)
def _(n):
    folder = Path("checkpoints").resolve()
    job(tables=1, rows=n, options=["--checkpoint", folder])
    return job(tables=1, rows=n, steps=3, options=["--checkpoint", folder, "--resume", "--replicas", "1"], hosts=2)


@law("a job's trainers", 2, rounds=2)
def _(n):
    return job(trainers=n)


@law("a job's servers", 2, rounds=2)
def _(n):
    return job(servers=n)


@law("checkpoints kept by a job", 30, rounds=2)
def _(n):
    with tempfile.TemporaryDirectory() as folder:
        return job(steps=2 * n, options=["--checkpoint", folder, "--checkpoint-steps", "2", "--checkpoint-keep", str(n)])


def log_of(folder, lines):
    """Let a small job write its logs; in each of them the last line is there so many times more, a second later each time."""
    job(options=["--log", folder])
    for path in Path(folder).glob("*.jsonl"):
        last = json.loads(path.read_text().splitlines()[-1])
        more = [json.dumps({**last, "t_s": last["t_s"] + i, **({"step": i} if "step" in last else {})}) for i in range(lines)]
        path.write_text(path.read_text() + "\n".join(more) + "\n")


for view in ("explain", "plot"):
    @law(f"lines of a log: trireme {view}", 2500, rounds=2)
    def _(n, view=view):
        log_of("logs", n)
        return cpu(lambda: run(["-m", "trireme", view, "logs", *(["--out", "plot.html"] if view == "plot" else [])]))


# -- all of them ----------------------------------------------------------------------------------------------------------


@contextmanager
def fresh():
    """A folder, programs, names and a scope of its own."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, fluid.program_guard(fluid.Program(), fluid.Program()), \
            fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def best(one: Law, size: int, rounds: int) -> float:
    found = []
    for _ in range(one.rounds or rounds):
        with fresh():
            found.append(one.measure(size))
    return min(found)


def exponent(one: Law, rounds: int) -> tuple[float, float, float]:
    """Return the exponent, and the seconds at n and at 4 n, without those of a size of 1."""
    nothing = best(one, 1, rounds)
    few, many = (max(best(one, size, rounds) - nothing, 1e-6) for size in (one.size, 4 * one.size))
    return math.log(many / few, (4 * one.size - 1) / (one.size - 1)), few, many


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--only", default="", help="laws with one of these words")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--list", action="store_true")
    args = options.parse_args()
    words, steep = args.only.split(","), []
    chosen = [one for one in LAWS if any(word in one.name for word in words)]
    if args.list:
        print("\n".join(one.name for one in chosen))
        return 0
    print("| what grows | n | at n, s | at 4 n, s | exponent |\n|---|---|---|---|---|")
    for one in chosen:
        try:
            power, few, many = exponent(one, args.rounds)
        except MissingError as error:
            print(f"| {one.name} | {one.size} | | | skipped: {error} |", flush=True)
            continue
        except Exception as error:                     # the others are measured all the same
            print(f"| {one.name} | {one.size} | | | failed: {type(error).__name__} |", flush=True)
            print(f"{one.name}: {error}", file=sys.stderr)
            steep.append(one.name)
            continue
        if power > LIMIT and not one.floor:            # once more: other work on the machine shows as growth
            power, few, many = min(exponent(one, args.rounds), (power, few, many))
        word = "" if power <= LIMIT else f" ({one.floor})" if one.floor else " **above the limit**"
        print(f"| {one.name} | {one.size} | {few:.3f} | {many:.3f} | {power:.2f}{word} |", flush=True)
        steep += [one.name] if power > LIMIT and not one.floor else []
    if steep:
        print(f"\nabove {LIMIT}, or failed: {', '.join(steep)}", file=sys.stderr)
    return 1 if steep else 0


if __name__ == "__main__":
    sys.exit(main())
