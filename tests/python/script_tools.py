"""What random scripts (script_maker.py) are made of besides their nets: the functions that they call, each a thing that users do."""

from __future__ import annotations

HEAD = """
import functools, os
os.environ["CPU_NUM"] = "2"
fluid.default_main_program().random_seed = fluid.default_startup_program().random_seed = 5
"""

DATA = """
@functools.lru_cache(None)
def data(number):
    r = np.random.default_rng([{seed}, number])
    a = r.normal(size=({rows}, {width})).astype("float32")
    lengths = r.integers(1, 4, {rows})
    return {{"x": a, "y": a.sum(1, keepdims=True), "ids": r.integers(0, {keys}, ({rows}, 1)), "factor": np.float32([0.5 + number % 3]),
            "seq": [r.integers(0, {keys}, (n, 1)) for n in lengths]}}
for number in (*range(1, 12), 1000):
    data(number)
"""

TOOLS = """
exe, me, count = fluid.Executor(), D.trainer_index(), D.trainer_count()
exe.run(fluid.default_startup_program())
main, scope = fluid.default_main_program(), fluid.global_scope()
def feed_of(number, names, begin, end):
    found = {{}}
    for name in names:
        value = data(number)[name]
        if name == "seq":
            value = value[begin:end]
            flat = np.concatenate(value) if value else np.zeros((0, 1), "int64")
            found[name] = fluid.create_lod_tensor(flat, [[len(one) for one in value]], fluid.CPUPlace())
        else:
            found[name] = value if name == "factor" else value[begin:end]
    return found
def step(number, cut, names, program=main, rows={rows}):
    begin, end = (0, rows) if count == 1 or not {sliced} else (0, min(cut, rows)) if me == 0 else (min(cut, rows), rows)
    cost, = exe.run(program, feed=feed_of(number, names, begin, end), fetch_list=[loss])
    note("loss of step %d" % number, np.array(cost))
def read(first, last, cut):
    reader = fluid.io.PyReader([main.global_block().var(one) for one in {feeds}], capacity=2, iterable=True)
    begin, end = (0, {rows}) if count == 1 or not {sliced} else (0, cut) if me == 0 else (cut, {rows})
    def batches():
        for number in range(first, last + 1):
            found = feed_of(number, {feeds}, begin, end)
            yield [found[one] for one in {feeds}]
    reader.decorate_batch_generator(batches, fluid.CPUPlace())
    for feed in reader():
        cost, = exe.run(main, feed=feed, fetch_list=[loss])
        note("loss of a batch", np.array(cost))
def mistake():
    try:
        exe.run(main, feed={{"y": data(1)["y"]}}, fetch_list=[loss])
    except fluid.core.PeerError:
        raise                                          # the job has ended already, by another trainer's batch
    except Exception as error:
        note("mistake " + type(error).__name__, np.zeros(1))
def apart(number, who, names):
    if count == 1 or me == who:
        exe.run(main, feed=feed_of(number, names, 0, {rows}))
def value(name):
    return np.array(scope.find_var(name).get_tensor())
def parameters():
    return [one.name for one in main.all_parameters() if one.name != "rows" or not {table}]
def look():
    for name in parameters() + {statistics}:
        note(name, value(name))
def states():
    return sorted({{name for op in main.global_block().ops for slot in op.output_names for name in op.output(slot)
                    if op.input("Param") and name not in parameters() and not name.startswith("rows") and scope.find_var(name) is not None}})
def note_states(number, how, feeds):
    names = states()
    if how == "test":
        fetched = exe.run(test, feed=feed_of(1000, [one for one in {feeds} if one != "factor"], 0, {rows}), fetch_list=[p, *names])[1:]
    elif how == "program":
        some = fluid.Program()
        with fluid.program_guard(some):
            fetched = [L.scale(some.global_block().create_var(name=one, shape=main.global_block().var(one).shape, dtype="float32", persistable=True), 1.0) for one in names]
        fetched = exe.run(some, fetch_list=fetched)
    elif how == "file":
        place = "%s/states%d" % (folder, number)
        fluid.io.save_vars(exe, place, main, vars=names)
        D.barrier()
        with fluid.scope_guard(fluid.Scope()):
            if names:
                fluid.io.load_vars(exe, place, main, vars=names)
            fetched = [np.array(fluid.global_scope().find_var(one).get_tensor()) for one in names]
        D.barrier()
    else:
        fetched = [value(one) for one in names]
    for name, found in zip(names, fetched):
        note("state " + name, np.array(found))
def step_with_states(number, cut, feeds):
    begin, end = (0, {rows}) if count == 1 or not {sliced} else (0, cut) if me == 0 else (cut, {rows})
    cost, *found = exe.run(main, feed=feed_of(number, feeds, begin, end), fetch_list=[loss, *states()])
    note("loss of step %d" % number, np.array(cost))
    for name, one in zip(states(), found):
        note("state " + name, np.array(one))
def halve_states():
    for name in states():
        array = scope.find_var(name).get_tensor().numpy()
        array *= np.float32(0.5)
def try_out():
    cost, out = exe.run(test, feed=feed_of(1000, [one for one in {feeds} if one != "factor"], 0, {rows}), fetch_list=[loss, p])
    note("test", np.array(out))
def set_value(name, new):
    scope.find_var(name).get_tensor().set(np.array(new, "float32"), fluid.CPUPlace())
def scale_value(name, by):
    if scope.find_var(name) is not None:
        set_value(name, value(name) * np.float32(by))
def save(number):
    fluid.io.save_persistables(exe, "%s/save%d" % (folder, number), main)
    with fluid.scope_guard(fluid.Scope()):
        exe.run(fluid.default_startup_program())
        fluid.io.load_params(exe, "%s/save%d" % (folder, number), main)
        for name in parameters():
            note("saved " + name, np.array(fluid.global_scope().find_var(name).get_tensor()))
    D.barrier()
def load(number):
    if os.path.exists("%s/save%d/out.w" % (folder, number)):
        fluid.io.load_persistables(exe, "%s/save%d" % (folder, number), main)
def infer(number):
    names = [one for one in {feeds} if one not in ("y", "factor")]
    fluid.io.save_inference_model("%s/infer%d" % (folder, number), names, [p], exe, main_program=test)
    with fluid.scope_guard(fluid.Scope()):
        program, names, targets = fluid.io.load_inference_model("%s/infer%d" % (folder, number), exe)
        out, = exe.run(program, feed=feed_of(1000, names, 0, {rows}), fetch_list=targets)
        note("inferred", np.array(out))
    D.barrier()
def averaged():
    with average.apply(exe):
        look()
    look()
def file_of(number, names, lines):
    path = "%s/pass%d.txt" % (folder, number)
    if me == 0:
        rows = [data(2000 + 10 * number + k // {rows}) for k in range(0, lines, {rows})]
        with open(path, "w") as out:
            for k in range(lines):
                one = rows[k // {rows}]
                out.write(" ".join("%d %s" % (one[name][k % {rows}].size, " ".join(repr(float(v)) if name != "ids" else str(v) for v in one[name][k % {rows}])) for name in names) + "\\n")
    return path
def train_pass(number, names, lines, kind, passes):
    files = [file_of(number, names, lines), file_of(number + 1, names, 20 - lines)]
    D.barrier()
    make = lambda path, **how: fluid.Dataset(path, "multislot", batch_size={rows}, slots=[main.global_block().var(one) for one in names], **how)
    if kind == "tasks":
        both = make(files, split="tasks", task_bytes=400)
        for one in range(passes):
            exe.train_from_dataset(main, both)
        note("lines of tasks", np.array(D.all_reduce(float(both.lines_read))))
        return
    one, two = make(files[0]), make(files[1])
    if kind in ("in memory", "shuffled"):
        one.load_into_memory()
    for epoch in range(passes):
        if kind == "shuffled":
            one.local_shuffle(3 + epoch)
        exe.train_from_dataset(main, one)
        if kind == "two data sets":
            exe.train_from_dataset(main, two)
        elif kind == "tested":
            exe.infer_from_dataset(test, two, fetch_list=[loss])
        elif kind == "two data sets at once":
            for pair in zip(one, two):
                for feed in pair:
                    exe.run(main, feed=feed, fetch_list=[loss])
def start(first, last, cut, kind, stops):
    begin, end = (0, {rows}) if count == 1 or not {sliced} else (0, cut) if me == 0 else (cut, {rows})
    def batches():
        for number in range(first, last + 1):
            found = feed_of(number, {feeds}, begin, end)
            yield [found[one] for one in {feeds}]
    def lists():
        for number in range(first, last + 1):
            yield [tuple(data(number)[one][k] for one in {feeds}) for k in range(begin, end)]
    def samples():
        for one in lists():
            yield from one
    if kind == "batches":
        started.decorate_batch_generator(batches, fluid.CPUPlace())
    elif kind == "samples":
        started.decorate_sample_generator(samples, end - begin, places=fluid.CPUPlace())
    else:
        started.decorate_sample_list_generator(lists, fluid.CPUPlace())
    started.start()
    try:
        while True:
            cost, = exe.run(main, fetch_list=[loss])
            note("loss of a batch", np.array(cost))
            if stops:
                break
    except fluid.core.EOFException:
        note("end of the reader", np.zeros(1))
    started.reset()
replicas_of = {{}}
def step_of_replicas(number, cut, names, kind):
    if kind not in replicas_of:
        if kind == "ParallelExecutor":
            replicas_of[kind] = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name, main_program=main).run
        else:
            program = fluid.CompiledProgram(main).with_data_parallel(loss.name, places=fluid.cpu_places(2))
            replicas_of[kind] = lambda fetch_list, feed: exe.run(program, feed=feed, fetch_list=fetch_list)
    begin, end = (0, {rows}) if count == 1 or not {sliced} else (0, cut) if me == 0 else (cut, {rows})
    replicas_of[kind]([loss.name], feed=feed_of(number, names, begin, end))
def bad_batch(number, cut, names, who):
    raises[0] = count == 1 or who in (me, 2)
    try:
        step(number, cut, names)
    except Exception as error:
        if "a bad batch" not in str(error):
            raise
        raises[0] = False
        step(number, cut, names)
    raises[0] = False
"""

PY_FUNC = """
raises = [False]
def backward(value, out, gradient):
    if raises[0]:
        raise ValueError("a bad batch")
    return np.array(gradient)
out = fluid.default_main_program().current_block().create_var(name="out", dtype="float32", shape=h.shape)
h = L.py_func(lambda value: np.array(value), h, out, backward_func=backward)
"""
