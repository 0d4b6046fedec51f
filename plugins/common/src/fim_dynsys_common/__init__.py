"""Numerics that several comparators share. Import the modules themselves."""
