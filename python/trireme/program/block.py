"""Variables, operators and blocks.

The descriptions live in the native core; these classes hold handles to them and add what only Python needs
(which variables want no gradient, how a parameter is initialised). A shape is checked the moment an operator
is appended, so that the error names the line that made the mistake.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..native.dtypes import convert_dtype
from ..native.errors import user_line
from ..native.handles import Uncopied
from ..native.suggest import did_you_mean
from .op_desc import OpDesc
from .op_view import OpView, read_ops, text_of
from .op_words import joined, op_words
from .variable import Parameter, Variable, _dims

if TYPE_CHECKING:
    from .program import Program


class Operator(Uncopied):
    """An operator of a block. Made by ``Block.append_op``; afterwards its attributes are read from the core.

    ``desc`` is the core's description.

    >>> y = fluid.layers.scale(fluid.layers.data("x", [2]), 2.0)
    >>> op = y.op
    >>> op.type, op.input("X"), op.attr("scale"), op.idx
    ('scale', ['x'], 2.0, 0)
    """

    def __init__(self, block: Block, desc: OpDesc) -> None:
        self.block = block
        self.desc = desc

    @property
    def type(self) -> str:
        return self.desc.type()

    def input(self, name: str) -> list[str]:
        """Return the names of the variables in an input slot."""
        return self.desc.input(name)

    def output(self, name: str) -> list[str]:
        """Return the names of the variables in an output slot."""
        return self.desc.output(name)

    @property
    def input_names(self) -> list[str]:
        return self.desc.input_names()

    @property
    def output_names(self) -> list[str]:
        return self.desc.output_names()

    @property
    def input_arg_names(self) -> list[str]:
        return self.desc.input_arg_names()

    @property
    def output_arg_names(self) -> list[str]:
        return self.desc.output_arg_names()

    @property
    def attr_names(self) -> list[str]:
        return self.desc.attr_names()

    @property
    def role(self) -> int:
        """Its attribute op_role; 0, which is Forward, where it has none."""
        return self.desc.role()

    @property
    def block_attrs(self) -> list[str]:
        """The names of its attributes that are blocks."""
        return self.desc.block_attrs()

    def has_attr(self, name: str) -> bool:
        """Return whether the operator has an attribute of this name."""
        return self.desc.has_attr(name)

    def attr(self, name: str) -> Any:
        """Return an attribute's value."""
        return self.desc.attr(name)

    def attr_type(self, name: str) -> int:
        """Return the number of an attribute's type."""
        return self.desc.attr_type(name)

    def all_attrs(self) -> dict[str, Any]:
        """Return all attributes by name."""
        return {name: self.desc.attr(name) for name in self.desc.attr_names()}

    def _set_attr(self, name: str, value: Any) -> None:
        self.desc.set_attr(name, value)

    @property
    def idx(self) -> int:
        """Its place in the block."""
        for i, op in enumerate(self.block.ops):
            if op is self:
                return i
        raise ValueError(f"{self.type} is not in its block any more")

    def to_string(self, throw_on_error: bool = True) -> str:
        """Return the operator as text."""
        return repr(self)

    def __repr__(self) -> str:
        attrs = {name: self.attr(name) for name in self.attr_names if name != "op_callstack"}
        return text_of(self.type, self.desc.inputs(), self.desc.outputs(), attrs)


class Block(Uncopied):
    """Variables and operators, like the braces of a programming language. A name is looked up outward.

    ``idx`` is its number in the program; 0 is the global block.

    >>> block = fluid.Program().global_block()
    >>> x = block.create_var(name="x", shape=[None, 4], dtype="float32")
    >>> y = block.create_var(name="y")
    >>> block.append_op(type="scale", inputs={"X": x}, outputs={"Out": y}, attrs={"scale": 2.0}).type
    'scale'
    >>> y.shape
    (None, 4)
    """

    def __init__(self, program: Program, idx: int) -> None:
        self.program = program
        self.desc = program.desc.block(idx)
        self._vars: dict[str, Variable] = {}
        self._ops: list[Operator] = []
        self._seen = -1                                # the block's revision when _vars and _ops were complete
        self._views: list[OpView] = []
        self._viewed = -1                              # the operators' revision; _views are the first operators of then

    @property
    def idx(self) -> int:
        return self.desc.id

    @property
    def parent_idx(self) -> int:
        return self.desc.parent

    @property
    def parent(self) -> Block | None:
        """The block around this one; None for the global block."""
        index = self.desc.parent
        return self.program.block(index) if index >= 0 else None

    @property
    def forward_block_idx(self) -> int:
        return self.desc.forward_block_idx

    # -- variables -------------------------------------------------------------------------------

    @property
    def vars(self) -> dict[str, Variable]:
        """The variables by name, those the core made included."""
        self._sync()
        return self._vars

    @property
    def ops(self) -> list[Operator]:
        """The operators in order, those the core made included."""
        self._sync()
        return self._ops

    def read_ops(self) -> list[OpView]:
        """Return what the operators say now, in order, all read at once: a copy for reading, kept until an operator changes."""
        revision, count = self.desc.op_revision, self.desc.op_size()
        if self._viewed != revision:
            self._views, self._viewed = [], revision
        if len(self._views) < count:
            self._views += read_ops(self, len(self._views))
        return self._views

    def _take_views(self, other: Block) -> None:
        """Take over what is known of the operators of the block that this one is a copy of."""
        if other._viewed == other.desc.op_revision:
            self._views = [view.at(self, view.index) for view in other._views]
            self._viewed = self.desc.op_revision

    def _is_in_step(self) -> bool:
        return self._seen == self.desc.revision

    def _keep_in_step(self) -> None:
        """Note that _vars and _ops have what was just changed: to make them anew takes as long as the block is large."""
        self._seen = self.desc.revision

    def _sync(self) -> None:
        if self._is_in_step():
            return
        known, self._vars = self._vars, {}
        for desc in self.desc.all_vars():
            name = desc.name()
            var = known.get(name)
            self._vars[name] = var if var is not None and var.desc is desc else Variable._of_desc(self, desc, name)
        wrapped = {id(op.desc): op for op in self._ops}
        descs = [self.desc.op(i) for i in range(self.desc.op_size())]
        self._ops = [wrapped.get(id(desc)) or Operator(self, desc) for desc in descs]
        self._keep_in_step()

    def has_var(self, name: str) -> bool:
        """Return whether the block has a variable of this name."""
        return self._find(name) is not None

    def _find(self, name: str) -> Variable | None:
        var = self._vars.get(name)
        if var is None:
            desc = self.desc.find_var(name)
            if desc is not None:
                var = self._vars[name] = Variable._of_desc(self, desc, name)
        return var

    def var(self, name: str) -> Variable:
        """Return the variable of this block."""
        if not isinstance(name, str):
            raise TypeError(f"a variable's name is a string, got {name!r}")
        var = self._find(name)
        if var is None:
            raise ValueError(f"block {self.idx} has no variable {name!r}{did_you_mean(name, self.vars)}")
        return var

    def _find_var_recursive(self, name: str) -> Variable | None:
        block: Block | None = self
        while block is not None:
            var = block._find(name)
            if var is not None:
                return var
            block = block.parent
        return None

    def _var_recursive(self, name: str) -> Variable:
        """Return the variable of this block or of one around it."""
        var = self._find_var_recursive(name)
        if var is None:
            raise ValueError(f"neither block {self.idx} nor one around it has a variable {name!r}")
        return var

    var_recursive = _var_recursive

    def has_var_recursive(self, name: str) -> bool:
        """Return whether the block or one of its parents has a variable of this name."""
        return self._find_var_recursive(name) is not None

    def all_parameters(self) -> list[Parameter]:
        """Return the parameters of the block, in order of creation."""
        return [var for var in self._vars.values() if isinstance(var, Parameter)]

    def create_var(self, *args: Any, **kwargs: Any) -> Variable:
        """Create a variable of this block: ``name``, ``shape``, ``dtype``, ``persistable``, ``stop_gradient``, ...

        A variable of that name that is there already is returned, when what was asked for fits it.
        """
        initializer = kwargs.pop("initializer", None)
        name = kwargs.get("name")
        if name is not None:
            var = self._vars.get(name)
            if var is not None and not args:
                return self._recreate(var, kwargs)
        var = Variable(self, *args, **kwargs)
        if initializer is not None:
            initializer(var, self)
        return var

    def _recreate(self, var: Variable, kwargs: dict[str, Any]) -> Variable:
        if kwargs.get("dtype") is not None:
            var._agree("dtype", var.dtype, convert_dtype(kwargs["dtype"]), var.desc.set_dtype)
        if kwargs.get("shape") is not None:
            var._agree("shape", var.desc.shape() or None, _dims(kwargs["shape"], var.name), var.desc.set_shape)
        if kwargs.get("persistable"):
            var.persistable = True
        return var

    def create_global_var(self, *args: Any, **kwargs: Any) -> Variable:
        """Create a variable of the global block, from whichever block."""
        return self.program.global_block().create_var(*args, **kwargs)

    def create_parameter(self, *args: Any, **kwargs: Any) -> Parameter:
        """Create a parameter, always in the global block: ``shape``, ``dtype``, ``name``, ``trainable``, ...

        With an ``initializer`` its operator is prepended here; layers put it into the startup program instead.
        """
        block = self.program.global_block()
        initializer = kwargs.get("initializer")
        name = str(kwargs.get("name"))
        old = block._vars.get(name)
        if isinstance(old, Parameter):
            shape, dtype = _dims(kwargs["shape"], name), convert_dtype(kwargs["dtype"])
            if old.desc.shape() != shape or old.dtype != dtype:
                raise ValueError(f"parameter {name!r} exists as {old._type_text()}, now {dtype}{shape} is wanted")
            return old
        param = Parameter(block, *args, **kwargs)
        if initializer is not None:
            initializer(param, self)
        return param

    def _remove_var(self, name: str) -> None:
        self._sync()
        self.desc.remove_var(name)
        self._vars.pop(name, None)
        self._keep_in_step()

    def _rename_vars(self, names: dict[str, str]) -> None:
        """Rename variables, old name to new, here and in every operator that uses them."""
        renamed = {new: self.var(old) for old, new in names.items()}
        self.desc._rename_vars(names)
        self._vars = {names.get(key, key): value for key, value in self._vars.items()}
        for new, var in renamed.items():
            var._name = new

    # -- operators -------------------------------------------------------------------------------

    def append_op(self, type: str, inputs: dict[str, Any] | None = None, outputs: dict[str, Any] | None = None,
                  attrs: dict[str, Any] | None = None) -> Operator:
        """Append an operator: slots are variables, names, or lists of them. Shapes are inferred now.
        ``type`` is its name. ``inputs`` and ``outputs`` map slots to variables, ``attrs`` names to values.
        """
        return self._insert(-1, type, inputs, outputs, attrs)

    append_operator = append_op

    def prepend_op(self, type: str, inputs: dict[str, Any] | None = None, outputs: dict[str, Any] | None = None,
                   attrs: dict[str, Any] | None = None) -> Operator:
        """The same before all others: for what must run first, such as initial values or ``load``.
        ``type``, ``inputs``, ``outputs`` and ``attrs`` are as ``append_op`` takes them.
        """
        return self._insert(0, type, inputs, outputs, attrs)

    prepend_operator = prepend_op
    _prepend_op = prepend_op

    def _insert_op(self, index: int, *args: Any, **kwargs: Any) -> Operator:
        return self._insert(index, *args, **kwargs)

    def _insert(self, index: int, type: str, inputs: dict[str, Any] | None = None,
                outputs: dict[str, Any] | None = None, attrs: dict[str, Any] | None = None) -> Operator:
        program = self.program
        desc = OpDesc(type)
        for slot, args in (inputs or {}).items():
            desc.set_input(slot, self._arg_names(args, type, slot))
        for slot, args in (outputs or {}).items():
            desc.set_output(slot, self._arg_names(args, type, slot))
        for name, value in (attrs or {}).items():
            if value is not None:
                desc.set_attr(name, value)
        if not desc.has_attr("op_role"):
            desc.set_attr("op_role", program._current_role)
            if program._op_role_var:
                desc.set_attr("op_role_var", program._op_role_var)
        if _name_scope.path:
            desc.set_attr("op_namescope", _name_scope.path)
        desc.set_attr("op_callstack", [user_line()])
        is_in_step, known = self._is_in_step(), self.desc.var_size()
        is_viewed = index < 0 and self._viewed == self.desc.op_revision
        self.desc.insert_op(index, desc)
        if is_viewed:                                  # the views of those before are as good as they were
            self._viewed = self.desc.op_revision
        op = Operator(self, desc)
        self._ops.insert(len(self._ops) if index < 0 else index, op)
        if is_in_step:
            for made in self.desc.all_vars(known) if self.desc.var_size() != known else ():    # outputs that were not declared
                self._vars[made.name()] = Variable._of_desc(self, made, made.name())
            self._keep_in_step()
        for args in (outputs or {}).values():
            for var in args if isinstance(args, (list, tuple)) else (args,):
                if isinstance(var, Variable):
                    var.op = op
        return op

    def _append_anywhere(self, type: str, inputs: dict[str, Any], outputs: dict[str, Any], attrs: dict[str, Any]) -> None:
        """Append an operator that does not say on which line it was made: a server's program is the same on every trainer."""
        self.append_op(type=type, inputs=inputs, outputs=outputs, attrs=attrs).desc.remove_attr("op_callstack")

    def _append_ops(self, ops: Iterable[tuple[str, dict[str, list[str]], dict[str, list[str]], dict[str, Any]]]) -> None:
        """Append many operators in one call of the core: each a type, the names in its slots, and attributes, op_role among them. Their
        line is the user's present one, unless op_callstack says another."""
        words: list[str] = []
        line = {"op_callstack": [user_line()]}
        for type, inputs, outputs, attrs in ops:
            words += op_words(type, inputs, outputs, line | attrs)
        is_viewed = self._viewed == self.desc.op_revision
        if words:
            self.desc.append_ops(joined(words))
        if is_viewed:
            self._viewed = self.desc.op_revision

    def _arg_names(self, args: Any, type: str, slot: str) -> list[str]:
        """Return the names of a slot's variables, each of which must mean in this block the variable that was given."""
        for var in (args if isinstance(args, (list, tuple)) else (args,)) if self.idx else ():
            if not isinstance(var, Variable) or var.block.program is not self.program:
                continue
            found = self._find_var_recursive(var.name)
            if found is not None and found.block is not var.block:
                raise ValueError(
                    f"{type}: {slot} is {var!r} of block {var.block.idx}, but in block {self.idx} the name {var.name!r} means "
                    f"{found!r} (a step input, perhaps). Copy it before the block, and use the copy: fluid.layers.assign({var.name})")
        return _arg_names(args, type, slot)

    def _remove_op(self, index: int) -> None:
        self._sync()
        self.desc.remove_op(index)
        del self._ops[index]
        self._keep_in_step()

    def _arrange(self, places: Sequence[int]) -> None:
        """Let the operators be those that now stand at ``places``, in that order; remove the others: all changes at once, where
        one after the other would take as long each as the block is large."""
        views = self.read_ops()
        self.desc.arrange_ops(places)
        self._views, self._viewed = [views[place].at(self, index) for index, place in enumerate(places)], self.desc.op_revision

    def to_string(self, throw_on_error: bool = True, with_details: bool = False) -> str:
        """Return the block as text."""
        lines = [f"block {self.idx} (parent {self.parent_idx})"]
        lines += [f"  {var.to_string(with_details=with_details)}" for var in self.vars.values()]
        return "\n".join(lines + [f"  {op!r}" for op in self.ops])

    __str__ = to_string

    def __repr__(self) -> str:
        return f"<Block {self.idx}: {self.desc.op_size()} operators>"


def _arg_names(args: Any, type: str, slot: str) -> list[str]:
    if args is None:
        return []
    names = []
    for arg in args if isinstance(args, (list, tuple)) else (args,):
        if isinstance(arg, Variable):
            names.append(arg._name)
        elif isinstance(arg, str):
            names.append(arg)
        else:
            raise TypeError(f"{type}: {slot} must be a Variable, a name, or a list of them; got {arg!r}")
    return names


# -- names for groups of operators ---------------------------------------------------------------

class _NameScope:
    path = ""


_name_scope = _NameScope()


@contextlib.contextmanager
def name_scope(prefix: str | None = None) -> Iterator[None]:
    """Group the operators of the block under a name, for reading and drawing the program.

    ``prefix`` is that name; None leaves the operators in the group around them.

    >>> with fluid.name_scope("encoder"), fluid.name_scope("first"):
    ...     y = fluid.layers.scale(fluid.layers.data("x", [2]), 2.0)
    >>> y.op.attr("op_namescope")
    '/encoder/first/'
    """
    if prefix is None:
        yield
        return
    if not prefix or "/" in prefix:
        raise ValueError(f"name_scope: the prefix must be a word without '/', got {prefix!r}")
    old = _name_scope.path
    _name_scope.path = f"{old or '/'}{prefix}/"
    try:
        yield
    finally:
        _name_scope.path = old
