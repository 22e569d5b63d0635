"""Fluid's additions: decoders, a trainer of functions, memory estimates, optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..native.lazy import load_later

if TYPE_CHECKING:
    from . import decoder, extend_optimizer, inferencer, memory_usage_calc, mixed_precision, op_frequence, trainer
    from .decoder import BeamSearchDecoder, InitState, StateCell, TrainingDecoder
    from .extend_optimizer import extend_with_decoupled_weight_decay
    from .memory_usage_calc import memory_usage
    from .op_frequence import op_freq_statistic

__getattr__, __dir__ = load_later(__name__, {
    "": ("decoder", "extend_optimizer", "inferencer", "memory_usage_calc", "mixed_precision", "op_frequence", "trainer"),
    "decoder": ("BeamSearchDecoder", "InitState", "StateCell", "TrainingDecoder"),
    "extend_optimizer": ("extend_with_decoupled_weight_decay",),
    "memory_usage_calc": ("memory_usage",),
    "op_frequence": ("op_freq_statistic",),
})

__all__ = ["BeamSearchDecoder", "InitState", "StateCell", "TrainingDecoder", "decoder", "extend_optimizer",
           "extend_with_decoupled_weight_decay", "inferencer", "memory_usage", "memory_usage_calc", "mixed_precision", "op_freq_statistic",
           "op_frequence", "trainer"]
