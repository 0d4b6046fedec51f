"""Extended dynamic mode decomposition (EDMD) of the Koopman generator, as a model of fim-dynsys."""

from fim_dynsys.registry import ModelSpec

spec = ModelSpec(
    name="edmd",
    summary="Koopman generator by regression on monomials: the linear standard",
    factory="fim_dynsys_edmd.model:EDMD",
)

map_spec = ModelSpec(
    name="edmd-map",
    summary="Koopman operator over one time step on monomials, a discrete map",
    factory="fim_dynsys_edmd.map:EDMDMap",
)
