"""Decoders of recurrent nets: one description of a step serves training and beam search."""

from .beam_search_decoder import BeamSearchDecoder, InitState, StateCell, TrainingDecoder

__all__ = ["InitState", "StateCell", "TrainingDecoder", "BeamSearchDecoder"]
