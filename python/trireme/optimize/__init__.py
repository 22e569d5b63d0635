"""Optimizers, and what is done to gradients and averages around them."""
