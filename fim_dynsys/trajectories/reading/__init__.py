"""Files of other people and instruments, into trajectories."""
