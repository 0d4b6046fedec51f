"""Genetic programming with Operon on smoothed slopes, as a model of fim-dynsys."""

from fim_dynsys.registry import ModelSpec

spec = ModelSpec(
    name="operon",
    summary="genetic programming on smoothed slopes, constants fitted to the trajectories",
    factory="fim_dynsys_operon.model:Operon",
    needs_training=True,
)
