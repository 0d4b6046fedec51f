"""The benchmark of fixed points: those of inferred fields against the true ones."""
