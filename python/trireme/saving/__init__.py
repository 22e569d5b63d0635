"""Variables in files: saving, loading, taking over values of other models."""
