"""What was observed: trajectories, how they are laid out, read, written, checked and shown."""
