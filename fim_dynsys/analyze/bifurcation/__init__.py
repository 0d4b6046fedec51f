"""Equilibria and cycles over a parameter, of a known family and of data."""
