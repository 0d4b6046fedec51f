"""Small tables of real measurements: how their held-out ends are predicted, and what equations come out."""
