"""Candidate fields: proposed, fitted to the trajectories, stripped, and chosen among."""
