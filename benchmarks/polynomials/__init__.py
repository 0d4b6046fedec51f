"""Random polynomials up to degree 3 and 6, from one short context: trajectories and field."""
