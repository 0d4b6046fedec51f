"""Latent stochastic differential equations by moment matching, as a model of fim-dynsys."""

from fim_dynsys.registry import ModelSpec

spec = ModelSpec(
    name="latent-sde",
    summary="latent SDE whose Gaussian moments are matched; forecasts without a vector field",
    factory="fim_dynsys_latent_sde.model:LatentSDE",
    needs_training=True,
)
