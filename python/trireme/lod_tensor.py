"""LoDTensors by hand: see ``core.LoDTensor``."""

from .native.tensor import create_lod_tensor, create_random_int_lodtensor

__all__ = ["create_lod_tensor", "create_random_int_lodtensor"]
