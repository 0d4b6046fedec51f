"""Curves and sets of state space: nullclines, invariant manifolds, basins of attraction."""
