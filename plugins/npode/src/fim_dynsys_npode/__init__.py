"""Nonparametric ordinary differential equations (npODE), as a model of fim-dynsys."""

from fim_dynsys.registry import ModelSpec

spec = ModelSpec(
    name="npode",
    summary="kernel field through inducing vectors, fitted to the path (Heinonen et al. 2018)",
    factory="fim_dynsys_npode.model:NPODE",
)
