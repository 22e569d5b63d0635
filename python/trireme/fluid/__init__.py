"""Names and modules that only scripts of Fluid need."""
