"""Proposals of genetic programming, an optional package, for the searches that fit trajectories."""
