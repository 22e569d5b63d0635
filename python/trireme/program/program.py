"""Programs: lists of blocks, and which of them layers are added to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from ..native.checks import plain
from ..native.handles import Uncopied, new_lock_of
from .block import Block, Operator
from .variable import Parameter, Variable, current
from .desc import ProgramDesc
from .op_protos import op_proto
from .op_view import OpView
from .roles import OpRole


class Program(Uncopied):
    """Blocks of operators; block 0 is the global one.

    Layers build two programs at once: the main program, and the startup program that gives the parameters their
    first values. Run the latter once, then the main program for every step.

    >>> main, startup = Program(), Program()
    >>> with program_guard(main, startup):
    ...     y = fluid.layers.fc(fluid.layers.data("x", [13]), size=1)
    >>> [op.type for op in main.global_block().ops]
    ['mul', 'elementwise_add']
    >>> [param.name for param in main.all_parameters()]
    ['fc_0.w_0', 'fc_0.b_0']
    """

    _instead = "Copy it by program.clone(); pickle program.desc.serialize_to_string(), and make it again by Program.parse_from_string"
    _is_compiled: Literal[False] = False               # compiler.CompiledProgram is
    _is_stand_in = False                               # for a step that is replayed

    def __init__(self, _desc: ProgramDesc | None = None) -> None:
        self.desc = ProgramDesc() if _desc is None else _desc
        self._blocks: list[Block] = []
        self.current_block_idx = 0
        self._current_role: int = OpRole.Forward
        self._op_role_var: list[str] = []
        self._prepared: dict[Any, Any] = {}            # runs that Executors have prepared
        self._most_prepared = 0                        # with so many it is time to look which of them are gone
        self._lock = new_lock_of(self)                # held while it runs
        self._is_distributed = False
        self._readers: list[Any] = []                  # py_reader.PyReader: each run takes a batch of them
        self._announcer: Any = None                    # of the rows that its next run will look up
        self._transpiled: Any = None                   # what DistributeTranspiler made, of a trainer's program
        self._seen_by_job = -1                         # revision at which a job has looked whether it is a training
        self._is_servers = False                       # what DistributeTranspiler made for a server

    @property
    def blocks(self) -> list[Block]:
        """All blocks; the core may have made some."""
        for index in range(len(self._blocks), self.desc.num_blocks()):
            self._blocks.append(Block(self, index))
        return self._blocks

    def block(self, index: int) -> Block:
        """Return the block at ``index``; 0 is the global block."""
        if index < len(self._blocks):
            return self._blocks[index]
        return self.blocks[index]

    def global_block(self) -> Block:
        """Return the first block, to which the others belong."""
        return self.block(0)

    def current_block(self) -> Block:
        """Return the block that is being built."""
        return self.block(self.current_block_idx)

    @property
    def num_blocks(self) -> int:
        return self.desc.num_blocks()

    def create_block(self, parent_idx: int | None = None) -> Block:
        """Begin a block inside the current one (or inside block ``parent_idx``)."""
        parent = self.current_block_idx if parent_idx is None else parent_idx
        self.current_block_idx = self.desc.append_block(parent).id
        return self.current_block()

    def rollback(self) -> None:
        """End the current block: its parent is the current one again."""
        self.current_block_idx = self.current_block().parent_idx

    _create_block = create_block
    _rollback = rollback

    @property
    def random_seed(self) -> int:
        """Where the random operators without a seed of their own start; 0 is the default."""
        return self.desc.random_seed

    @random_seed.setter
    def random_seed(self, seed: int) -> None:
        seed = plain(seed)
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise TypeError(f"random_seed must be an int, got {seed!r}")
        self.desc.random_seed = seed

    @property
    def op_role(self) -> int:
        return self._current_role

    @op_role.setter
    def op_role(self, role: int) -> None:
        self._current_role = role

    @contextlib.contextmanager
    def _role_guard(self, role: int, role_vars: Sequence[Any] = ()) -> Iterator[None]:
        """Give the operators appended inside a role, and the (parameter, gradient) they belong to."""
        old = self._current_role, self._op_role_var
        self._current_role = role
        self._op_role_var = [var if isinstance(var, str) else var.name for var in role_vars]
        try:
            yield
        finally:
            self._current_role, self._op_role_var = old

    def _optimized_guard(self, param_and_grads: Sequence[Any]) -> Any:
        return self._role_guard(OpRole.Optimize, param_and_grads)

    def _lr_schedule_guard(self) -> Any:
        return self._role_guard(OpRole.LRSched)

    def _backward_role_guard(self) -> Any:
        return self._role_guard(OpRole.Backward)

    def _get_var(self, name: str) -> Variable:
        """Return a variable of the global block."""
        return self.global_block().var(name)

    def list_vars(self) -> Iterator[Variable]:
        """Go through the variables of all blocks."""
        for block in self.blocks:
            yield from list(block.vars.values())

    def all_parameters(self) -> list[Parameter]:
        """Return the parameters of the global block, in order of creation."""
        return self.global_block().all_parameters()

    def clone(self, for_test: bool = False) -> Program:
        """Return a copy. ``for_test`` leaves out the backward and optimizer operators, and sets ``is_test``.

        Parameters keep their names, so that a clone works on the same values in the same scope.
        """
        program = Program(self.desc.clone())
        program._copy_python_side(self)
        if for_test:
            program._keep_forward()
            for block in program.blocks:
                for op in block.ops:
                    proto = op_proto(op.type)
                    if op.has_attr("is_test") or (proto is not None and "is_test" in proto.attrs):
                        op._set_attr("is_test", True)
        return program

    def _copy_python_side(self, other: Program) -> None:
        """Take over what only Python knows of the variables of the same names."""
        for mine, theirs in zip(self.blocks, other.blocks):
            mine._take_views(theirs)
            for name, old in theirs.vars.items():
                known = old._python_side()
                var = mine._find(name) if known else None
                if var is not None:
                    var.__class__ = Parameter if isinstance(old, Parameter) else Variable
                    var.__dict__.update(known)
        self._current_role, self._is_distributed = other._current_role, other._is_distributed
        self._readers = other._readers

    def _feed_from_readers(self, feed: dict[str, Any] | None) -> dict[str, Any]:
        """Return a run's feed with a batch of each reader of the program whose variables are not fed by the script."""
        whole = dict(feed or {})
        for reader in self._readers:
            if not any(name in whole for name in reader._names):
                whole.update(reader.take())
        return whole

    def _keep_forward(self) -> None:
        """Remove the operators that only training needs, and the variables that only they used. A gradient that a loss is made of stays."""
        training = OpRole.Backward | OpRole.Optimize | OpRole.LRSched | OpRole.Dist
        needed = {name for block in self.blocks for op in block.read_ops() if not op.role & training for name in op.input_arg_names}
        whole: set[int] = set()                        # the blocks of gradients that stay
        for block in self.blocks:                      # a block comes before the blocks within it
            kept = []
            for op in reversed(block.read_ops()):
                makes_needed = op.role & OpRole.Backward and not needed.isdisjoint(op.output_arg_names)
                if op.role & training and not makes_needed and block.idx not in whole:
                    continue
                kept.append(op.index)
                needed.update(op.input_arg_names)
                for inner in self._sub_blocks(op) if op.role & OpRole.Backward else ():
                    whole.add(inner.idx)
                    needed.update(name for one in inner.read_ops() for name in one.input_arg_names)
            block._arrange(kept[::-1])
        self._remove_unused_vars()

    def _remove_unused_vars(self) -> None:
        used: set[str] = set()
        for block in self.blocks:
            for op in block.read_ops():
                used.update(op.input_arg_names, op.output_arg_names)
        for block in self.blocks:
            for name, var in list(block.vars.items()):
                if name not in used and not (isinstance(var, Parameter) or var.is_data):
                    block._remove_var(name)

    def prune(self, targets: Any) -> Program:
        """Return a copy with only what computes ``targets``: variables, operators or names.

        >>> program = Program()
        >>> with program_guard(program):
        ...     x = fluid.layers.data("x", [4])
        ...     a, b = fluid.layers.exp(x), fluid.layers.sqrt(x)
        >>> [op.type for op in program.prune([b]).global_block().ops]
        ['sqrt']
        """
        wanted: list[str] = []
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if isinstance(target, Operator):
                wanted += target.output_arg_names
            else:
                wanted.append(target.name if isinstance(target, Variable) else str(target))
        return self._prune_between([], wanted)

    def _prune_between(self, feeds: Sequence[str], targets: Sequence[str]) -> Program:
        """Return a copy with only what computes ``targets`` when ``feeds`` are given."""
        program = Program(self.desc.clone())
        program._copy_python_side(self)
        block = program.global_block()
        for name in targets:
            block.var(name)
        wanted, given = set(targets), set(feeds)
        kept: list[int] = []
        for op in reversed(block.read_ops()):
            if wanted.isdisjoint(set(op.output_arg_names) - given):
                continue
            kept.append(op.index)
            wanted.update(op.input_arg_names)
            for sub in program._sub_blocks(op):
                wanted.update(name for inner in sub.read_ops() for name in inner.input_arg_names)
        block._arrange(kept[::-1])
        used = program._used_names().union(targets, feeds)
        for one in program.blocks:
            for name in list(one.vars):
                if name not in used:
                    one._remove_var(name)
        return program

    _prune = prune

    def _used_names(self) -> set[str]:
        """Names that an operator reachable from the global block uses."""
        used: set[str] = set()
        todo = [self.global_block()]
        while todo:
            for op in todo.pop().read_ops():
                used.update(op.input_arg_names, op.output_arg_names)
                todo += self._sub_blocks(op)
        return used

    def _sub_blocks(self, op: Operator | OpView) -> list[Block]:
        return [self.block(op.attr(name)) for name in op.block_attrs]

    def inference_optimize(self) -> Program:
        """Return a copy for inference, as ``clone(for_test=True)`` makes it."""
        return self.clone(for_test=True)

    _inference_optimize = inference_optimize

    def expand(self) -> Program:
        """Return a copy in which operators that are made of others are replaced by those, as a plan does it.

        >>> x = fluid.layers.data("x", [4])
        >>> y = fluid.layers.label_smooth(x, epsilon=0.1)
        >>> [op.type for op in fluid.default_main_program().expand().global_block().ops]
        ['scale', 'shape', 'slice', 'cast', 'reciprocal', 'scale', 'elementwise_add']
        """
        program = Program(self.desc.expand())
        program._copy_python_side(self)
        return program

    def to_string(self, throw_on_error: bool = True, with_details: bool = False) -> str:
        """Return the program as text, one line per variable and operator."""
        return self.desc.to_string()

    def __str__(self) -> str:
        return self.desc.to_string()

    def __repr__(self) -> str:
        return f"<Program: {self.num_blocks} blocks, {self.global_block().desc.op_size()} operators in the first>"

    def _repr_html_(self) -> str:
        """The program in a notebook: its operators as a table, block by block, and its text to unfold."""
        from .drawing import to_html

        return to_html(self)

    def _repr_svg_(self) -> str | None:
        """Its drawing, where Graphviz' program ``dot`` is there and the program is small enough to be looked at."""
        from .drawing import to_svg

        return to_svg(self)

    def serialize_to_string(self) -> bytes:
        """Return the ProgramDesc message."""
        return self.desc.serialize_to_string()

    @staticmethod
    def parse_from_string(data: bytes) -> Program:
        """Return the program of a serialised ProgramDesc; damaged data is refused (FormatError).

        Its operators may reach files and other processes. For a program of somebody else use ``io.load_program``, which refuses that.
        """
        return Program(ProgramDesc(bytes(data)))


# -- the default programs, and guards -----------------------------------------------------------

current.main, current.startup = Program(), Program()


def default_main_program() -> Program:
    """Return the program that layers are added to.

    >>> _ = fluid.layers.scale(fluid.layers.data("x", [2]), 2.0)
    >>> [op.type for op in fluid.default_main_program().global_block().ops]
    ['scale']
    """
    return current.main


def default_startup_program() -> Program:
    """Return the program that layers add initial values to.

    Run it once, before the first step:

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line")
    >>> _ = fluid.Executor().run(fluid.default_startup_program())
    >>> fluid.executor.fetch_var("line.b_0")
    array([0.], dtype=float32)
    """
    return current.startup


def switch_main_program(program: Program) -> Program:
    """Add layers to ``program`` from now on; return the one before.

    ``program_guard`` does so for a block, and goes back at its end.

    >>> old = fluid.framework.switch_main_program(fluid.Program())
    >>> fluid.framework.switch_main_program(old) is old
    False
    """
    old, current.main = current.main, program
    return old


def switch_startup_program(program: Program) -> Program:
    """Make ``program`` the default startup program; return the one before.

    >>> old = fluid.framework.switch_startup_program(fluid.Program())
    >>> fluid.framework.switch_startup_program(old) is old
    False
    """
    old, current.startup = current.startup, program
    return old


@contextlib.contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Iterator[None]:
    """Add layers to these programs inside the block.

    TypeError: an argument is no Program. Without ``startup_program`` the default one stays.

    >>> main, startup = fluid.Program(), fluid.Program()
    >>> with fluid.program_guard(main, startup):
    ...     _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1)
    >>> len(main.all_parameters()), len(fluid.default_main_program().all_parameters())
    (2, 0)
    """
    for program in (main_program, startup_program):
        if program is not None and not isinstance(program, Program):
            raise TypeError(f"program_guard takes Programs, got {program!r}")
    old_main = switch_main_program(main_program)
    old_startup = switch_startup_program(startup_program) if startup_program is not None else None
    try:
        yield
    finally:
        switch_main_program(old_main)
        if old_startup is not None:
            switch_startup_program(old_startup)


def in_dygraph_mode() -> bool:
    """Return False: a program is described first and run then.

    >>> fluid.in_dygraph_mode()
    False
    """
    return False


def get_var(name: str, program: Program | None = None) -> Variable:
    """Return a variable of the global block.

    ``name`` is its name; NotFoundError: the program has no such variable.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line")
    >>> fluid.framework.get_var("line.w_0").shape
    (2, 1)
    """
    return (program or default_main_program()).global_block().var(name)
