"""The part of a program that the servers run: which operator belongs to which parameter, and how much of a parameter an operator needs at
once.

Operators of role Optimize (updates, weight decay, clipping) belong to one parameter each, operators of role LRSched to none. Two questions
are answered here alone, from the operators' records and the shapes of their variables:

- A parameter may be cut when every operator that belongs to it works row by row or point by point. Then a variable of the parameter's
  shape is cut in the same way, and a variable of a single element is kept once for each part.
- A server may compute a part piece by piece when these operators work point by point, and read nothing that other parameters' gradients
  have changed. The attribute ``op_pointwise_on`` says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from .._core import lib
from ..native.dtypes import VarType
from ..native.errors import UnsupportedError
from ..parameters.sparse_table import is_table_update
from ..program import Block, Operator, Parameter, Program, Variable
from ..program.op_protos import op_proto
from ..program.op_view import OpView
from ..program.roles import OpRole
from .around_updates import AroundUpdates, find_observers

# For dense gradients these operators are copies.
COPIES = frozenset({"merge_selected_rows", "get_tensor_from_selected_rows"})
# Operators that make one number of all gradients, and the operators that compute it across servers.
EXCHANGED = {"sum_of_squares": "exchange_squares"}
# The attribute by which a server's program says on which block an operator works point by point.
POINTWISE_ON = "op_pointwise_on"
_NOT_LOCAL, _ROWWISE, _POINTWISE, _CODE = int(lib.TR_NOT_LOCAL), int(lib.TR_ROWWISE), int(lib.TR_POINTWISE), int(lib.TR_IO_CODE)


def is_schedule(op: Operator | OpView) -> bool:
    return bool(op.role & OpRole.LRSched)


def is_optimize(op: Operator | OpView) -> bool:
    return op.role & (OpRole.Optimize | OpRole.LRSched) == OpRole.Optimize


def is_training(program: Program) -> bool:
    """Return whether the program updates parameters."""
    return any(is_optimize(op) for op in program.global_block().read_ops())


class OptimizePart:
    """The part of ``program`` that moves to the servers.

    An operator may need several parameters' gradients in one place (clipping by the global norm). With ``joint_on_trainers`` the operators
    between gradients and updates then stay with the trainers; ``kept`` are their places.

    ``ops`` are the operators in order. ``grads`` maps the gradients that the part receives to their parameters. ``owner`` maps variables to
    their parameters (``all_owners`` also those that stay with the trainers). ``tables`` maps sparse tables, of which every server has some
    rows, to the gradients that travel. ``around`` are other operators that the servers run, or that need updated parameters; where trainers
    run the whole program (``trains_copies``) there are none.
    """

    def __init__(self, program: Program, joint_on_trainers: bool = False, trains_copies: bool = False) -> None:
        self.block: Block = program.global_block()
        self._all = self.block.read_ops()
        self.kept: set[int] = set()
        self._trains_copies = trains_copies
        self._shapes: dict[str, tuple[int, ...]] = {}          # of variables whose shape does not depend on their owner
        self._analyse()
        self.all_owners = self.owner
        if joint_on_trainers and self.joint:
            self.kept = self._needed_for_joint()
            self._analyse()
            self.all_owners = {**self.all_owners, **self.owner}

    def _needed_for_joint(self) -> set[int]:
        """Return the places of the operators that need several parameters' gradients, of those that use what these compute, and of those
        that make what they read. What such an operator makes of one parameter's gradient is a gradient again: the rest, such as weight
        decay, is the servers'.
        """
        common: set[str] = set()                       # computed from several gradients, such as their norm
        single = {*self.grads, *self.tables.values()}  # computed from one, and perhaps from what is common
        places: set[int] = set()
        joint = {op.index for op, _ in self.joint}
        for op in self.ops:
            is_joint, is_of_one = op.index in joint, bool(single.intersection(op.input_arg_names))
            if is_joint or common.intersection(op.input_arg_names):
                places.add(op.index)
            if is_of_one and not is_joint:
                single.update(op.output_arg_names)
            elif op.index in places:
                common.update(op.output_arg_names)
        wanted = {name for op in self.ops if op.index in places for name in op.input_arg_names}
        for op in reversed(self.ops):
            if is_optimize(op) and op.index not in places and wanted.intersection(op.output_arg_names):
                wanted.update(op.input_arg_names)
                places.add(op.index)
        return places

    def is_update(self, op: OpView) -> bool:
        """Whether the servers run an operator because it belongs to their updates."""
        return (is_optimize(op) and op.index not in self._observers) or op.index in self.around.adopted

    def runs_on_trainers(self, op: OpView) -> bool:
        return op.index in self.kept or op.index in self._observers or not (is_optimize(op) or op.index in self.around.late)

    def _analyse(self) -> None:
        self._observers = set() if self._trains_copies else find_observers(op for op in self._all if is_optimize(op)
                                                                           and op.index not in self.kept)
        self.around = AroundUpdates(self.block, [] if self._trains_copies else self._all,
                                    lambda op: is_optimize(op) and op.index not in self.kept | self._observers, is_schedule)
        moves = [is_schedule(op) or (self.is_update(op) and i not in self.kept) for i, op in enumerate(self._all)]
        self.ops = [op for op, does in zip(self._all, moves) if does]
        self.params = self._trained()
        self.updates = {op.input("W")[0]: op for op in self.ops if is_table_update(op)}
        self.tables = {name: op.input("Grad")[0] for name, op in self.updates.items()}
        self._explicit = {id(op): self._explicit_owner(op) for op in self.ops}
        self.owner = self._owners()
        self.grads: dict[str, str] = {}
        self._locality = dict.fromkeys(self.params, _POINTWISE)
        self._touching: set[int] = set()                     # operators that touch variables of their parameter's shape
        self._mixed: set[str] = set()                        # variables that are made of several parameters' gradients
        self.joint: list[tuple[OpView, list[str]]] = []      # the operators that belong to several parameters
        self._made_before = {name for op, does in zip(self._all, moves) if not does for name in op.output_arg_names}
        for op in self.ops:
            self._look_at(op)
        self.grad_of = {param: grad for grad, param in self.grads.items()}
        self._places_of: dict[str | None, list[int]] = {}      # of ``ops``, by their owner; None: every server runs them
        for place, op in enumerate(self.ops):
            owner = None if is_table_update(op) or op.type in EXCHANGED else self.owner_of(op)
            self._places_of.setdefault(None if owner in self.tables else owner, []).append(place)
        self._check()

    def ops_of(self, params: Iterable[str]) -> Iterable[tuple[OpView, str | None]]:
        """Return the operators of these parameters, and those that belong to no parameter, in order; each with its parameter."""
        places = [(place, name) for name in (*params, None) for place in self._places_of.get(name, ())]
        return [(self.ops[place], name) for place, name in sorted(places, key=lambda one: one[0])]

    def var(self, name: str) -> Variable:
        return self.block._var_recursive(name)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a variable; for selected rows the shape of the whole."""
        known = self._shapes.get(name)
        if known is not None:
            return known
        var = self.var(name)
        if var.type == VarType.SELECTED_ROWS:
            is_of_param = name in self.owner and self.owner[name] not in self.tables
            return tuple((self.var(self.owner[name]) if is_of_param else var).desc.shape())
        return self._shapes.setdefault(name, tuple(var.desc.shape()))

    def is_clipped(self, table: str) -> bool:
        """Return whether the servers process a table's gradient before they update the table."""
        return self.tables[table] != self.updates[table].input("Grad")[0]

    def is_of_table(self, name: str) -> bool:
        """Whether a variable belongs to a sparse table."""
        return self.all_owners.get(name) in self.tables

    def is_lazy(self, op: OpView) -> bool:
        """Return whether an operator changes only the rows that its sparse gradient has."""
        return (op.has_attr("lazy_mode") and op.attr("lazy_mode")
                and any(self.var(name).type == VarType.SELECTED_ROWS for name in op.input("Grad")))

    def can_be_cut(self, param: str) -> bool:
        return self._locality[param] != _NOT_LOCAL

    def is_pointwise_on(self, op: OpView, param: str) -> bool:
        """Whether a server may run an operator, as all that touch this parameter, on some elements of the parameter at a time."""
        return self._locality[param] == _POINTWISE and id(op) in self._touching

    def is_cut_like(self, name: str, param: str) -> bool:
        """Return whether a variable has the same rows as its parameter."""
        return self.owner.get(name) == param and self.shape(name) == self.shape(param)

    def arrays_of(self, param: str) -> int:
        """Return how many arrays of a parameter's size its operators read and write: a measure of the time of its update."""
        ops = [self.ops[place] for place in self._places_of.get(param, ())]
        return sum(self.is_cut_like(name, param) for op in ops for name in (*op.input_arg_names, *op.output_arg_names)) or 1

    # -- who belongs to whom ----------------------------------------------------------------------------

    def _trained(self) -> dict[str, Parameter]:
        written = dict.fromkeys(name for op in self.ops if is_optimize(op) for name in op.output_arg_names)
        return {name: var for name in written if isinstance(var := self.block._find(name), Parameter)}

    def _explicit_owner(self, op: OpView) -> str | None:
        """Return the parameter that an operator names as its owner."""
        role_vars = op.attr("op_role_var") if op.has_attr("op_role_var") else []
        names: list[str] = [*role_vars[:1], *op.input("Param")]
        for name in names:
            if name in self.params or name in self.tables:
                return name
        if op.index in self.around.adopted:
            used = {name for name in [*op.input_arg_names, *op.output_arg_names] if name in self.params}
            return next(iter(used)) if len(used) == 1 else None
        return None

    def _owners(self) -> dict[str, str]:
        """Find variables that belong to one parameter: only it uses them, and they are written or have its shape."""
        users: dict[str, set[str | None]] = {}
        written: set[str] = set()
        scheduled: set[str] = set()
        for op in self.ops:
            (scheduled if is_schedule(op) else written).update(op.output_arg_names)
            if self.is_update(op):
                for name in [*op.input_arg_names, *op.output_arg_names]:
                    users.setdefault(name, set()).add(self._explicit[id(op)])
        owner = {name: name for name in (*self.params, *self.tables)}
        for name, who in users.items():
            who.discard(None)
            if len(who) != 1 or name in owner or name in scheduled:
                continue
            param = next(name for name in who if name is not None)
            is_like = tuple(self.var(name).desc.shape()) == tuple(self.var(param).desc.shape())
            if name in written or is_like or self.var(name).type == VarType.SELECTED_ROWS:
                owner[name] = param
        return owner

    def owner_of(self, op: OpView) -> str | None:
        """Return the parameter that an operator belongs to. None: it belongs to none, or to several."""
        owners = self._owners_of(op)
        return owners[0] if len(owners) == 1 else None

    def _owners_of(self, op: OpView) -> list[str]:
        explicit = self._explicit[id(op)]
        names = [*op.input_arg_names, *op.output_arg_names]
        found = dict.fromkeys(self.owner[name] for name in names if name in self.owner)
        if explicit is not None:
            found.setdefault(explicit)
        return list(found)

    # -- what an operator demands -------------------------------------------------------------------------

    def _look_at(self, op: OpView) -> None:
        if is_table_update(op):                        # on all servers, each of which has some of the table's rows
            return
        if op.block_attrs:
            raise UnsupportedError(
                f"{op.type}: an operator with a block of its own cannot run on a parameter server; build the learning "
                "rate of layers.piecewise_decay and its kind, or of arithmetic")
        if (proto := op_proto(op.type)) is not None and proto.io & _CODE:
            raise UnsupportedError(f"{op.type}: a function of Python cannot run on a parameter server; call it in the forward part, or on "
                                   "gradients between backward() and apply_gradients()")
        owners = self._owners_of(op)
        is_exchanged = op.type in EXCHANGED
        is_joint = is_exchanged or len(owners) > 1
        if is_joint or (owners and is_schedule(op)) or (self._mixed and self._mixed.intersection(op.input_arg_names)):
            self._mixed.update(op.output_arg_names)
            self._limit(owners, _ROWWISE)
        if is_schedule(op):
            return
        if is_joint:
            self.joint.append((op, owners))
        for name in op.input_arg_names:
            if name in self._made_before and name not in self.grads and name not in self.params:
                is_known = is_exchanged and name in self.owner
                self._note_grad(op, name, [self.owner[name]] if is_known else owners)
        if is_exchanged:
            return
        for param in owners:
            if param not in self.tables:
                self._judge(op, param)
        for name in op.output_arg_names:
            if len(owners) == 1:
                self.owner.setdefault(name, owners[0])

    def _note_grad(self, op: OpView, name: str, owners: list[str]) -> None:
        table = owners[0] if len(owners) == 1 and owners[0] in self.tables else None
        if table is None or self.var(name).type != VarType.SELECTED_ROWS:
            self.grads[name] = self._param_of_grad(op, name, owners)
            return
        if self.tables[table] in self._made_before and self.tables[table] != name:
            raise UnsupportedError(f"sparse table {table!r} has two gradients, {self.tables[table]!r} and {name!r}; use one "
                                   "optimizer for each parameter")
        self.tables[table] = name

    def _param_of_grad(self, op: OpView, name: str, owners: list[str]) -> str:
        if len(owners) != 1:
            raise UnsupportedError(
                f"{op.type} of the optimizers reads {name!r}, which the forward or backward part computes and which is "
                "no parameter's gradient: only gradients travel to the servers")
        self.owner.setdefault(name, owners[0])
        if self.shape(name) != self.shape(owners[0]):
            raise UnsupportedError(
                f"{op.type} of parameter {owners[0]!r} reads {name!r} of shape {list(self.shape(name))}, which the "
                f"forward or backward part computes: only gradients, like the parameter "
                f"{list(self.shape(owners[0]))}, travel to the servers")
        return owners[0]

    def _judge(self, op: OpView, param: str) -> None:
        """Note how much of its parameter an operator needs at once: a point, a row, or all of it."""
        shape, touches, needs_all, makes_number = self.shape(param), False, False, False
        for names, are_written in (op.input_arg_names, False), (op.output_arg_names, True):
            for name in names:
                other = self.shape(name)
                if other == shape:
                    touches = True
                    # An output that appears here for the first time has no owner yet.
                    needs_all |= not are_written and self.owner.get(name) != param
                elif prod(other) != 1:
                    needs_all = True
                else:
                    makes_number |= are_written
        if touches:
            self._touching.add(id(op))
            needed = _NOT_LOCAL if needs_all else _locality_of(op.type, shape)
            self._limit((param,), min(needed, _ROWWISE) if makes_number or self.is_lazy(op) else needed)

    def _limit(self, params: Iterable[str], locality: int) -> None:
        for param in params:
            if param in self._locality:                # it is no sparse table
                self._locality[param] = min(self._locality[param], locality)

    # -- what must hold --------------------------------------------------------------------------------------

    def _check(self) -> None:
        if not self.params and not self.tables:
            raise UnsupportedError("the program's optimizers update no parameter: there is nothing for the servers to do")
        by_param: dict[str, str] = {}
        for grad, param in self.grads.items():
            if param in by_param:
                raise UnsupportedError(f"parameter {param!r} has two gradients, {by_param[param]!r} and {grad!r}; "
                                       "use one optimizer for each parameter")
            by_param[param] = grad
        for param in self.params:
            if param not in by_param:
                raise UnsupportedError(f"parameter {param!r} is updated without a gradient; the servers' updates "
                                       "need one")
        self.around.require(self.params)
        read = {name for op in self._all if not is_schedule(op) and op.index not in self.kept and self.runs_on_trainers(op)
                for name in op.input_arg_names}
        for op in self.ops:
            for name in () if is_schedule(op) or self.runs_on_trainers(op) else op.output_arg_names:
                if name in read and name not in self.params and name not in self._made_before:
                    raise UnsupportedError(f"{op.type} of the optimizers writes {name!r}, which the forward part reads; "
                                           "only parameters travel back from the servers")

    def require_separate(self, servers: int) -> None:
        """Refuse operators that need several parameters in one place."""
        joint = [(op, params) for op, params in self.joint if op.type not in EXCHANGED]
        if not joint or servers == 1:
            return
        op, params = joint[0]
        some = ", ".join(repr(name) for name in params[:3]) + (", ..." if len(params) > 3 else "")
        raise UnsupportedError(
            f"{op.type} of the optimizers needs parameters {some} ({len(params)} of them) in one place, but there are "
            f"{servers} servers: run with one server; of all operators only sum_of_squares (clipping by the global norm) "
            "is computed across servers")


def _locality_of(type: str, shape: tuple[int, ...]) -> int:
    """Return how much of a parameter an operator needs at once, by its record. The rows of a vector are its points."""
    if type in COPIES:
        return _POINTWISE
    if type == "fill_constant":                        # an attribute has the shape
        return _ROWWISE
    proto = op_proto(type)
    locality = proto.locality if proto is not None else _NOT_LOCAL
    return _NOT_LOCAL if locality == _ROWWISE and len(shape) == 1 else locality
