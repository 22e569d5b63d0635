"""A small case of every operator: those with which the operators' own tests run them, as tests/fuzz/corpus/run has them
(tests/support/run_case.h)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import trireme as fluid
from trireme.errors import TriremeError

FOLDER = Path(__file__).parents[1] / "fuzz" / "corpus" / "run"


@dataclass
class Case:
    """One operator of a file: its description, and the values of its inputs."""

    type: str
    program: fluid.Program
    op: fluid.framework.Operator
    values: dict[str, fluid.LoDTensor] = field(default_factory=dict)
    fed: set[str] = field(default_factory=set)
    fetches: list[str] = field(default_factory=list)


def _tensor(record: bytes, folder: Path) -> fluid.LoDTensor:
    """Read a tensor record, as the operator `load` does."""
    path = folder / "record"
    path.write_bytes(record)
    program, scope = fluid.Program(), fluid.Scope()
    var = program.global_block().create_var(name="value", persistable=True)
    program.global_block().append_op(type="load", outputs={"Out": var}, attrs={"file_path": str(path)})
    fluid.Executor().run(program, scope=scope)
    return scope.find_var("value").get_tensor()


def read_case(path: Path, folder: Path) -> Case | None:
    """Read a file; None: its program has not the operator of its name in its first block, or its values cannot be read."""
    data, at, type_ = path.read_bytes(), 0, path.name.rpartition(".")[0]
    values, fed, fetches, program = {}, set(), [], None
    while at < len(data):
        end = data.index(b"\n", at)
        kind, name, size = data[at:end].decode().split()
        item, at = data[end + 1:end + 1 + int(size)], end + 1 + int(size)
        try:
            if kind == "program":
                program = fluid.Program.parse_from_string(item)
            elif kind == "fetch":
                fetches.append(name)
            else:
                values[name] = _tensor(item, folder)
                fed |= {name} if kind == "feed" else set()
        except (TriremeError, ValueError):
            return None
    op = program and next((op for op in program.global_block().ops if op.type == type_), None)
    return Case(type_, program, op, values, fed, fetches) if op is not None else None


def cases_of(type_: str, folder: Path) -> list[Case]:
    """The cases of an operator."""
    paths = sorted(FOLDER.glob(f"{type_}.*"), key=lambda path: int(path.suffix[1:]) if path.suffix[1:].isdigit() else 0)
    return [case for path in paths if (case := read_case(path, folder)) is not None]


def scope_of(case: Case) -> fluid.Scope:
    """A scope with the case's values that are not fed."""
    scope = fluid.Scope()
    for name in set(case.values) - case.fed:
        scope.var(name).get_tensor().set(np.array(case.values[name]))
        scope.find_var(name).get_tensor().set_lod(case.values[name].lod())
    return scope


def run_case(program: fluid.Program, case: Case, fetches: list[str], scope: fluid.Scope | None = None) -> list[fluid.LoDTensor]:
    """Run a program with the case's feeds, and its other values if there is no scope that has them."""
    return fluid.Executor().run(program, feed={name: case.values[name] for name in case.fed}, fetch_list=fetches,
                                scope=scope or scope_of(case), return_numpy=False)


def inputs_of(case: Case) -> dict[str, fluid.LoDTensor]:
    """The values of the operator's inputs: those of the case, or what operators before it make of them."""
    names = list(dict.fromkeys(case.op.input_arg_names))
    return dict(zip(names, run_case(case.program, case, names)))
