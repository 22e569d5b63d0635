"""Variables and parameters: what a script has of a tensor that exists when the program runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..native import unique_name
from ..native.dtypes import VarType, convert_dtype
from ..native.handles import Uncopied
from .desc import VarDesc
from .variable_math import VariableMath

if TYPE_CHECKING:
    from .block import Block, Operator
    from .program import Program

_NOT_SAVED = (VarType.FEED_MINIBATCH, VarType.FETCH_LIST, VarType.READER, VarType.RAW, VarType.STEP_SCOPES)


class _Current:
    """The programs that layers are added to: program.py sets them."""

    main: Program
    startup: Program


current = _Current()


class Variable(VariableMath, Uncopied):
    """A variable of a block: a name, a shape, a data type. Its value exists only in a scope, when a program runs.

    Unknown dimensions are None; -1 means the same where a shape is given. ``block`` is the current block of the
    default program unless given.

    ``persistable`` variables keep their values from run to run. ``is_data`` ones are fed. ``error_clip`` limits the gradient on its way
    through the variable (``fluid.ErrorClipByValue``).

    ``prefix`` begins the name of a variable that is given none.

    >>> Variable(shape=[None, 784], dtype="float32", name="image")
    Variable('image', float32[?, 784])
    >>> Variable(shape=[-1, 1], dtype="int64", prefix="label").name
    'label_0'
    """

    def __init__(self, block: Block | None = None, type: Any = VarType.LOD_TENSOR, name: str | None = None,
                 shape: Sequence[int | None] | None = None, dtype: Any = None, lod_level: int | None = None,
                 persistable: bool | None = None, error_clip: Any = None, stop_gradient: bool = False,
                 is_data: bool = False, *, prefix: str | None = None, **kwargs: Any) -> None:
        if isinstance(block, (list, tuple)):           # Variable([2, 3], "float32")
            if shape is not None:
                raise TypeError("the shape was given twice")
            shape, block = list(block), None
            if not isinstance(type, VarType):
                type, dtype = VarType.LOD_TENSOR, type
            dtype = "float32" if dtype is None else dtype
        self.block = current.main.current_block() if block is None else block
        self._name = unique_name.generate(prefix or "unknown") if name is None else str(name)
        self.stop_gradient = stop_gradient
        self.is_data = is_data
        self.error_clip = error_clip
        self.op: Operator | None = None
        known = self.block.desc.find_var(self._name)
        is_first_news = known is None and self.block._is_in_step()
        self.desc: VarDesc = known if known is not None else self.block.desc.var(self._name)
        if known is None:
            self.desc.set_type(type)
        elif type != VarType.LOD_TENSOR and known.type() != type:
            raise ValueError(f"variable {self._name!r} exists as {self.desc.type().name}, not {VarType(type).name}")
        if dtype is not None:
            self._agree("dtype", self.desc.dtype(), convert_dtype(dtype), self.desc.set_dtype)
        if shape is not None:
            old = self.desc.shape() or None
            self._agree("shape", old, _dims(shape, self._name), self.desc.set_shape)
        if lod_level is not None:
            self.desc.set_lod_level(lod_level)
        if persistable is not None:
            self.desc.set_persistable(persistable)
        self.block._vars[self._name] = self
        if is_first_news:
            self.block._keep_in_step()

    def _agree(self, what: str, old: Any, new: Any, setter: Any) -> None:
        if old is not None and old != new:
            raise ValueError(f"variable {self._name!r} exists with {what} {old}, now {new} is wanted")
        setter(new)

    @classmethod
    def _of_desc(cls, block: Block, desc: VarDesc, name: str) -> Variable:
        """Wrap a variable that the core made."""
        self = Variable.__new__(Variable)
        self.block, self.desc, self._name = block, desc, name
        self.stop_gradient, self.is_data, self.error_clip, self.op = False, False, None, None
        return self

    def _python_side(self) -> dict[str, Any]:
        """Return what the core does not know of it, and a variable of another program needs to be like this one: mostly nothing."""
        if not (self.stop_gradient or self.is_data or self.error_clip is not None):
            return {}
        return {"stop_gradient": self.stop_gradient, "is_data": self.is_data, "error_clip": self.error_clip}

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, new: str) -> None:
        self.block._rename_vars({self._name: new})

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The dimensions; None is one that is not known before the run."""
        return tuple([None if dim < 0 else dim for dim in self.desc.shape()])

    @property
    def dtype(self) -> VarType | None:
        return self.desc.dtype()

    @property
    def type(self) -> VarType:
        """What it holds: LOD_TENSOR, SELECTED_ROWS, ..."""
        return self.desc.type()

    @property
    def lod_level(self) -> int:
        return self.desc.lod_level()

    @property
    def persistable(self) -> bool:
        """Whether it outlives a run and is saved."""
        return self.desc.persistable()

    @persistable.setter
    def persistable(self, persistable: bool) -> None:
        self.desc.set_persistable(persistable)

    @property
    def persist(self) -> bool:
        return self.desc.persistable()

    @property
    def ndim(self) -> int:
        return len(self.desc.shape())

    def _set_error_clip(self, error_clip: Any) -> None:
        """Clip the gradient of this variable on its way back: ``fluid.clip.ErrorClipByValue``. ``error_clip`` is that object."""
        self.error_clip = error_clip

    set_error_clip = _set_error_clip

    def to_string(self, throw_on_error: bool = True, with_details: bool = False) -> str:
        """Return the variable as text."""
        text = repr(self)
        if with_details:
            text += f" lod_level={self.lod_level} persistable={self.persistable} stop_gradient={self.stop_gradient}"
        return text

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self._name!r}, {self._type_text()})"

    __str__ = __repr__

    def _type_text(self) -> str:
        dims = ", ".join("?" if dim is None else str(dim) for dim in self.shape)
        dtype = self.dtype
        text = f"{dtype if dtype is not None else '?'}[{dims}]"
        return text if self.type == VarType.LOD_TENSOR else f"{self.type.name} of {text}"


class Parameter(Variable):
    """A variable that training changes. It lives in the global block, whichever block creates it.

    ``initialize_attrs`` and ``optimize_attrs`` say how it starts and how it is optimised; the latter's
    ``"learning_rate"`` multiplies the optimizer's.

    ``trainable``, ``regularizer``, ``gradient_clip_attr``, ``do_model_average``, ``initializer`` and ``optimize_attr`` are those of a
    ``ParamAttr``. ``is_distributed`` ones are sparse tables.

    ``shape`` has positive numbers alone, and ``dtype`` is needed; otherwise it is a ValueError. Layers make parameters, or a script does:

    >>> w = fluid.layers.create_parameter([3, 2], "float32", name="w")
    >>> isinstance(w, fluid.framework.Parameter), w.trainable, w.optimize_attr
    (True, True, {'learning_rate': 1.0})
    """

    def __init__(self, block: Block, shape: Sequence[int], dtype: Any, *, name: str | None = None,
                 trainable: bool = True, initialize_attrs: Any = None, optimize_attrs: dict[str, Any] | None = None,
                 optimize_attr: dict[str, Any] | None = None, regularizer: Any = None, gradient_clip_attr: Any = None,
                 do_model_average: bool = False, initializer: Any = None, is_distributed: bool = False,
                 **kwargs: Any) -> None:
        if shape is None or dtype is None:
            raise ValueError(f"a parameter needs a shape and a dtype, got shape={shape!r}, dtype={dtype!r}")
        if len(shape) == 0 or any(dim is None or int(dim) <= 0 for dim in shape):
            raise ValueError(f"the dimensions of a parameter must be positive, got {list(shape)} for {name!r}")
        kwargs["persistable"] = True
        super().__init__(block, shape=shape, dtype=dtype, name=name, prefix="parameter", **kwargs)
        self.trainable = trainable
        self.initialize_attrs = initialize_attrs if initialize_attrs is not None else initializer
        self.optimize_attr = optimize_attr or optimize_attrs or {"learning_rate": 1.0}
        self.regularizer = regularizer
        self.gradient_clip_attr = gradient_clip_attr
        self.do_model_average = do_model_average
        self.is_distributed = is_distributed
        self.table_options: Any = None

    @property
    def optimize_attrs(self) -> dict[str, Any]:
        return self.optimize_attr

    def _python_side(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in _PARAMETER_FIELDS}


_PARAMETER_FIELDS = ("trainable", "initialize_attrs", "optimize_attr", "regularizer", "gradient_clip_attr",
                     "do_model_average", "is_distributed", "table_options", "stop_gradient", "error_clip")


def _dims(shape: Sequence[int | None], name: str) -> list[int]:
    if isinstance(shape, (str, int)) or not hasattr(shape, "__iter__") or getattr(shape, "ndim", 1) == 0:
        raise TypeError(f"{name}: a shape is a list of dimensions, got {shape!r}")
    return [-1 if dim is None or int(dim) < 0 else int(dim) for dim in shape]


def is_persistable(var: Variable) -> bool:
    """Return whether a variable outlives a run and can be saved.

    ``var`` is any Variable.

    >>> count = fluid.layers.create_global_var([1], 0.0, "float32", persistable=True)
    >>> fluid.io.is_persistable(count), fluid.io.is_persistable(fluid.layers.data("x", [2]))
    (True, False)
    """
    return var.persistable and var.type not in _NOT_SAVED
