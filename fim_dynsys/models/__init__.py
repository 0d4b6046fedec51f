"""Models that infer a vector field from trajectories."""
