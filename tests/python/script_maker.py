"""Random scripts, for comparing a job with one process: what users' scripts do, in random orders, with random nets and optimizers.

A script is a text for forked_jobs.py. It notes what must be the same in a job. Trainers share each batch by slices of random sizes, empty
ones too, where a slice has the meaning of its rows. Where it has not (batch_norm normalizes by its batch), all trainers read the whole
batch.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from script_tools import DATA, HEAD, PY_FUNC, TOOLS

ROWS, WIDTH, KEYS = 8, 4, 12
OPTIMIZERS = ["SGD({rate})", "Momentum({rate}, 0.9)", "Momentum({rate}, 0.9, use_nesterov=True)", "Adam({rate})", "Adagrad({rate})",
              "Adamax({rate})",
              "DecayedAdagrad({rate}, decay=0.5)", "RMSProp({rate})", "RMSProp({rate}, centered=True, momentum=0.5)", "Adadelta({rate})",
              "Ftrl({rate})",
              "LarsMomentum({rate}, 0.9)"]
OF_TABLES = OPTIMIZERS[:5]
RATES = ["0.05", "0.05", "L.exponential_decay(0.05, 3, 0.8)", "L.exponential_decay(0.05, 3, 0.8, staircase=True)",
         "L.natural_exp_decay(0.05, 4, 0.5)",
         "L.inverse_time_decay(0.05, 2, 0.5)", "L.polynomial_decay(0.05, 6, 0.001)", "L.piecewise_decay([2, 5], [0.05, 0.02, 0.01])",
         "L.noam_decay(16, 4)", "L.cosine_decay(0.05, 4, 5)"]
CLIPS = ["fluid.clip.GradientClipByValue(0.02)", "fluid.clip.GradientClipByNorm(0.1)", "fluid.clip.GradientClipByGlobalNorm(0.2)"]
DECAYS = ["fluid.regularizer.L2Decay(0.01)", "fluid.regularizer.L1Decay(0.003)"]
# In these modes one trainer's job has one meaning. The last two add what a trainer changed, which rounds.
LONE_MODES = ["sync", "sync", "sync", "sync(degraded)", "async", "ssp(2)", "geo(1)", "average(1)"]
ROUNDING = ("geo", "average")
SHARED_MODES = ["sync", "sync", "sync(degraded)"]


@dataclass
class Script:
    seed: int
    build: str                         # makes the programs
    run: str                           # runs them
    lone_mode: str                     # of jobs with one trainer
    shared_mode: str                   # of jobs with two
    is_own: bool                       # trainers draw numbers, or read data, each for itself
    is_sliced: bool                    # trainers share each batch
    features: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.build + self.run


class _Maker:
    def __init__(self, seed: int) -> None:
        self.random, self.features = random.Random(seed), []
        self.lines: list[str] = []
        self.is_sliced, self.is_own, self.has_set, self.has_tasks = True, False, False, False
        self.shared_mode, self.lone_mode = self.choose(SHARED_MODES, False), self.choose(LONE_MODES, False)

    def often(self, share: float, feature: str = "") -> bool:
        found = self.random.random() < share
        if found and feature:
            self.features.append(feature)
        return found

    def choose(self, what: list[str], feature: bool = True) -> str:
        found = self.random.choice(what)
        if feature:
            self.features.append(found)
        return found

    def say(self, text: str) -> None:
        self.lines += text.strip("\n").splitlines()

    def text(self) -> str:
        """Return what was said, and forget it."""
        found, self.lines = "\n".join(self.lines) + "\n", []
        return found

    # -- the net ------------------------------------------------------------------------------------

    def attr(self, name: str) -> str:
        """Of a parameter."""
        extra = ""
        if self.often(0.12, "decay of one parameter"):
            extra += f", regularizer={self.choose(DECAYS)}"
        if self.often(0.1, "rate of one parameter"):
            extra += ", learning_rate=0.5"
        if self.often(0.1, "frozen"):
            extra += ", trainable=False"
        return f"fluid.ParamAttr(name={name!r}{extra})"

    def embedding(self) -> None:
        kind = self.choose(["dense", "is_sparse", "table", "table"])
        how = {"dense": "", "is_sparse": ", is_sparse=True", "table": ", is_distributed=True"}[kind]
        self.has_table = kind == "table"
        name = "'rows'" if self.has_table else self.attr("rows")
        if self.often(0.3, "sequences"):
            self.feeds.append("seq")
            self.say(f"seq = L.data('seq', [1], dtype='int64', lod_level=1)\ne = L.embedding(seq, [{KEYS}, 3]{how}, param_attr={name})")
            if self.often(0.4, "DynamicRNN"):
                self.say(f"""
rnn = L.DynamicRNN()
with rnn.block():
    word, state = rnn.step_input(e), rnn.memory(shape=[3])
    next_state = L.fc(L.concat([word, state], 1), 3, act='tanh', param_attr={self.attr('rnn.w')}, bias_attr={self.attr('rnn.b')})
    rnn.update_memory(state, next_state)
    rnn.output(next_state)
e = L.sequence_last_step(rnn())
""")
            else:
                self.say(f"e = L.sequence_pool(e, {self.choose(['sum', 'average', 'max'])!r})")
        else:
            self.feeds.append("ids")
            self.say(f"ids = L.data('ids', [1], dtype='int64')\ne = L.embedding(ids, [{KEYS}, 3]{how}, param_attr={name})")
            if self.often(0.2, "a second lookup"):
                self.say(f"e = e + L.embedding(L.scale(ids, 1.0), [{KEYS}, 3]{how}, param_attr={name})")
        self.say("h = L.concat([h, e], 1)")

    def layer(self, number: int) -> None:
        size, act = self.random.choice([3, 5, 6]), self.choose(["None", "'tanh'", "'relu'", "'sigmoid'"], False)
        self.say(f"h = L.fc(h, {size}, act={act}, param_attr={self.attr(f'w{number}')}, bias_attr={self.attr(f'b{number}')})")
        kind = self.random.random()
        if kind < 0.15:
            self.features.append("batch_norm")
            self.is_sliced = False
            self.say(f"h = L.batch_norm(h, momentum=0.7, moving_mean_name='mean{number}', moving_variance_name='variance{number}')")
            self.statistics += [f"mean{number}", f"variance{number}"]
        elif kind < 0.25:
            self.features.append("layer_norm")
            self.say("h = L.layer_norm(h)")
        elif kind < 0.35:
            self.features.append("dropout")
            self.is_own = True
            self.say("h = L.dropout(h, 0.3, seed=11)" if self.often(0.5) else "h = L.dropout(h, 0.3)")
        elif kind < 0.45:
            self.features.append("IfElse")
            self.say(f"""
branch = L.IfElse(L.less_than(L.slice(x, [1], [0], [1]), L.fill_constant_batch_size_like(x, [-1, 1], 'float32', 0.0)))
with branch.true_block():
    branch.output(L.scale(branch.input(h), 0.5))
with branch.false_block():
    branch.output(L.fc(branch.input(h), {size}, param_attr={self.attr(f'f{number}')}))
h = branch()[0]
""")
        elif kind < 0.53:
            self.features.append("While")
            self.say(f"""
i, n = L.fill_constant([1], 'int64', 0), L.fill_constant([1], 'int64', 3)
i.stop_gradient = n.stop_gradient = True
array = L.array_write(h, i)
go_on = L.less_than(i, n)
loop = L.While(go_on)
with loop.block():
    one = L.array_read(array, i)
    two = L.fc(one, {size}, act='tanh', param_attr={self.attr(f'l{number}')})
    L.increment(i, 1)
    L.array_write(two, i, array)
    L.less_than(i, n, cond=go_on)
h = L.array_read(array, n)
""")
        elif kind < 0.6:
            self.features.append("shared parameter")
            self.say(f"h = L.fc(h, {size}, param_attr='s{number}', bias_attr=False)\nh = L.fc(h, {size}, act='tanh', "
                     f"param_attr='s{number}', bias_attr=False)")

    def net(self) -> None:
        self.feeds, self.statistics, self.has_table = ["x", "y"], [], False
        self.say(f"x, y = L.data('x', [{WIDTH}]), L.data('y', [1])\nh = x")
        if self.often(0.08, "data_norm"):              # each trainer has statistics of what it reads
            self.is_sliced = False
            self.say("h = L.data_norm(h, name='norm', param_attr={'batch_size': 16.0, 'batch_square': 20.0})")
        if self.often(0.6):
            self.embedding()
        for number in range(self.random.randint(1, 3)):
            self.layer(number)
        if self.often(0.1, "fed persistable"):
            self.feeds.append("factor")
            self.say("factor = L.create_global_var([1], 1.0, 'float32', persistable=True, name='factor')\nh = L.elementwise_mul(h, factor)")
        self.has_py_func = self.often(0.15, "py_func")
        if self.has_py_func:
            self.skips = not self.lone_mode.startswith(ROUNDING) and self.often(0.7)
            self.say(PY_FUNC)
        self.say("p = L.fc(h, 1, param_attr='out.w', bias_attr='out.b')\nloss = L.mean(L.square_error_cost(p, y))")
        self.say("test = fluid.default_main_program().clone(for_test=True)")
        self.has_reader = "factor" not in self.feeds and self.often(0.2)
        if self.has_reader:
            self.say(f"started = fluid.io.PyReader([{', '.join(self.feeds)}], capacity=2, iterable=False)")

    def optimizer(self) -> None:
        rate = self.choose(RATES if not self.has_py_func else RATES[:1])     # in one process a schedule counts runs that failed, too
        self.rate_is_constant = rate == "0.05"
        if self.often(0.35, "clip"):
            self.say(f"fluid.clip.set_gradient_clip({self.choose(CLIPS)})")
        decay = f", regularization={self.choose(DECAYS)}" if self.often(0.2, "decay") else ""
        known = OF_TABLES if self.has_table else OPTIMIZERS
        if "max" in self.features:                     # the first step of Ftrl makes equal rows, and then rounding chooses the largest one
            known = [one for one in known if not one.startswith("Ftrl")]
        # its updates may run early, in the backward part
        made = self.choose(known + ["SGD({rate})"] * (4 * self.has_py_func)).format(rate=rate)
        made = made[:-1] + decay + ")"
        self.say(f"opt = fluid.optimizer.{made}\nopt.minimize(loss)")
        self.average = ""
        kind = self.random.random()
        if kind < 0.12 and not self.has_table:         # means of a table's rows are refused by name
            self.features.append("EMA")
            self.average = "fluid.optimizer.ExponentialMovingAverage(0.5)"
            self.say(f"average = {self.average}\naverage.update()")
        elif kind < 0.2 and not self.has_table:
            self.features.append("ModelAverage")
            self.average = "fluid.optimizer.ModelAverage(0.5, min_average_window=2, max_average_window=4)"
            self.say(f"average = {self.average}")
        elif kind < 0.26:
            self.features.append("a parameter assigned in the program")
            self.say("w = fluid.default_main_program().global_block().var('out.w')\nL.assign(L.clip(w, -0.4, 0.4), w)")

    # -- what the script does -------------------------------------------------------------------------

    def step(self) -> None:
        self.has_set = False
        self.steps += 1
        feeds = list(self.feeds)
        if "factor" in feeds and self.steps > 1:
            feeds.remove("factor")
        how = ""
        if self.often(0.15, "CompiledProgram"):
            how = ", fluid.CompiledProgram(main)"
        cut = self.random.choice([0, 1, 3, 4, 5, ROWS]) if self.is_sliced else ROWS
        if self.is_sliced and not self.lone_mode.startswith(ROUNDING) and self.often(0.06, "a step without rows"):
            how += ", rows=0"
        self.say(f"step({self.steps}, {cut}, {feeds}{how})")

    def action(self) -> None:
        kind = self.choose(["steps", "steps", "steps", "test", "look", "save", "infer", "set", "set", "rollback", "startup", "average",
                            "dataset", "meet", "states", "states", "rows", "apart", "apart", "mistake", "reader", "dataset", "dataset",
                            "started", "started", "started", "replicas", *["bad batch"] * (6 * self.has_py_func)], False)
        if kind == "steps":
            for _ in range(self.random.randint(1, 3)):
                self.step()
        elif kind == "test":
            self.say("try_out()")
        elif kind == "look":
            self.say("look()")
        elif kind in ("save", "infer") and (self.has_table and self.saves or self.has_py_func and kind == "infer"):
            self.step()                                # a table is written in 1,024 shards: once is enough
        elif kind == "save":
            self.features.append("save")
            self.saves += 1
            self.say(f"save({self.saves})")
        elif kind == "infer":
            self.features.append("inference in a new scope")
            self.saves += 1
            self.say(f"infer({self.saves})")
        elif kind == "set" and self.often(0.5):
            self.has_set = True
            what = "rate" if self.rate_is_constant else self.random.choice(["out.w", "w0"])
            if what == "rate" and self.often(0.7):
                self.features.append("a rate set between steps")
                self.say("set_value(opt._global_learning_rate().name, [0.01])")
            else:
                self.features.append("a parameter set between steps")
                self.say(f"scale_value({what.replace('rate', 'out.w')!r}, 0.5)")
        elif kind == "rollback" and self.saves and not self.has_table and self.often(0.9, "load between steps"):
            self.has_set = True
            self.say(f"load({self.random.randint(1, self.saves)})")
        elif kind == "startup" and not self.has_table and self.often(0.4, "startup again"):
            self.has_set = True
            self.say("exe.run(fluid.default_startup_program())")
        elif kind == "average" and self.average:
            self.say("averaged()")
        elif kind == "dataset":
            self.dataset()
        elif kind == "apart" and self.is_sliced and not self.average and self.often(0.8, "one trainer has more batches"):
            self.apart()
        elif kind == "mistake":
            self.features.append("a mistake that the script catches")
            self.say("mistake()")
        elif kind == "reader" and set(self.feeds) <= {"x", "y", "ids"} and self.often(0.7, "PyReader"):
            first, self.steps = self.steps + 1, self.steps + self.random.randint(1, 2)
            self.has_set = False
            self.say(f"read({first}, {self.steps}, {self.random.choice([1, 3, 4]) if self.is_sliced else ROWS})")
        elif kind == "started" and self.has_reader:
            self.started()
        elif kind == "replicas":
            self.replicas()
        elif kind == "bad batch" and self.has_py_func:
            self.bad_batch()
        elif kind == "states":
            self.look_at_states()
        elif kind == "meet":
            self.features.append("a collective")
            self.say("note('sum', D.all_reduce(1.0, op='mean'))\nD.barrier()")
        elif kind == "rows" and self.has_table and self.often(0.5, "rows by key between steps"):
            self.say("fluid.io.set_table_rows('rows', [2], np.ones((1, 3), 'float32'))")

    def look_at_states(self) -> None:
        """Read the optimizer's state, which servers have in a job."""
        kind = self.choose(["read", "test", "program", "file", "step", "half"], False)
        self.features.append(f"an optimizer's state: {kind}")
        self.states += 1
        if kind == "half":
            self.has_set = True
            self.say("halve_states()")
        elif kind != "step":
            self.say(f"note_states({self.states}, {kind!r}, {self.feeds})")
        else:
            self.has_set = False
            self.steps += 1
            cut = self.random.choice([1, 3, 4, 5, ROWS]) if self.is_sliced else ROWS
            self.say(f"step_with_states({self.steps}, {cut}, {[one for one in self.feeds if one != 'factor' or self.steps == 1]})")

    def dataset(self) -> None:
        """Passes over files."""
        if not set(self.feeds) <= {"x", "y", "ids"}:
            return
        kind = self.choose(["batches", "in memory", "shuffled", "two data sets", "two data sets at once", "tested", "tasks",
                            "tasks"], False)
        if kind == "tasks" and self.average:           # a trainer's means are of its own batches
            kind = "batches"
        if kind == "tasks":                            # trainers have batches of their own
            self.has_tasks = self.is_own = True
        elif not self.is_sliced:
            return
        self.features += ["a pass of a dataset", f"a dataset: {kind}"]
        self.passes += 2
        self.has_set = False
        self.say(f"train_pass({self.passes}, {self.feeds}, {self.random.randint(1, 20)}, {kind!r}, {self.random.randint(1, 2)})")

    def started(self) -> None:
        """A pass of a reader that the program holds."""
        kind = self.choose(["batches", "lists of samples", "samples"] if "seq" not in self.feeds else ["lists of samples"], False)
        self.features.append(f"a started reader of {kind}")
        first, self.steps = self.steps + 1, self.steps + self.random.randint(1, 3)
        self.has_set = False
        self.say(f"start({first}, {self.steps}, {self.random.choice([1, 3, 4]) if self.is_sliced else ROWS}, {kind!r}, "
                 f"{self.often(0.2, 'a reader is reset')})")

    def replicas(self) -> None:
        """A step of replicas of the program. Each has statistics, and a loss, of its slice."""
        if "seq" in self.feeds and self.often(0.5):
            return
        kind = self.choose(["ParallelExecutor", "with_data_parallel"])
        self.steps += 1
        self.has_set = False
        cut = self.random.choice([0, 1, 3, 4, ROWS]) if self.is_sliced else ROWS
        self.say(f"step_of_replicas({self.steps}, {cut}, {[one for one in self.feeds if one != 'factor' or self.steps == 1]}, {kind!r})")

    def bad_batch(self) -> None:
        """A batch whose backward part raises; the script catches that, and takes the batch again."""
        self.steps += 1
        self.features.append("an exception in the backward part" + ", skipped" * self.skips)
        if "SGD({rate})" in self.features:
            self.features.append("an exception in the backward part of SGD")
        who = self.random.choice([0, 1, 2]) if self.is_sliced else 2       # 2: all
        cut = self.random.choice([1, 3, 4, 5]) if self.is_sliced else ROWS
        self.say(f"bad_batch({self.steps}, {cut}, {[one for one in self.feeds if one != 'factor' or self.steps == 1]}, {who})")

    def apart(self) -> None:
        """Steps of one trainer, while the other one waits in a collective or a save."""
        who = self.random.randint(0, 1)
        for _ in range(self.random.randint(1, 3)):
            self.steps += 1
            self.say(f"apart({self.steps}, {who}, {[one for one in self.feeds if one != 'factor' or self.steps == 1]})")
        end = self.random.choice(["meet", "save", "infer"][:2 + (not self.has_py_func)]) if who == 0 else "meet"
        if end == "meet":
            self.say("D.barrier()")
        else:
            self.saves += 1
            self.say(f"{end}({self.saves})")

    def script(self, seed: int) -> Script:
        self.say(HEAD)
        self.net()
        self.optimizer()
        self.say(DATA.format(seed=seed, rows=ROWS, width=WIDTH, keys=KEYS))
        build = self.text()
        self.say(TOOLS.format(seed=seed, rows=ROWS, width=WIDTH, keys=KEYS, sliced=self.is_sliced, statistics=self.statistics,
                              feeds=self.feeds, table=self.has_table))
        self.steps = self.saves = self.passes = self.states = 0
        if self.has_py_func and self.skips:
            self.say("if D.is_distributed():\n    D.set_on_nan('skip')")
        if self.often(0.15, "set before the first step"):
            self.say("scale_value('out.w', 2.0)")
        if self.has_table and self.often(0.3, "rows by key"):
            self.say("fluid.io.set_table_rows('rows', [3, 1], np.full((2, 3), 0.25, 'float32'))")
        if self.often(0.1, "save before the first step"):
            self.saves += 1
            self.say(f"save({self.saves})")
        self.step()
        for _ in range(self.random.randint(2, 5)):
            self.action()
        self.step()
        self.say("look()\ntry_out()")
        if self.often(0.3):
            self.look_at_states()
        if "batch_norm" in self.features and self.lone_mode.startswith(ROUNDING):
            # the gradient of a bias ahead of batch_norm is rounding alone, which Adam makes a whole step of
            self.lone_mode = "async"
        if self.has_tasks and self.often(0.4, "leased tasks of two trainers"):
            self.shared_mode = self.choose(["async", "ssp(1)"], False)
        return Script(seed, build, self.text(), self.lone_mode, self.shared_mode, self.is_own, self.is_sliced, self.features)


def make_script(seed: int) -> Script:
    return _Maker(seed).script(seed)


__all__ = ["Script", "make_script", "ROUNDING"]
