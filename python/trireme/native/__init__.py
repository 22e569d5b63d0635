"""Handles to the native core, errors, names, types, tensors: what every other part of the package stands on."""
