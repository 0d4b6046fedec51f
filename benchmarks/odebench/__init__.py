"""ODEBench: 61 systems of dimension 1 to 3, two initial states each, corrupted in six settings."""
