"""Bayesian neural ordinary differential equations, as a model of fim-dynsys."""

from fim_dynsys.registry import ModelSpec

spec = ModelSpec(
    name="bayesian-neural-ode",
    summary="a posterior over networks as fields, sampled by NUTS on a multiple-shooting likelihood",
    factory="fim_dynsys_bayesian_neural_ode.model:BayesianNeuralODE",
    needs_training=True,
)
