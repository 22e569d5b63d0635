"""Saved jobs: files with everything that ``trireme-trainer`` needs to train, alone or beside servers, without Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._core import ffi, lib
from ..checkpoint.kinds import TABLE
from ..checkpoint.state import kinds_of
from ..distributed.partition import Keep, fill_partition
from ..feeding.feeds import Dataset
from ..feeding.tables import TABLE_FORMATS
from ..native.checks import path_text, plain
from ..native.dtypes import VarType
from ..native.errors import InvalidArgumentError, UnsupportedError, check, check_whole
from ..native.names import path_chars
from ..native.precision import parse as parse_precision
from ..native.scope import Scope
from ..parameters.sparse_table import is_table, table_names
from ..program import Program, default_main_program, default_startup_program
from ..program.variable import is_persistable
from ..program.roles import OpRole
from ..saving.io import _once
from .loop import _check, _check_slots, _options

if TYPE_CHECKING:
    from ..job.mode import Mode


def save_job(path: str, dataset: Dataset, program: Program | None = None, startup_program: Program | None = None,
             fetch_list: Sequence[Any] = (), fetch_info: Sequence[str] | None = None, *, print_period: int = 100,
             epochs: int = 1, steps: int = 0, thread: int = 1, in_memory: bool = False, shuffle_seed: int | None = None,
             save_folder: str | None = None, servers: int | Sequence[int] = (), mode: str | None = None,
             check_nan: bool = False, matmul_precision: str | None = None) -> None:
    """Write a file that ``trireme-trainer`` runs: the startup program, then ``program`` over ``dataset``.

    ``fetch_list``, ``fetch_info``, ``print_period``, ``epochs``, ``steps`` and ``thread`` are those of ``Executor.train_from_dataset``,
    ``check_nan`` is that of ``Executor``. ``in_memory`` reads all lines first, and ``shuffle_seed``
    then shuffles them before each epoch. ``save_folder`` is where the variables that persist are written at the end, as
    ``io.save_persistables`` does. ``servers`` are the numbers of parameter servers that the job shall be able to
    run with (1, or (1, 2, 4)), in ``mode``; none: it runs in one process. ``matmul_precision`` is as ``Executor`` takes it; None: as
    ``TRIREME_MATMUL_PRECISION`` says where the job runs. Paths of files are kept as they are given.

    A job is code: whoever runs it runs the ``pipe_command`` of the dataset, and operators of the programs that touch files.

        fluid.io.save_job("fit.job", data, fetch_list=[loss], epochs=10, save_folder="model", servers=2)

        trireme-trainer fit.job
        trireme launch --servers 2 --trainers 4 fit.job

    >>> x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
    >>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    >>> _ = fluid.optimizer.SGD(0.01).minimize(loss)
    >>> data = fluid.Dataset(["points.csv"], "csv", batch_size=16, slots=[x, y])
    >>> fluid.io.save_job("fit.job", data, fetch_list=[loss], epochs=10, save_folder="model", servers=(1, 2))
    """
    from ..job.mode import parse

    from ..distributed.transpiler import losses

    if dataset._given["format"] in TABLE_FORMATS:
        raise UnsupportedError(f"save_job: the data are of format {dataset._given['format']!r}, which Python reads; trireme-trainer runs "
                               "without Python and reads text: train by a script, or write the data as csv, multislot or libsvm")
    program = program or default_main_program()
    fetches, labels = _check("save_job", program, dataset, Scope(), fetch_list, fetch_info, thread, print_period, epochs, steps)
    thread, print_period, epochs, steps = plain((thread, print_period, epochs, steps))
    counts = [check_whole("save_job: servers", count, 1, 1024) for count in (servers if isinstance(servers, (list, tuple)) else [servers])]
    if shuffle_seed is not None:
        shuffle_seed = check_whole("save_job: shuffle_seed", shuffle_seed, 0, (1 << 64) - 1)
    if save_folder is not None and not path_text(save_folder):
        raise InvalidArgumentError(f"save_job: save_folder={save_folder!r}: this is no folder")
    chosen = parse(mode) if mode else None
    exact = None if matmul_precision is None else parse_precision("save_job: matmul_precision", matmul_precision)
    _check_slots(program, dataset)
    if shuffle_seed is not None and not in_memory:
        raise InvalidArgumentError("save_job: shuffle_seed needs in_memory=True: only lines in memory are shuffled")
    names = [var if isinstance(var, str) else var.name for var in fetches]
    for name in names:
        program.global_block().var(name)
    keep = Keep()
    desc = ffi.new("tr_saved_job_desc *")
    startup = startup_program or default_startup_program()
    desc.startup, desc.main = keep.program(startup), keep.program(program)
    spec, kept = dataset._spec()
    desc.data, desc.in_memory = spec[0], in_memory
    loss = next((i + 1 for i, name in enumerate(names) if name in losses(program)), 0)
    options, kept_too = _options(names, labels or names, loss=loss, report_every=print_period, epochs=epochs, steps=steps,
                                 threads=thread, is_shuffled=shuffle_seed is not None, shuffle_seed=shuffle_seed or 0,
                                 check_finite=check_nan, lease=dataset._given["lease"], has_precision=exact is not None,
                                 precision=exact or 0)
    desc.loop = options[0]
    desc.save_folder = keep.chars(save_folder)
    saved = sorted({var.name for var in program.list_vars() if is_persistable(var) and not is_table(var)})
    desc.saved, desc.saved_count = keep.texts(saved), len(saved)
    states = [(name, param, kind) for name, (kind, param) in kinds_of(program).items()]
    states += [(name, None, TABLE) for name in sorted(table_names(program))]
    desc.variables = keep.array("tr_checkpoint_variable[]", [[keep.chars(name), keep.chars(param), kind] for name, param, kind in states])
    desc.variable_count = len(states)
    partitions = keep.array("tr_partition[]", len(counts))
    for i, count in enumerate(counts):
        _fill_partition(partitions[i], keep, program, startup, count, chosen, names, dataset)
    desc.partitions, desc.partition_count = partitions, len(counts)
    _once("save_job", path, lambda: check(lib.tr_saved_job_write(path_chars(path), desc)))
    del kept, kept_too


def _fill_partition(partition: Any, keep: Keep, program: Program, startup: Program, servers: int, mode: Mode | None,
              names: Sequence[str], dataset: Dataset) -> None:
    """The programs for one number of servers, as a script in such a job would have them."""
    from ..distributed.first_values import first_values
    from ..distributed.training import facts_of
    from ..distributed.transpiler import transpile

    result = transpile(program, servers, mode=mode)
    for name in names:
        if name in result.on_servers:
            raise InvalidArgumentError(f"save_job: {name!r} is computed on the parameter servers: a trainer cannot fetch it")
    if result.fed:
        raise UnsupportedError(f"save_job: {min(result.fed)!r} is fed to the optimizers, and a saved job has no script that feeds it; make "
                               "it a variable of the program")
    given = dataset._given
    facts = [*facts_of(result, first_values(startup)),
             ("data", f"{given['format']}, batches of {given['batch_size']}, split {given['split']!r}")]
    fill_partition(partition, keep, result, facts)
    prepare, begin = _own_variables(result)
    for field, one in (("trainer", result.trainer), ("idle", result.idle), ("prepare", prepare), ("begin", begin),
                       ("flush", result.flush), ("after", result.after)):
        setattr(partition, field, keep.program(one))
    partition.fetches = keep.texts([result.means.get(name, name) for name in names])


def _own_variables(result: Any) -> tuple[Program, Program | None]:
    """Return the programs that make what a trainer has beside the program's variables: means, and bases of mode geo."""
    from ..distributed.geo import BASE, COUNT

    prepare, block = Program(), result.trainer.global_block()
    for name in result.means.values():
        _zeros(prepare, name, block.var(name).desc.shape(), block.var(name).dtype)
    if result.flush is None:
        return prepare, None
    begin = Program()
    for name in dict.fromkeys(one.source for one in result.blocks):
        shape, dtype = block.var(name).desc.shape(), block.var(name).dtype
        source = begin.global_block().create_var(name=name, shape=shape, dtype=dtype, persistable=True)
        base = begin.global_block().create_var(name=name + BASE, shape=shape, dtype=dtype, persistable=True)
        begin.global_block().append_op(type="assign", inputs={"X": source}, outputs={"Out": base},
                                       attrs={"op_role": OpRole.RPC})
    _zeros(begin, COUNT, [1], VarType.INT64)
    return prepare, begin


def _zeros(program: Program, name: str, shape: Sequence[int], dtype: Any) -> None:
    out = program.global_block().create_var(name=name, shape=list(shape), dtype=dtype, persistable=True)
    program.global_block().append_op(type="fill_constant", outputs={"Out": out},
                                     attrs={"shape": list(shape), "dtype": int(dtype), "value": 0.0})
