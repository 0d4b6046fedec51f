"""Cascaded tanks: a measured system with a hidden state and an overflow."""
