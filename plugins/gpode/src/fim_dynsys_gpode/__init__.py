"""Bayesian ordinary differential equations with Gaussian-process fields (GPODE), as a model of fim-dynsys."""

from fim_dynsys.registry import ModelSpec

spec = ModelSpec(
    name="gpode",
    summary="sparse variational Gaussian-process field, by multiple shooting (Hegde et al. 2022)",
    factory="fim_dynsys_gpode.model:GPODE",
    needs_training=True,
)
