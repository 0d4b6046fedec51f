"""Pretraining that is killed again and again against pretraining that is left alone."""
