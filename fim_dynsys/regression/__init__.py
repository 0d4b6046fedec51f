"""Numerics of regression: smoothing, sparse solves, criteria, trajectory fits, compiled kernels."""
