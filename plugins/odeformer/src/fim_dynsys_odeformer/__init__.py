"""The pretrained symbolic transformer ODEFormer, as a model of fim-dynsys."""

from fim_dynsys.registry import ModelSpec

spec = ModelSpec(
    name="odeformer",
    summary="pretrained symbolic transformer; needs the authors' weights",
    factory="fim_dynsys_odeformer.model:odeformer",
    max_dim=6,
    needs_training=True,
)
