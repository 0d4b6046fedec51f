"""Where identification breaks: exact structures against noise, samples and trajectories."""
