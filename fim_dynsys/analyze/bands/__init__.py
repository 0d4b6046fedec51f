"""What the draws of a posterior, or the members of an ensemble, make of each object of an analysis."""
