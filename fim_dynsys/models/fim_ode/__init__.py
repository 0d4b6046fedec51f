"""FIM-ODE: pretrained operators that map trajectories to a vector field."""
