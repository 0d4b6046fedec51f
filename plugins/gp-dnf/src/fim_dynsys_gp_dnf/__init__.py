"""Gaussian-process ODEs via double normalizing flows (GP-DNF), our reading, as a model of fim-dynsys."""

from fim_dynsys.registry import ModelSpec

spec = ModelSpec(
    name="gp-dnf",
    summary="GPODE with flows of its field and of its posterior; our reading of Xu et al. 2025",
    factory="fim_dynsys_gp_dnf.model:GPDNF",
    needs_training=True,
)
