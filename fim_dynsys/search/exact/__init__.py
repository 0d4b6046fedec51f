"""Exact laws from clean data: structures that neighbouring samples determine, fitted to the digits."""
