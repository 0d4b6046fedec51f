"""Measures of records and of attractors: delays, recurrences, dimensions, chaos."""
