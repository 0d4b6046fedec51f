"""Generator EDMD: a field, and a linear flow of monomials, from smoothed states and slopes."""

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.regression.observed import SPLINE, complete_samples, largest_degree, observe
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys_edmd.generator import Generator, estimated, lifted

RIDGES = (1e-10, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1)


class EDMD(VectorFieldModel):
    """The Koopman generator on monomials by regression; its columns of the coordinates are the field.

    The rates of change of all monomials along the smoothed observations are regressed on the monomials, with
    a ridge and no sparsity. States are scaled by their root mean square and times by the pace of the state,
    so that units do not matter.

    Parameters
    ----------
    degree : int, optional
        Largest total degree of the monomials; default chosen among 1 to 3, as far as the samples suffice,
        by how well blocks of consecutive samples, left out in turn, are predicted.
    ridge : float, optional
        Of the mean square of a column; default chosen likewise.

    References
    ----------
    S. Klus, F. Nüske, S. Peitz et al., Data-driven approximation of the Koopman generator: model reduction,
    system identification, and control, Physica D 406 (2020) 132416, sections 3.1 and 4.1.
    """

    name = "edmd"
    version = "1"
    min_observations = 5
    scale_equivariance = 1e-6

    def __init__(self, degree: int | None = None, ridge: float | None = None) -> None:
        self.degree = degree
        self.ridge = ridge

    def infer(self, trajectories: Trajectories) -> VectorField:
        """The field of the generator; `fit_info.report` holds its eigenvalues."""
        generator, report, starts, level = self._estimate(trajectories)
        dictionary, coefficients = generator.dictionary.rescaled(
            generator.coefficients, generator.scale, generator.time_unit
        )
        info = FitInfo(initial_states=starts, noise_level=level, report=report)
        return DictionaryField(dictionary, coefficients, context=trajectories, fit_info=info)

    def generator(self, trajectories: Trajectories) -> Generator:
        """The generator itself: eigenvalues, eigenfunctions, the linear flow of the monomials."""
        return self._estimate(trajectories)[0]

    def _estimate(self, trajectories: Trajectories) -> tuple[Generator, dict, np.ndarray | None, np.ndarray]:
        check_parameters(self._caller, self.degree, self.ridge)
        observations = observe(complete_samples(trajectories, self._caller, self.min_observations))
        states, slopes = (np.concatenate(part) for part in zip(*observations.splines, strict=True))
        dictionary, matrix, degree, ridge = estimated(
            states,
            slopes,
            observations.row_weights(SPLINE),
            range(1, largest_degree(*states.T.shape) + 1) if self.degree is None else (self.degree,),
            RIDGES if self.ridge is None else (self.ridge,),
            lambda monomials: lifted(monomials, states, slopes),
        )
        generator = Generator(dictionary, matrix, observations.scale, observations.time_unit)
        values = generator.eigenvalues
        report = {
            "degree": degree,
            "ridge": ridge,
            "eigenvalues": [[float(v.real), float(v.imag)] for v in values],
        }
        complete = len(observations.first) == len(trajectories)
        starts = observations.initial_states(observations.start) * observations.scale if complete else None
        return generator, report, starts, observations.noise_level


def check_parameters(caller: str, degree: object, ridge: float | None) -> None:
    """ValueError where degree or ridge are no such things."""
    if degree is not None and not (isinstance(degree, int) and degree >= 1):
        raise ValueError(f"{caller}: expected degree >= 1 or None, got {degree!r}.")
    if ridge is not None and not 0.0 <= ridge < np.inf:
        raise ValueError(f"{caller}: expected ridge >= 0 or None, got {ridge!r}.")
