"""The result of cutting a program: the programs of all ranks, and the relations between their variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from ..job.mode import Mode, parse
from ..native.dtypes import VarType
from ..program import Program, Variable


@dataclass(frozen=True)
class ParamBlock:
    """A block: a part of a parameter, or of an averaged variable, with its gradient. The names are those in the server's program."""

    param: str
    grad: str
    server: int
    dtype: VarType
    bytes: int
    source: str                        # the trainer's variable ...
    begin: int                         # ... and the rows of it
    end: int


@dataclass(frozen=True)
class Value:
    """The first value of a variable of server ``server``: rows of a variable of trainer 0, or (begin < 0) all of it."""

    server: int
    name: str
    source: str
    begin: int = -1
    end: int = -1


def trainer_copy(program: Program, trainer: int) -> Program:
    """Return a copy that draws the random numbers of this trainer (dropout). Those of trainer 0 are the ones of a single process."""
    copy = program.clone()
    copy.random_seed = program.random_seed + 1_000_003 * trainer
    return copy


@dataclass
class Transpiled:
    """The programs of a job, and the relations between their variables."""

    trainer: Program
    servers: list[Program]
    blocks: list[ParamBlock]
    values: list[Value]
    means: dict[str, str]              # a variable -> the trainers' mean of it
    mode: Mode = field(default_factory=lambda: parse("sync"))
    tables: list[str] = field(default_factory=list)    # sparse tables: variables of the trainers
    flush: Program | None = None       # a trainer runs it before it leaves
    idle: Program | None = None        # the program of a trainer whose batch is empty
    # the operators that need a step's new parameters: a trainer that goes on after a step runs them again
    after: Program | None = None
    original: Program = field(kw_only=True)            # the program that was cut
    on_servers: set[str] = field(default_factory=set)  # variables that a trainer cannot fetch
    # variables that the servers change and no step brings, such as the optimizers' states: fetched when they are read
    remote: set[str] = field(default_factory=set)
    fed: set[str] = field(default_factory=set)         # variables of data that updates read, such as a learning rate
    read_alone: set[str] = field(default_factory=set)  # averaged variables that are no loss: no parameter depends on them

    def add_block(self, param: str, grad: str, server: int, var: Variable, begin: int = 0, end: int | None = None) -> None:
        """Add a block: rows ``begin`` to ``end`` of the trainers' ``var``, which ``server`` calls ``param``."""
        rows, *rest = var.desc.shape()
        assert var.dtype is not None                   # of what is trained
        end = rows if end is None else end
        self.blocks.append(ParamBlock(param, grad, server, var.dtype, var.dtype.dtype.itemsize * prod([end - begin, *rest]), var.name,
                                      begin, end))
