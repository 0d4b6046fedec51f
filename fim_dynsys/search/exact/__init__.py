"""Exact equations from noise-free data: structures of neighbouring samples, fitted to full precision."""
