"""What layers have in common: names, parameters in both programs, bias and activation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ..native import unique_name
from ..native.dtypes import VarType, convert_dtype
from ..native.suggest import did_you_mean
from ..program import Block, Operator, Parameter, Program, Variable, default_main_program, default_startup_program
from .initializer import Constant, Initializer, Xavier
from .param_attr import ParamAttr, WeightNormParamAttr

SizeLike: TypeAlias = "int | Sequence[int]"        # of each dimension of an image, or one of them all

activations: set[str] = {"softmax"}      # what act= of a layer may be, beside None and "linear"; layers.ops adds its own

# The slots of operators that hold numbers of classes, or of rows.
_CLASS_NUMBERS = {"accuracy": "Label", "auc": "Label", "bpr_loss": "Label", "cross_entropy": "Label", "cross_entropy2": "Label",
                  "hierarchical_sigmoid": "Label", "lookup_table": "Ids", "nce": "Label", "one_hot": "X",
                  "softmax_with_cross_entropy": "Label"}


class LayerHelper:
    """The parts of one layer; ``kwargs`` are the layer's own arguments.

    A layer's variables are named after it: ``fc_0.w_0``, ``fc_0.b_0``, ``fc_0.tmp_0``.
    """

    def __init__(self, layer_type: str, **kwargs: Any) -> None:
        self.layer_type = layer_type
        self.kwargs = kwargs
        name = kwargs.get("name")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"{layer_type}: name must be a string, got {name!r}")
        self.name: str = name if name is not None else unique_name.generate(layer_type)

    @property
    def main_program(self) -> Program:
        return default_main_program()

    @property
    def startup_program(self) -> Program:
        return default_startup_program()

    # -- operators and variables -----------------------------------------------------------------

    def append_op(self, *args: Any, **kwargs: Any) -> Operator:
        block = self.main_program.current_block()
        numbers = self._class_numbers(kwargs.get("type"), kwargs.get("inputs"), kwargs.get("attrs"))
        if numbers is None:
            return block.append_op(*args, **kwargs)
        numbers.desc.set_dtype(VarType.INT64)
        try:
            return block.append_op(*args, **kwargs)
        except BaseException:
            numbers.desc.set_dtype(VarType.FP32)
            raise

    def _class_numbers(self, type: Any, inputs: Any, attrs: Any) -> Variable | None:
        """Return a fed variable that a script declares as float32, the default, and that a layer reads as numbers of classes or rows: it is
        int64.

        Fluid does not compare what is fed with what is declared. If another operator has read the variable, it stays as it is.
        """
        var = (inputs or {}).get(_CLASS_NUMBERS.get(type, ""))
        var = var[0] if isinstance(var, (list, tuple)) and len(var) == 1 else var
        if (isinstance(var, Variable) and var.is_data and var.dtype == VarType.FP32 and not (attrs or {}).get("soft_label")
                and not any(var.name in op.input_arg_names for block in self.main_program.blocks for op in block.read_ops())):
            return var
        return None

    def create_variable_for_type_inference(self, dtype: Any = None, stop_gradient: bool = False) -> Variable:
        """Return a new variable of the current block, whose shape its operator will tell."""
        return self.main_program.current_block().create_var(
            name=unique_name.generate(f"{self.name}.tmp"), dtype=dtype, stop_gradient=stop_gradient)

    create_tmp_variable = create_variable_for_type_inference

    def create_variable(self, *args: Any, **kwargs: Any) -> Variable:
        return self.main_program.current_block().create_var(*args, **kwargs)

    def create_global_variable(self, persistable: bool = False, *args: Any, **kwargs: Any) -> Variable:
        kwargs.setdefault("name", unique_name.generate(f"{self.name}.tmp"))
        return self.main_program.global_block().create_var(*args, persistable=persistable, **kwargs)

    def known_here(self, var: Variable) -> Variable:
        """Return the variable, or one of the same name, shape and type in the current program where ``var`` is another program's."""
        program = self.main_program
        if var.block.program is program or program.current_block().has_var_recursive(var.name):
            return var
        return program.global_block().create_var(name=var.name, type=var.type, shape=var.shape or None, dtype=var.dtype,
                                                 lod_level=var.lod_level, persistable=var.persistable)

    def create_or_get_global_variable(self, name: str, *args: Any, **kwargs: Any) -> tuple[Variable, bool]:
        """Return the global variable and whether it was made now."""
        block = self.main_program.global_block()
        if block.has_var(name):
            return block.var(name), False
        return self.create_global_variable(*args, name=name, **kwargs), True

    def set_variable_initializer(self, var: Variable, initializer: Initializer) -> Variable:
        """Give a persistable variable its first value in the startup program."""
        block = self.startup_program.global_block()
        return block.create_var(name=var.name, type=var.type, dtype=var.dtype, shape=var.shape, persistable=True,
                                initializer=initializer)

    def append(self, type: str, inputs: dict[str, Any], attrs: dict[str, Any] | None = None, *, slot: str = "Out",
               dtype: Any = None, stop_gradient: bool = False, extra: Sequence[str] = ()) -> Variable:
        """Append an operator with one new output and return that; ``extra`` slots are filled and forgotten."""
        if dtype is None:
            dtype = self._dtype_of(inputs)
        out = self.create_variable_for_type_inference(dtype, stop_gradient)
        outputs = {slot: [out]}
        for name in extra:
            outputs[name] = [self.create_variable_for_type_inference(None, stop_gradient=True)]
        self.append_op(type=type, inputs=inputs, outputs=outputs, attrs=attrs)
        return out

    def append_all(self, type: str, inputs: dict[str, Any], outputs: dict[str, Any], attrs: dict[str, Any] | None = None, *,
                   stops: Sequence[str] = ()) -> list[Variable]:
        """Append an operator and return its new outputs. ``outputs`` are slots with their types; no gradient flows through those in
        ``stops``."""
        made = {slot: self.create_variable_for_type_inference(dtype, stop_gradient=slot in stops) for slot, dtype in outputs.items()}
        self.append_op(type=type, inputs=inputs, outputs={slot: [var] for slot, var in made.items()}, attrs=attrs)
        return list(made.values())

    @staticmethod
    def _dtype_of(inputs: dict[str, Any]) -> Any:
        for args in inputs.values():
            for var in args if isinstance(args, (list, tuple)) else (args,):
                if isinstance(var, Variable):
                    return var.dtype
        return None

    # -- inputs ------------------------------------------------------------------------------------

    def multiple_input(self, input_param_name: str = "input") -> list[Variable]:
        inputs = self.kwargs.get(input_param_name, [])
        inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        for var in inputs:
            self.check_variable(var, input_param_name)
        return inputs

    def input(self, input_param_name: str = "input") -> Variable:
        inputs = self.multiple_input(input_param_name)
        if len(inputs) != 1:
            raise ValueError(f"{self.layer_type} takes one {input_param_name}, got {len(inputs)}")
        return inputs[0]

    def check_variable(self, var: Any, what: str) -> Variable:
        if not isinstance(var, Variable):
            raise TypeError(f"{self.layer_type}: {what} must be a Variable, got {var!r}")
        return var

    def input_dtype(self, input_param_name: str = "input") -> VarType | None:
        inputs = self.multiple_input(input_param_name)
        dtype = inputs[0].dtype
        for var in inputs[1:]:
            if var.dtype != dtype:
                raise ValueError(f"{self.layer_type}: inputs differ in type: {inputs[0].name} is {dtype}, "
                                 f"{var.name} is {var.dtype}")
        return dtype

    # -- parameters --------------------------------------------------------------------------------

    @property
    def param_attr(self) -> Any:
        return ParamAttr._to_attr(self.kwargs.get("param_attr"))

    @property
    def bias_attr(self) -> Any:
        return ParamAttr._to_attr(self.kwargs.get("bias_attr"))

    def multiple_param_attr(self, length: int) -> list[Any]:
        attr = self.param_attr
        attrs = attr if isinstance(attr, list) else [attr]
        if len(attrs) == 1:
            return [attrs[0]] + [attrs[0]._copy() if attrs[0] else attrs[0] for _ in range(length - 1)]
        if len(attrs) != length:
            raise ValueError(f"{self.layer_type} has {length} inputs, got {len(attrs)} of param_attr")
        return attrs

    def create_parameter(self, attr: Any, shape: Sequence[int | None], dtype: Any, is_bias: bool = False,
                         default_initializer: Initializer | None = None, stop_gradient: bool = False) -> Any:
        """Create a parameter in the main program and, with its first value, in the startup program."""
        attr = ParamAttr._to_attr(attr)
        if attr is False:
            return None
        attr = attr._copy()
        dtype = convert_dtype(dtype)
        if default_initializer is None:
            default_initializer = Constant(0.0) if is_bias else Xavier()
        attr._set_default_initializer(default_initializer)
        if attr.name is None:
            attr.name = unique_name.generate(f"{self.name}.{'b' if is_bias else 'w'}")
        known = [int(dim) if dim is not None else -1 for dim in shape]
        if isinstance(attr, WeightNormParamAttr):
            return self._create_normed_weight(attr, known, dtype)
        startup = self.startup_program.global_block()
        if not isinstance(startup._vars.get(attr.name), Parameter):
            startup.create_parameter(shape=known, dtype=dtype, **attr._to_kwargs(with_initializer=True))
        return self.main_program.global_block().create_parameter(
            shape=shape, dtype=dtype, stop_gradient=stop_gradient, initialize_attrs=attr.initializer,
            **attr._to_kwargs())

    def _create_normed_weight(self, attr: WeightNormParamAttr, shape: Sequence[int], dtype: Any) -> Variable:
        """Create the two parameters of `WeightNormParamAttr`, and return the weight that operators make of them."""
        if attr.dim is not None and not -len(shape) <= attr.dim < len(shape):
            raise ValueError(f"{self.layer_type}: WeightNormParamAttr has dim {attr.dim}, but the weight is {list(shape)}")
        dim = None if attr.dim is None else attr.dim % len(shape)

        def parameter(end: str, shape: Sequence[int], initializer: Initializer | None) -> Any:
            own = ParamAttr._copy(attr)
            own.__class__ = ParamAttr
            own.name, own.initializer = f"{attr.name}_{end}", initializer
            return self.create_parameter(own, shape, dtype)

        v = parameter("v", shape, attr.initializer)
        g = parameter("g", [size if d == dim else 1 for d, size in enumerate(shape)], _LengthOf(v.name, dim))
        length = self.create_variable_for_type_inference(dtype)
        _append_length(self.main_program.current_block(), v, length, dim)
        ratio = self.append("elementwise_div", {"X": [g], "Y": [length]})
        ratio = self.append("reshape2", {"X": [ratio]}, {"shape": [-1]}, extra=["XShape"])
        return self.append("elementwise_mul", {"X": [v], "Y": [ratio]}, {"axis": -1 if dim is None else dim})

    # -- what most layers end with -------------------------------------------------------------------

    def append_bias_op(self, var: Variable, dim_start: int = 1, dim_end: int | None = None) -> Variable:
        """Return ``var`` plus a bias over its dimensions [dim_start, dim_end), unless bias_attr is False."""
        attr = self.bias_attr
        if attr is False:
            return var
        bias = self.create_parameter(attr, shape=var.shape[dim_start:dim_end], dtype=var.dtype, is_bias=True)
        return self.append("elementwise_add", {"X": [var], "Y": [bias]}, {"axis": dim_start})

    def append_activation(self, var: Variable) -> Variable:
        """Return ``act(var)``; ``act`` is a name, or a dict of ``type`` and attributes, or None."""
        act = self.kwargs.get("act")
        if act is None or act == "" or act == "linear" or act == "identity":
            return var
        attrs = {"type": act} if isinstance(act, str) else dict(act)
        type = attrs.pop("type", None)
        if type not in activations:
            raise ValueError(f"{self.layer_type}: act must be one of {', '.join(sorted(activations))}; got "
                             f"{act!r}{did_you_mean(type, activations)}")
        return self.append(type, {"X": [var]}, attrs)


def _append_length(block: Block, v: Variable, out: Variable, dim: int | None) -> Operator:
    """Append ``out`` = the length of ``v``, or of each slice of dimension ``dim``."""
    squares, total = (block.create_var(name=unique_name.generate(f"{out.name}.{part}"), dtype=v.dtype) for part in ("squares", "sum"))
    others = [0] if dim is None else [d for d in range(len(v.shape)) if d != dim]
    block.append_op(type="square", inputs={"X": [v]}, outputs={"Out": [squares]})
    block.append_op(type="reduce_sum", inputs={"X": [squares]}, outputs={"Out": [total]},
                    attrs={"dim": others, "reduce_all": dim is None, "keep_dim": True})
    return block.append_op(type="sqrt", inputs={"X": [total]}, outputs={"Out": [out]})


class _LengthOf(Initializer):
    """The first value of a length: that of another parameter, whose own initializer stands before."""

    def __init__(self, name: str, dim: int | None) -> None:
        self._name, self._dim = name, dim

    def __call__(self, var: Variable, block: Any) -> Operator:
        return _append_length(block, block.var(self._name), var, self._dim)
