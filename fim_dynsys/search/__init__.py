"""Candidate fields: proposed, fitted to the trajectories, pruned, and chosen among."""
