"""How layers make parameters and append operators: names of ``trireme.parameters.layer_helper``."""

from .parameters.layer_helper import LayerHelper as LayerHelper

__all__ = ["LayerHelper"]
