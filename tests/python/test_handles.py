"""Every class with native memory: copies, uses after the end, threads that race, finalisers at exit, and forked children.

The classes are found by looking at the package's sources and at its classes. A new one needs an entry in MAKERS, or this test fails by its
name.
"""

from __future__ import annotations

import ast
import copy
import gc
import importlib
import inspect
import pickle
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import trireme as fluid
from trireme import layers
from trireme._core import ffi
from trireme.errors import InvalidArgumentError, TriremeError
from trireme.native.checksums import Checksums
from trireme.native.handles import Handle, Native, Uncopied

PACKAGE = Path(fluid.errors.__file__).resolve().parent            # a build has links to the sources
FEED = {"x": np.ones((4, 2), "float32")}


def every_class(base):
    """Return the classes of the package below a base."""
    for path in PACKAGE.rglob("*.py"):
        if path.stem not in ("__main__", "__init__", "standby"):
            importlib.import_module(".".join(["trireme", *path.relative_to(PACKAGE).with_suffix("").parts]))
    found = [base]
    for one in found:
        found += [kind for kind in one.__subclasses__() if kind not in found]
    return {kind.__qualname__: kind for kind in found if kind.__module__.startswith("trireme.") and kind not in (Handle, Uncopied)}


# -- one of each ------------------------------------------------------------------------------------------------------


class World:
    """A small program with everything around it."""

    def __init__(self, folder):
        self.folder = folder
        self.program, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(self.program, startup):
            x = layers.data("x", [2])
            self.y = layers.fc(x, 1)
        self.scope, self.exe = fluid.Scope(), fluid.Executor()
        with fluid.scope_guard(self.scope):
            self.exe.run(startup)
            fluid.io.save_inference_model(str(folder / "model"), ["x"], [self.y], self.exe, main_program=self.program)
            fluid.io.save_checkpoint(self.exe, str(folder / "checkpoint"), main_program=self.program)
        (folder / "lines").write_text("".join(f"1 {i}\n" for i in range(400)))

    def run(self):
        return self.exe.run(self.program, feed=FEED, fetch_list=[self.y], scope=self.scope)

    def tensor(self):
        tensor = fluid.LoDTensor()
        tensor.set(np.arange(6, dtype="float32").reshape(3, 2))
        tensor.set_recursive_sequence_lengths([[1, 2]])
        return tensor

    def rows(self):
        rows = fluid.core.SelectedRows([4, 7], 10)
        rows.set(np.ones((2, 3), "float32"))
        return rows

    def array(self):
        array = fluid.LoDTensorArray()
        array.append(self.tensor())
        return array

    def scope_with_kids(self):
        scope = fluid.Scope()
        scope.var("w").get_tensor().set(np.ones(3, "float32"))
        scope.new_scope().var("v")
        return scope

    def dataset(self, kind=fluid.Dataset):
        data = kind(str(self.folder / "lines"), batch_size=7, slots=[fluid.Slot("id", dtype="int64", shape=[-1, 1])])
        next(iter(data))
        return data

    def manager(self):
        from trireme.distributed.core_manager import CoreManager
        from trireme.job.checkpoint_settings import Settings
        manager = CoreManager(Settings(), None)
        manager.begin(self.program, fluid.Scope(), {}, [])
        return manager


def opened(world):
    from trireme.checkpoint import newest
    return newest(world.folder / "checkpoint")


# A way to make one of each class, and a use of it. None in place of a maker: why there is none.
MAKERS = {
    "_Tensor": None,                                   # LoDTensor and SelectedRows are
    "Runner": None,                                    # an Executor is one
    "LoDTensor": (World.tensor, lambda it: (it.numpy().sum(), it.lod(), repr(it))),
    "_RowsValues": (lambda world: world.rows().get_tensor(), lambda it: it.numpy().sum()),
    "SelectedRows": (World.rows, lambda it: (it.to_dense().sum(), it.rows())),
    "LoDTensorArray": (World.array, lambda it: [one.numpy().sum() for one in it]),
    "Scope": (World.scope_with_kids, lambda it: (it.find_var("w").get_tensor().numpy().sum(), it.local_var_names())),
    "ProgramDesc": (lambda world: world.program.desc.clone(), lambda it: (it.num_blocks(), it.serialize_to_string())),
    "Executor": (lambda world: fluid.Executor(), lambda it: it.run(fluid.Program(), scope=fluid.Scope())),
    "Dataset": (World.dataset, lambda it: sum(len(batch["id"]) for batch in it)),
    "InMemoryDataset": (lambda world: world.dataset(fluid.feeds.InMemoryDataset), lambda it: (it.load_into_memory(), it.local_shuffle(1))),
    "QueueDataset": (lambda world: world.dataset(fluid.feeds.QueueDataset), lambda it: (next(iter(it)), it.lines_read)),
    "Predictor": (lambda world: fluid.serving.Predictor(world.folder / "model"), lambda it: (it.run(FEED), it.version, it.refresh())),
    "Checkpoint": (opened, lambda it: (it.verify(), [it[name].sum() for name in it.arrays])),
    "Checksums": (lambda world: Checksums(str(world.folder / "model")), lambda it: it.check(["__model__"])),
    "CoreManager": (World.manager, lambda it: (it.steps, it.at_end())),
    "CheckpointManager": None,                         # a CoreManager of a job, which lasts as long as the process
    "LocalCheckpointManager": None,                    # a CoreManager that train_from_dataset keeps
}


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def handles():
    return sorted(name for name, found in MAKERS.items() if found)


# -- nothing is forgotten ---------------------------------------------------------------------------------------------


def test_every_class_with_native_memory_has_an_entry_here():
    assert sorted(every_class(Handle)) == sorted(MAKERS)


def owns_memory(node):
    """Return whether a class keeps what the core gives: a Native, or what a call of the core returns as new."""
    for one in ast.walk(node):
        targets = one.targets if isinstance(one, ast.Assign) else [one.target] if isinstance(one, ast.AnnAssign) else []
        if any(isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
               for target in targets):
            for call in ast.walk(one):
                if isinstance(call, ast.Call) and ("Native" in ast.unparse(call.func)
                                                   or ast.unparse(call.func).endswith(("_new", "new_handle"))):
                    if not ast.unparse(call.func).startswith("ffi.new") or ast.unparse(call.func) == "ffi.new_handle":
                        return True
        if isinstance(one, ast.arg) and one.arg in ("ptr", "_ptr"):
            return True
    return False


def test_no_class_keeps_native_memory_by_itself():
    uncopied = set(every_class(Uncopied))
    found = [f"{path.relative_to(PACKAGE)}: {node.name}" for path in PACKAGE.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.ClassDef) and node.name not in uncopied | {"Native", "Handle", "Uncopied"} and owns_memory(node)]
    assert not found, f"make these classes trireme.native.Handle, or Uncopied where another object owns the memory: {found}"


def test_no_living_object_has_a_handle_that_copies_would_share(world):
    """What a run leaves behind: an object of ours with a pointer of the core's is a handle, or cannot be copied."""
    world.run()
    prepared = world.exe.prepare(world.program, feed=["x"], fetch_list=[world.y], scope=world.scope)
    prepared.run(FEED)
    things = [MAKERS[name][0](world) for name in handles()]
    found = set()
    for one in gc.get_objects():
        kind = type(one)
        if not str(kind.__module__).startswith("trireme.") or isinstance(one, (Uncopied, Native)):
            continue
        slots = [getattr(one, slot, None) for base in kind.__mro__ for slot in getattr(base, "__slots__", ()) if isinstance(slot, str)]
        for value in [*getattr(one, "__dict__", {}).values(), *slots]:
            if isinstance(value, Native) or (isinstance(value, ffi.CData) and "tr_" in repr(value) and "owning" not in repr(value)):
                found.add(kind.__qualname__)
    found -= {"_Feed", "_Follower"}                    # memory of Prepared; a retained use
    assert things and not found


# -- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", handles())
def test_a_copy_counts_or_is_refused_by_name(world, name):
    make, use = MAKERS[name]
    for doing in (copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))):
        one = make(world)
        try:
            copied = doing(one)
        except TypeError as error:
            assert re.match(rf"an? {type(one).__name__} cannot be (copied|pickled): it is bound to memory of the core\. [A-Z]",
                            str(error)), error
            use(one)
            continue
        use(copied)
        del one
        gc.collect()
        use(copied)


def test_copies_of_objects_over_handles_are_refused_in_the_same_words(world):
    prepared = world.exe.prepare(world.program, feed=["x"], fetch_list=[world.y], scope=world.scope)
    block = world.program.global_block()
    for one in (world.program, block, block.ops[0], world.y, world.y.desc, block.ops[0].desc, block.desc, prepared, world.scope.var("v"),
                fluid.CompiledProgram(world.program)):
        for doing in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=rf"an? {type(one).__name__} cannot be (copied|pickled)"):
                doing(one)


def test_a_shallow_copy_of_a_tensor_is_another_handle_and_a_deep_one_has_values_of_its_own(world):
    tensor = world.tensor()
    shallow, deep = copy.copy(tensor), copy.deepcopy(tensor)
    tensor.set(np.zeros((3, 2), "float32"))
    assert shallow.numpy().sum() == 0 and deep.numpy().sum() == 15 and deep.lod() == shallow.lod() == [[0, 1, 3]]
    rows = copy.deepcopy(world.rows())
    assert (rows.rows(), rows.height(), rows.numpy().sum()) == ([4, 7], 10, 6)
    pending = copy.copy(fluid.core.SelectedRows([1, 2], 5))
    assert (pending.rows(), pending.height()) == ([1, 2], 5)
    unset = pickle.loads(pickle.dumps(fluid.LoDTensor()))
    assert repr(unset) == "LoDTensor(not set)"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "uint8", "int8", "bool"])
def test_a_pickled_tensor_has_the_same_type_shape_and_values(dtype):
    tensor = fluid.LoDTensor()
    tensor.set(np.arange(6).reshape(1, 3, 2).astype(dtype))
    found = pickle.loads(pickle.dumps(tensor))
    assert found.numpy().dtype == dtype and np.array_equal(found.numpy(), tensor.numpy())


def test_a_pickled_tensor_of_bfloat16_stays_one():
    tensor = fluid.LoDTensor()
    tensor.set(np.array([0x3f80, 0x7fc0, 0x4049], np.uint16))
    for found in (pickle.loads(pickle.dumps(tensor)), copy.deepcopy(tensor)):
        assert found._dtype() == tensor._dtype() and found.numpy()[[0, 2]].tolist() == tensor.numpy()[[0, 2]].tolist()


def test_a_copied_dataset_reads_for_itself(world):
    data = world.dataset()
    other = copy.copy(data)
    assert [a["id"].tolist() == b["id"].tolist() for a, b in zip(data, other)] == [True] * 58


# -- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", handles())
def test_a_closed_object_says_so_and_is_closed_once(world, name):
    make, _use = MAKERS[name]
    one = make(world)
    assert one._let_go()
    assert not one._let_go()
    one.__del__()
    if not isinstance(one, fluid.Dataset):             # which is made anew
        with pytest.raises(InvalidArgumentError, match=f"this {type(one).__name__} is closed.*\n  your line: .*test_handles.py"):
            one._native.ptr


def classes_that_end():
    """Return every class of the package whose end Python calls: those with native memory."""
    every_class(Handle)                                # imports all modules
    return [kind for module in list(sys.modules.values()) if (getattr(module, "__name__", "") + ".").startswith("trireme.")
            for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__
            and any("__del__" in vars(base) for base in kind.__mro__ if base.__module__.startswith("trireme.")) and kind is not Handle]


def test_an_object_that_was_never_made_ends_quietly():
    """As it does where the ``__init__`` of a subclass raises before ours."""
    found = classes_that_end()
    assert {*every_class(Handle).values(), fluid.core.OpDesc} <= set(found)
    for kind in found:
        for name in ("close", "__del__", "_let_go"):
            one = kind.__new__(kind)
            if callable(end := getattr(one, name, None)) and not inspect.signature(end).parameters:
                try:
                    end()
                except Exception as error:
                    pytest.fail(f"{kind.__qualname__}.{name}(): {error!r}")


def test_an_operator_without_a_possible_name_ends_quietly(recwarn):
    for name in (3, None, "a\0b"):
        with pytest.raises((TypeError, ValueError)):
            fluid.core.OpDesc(name)
    gc.collect()
    assert [str(one.message) for one in recwarn] == []


def test_a_native_that_was_freed_is_neither_used_nor_counted():
    freed = []
    native = Native("memory", freed.append, owner="Thing")
    with native as ptr:
        native.release()
        assert ptr == "memory" and not freed
    assert freed == ["memory"]
    for use in (lambda: native.ptr, native.retain, native.__enter__):
        with pytest.raises(InvalidArgumentError, match="this Thing is closed"):
            use()


def test_a_closed_predictor_says_so_in_every_call(world):
    predictor = fluid.serving.Predictor(world.folder / "model")
    predictor.follow(0.01)
    predictor.close()
    predictor.close()
    for use in (lambda: predictor.run(FEED), lambda: predictor.version, lambda: predictor.step, predictor.refresh, predictor.follow):
        with pytest.raises(InvalidArgumentError, match="this Predictor is closed"):
            use()
    assert "Predictor" in repr(predictor) and predictor.shape_of("x")


def test_a_handle_of_an_erased_variable_is_an_unset_tensor():
    scope = fluid.Scope()
    var = scope.var("w")
    tensor, array = var.get_tensor(), scope.var("a").get_lod_tensor_array()
    tensor.set(np.ones((100, 100), "float32"))
    array.append(tensor)
    item, view = array[0], tensor.numpy()
    scope.erase(["w", "a"])
    others = [fluid.LoDTensor() for _ in range(20)]
    for other in others:
        other.set(np.full((100, 100), 7, "float32"))
    assert view.sum() == 10000 and var.kind() is None and len(array) == 0
    assert repr(tensor) == repr(item) == "LoDTensor(not set)"
    scope.var("w").get_tensor().set(np.zeros(3, "float32"))
    assert tensor.shape() == [3]


# -- threads ----------------------------------------------------------------------------------------------------------


def race(*works, seconds=0.15):
    """Run each of the works again and again in a thread of its own; return what they have raised that is no error of ours."""
    bad, over = [], threading.Event()

    def repeat(work):
        while not over.is_set():
            try:
                work()
            except (TriremeError, StopIteration):
                pass
            except BaseException as error:
                bad.append(error)
                return

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    over.wait(seconds)
    over.set()
    for thread in threads:
        thread.join()
    return bad


@pytest.mark.parametrize("name", handles())
def test_threads_use_and_let_go_of_one_object(world, name):
    """Threads share an object of each class: some use it, one replaces it, so that the last one to hold it finalises it."""
    make, use = MAKERS[name]
    shared = [make(world)]

    def replace():
        shared[0] = make(world)

    assert race(replace, lambda: use(shared[0]), lambda: use(shared[0]), gc.collect) == []


def test_threads_run_a_predictor_that_others_close_and_follow(world):
    shared = [fluid.serving.Predictor(world.folder / "model")]

    def replace():
        shared[0].close()
        shared[0] = fluid.serving.Predictor(world.folder / "model")

    run = lambda: shared[0].run(FEED)
    assert race(replace, run, run, lambda: shared[0].close(), lambda: shared[0].follow(0.001), lambda: shared[0].refresh(),
                seconds=0.5) == []


def test_threads_go_over_a_dataset_that_others_set_anew(world):
    data = world.dataset()
    through = lambda: [len(batch["id"]) for batch in data]
    assert race(through, through, lambda: data.set_batch_size(5), lambda: data.lines_read, data.release_memory, data.load_into_memory,
                seconds=0.5) == []


def test_a_pass_that_another_one_has_ended_says_so(world):
    data = world.dataset()
    first = iter(data)
    next(first)
    assert sum(len(batch["id"]) for batch in data) == 400
    with pytest.raises(InvalidArgumentError, match="this pass over the Dataset is over: another pass has begun"):
        next(first)


# -- processes --------------------------------------------------------------------------------------------------------

SCRIPT = """
import os, sys, threading
import numpy as np
import trireme as fluid
from pathlib import Path
sys.path.insert(0, {tests!r})
import test_handles as t
world = t.World(Path({folder!r}))
world.run()
things = [t.MAKERS[name][0](world) for name in t.handles()]
things[t.handles().index("Predictor")].follow(0.001)
endless = iter(world.dataset())
next(endless)
circle = [things, endless, world]
circle.append(circle)
"""


def script(world, end):
    text = SCRIPT.format(tests=str(Path(__file__).parent), folder=str(world.folder / "own")) + end
    (world.folder / "own").mkdir()
    return subprocess.run([sys.executable, "-X", "faulthandler", "-c", text], check=False, capture_output=True, text=True, timeout=120)


def test_handles_that_live_until_the_exit_end_quietly(world):
    done = script(world, "sys.kept = circle\nprint('end')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_forked_child_uses_finalises_and_exits(world):
    done = script(world, """
import signal
pid = os.fork()
if pid == 0:
    signal.alarm(60)
    for name, one in zip(t.handles(), things):
        t.MAKERS[name][1](one)
    things[t.handles().index("Predictor")].follow(0.001)
    things[t.handles().index("Predictor")].close()
    try:
        next(endless)
    except fluid.errors.InvalidArgumentError as error:
        print(error, flush=True)
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and done.stderr == "" and lines[-1] == "7"
    assert lines[0].startswith("this Dataset was being read when process")


def test_a_child_that_is_forked_while_threads_run_a_predictor_runs_it(world):
    done = script(world, """
import signal
predictor, over = things[t.handles().index("Predictor")], threading.Event()
def run():
    while not over.is_set():
        predictor.run(t.FEED)
threads = [threading.Thread(target=run) for _ in range(3)]
[thread.start() for thread in threads]
codes = []
for _ in range(30):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        predictor.run(t.FEED)
        predictor.close()
        os._exit(7)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
over.set()
[thread.join() for thread in threads]
print(set(codes))
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "{7}\n", "")
