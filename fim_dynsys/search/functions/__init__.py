"""Candidates with functions beyond monomials."""
