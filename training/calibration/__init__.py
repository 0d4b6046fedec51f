"""Error bars of inferred fields, fitted on known systems."""
