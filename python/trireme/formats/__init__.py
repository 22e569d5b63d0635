"""Formats of others: inference programs for ONNX (``export_onnx``), arrays as safetensors (``load_safetensors``, ``save_safetensors``).

Arrow and Parquet are inputs of ``fluid.Dataset``; NumPy and DLPack arrays are fed and fetched as they are. docs/formats-of-others.md
describes all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..native.lazy import load_later

if TYPE_CHECKING:
    from .onnx_export import export_onnx, onnx_operators
    from .safetensors import load_safetensors, save_safetensors

if not TYPE_CHECKING:                                  # a checker that saw it would take any name
    __getattr__, __dir__ = load_later(__name__, {
        "onnx_export": ("export_onnx", "onnx_operators"),
        "safetensors": ("load_safetensors", "save_safetensors"),
    })

__all__ = ["export_onnx", "load_safetensors", "onnx_operators", "save_safetensors"]
