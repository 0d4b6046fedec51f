"""Compiled loops, one job a file."""
