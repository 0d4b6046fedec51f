"""Pretraining of the FIM-ODE operators."""
