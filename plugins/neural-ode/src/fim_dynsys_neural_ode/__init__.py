"""Neural ordinary differential equations, as a model of fim-dynsys."""

from fim_dynsys.registry import ModelSpec

spec = ModelSpec(
    name="neural-ode",
    summary="a network as the field, fitted to trajectories by multiple shooting",
    factory="fim_dynsys_neural_ode.model:NeuralODE",
    needs_training=True,
)
