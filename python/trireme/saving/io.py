"""Saving and loading: variables, parameters, whole models for inference.

Variables are written by the operators ``save`` and ``save_combine`` in the format of Fluid 1.x, one file each or
all in one (``filename``). A program's file holds its serialised description. In a job, whose trainers have the same
parameters, trainer 0 writes for all; the others' calls return when the files are complete (``distributed/saves.py``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .._core import lib
from ..job.session import session
from ..native import checksums
from ..native.dtypes import VarType
from ..native.errors import DTypeError, FormatError, InvalidArgumentError, NotFoundError, ShapeError, check, user_line
from ..native.files import new_file, path_inside
from ..native.names import path_chars
from ..native.tensor import LoDTensor
from ..native.scope import Scope
from ..parameters.sparse_table import table_names
from ..parameters.table_files import save_table
from ..program import Parameter, Program, Variable, default_main_program
from ..program.variable import is_persistable
from ..program.desc import ProgramDesc
from ..run.runner import Runner
from ..run.scopes import fetch_var, global_scope
from .pretrained import load_from_tables, load_rows

if TYPE_CHECKING:
    from .slot_file import Given


def is_parameter(var: Variable) -> bool:
    """Return whether a variable is a parameter.

    ``var`` is any Variable.

    >>> x = fluid.layers.data("x", [2])
    >>> w = fluid.layers.create_parameter([2], "float32", "w")
    >>> fluid.io.is_parameter(x), fluid.io.is_parameter(w)
    (False, True)
    """
    return isinstance(var, Parameter)


def _chosen(program: Program | None, vars: Iterable[Any] | None, predicate: Callable[[Variable], bool] | None,
            what: str) -> list[Variable]:
    program = default_main_program() if program is None else program
    if not isinstance(program, Program):
        raise TypeError(f"{what}: main_program must be a Program, got {program!r}")
    if vars is None:
        if predicate is None:
            raise ValueError(f"{what}: say which variables by vars or predicate")
        chosen = [var for var in program.list_vars() if predicate(var)]
    else:
        chosen = [program.global_block().var(var) if isinstance(var, str) else var for var in vars]
    return sorted({var.name: var for var in chosen}.values(), key=lambda var: var.name)


def _apart(chosen: list[Variable], program: Program | None) -> tuple[list[Variable], list[str]]:
    """Return the variables that hold tensors, and the names of those that are sparse tables."""
    tables = table_names(default_main_program() if program is None else program)
    return [var for var in chosen if var.name not in tables], [var.name for var in chosen if var.name in tables]


def _once(call: str, path: Any, write: Callable[[], None]) -> None:
    """Call ``write``; in a job on trainer 0, and the others wait for that."""
    if session.steps_of_process() is None:
        write()
        return
    from ..distributed.saves import once  # in one process it is not needed

    once(call, path, write)


def _copy_of(block: Any, var: Variable) -> Variable:
    copy: Variable = block.create_var(name=var.name, type=var.type, dtype=var.dtype, shape=var.shape or None,
                                      lod_level=var.lod_level, persistable=True)
    return copy


def _path_of(dirname: str, filename: str) -> str:
    """Return the path of a file that the caller named, and not a program: it may lie anywhere, but is no link to another folder."""
    return path_inside(*os.path.split(os.path.join(dirname, filename)))


def _files_of(chosen: list[Variable], filename: str | None) -> list[str]:
    """Return the files in a folder that hold variables. A file that the caller has put elsewhere is none of them."""
    if filename is None:
        return [var.name for var in chosen]
    name = os.fspath(filename)
    return [name] if not os.path.isabs(name) and os.pardir not in name.split(os.sep) else []


def save_vars(executor: Runner, dirname: str, main_program: Program | None = None,
              vars: Iterable[Any] | None = None, predicate: Callable[[Variable], bool] | None = None,
              filename: str | None = None) -> None:
    """Write variables into a folder: one file each, named as they are, or all into ``filename``.

    A ``/`` in a name leads to a folder in it. A name that would lead out of ``dirname`` raises InvalidArgumentError. A sparse table is a
    folder of its own in that: ``about.json``, and ``rows-00.npy`` and so on, which NumPy reads. In a job all
    trainers make this call, or trainer 0 alone; it returns when the files are complete, and fails on all trainers where trainer 0 cannot
    write them (``FileError``).

    ``vars`` is a list of Variables or names. None: those of the program for which ``predicate(variable)`` is true.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line")
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> fluid.io.save_vars(exe, "biases", predicate=lambda var: var.name.endswith(".b_0"))
    >>> import os
    >>> os.listdir("biases")
    ['line.b_0']
    """
    chosen, tables = _apart(_chosen(main_program, vars, predicate, "save_vars"), main_program)
    if chosen or tables:
        _once("save_vars", os.path.join(dirname, filename or ""), lambda: _write_vars(executor, dirname, chosen, tables, filename))


def _write_vars(executor: Runner, dirname: str, chosen: list[Variable], tables: list[str], filename: str | None) -> None:
    from ..stores.copies import writable

    with writable(dirname, _files_of(chosen, filename) if chosen else ()) as local:
        _write_files(executor, local, chosen, tables, filename)


def _write_files(executor: Runner, dirname: str, chosen: list[Variable], tables: list[str], filename: str | None) -> None:
    os.makedirs(dirname or ".", exist_ok=True)
    for name in tables:
        save_table(global_scope(), name, path_inside(dirname, name))
    if not chosen:
        return
    program = Program()
    block = program.global_block()
    copies = [_copy_of(block, var) for var in chosen]
    if filename is not None:
        block.append_op(type="save_combine", inputs={"X": copies}, attrs={"file_path": _path_of(dirname, filename)})
    else:
        for var in copies:
            block.append_op(type="save", inputs={"X": [var]}, attrs={"file_path": path_inside(dirname, var.name)})
    executor.run(program)
    checksums.renew(dirname or ".", _files_of(chosen, filename))


def load_vars(executor: Runner, dirname: str, main_program: Program | None = None,
              vars: Iterable[Any] | None = None, predicate: Callable[[Variable], bool] | None = None,
              filename: str | None = None) -> None:
    """Read variables that ``save_vars`` wrote, into the global scope: all of them, or none when one does not fit.

    Each is read into the memory that the variable has, so loading takes no more of it. An array of NumPy that shares that memory keeps its
    values.
    Nothing outside of ``dirname`` is read, whatever the variables' names or symbolic links say (InvalidArgumentError).
    In a job all trainers make this call, before the same step; the rows of tables are those that trainer 0 reads. Some modes allow tables
    before the first step alone (docs/distributed.md).

    ``vars`` is a list of Variables or names. None: those of the program for which ``predicate(variable)`` is true.

    FileError: a file is missing. ShapeError and DTypeError: a file does not fit its variable.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line")
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> fluid.io.save_vars(exe, "model", vars=["line.w_0"])
    >>> fluid.io.load_vars(exe, "model", vars=["line.w_0"])
    """
    from ..stores.copies import readable

    wanted = _chosen(main_program, vars, predicate, "load_vars")
    with readable(dirname, _is_no_part) as local:
        _load_vars(executor, local, main_program, wanted, filename, checksums.Checksums(local or "."))


def _is_no_part(name: str) -> bool:
    """Return whether a file of a store is copied to this host. Parts of tables are not: each server reads them from the store."""
    return not re.search(r"/rows-\d+\.npy$", name)


def _load_vars(executor: Runner, dirname: str, main_program: Program | None, wanted: list[Variable], filename: str | None,
               sums: checksums.Checksums) -> None:
    chosen, tables = _apart(wanted, main_program)
    folders = {name: path_inside(dirname, name) for name in tables}
    if not chosen:
        for name, folder in folders.items():
            load_rows(global_scope(), name, folder)
        return
    if filename is None:
        chosen = load_from_tables(global_scope(), dirname, chosen)
        if not chosen:
            return
    paths = [path_inside(dirname, var.name) for var in chosen] if filename is None else [_path_of(dirname, filename)]
    sums.check(_files_of(chosen, filename))
    _scan(chosen, paths, dirname)
    for name, folder in folders.items():
        load_rows(global_scope(), name, folder)
    program = Program()
    block = program.global_block()
    copies = [_copy_of(block, var) for var in chosen]
    if filename is not None:
        block.append_op(type="load_combine", outputs={"Out": copies}, attrs={"file_path": paths[0]})
    else:
        for var, path in zip(copies, paths):
            block.append_op(type="load", outputs={"Out": [var]}, attrs={"file_path": path})
    executor.run(program)


def _scan(chosen: list[Variable], paths: list[str], dirname: str) -> None:
    """Look at the beginnings of all records, which one file or several have, before a variable changes: each fits its variable."""
    forms = [LoDTensor() for _ in chosen]
    each = len(chosen) // len(paths)
    for i, path in enumerate(paths):
        mine = slice(i * each, (i + 1) * each)
        names = ", ".join(var.name for var in chosen[mine])
        check(lib.tr_tensor_scan([form._ptr for form in forms[mine]], each, path_chars(path)), f"for {names[:200]}")
    for var, form in zip(chosen, forms):
        _check_fit(var, form, dirname)


def _check_fit(var: Variable, tensor: LoDTensor, dirname: str) -> None:
    want, got = var.desc.shape(), tensor.shape()
    if len(want) != len(got) or any(a >= 0 and a != b for a, b in zip(want, got)):
        raise ShapeError(f"{var.name} in {dirname!r} has the shape {got}, the program wants {want}")
    if var.dtype is not None and tensor._dtype() != var.dtype:
        raise DTypeError(f"{var.name} in {dirname!r} is {tensor._dtype()}, the program wants {var.dtype}")


def save_params(executor: Runner, dirname: str, main_program: Program | None = None,
                filename: str | None = None) -> None:
    """Write all parameters.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line")
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> fluid.io.save_params(exe, "model")
    >>> import os
    >>> sorted(os.listdir("model"))
    ['line.b_0', 'line.w_0']
    """
    save_vars(executor, dirname, main_program, predicate=is_parameter, filename=filename)


def load_params(executor: Runner, dirname: str, main_program: Program | None = None,
                filename: str | None = None) -> None:
    """Read all parameters.

    Errors are those of ``load_vars``.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line")
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> fluid.io.save_params(exe, "model", filename="params")
    >>> fluid.io.load_params(exe, "model", filename="params")
    """
    load_vars(executor, dirname, main_program, predicate=is_parameter, filename=filename)


def save_persistables(executor: Runner, dirname: str, main_program: Program | None = None,
                      filename: str | None = None) -> None:
    """Write all that persists: parameters, and what optimizers and schedules remember.

    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line", bias_attr=False))
    >>> _ = fluid.optimizer.Momentum(0.1, momentum=0.9).minimize(loss)
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> fluid.io.save_persistables(exe, "state")
    >>> import os
    >>> sorted(os.listdir("state"))
    ['learning_rate_0', 'line.w_0', 'line.w_0_velocity_0']
    """
    save_vars(executor, dirname, main_program, predicate=is_persistable, filename=filename)


def load_persistables(executor: Runner, dirname: str, main_program: Program | None = None,
                      filename: str | None = None) -> None:
    """Read all that persists: training goes on where it was.

    Errors are those of ``load_vars``.

    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1))
    >>> _ = fluid.optimizer.Momentum(0.1, momentum=0.9).minimize(loss)
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> fluid.io.save_persistables(exe, "state")
    >>> fluid.io.load_persistables(exe, "state")
    """
    load_vars(executor, dirname, main_program, predicate=is_persistable, filename=filename)


def _write(path: str, data: bytes) -> None:
    """Write a file, which is there whole or not at all."""
    from ..stores.names import is_uri, place

    one = place(path) if is_uri(path) else None
    if one is not None and one.scheme:
        from ..stores.writing import write_all

        write_all(one.uri, data)
        return
    with new_file(path if one is None else one.path) as file:
        file.write(data)


def save_program(program: Program, path: str) -> None:
    """Write a program to a file.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1)
    >>> fluid.io.save_program(fluid.default_main_program(), "net")
    >>> [op.type for op in fluid.io.load_program("net").global_block().ops]
    ['mul', 'elementwise_add']
    """
    _once("save_program", path, lambda: _write(path, program.serialize_to_string()))


def load_program(path: str, *, allow_io: bool = False) -> Program:
    """Read a program from a file; a damaged one is refused (FormatError).

    So is one with operators that reach files or other processes (``save``, ``send``, ...: UnsupportedError), unless ``allow_io``:
    the program may be somebody else's.

    >>> _ = fluid.layers.scale(fluid.layers.data("x", [2]), 2.0)
    >>> fluid.io.save_program(fluid.default_main_program(), "net")
    >>> [op.type for op in fluid.io.load_program("net").global_block().ops]
    ['scale']
    """
    from ..stores.copies import readable_file

    with readable_file(path) as local:
        return Program(ProgramDesc.load(local, allow_io))


def _check_fed(block: Any, feeds: Sequence[str], targets: Sequence[str]) -> None:
    """Raise NotFoundError where a variable is needed that is neither fed nor computed nor kept."""
    known = set(feeds)

    def need(name: str, reader: str, is_sure: bool) -> None:
        var = block.vars.get(name)
        if var is None or name in known or var.persistable or var.type not in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS):
            return
        if is_sure or var.is_data:
            raise NotFoundError(f"the model needs {name!r}, which {reader} reads, and it is not fed: the feeds are {list(feeds)}. Add it "
                                f"to them, or choose targets that do not need it\n  your line: {user_line()}")

    for op in block.read_ops():
        for name in op.input_arg_names:
            need(name, f"{op.type!r}", is_sure=not op.block_attrs)       # a loop may write what it reads
        known.update(op.output_arg_names)
    for name in targets:
        need(name, "the list of targets", is_sure=False)


def _inference_program(program: Program, feeds: Sequence[str], targets: Sequence[Variable]) -> Program:
    """Return what computes ``targets`` from ``feeds``, with operators that say so at both ends."""
    program = program.clone(for_test=True)._prune_between(feeds, [var.name for var in targets])
    block = program.global_block()
    _check_fed(block, feeds, [var.name for var in targets])
    feed = block.create_var(name="feed", type=VarType.FEED_MINIBATCH, persistable=True)
    fetch = block.create_var(name="fetch", type=VarType.FETCH_LIST, persistable=True)
    for i, name in reversed(list(enumerate(feeds))):
        block.prepend_op(type="feed", inputs={"X": [feed]}, outputs={"Out": [name]}, attrs={"col": i})
    for i, var in enumerate(targets):
        block.append_op(type="fetch", inputs={"X": [var.name]}, outputs={"Out": [fetch]}, attrs={"col": i})
    return program


def _slots_of(slots: Given, feeds: Sequence[str], program: Program) -> bytes | None:
    """Return the file of a model's slots; None: it is saved without them."""
    if slots is None:
        return None
    from . import slot_file  # it loads what reads data

    return slot_file.text_of(slot_file.slots_of("save_inference_model", slots, feeds, program.global_block()))


def save_inference_model(dirname: str, feeded_var_names: Sequence[str], target_vars: Sequence[Variable],
                         executor: Runner, main_program: Program | None = None, model_filename: str | None = None,
                         params_filename: str | None = None, export_for_deployment: bool = True, *,
                         slots: Given = None) -> list[str]:
    """Write what computes ``target_vars`` from the variables to feed, and the parameters it needs.

    The program is written to ``__model__`` (or ``model_filename``), the parameters one by one or all into
    ``params_filename``. Returns the targets' names.

    ``feeded_var_names`` is a list of names. ``export_for_deployment`` is accepted for old programs and changes nothing. ``slots`` is the
    Dataset that the model was trained on, or a list of slots and variables with one for each feed: a ``Predictor`` then takes rows of raw
    values (``run_rows``).

    The program's file ends with checksums, which Fluid skips: a damaged file is refused when the model is loaded.

    NotFoundError: the targets need a variable that is not fed. InvalidArgumentError: ``dirname`` ends with ``.onnx``, or a variable has the
    name of the program's file.

    >>> x = fluid.layers.data("x", [2])
    >>> guess = fluid.layers.fc(x, 1, act="sigmoid", name="out")
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> fluid.io.save_inference_model("model", ["x"], [guess], exe)
    ['out.tmp_2']
    >>> import os
    >>> sorted(os.listdir("model"))
    ['__model__', 'out.b_0', 'out.w_0']
    """
    if str(dirname).endswith(".onnx"):
        raise InvalidArgumentError(f"save_inference_model: {dirname!r} is a folder of Trireme's own format; a model of ONNX is written by "
                                   f"fluid.formats.export_onnx({str(dirname)!r}, {feeded_var_names!r}, target_vars, executor)")
    program = main_program or default_main_program()
    feeds = [feeded_var_names] if isinstance(feeded_var_names, str) else list(feeded_var_names)
    targets = [target_vars] if isinstance(target_vars, Variable) else list(target_vars)
    for name in feeds:
        if not isinstance(name, str):
            raise TypeError(f"save_inference_model: feeded_var_names holds names, got {name!r}")
        program.global_block().var(name)
    for var in targets:
        if not isinstance(var, Variable):
            raise TypeError(f"save_inference_model: target_vars holds Variables, got {var!r}")
    chosen = _slots_of(slots, feeds, program)
    model = _inference_program(program, feeds, targets)
    model_file = os.path.basename(model_filename or "__model__")
    if params_filename is None and model_file in model.global_block().vars:
        raise InvalidArgumentError(f"save_inference_model: a variable is called {model_file!r}, as the program's file: name that by "
                                   "model_filename, or put the variables into params_filename")

    def write() -> None:
        from ..stores.copies import writable

        with writable(dirname) as local:
            write_files(local)

    def write_files(local: str) -> None:
        os.makedirs(local, exist_ok=True)
        save_persistables(executor, local, model, params_filename)
        tables = table_names(model)
        kept = [var for var in model.list_vars() if is_persistable(var) and var.name not in tables]
        names = _files_of(kept, params_filename) if kept else []
        if chosen is not None:
            names = [*names, f"{model_file}.slots"]
            _write(path_inside(local, names[-1]), chosen)
        checksums.write_model(str(local), model_file, model.serialize_to_string(), names)

    _once("save_inference_model", dirname, write)
    return [var.name for var in targets]


def load_inference_model(dirname: str, executor: Runner, model_filename: str | None = None,
                         params_filename: str | None = None,
                         pserver_endpoints: Any = None, *, allow_io: bool = False) -> tuple[Program, list[str], list[Variable]]:
    """Read a model; return its program, the names to feed, and the variables to fetch.

    A model may be somebody else's. So a program with operators that reach files or other processes (``save``, ``load``,
    ``send``, ...) raises UnsupportedError, unless ``allow_io=True``; and nothing outside of ``dirname`` is read.

        program, feeds, targets = fluid.io.load_inference_model("model", exe)
        exe.run(program, feed={feeds[0]: image}, fetch_list=targets)

    ``model_filename`` and ``params_filename`` are those that were given to ``save_inference_model``.

    ValueError: there is no folder of this name.

    >>> guess = fluid.layers.fc(fluid.layers.data("x", [2]), 1)
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> _ = fluid.io.save_inference_model("model", ["x"], [guess], exe)
    >>> program, feeds, targets = fluid.io.load_inference_model("model", exe)
    >>> exe.run(program, feed={feeds[0]: np.ones((3, 2), "float32")}, fetch_list=targets)[0].shape
    (3, 1)
    """
    from ..stores.copies import has_files, readable

    if not has_files(str(dirname)):
        raise ValueError(f"load_inference_model: there is no folder {dirname!r}")
    with readable(dirname, _is_no_part) as local:
        return _load_model(local, executor, model_filename, params_filename, allow_io)


def _load_model(dirname: str, executor: Runner, model_filename: str | None, params_filename: str | None,
                allow_io: bool) -> tuple[Program, list[str], list[Variable]]:
    model_file = os.path.basename(model_filename or "__model__")
    sums = checksums.Checksums(str(dirname), model_file)
    sums.check([model_file])
    program = load_program(path_inside(dirname, model_file), allow_io=allow_io)
    feeds, fetches = _take_ends(program)
    _load_vars(executor, dirname, program, _chosen(program, None, is_persistable, "load_inference_model"), params_filename, sums)
    block = program.global_block()
    return program, feeds, [block.var(name) for name in fetches]


def _take_ends(program: Program) -> tuple[list[str], list[str]]:
    """Remove the feed and fetch operators, which an Executor puts in itself; return the names in their columns."""
    block = program.global_block()
    feeds: dict[int, str] = {}
    fetches: dict[int, str] = {}
    for index in reversed(range(len(block.ops))):
        op = block.ops[index]
        if op.type not in ("feed", "fetch"):
            continue
        names = op.output("Out") if op.type == "feed" else op.input("X")
        if len(names) != 1 or not block.has_var(names[0]) or not op.has_attr("col"):
            raise FormatError(f"operator {index} ({op.type}) of the model is damaged: it must have an attribute 'col', and move one "
                              f"variable of block 0, got {names}")
        (feeds if op.type == "feed" else fetches)[op.attr("col")] = names[0]
        block._remove_op(index)
    for name, var in list(block.vars.items()):
        if var.type in (VarType.FEED_MINIBATCH, VarType.FETCH_LIST):
            block._remove_var(name)
    return [feeds[i] for i in sorted(feeds)], [fetches[i] for i in sorted(fetches)]


def get_inference_program(target_vars: Any, main_program: Program | None = None) -> Program:
    """Return what computes ``target_vars``, as tests run it.

    ``target_vars`` is a Variable, or a list of them.

    >>> guess = fluid.layers.dropout(fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="out"), 0.5)
    >>> loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, fluid.layers.data("y", [1])))
    >>> [op.type for op in fluid.io.get_inference_program(guess).global_block().ops]
    ['mul', 'elementwise_add', 'dropout']
    """
    return (main_program or default_main_program()).clone(for_test=True).prune(target_vars)


def get_parameter_value(para: Parameter, executor: Runner) -> Any:
    """Return a parameter's value in the global scope.

    ``para`` is the Parameter.

    NotFoundError: it has no value yet.

    >>> w = fluid.layers.create_parameter([2], "float32", "w", default_initializer=fluid.initializer.Constant(3.0))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> fluid.io.get_parameter_value(w, exe)
    array([3., 3.], dtype=float32)
    """
    return fetch_var(para.name)


__all__ = ["save_vars", "load_vars", "save_params", "load_params", "save_persistables", "load_persistables", "save_inference_model",
           "load_inference_model",
           "save_program", "load_program", "get_inference_program", "get_parameter_value", "is_parameter"]
