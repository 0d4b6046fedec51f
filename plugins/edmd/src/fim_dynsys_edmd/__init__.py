"""Extended dynamic mode decomposition (EDMD) of the Koopman generator, as a model of fim-dynsys."""

from fim_dynsys.registry import ModelSpec

spec = ModelSpec(
    name="edmd",
    summary="Koopman generator by regression on monomials: the linear standard",
    factory="fim_dynsys_edmd.model:EDMD",
)
