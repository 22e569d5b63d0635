"""Serving: a model is loaded once and run from many threads, and a training exports to it while it goes on.

    exporter = fluid.serving.Exporter("exports", ["ids"], [click], exe)     # in the training
    exporter.export()                                                       # now and then: what has changed

    predictor = fluid.serving.Predictor("exports")                          # in another process, of this or another host
    predictor.follow(seconds=1)                                             # take what is newer as it comes
    click, = predictor.run({"ids": ids})                                    # from any thread

``fluid.serving.Predictor`` runs models of ``save_inference_model``, too. docs/serving.md describes all this, and the same in C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..native.lazy import load_later

if TYPE_CHECKING:
    from .exporter import Export, Exporter, export_model
    from .predictor import Predictor

if not TYPE_CHECKING:                                  # a checker that saw it would take any name
    __getattr__, __dir__ = load_later(__name__, {
        "exporter": ("Export", "Exporter", "export_model"),
        "predictor": ("Predictor",),
    })

__all__ = ["Export", "Exporter", "Predictor", "export_model"]
