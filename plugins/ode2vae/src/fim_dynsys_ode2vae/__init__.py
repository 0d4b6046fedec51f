"""Second-order latent ODEs with Bayesian neural networks (ODE2VAE), as a model of fim-dynsys."""

from fim_dynsys.registry import ModelSpec

spec = ModelSpec(
    name="ode2vae",
    summary="second-order latent ODE with a Bayesian network; forecasts without a vector field",
    factory="fim_dynsys_ode2vae.model:ODE2VAE",
    needs_training=True,
)
