"""Periodic orbits and Poincare sections."""
