"""Recurrent layers over sequences, as one operator each, and single steps of them for nets of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..parameters.layer_helper import LayerHelper
from ..parameters.param_attr import AttrLike
from ..program import Variable
from .nn import fc
from .tensor import concat

if TYPE_CHECKING:
    from ..native.dtypes import DTypeLike


def _check_width(layer: str, input: Variable, size: int, times: int) -> None:
    if len(input.shape) != 2 or input.shape[1] not in (size * times, -1, None):
        raise ValueError(f"{layer}: input must be [rows, {size * times}], {times} times the hidden size {size} (project it "
                         f"with fc first); got {input!r}")


def _check_bias(layer: str, bias_attr: AttrLike) -> None:
    if bias_attr is False:
        raise ValueError(f"{layer}: bias_attr must not be False: the operator needs its bias")


def _first_states(h_0: Variable | None, c_0: Variable | None) -> dict[str, list[Variable]]:
    states = {}
    if h_0 is not None:
        states["H0"] = [h_0]
    if c_0 is not None:
        states["C0"] = [c_0]
    return states


def dynamic_lstm(input: Variable, size: int, h_0: Variable | None = None, c_0: Variable | None = None, param_attr: AttrLike = None,
                 bias_attr: AttrLike = None, use_peepholes: bool = True, is_reverse: bool = False,
                 gate_activation: str = "sigmoid", cell_activation: str = "tanh", candidate_activation: str = "tanh",
                 dtype: DTypeLike = "float32", name: str | None = None) -> tuple[Variable, Variable]:
    """Return the hidden states and the cells of long short-term memory over sequences ``[rows, size]``.

    ``size`` is 4 times the hidden size: the input is projected already, to candidate, input, forget and output gate.
    With ``use_peepholes`` the gates see the cell, too. ``h_0`` and ``c_0`` are states before the first row, one for
    each sequence; they go together.

    >>> words = fluid.layers.data("words", [8], lod_level=1)
    >>> fluid.layers.dynamic_lstm(fluid.layers.fc(words, 4 * 16), size=4 * 16)
    (Variable('lstm_0.tmp_0', float32[?, 16]), Variable('lstm_0.tmp_1', float32[?, 16]))
    """
    if size % 4:
        raise ValueError(f"dynamic_lstm: size must be 4 times the hidden size, got {size!r}")
    helper = LayerHelper("lstm", input=input, param_attr=param_attr, bias_attr=bias_attr, name=name)
    width = size // 4
    _check_width("dynamic_lstm", helper.input(), width, 4)
    _check_bias("dynamic_lstm", bias_attr)
    weight = helper.create_parameter(helper.param_attr, [width, 4 * width], dtype)
    bias = helper.create_parameter(helper.bias_attr, [1, (7 if use_peepholes else 4) * width], dtype, is_bias=True)
    kept = ["BatchGate", "BatchCellPreAct"]            # for the gradient operator alone
    hidden, cell, *_ = helper.append_all(
        "lstm", {"Input": [input], "Weight": [weight], "Bias": [bias], **_first_states(h_0, c_0)},
        dict.fromkeys(["Hidden", "Cell", *kept], dtype),
        {"use_peepholes": use_peepholes, "is_reverse": is_reverse, "gate_activation": gate_activation,
         "cell_activation": cell_activation, "candidate_activation": candidate_activation}, stops=kept)
    return hidden, cell


def dynamic_lstmp(input: Variable, size: int, proj_size: int, param_attr: AttrLike = None, bias_attr: AttrLike = None,
                  use_peepholes: bool = True, is_reverse: bool = False, gate_activation: str = "sigmoid",
                  cell_activation: str = "tanh", candidate_activation: str = "tanh", proj_activation: str = "tanh",
                  dtype: DTypeLike = "float32", name: str | None = None, h_0: Variable | None = None, c_0: Variable | None = None,
                  cell_clip: float | None = None, proj_clip: float | None = None) -> tuple[Variable, Variable]:
    """Return the projections and the cells of long short-term memory that feeds back ``proj_size`` numbers.

    As ``dynamic_lstm``, but the hidden state is multiplied by a matrix ``[hidden, proj_size]`` on its way out. ``cell_clip``
    and ``proj_clip`` bound the cell and the projection.

    ``h_0`` [n, proj_size] and ``c_0`` [n, hidden] are the first projection and cell of each sequence; None: zeros. ``use_peepholes`` lets
    the gates see the cell. ``proj_activation`` is applied to the projection.

    ``size`` is 4 times the hidden size.

    >>> words = fluid.layers.data("words", [8], lod_level=1)
    >>> fluid.layers.dynamic_lstmp(fluid.layers.fc(words, 4 * 16), size=4 * 16, proj_size=5)
    (Variable('lstmp_0.tmp_0', float32[?, 5]), Variable('lstmp_0.tmp_1', float32[?, 16]))
    """
    if size % 4:
        raise ValueError(f"dynamic_lstmp: size must be 4 times the hidden size, got {size!r}")
    helper = LayerHelper("lstmp", input=input, param_attr=param_attr, bias_attr=bias_attr, name=name)
    width = size // 4
    _check_width("dynamic_lstmp", helper.input(), width, 4)
    _check_bias("dynamic_lstmp", bias_attr)
    weight = helper.create_parameter(helper.param_attr, [proj_size, 4 * width], dtype)
    projection = helper.create_parameter(helper.param_attr, [width, proj_size], dtype)
    bias = helper.create_parameter(helper.bias_attr, [1, (7 if use_peepholes else 4) * width], dtype, is_bias=True)
    kept = ["BatchGate", "BatchCellPreAct", "BatchHidden"]
    out, cell, *_ = helper.append_all(
        "lstmp", {"Input": [input], "Weight": [weight], "ProjWeight": [projection], "Bias": [bias], **_first_states(h_0, c_0)},
        dict.fromkeys(["Projection", "Cell", *kept], dtype),
        {"use_peepholes": use_peepholes, "is_reverse": is_reverse, "gate_activation": gate_activation,
         "cell_activation": cell_activation, "candidate_activation": candidate_activation, "proj_activation": proj_activation,
         "cell_clip": float(cell_clip or 0), "proj_clip": float(proj_clip or 0)}, stops=kept)
    return out, cell


def dynamic_gru(input: Variable, size: int, param_attr: AttrLike = None, bias_attr: AttrLike = None, is_reverse: bool = False,
                gate_activation: str = "sigmoid", candidate_activation: str = "tanh", h_0: Variable | None = None,
                origin_mode: bool = False) -> Variable:
    """Return the hidden states of gated recurrent units over sequences ``[rows, 3 * size]``.

    The input is projected already, to update gate, reset gate and candidate. A state is ``(1 - u) * before + u * candidate``,
    the other way round in ``origin_mode``.

    ``h_0`` [n, size] is the first hidden state of each sequence; None: zeros.

    >>> words = fluid.layers.data("words", [8], lod_level=1)
    >>> fluid.layers.dynamic_gru(fluid.layers.fc(words, 3 * 16), size=16)
    Variable('gru_0.tmp_0', float32[?, 16])
    """
    helper = LayerHelper("gru", input=input, param_attr=param_attr, bias_attr=bias_attr)
    dtype = helper.input().dtype
    _check_width("dynamic_gru", input, size, 3)
    inputs = {"Input": [input], "Weight": [helper.create_parameter(helper.param_attr, [size, 3 * size], dtype)],
              **_first_states(h_0, None)}
    bias = helper.create_parameter(helper.bias_attr, [1, 3 * size], dtype, is_bias=True)
    if bias is not None:
        inputs["Bias"] = [bias]
    return helper.append("gru", inputs, {"is_reverse": is_reverse, "gate_activation": gate_activation,
                                         "activation": candidate_activation, "origin_mode": origin_mode},
                         slot="Hidden", dtype=dtype, extra=["BatchGate", "BatchResetHiddenPrev", "BatchHidden"])


_UNIT_ACTIVATIONS = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}


def _unit_activation(name: str) -> int:
    if name not in _UNIT_ACTIVATIONS:
        raise ValueError(f"gru_unit: an activation must be one of {', '.join(_UNIT_ACTIVATIONS)}; got {name!r}")
    return _UNIT_ACTIVATIONS[name]


def gru_unit(input: Variable, hidden: Variable, size: int, param_attr: AttrLike = None, bias_attr: AttrLike = None,
             activation: str = "tanh", gate_activation: str = "sigmoid",
             origin_mode: bool = False) -> tuple[Variable, Variable, Variable]:
    """Return one step of gated recurrent units: the next hidden state, the reset one before it, and the gates.

    ``size`` is 3 times the hidden size: ``input`` is projected already, as for ``dynamic_gru``.

    ``activation`` is that of the candidate. A state is ``(1 - u) * before + u * candidate``, the other way round in ``origin_mode``.

    >>> x, before = fluid.layers.data("x", [48]), fluid.layers.data("before", [16])
    >>> fluid.layers.gru_unit(x, before, size=48)[0]
    Variable('gru_unit_0.tmp_2', float32[?, 16])
    """
    if size % 3:
        raise ValueError(f"gru_unit: size must be 3 times the hidden size, got {size!r}")
    acts = {"activation": _unit_activation(activation), "gate_activation": _unit_activation(gate_activation)}
    helper = LayerHelper("gru_unit", input=input, param_attr=param_attr, bias_attr=bias_attr)
    dtype, width = helper.input().dtype, size // 3
    inputs = {"Input": [input], "HiddenPrev": [helper.check_variable(hidden, "hidden")],
              "Weight": [helper.create_parameter(helper.param_attr, [width, 3 * width], dtype)]}
    bias = helper.create_parameter(helper.bias_attr, [1, 3 * width], dtype, is_bias=True)
    if bias is not None:
        inputs["Bias"] = [bias]
    gate, reset, after = helper.append_all("gru_unit", inputs, dict.fromkeys(["Gate", "ResetHiddenPrev", "Hidden"], dtype),
                                           {**acts, "origin_mode": origin_mode})
    return after, reset, gate


def lstm_unit(x_t: Variable, hidden_t_prev: Variable, cell_t_prev: Variable, forget_bias: float = 0.0,
              param_attr: AttrLike = None, bias_attr: AttrLike = None, name: str | None = None) -> tuple[Variable, Variable]:
    """Return the hidden state and the cell after one step of long short-term memory, projection of ``x_t`` included.

    ``hidden_t_prev`` and ``cell_t_prev`` are the state and the cell before the step. ``forget_bias`` is added to the forget gate.

    >>> x, hidden, cell = (fluid.layers.data(name, [size]) for name, size in (("x", 8), ("hidden", 16), ("cell", 16)))
    >>> fluid.layers.lstm_unit(x, hidden, cell)
    (Variable('lstm_unit_0.tmp_1', float32[?, 16]), Variable('lstm_unit_0.tmp_0', float32[?, 16]))
    """
    helper = LayerHelper("lstm_unit", name=name)
    for what, var in (("x_t", x_t), ("hidden_t_prev", hidden_t_prev), ("cell_t_prev", cell_t_prev)):
        if len(helper.check_variable(var, what).shape) != 2:
            raise ValueError(f"lstm_unit: {what} must be [batch, width], got {var!r}")
    if hidden_t_prev.shape[1] != cell_t_prev.shape[1]:
        raise ValueError(f"lstm_unit: hidden_t_prev and cell_t_prev must be equally wide, got {hidden_t_prev!r} and "
                         f"{cell_t_prev!r}")
    width = cell_t_prev.shape[1]
    if width is None:
        raise ValueError(f"lstm_unit: the width of cell_t_prev must be known, got {cell_t_prev!r}")
    gates = fc(concat([x_t, hidden_t_prev], axis=1), 4 * width, param_attr=param_attr,
               bias_attr=bias_attr)
    cell, hidden = helper.append_all("lstm_unit", {"X": [gates], "C_prev": [cell_t_prev]}, {"C": x_t.dtype, "H": x_t.dtype},
                                     {"forget_bias": float(forget_bias)})
    return hidden, cell


__all__ = ["dynamic_lstm", "dynamic_lstmp", "dynamic_gru", "gru_unit", "lstm_unit"]
