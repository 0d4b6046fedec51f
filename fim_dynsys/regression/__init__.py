"""Regression shared by every model whose field is a sum of dictionary terms."""
