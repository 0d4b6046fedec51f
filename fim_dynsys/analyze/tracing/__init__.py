"""Curves of zeros and collocated orbits, traced by arclength: what continuation rests on."""
