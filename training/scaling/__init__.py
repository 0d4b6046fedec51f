"""Held-out accuracy against compute, for several designs."""
