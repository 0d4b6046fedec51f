"""Batched adaptive integration."""
