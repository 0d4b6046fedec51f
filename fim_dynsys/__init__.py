"""From noisy trajectories to dynamics: infer the vector field of an unknown ODE, then study it."""
