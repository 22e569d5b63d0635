"""What changes whole programs, under Fluid's names."""

from ..distributed.fluid_transpiler import DistributeTranspiler, DistributeTranspilerConfig
from . import details, distribute_transpiler
from .dispatch import HashName, PSDispatcher, RoundRobin
from .memory import InferenceTranspiler, memory_optimize, release_memory

__all__ = ["DistributeTranspiler", "DistributeTranspilerConfig", "HashName", "InferenceTranspiler", "PSDispatcher", "RoundRobin", "details",
           "distribute_transpiler", "memory_optimize", "release_memory"]
