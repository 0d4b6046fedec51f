"""Candidates for contexts with known answers, and what each is worth.

A label says whether a candidate reconstructs the observed trajectory and follows two others of the system
(R2 > 0.9), how far its field is off along them, and whether it has exactly the terms of a polynomial system.
"""

from collections.abc import Callable

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.metrics import r2_score
from fim_dynsys.models.fim_ode.choice import consider
from fim_dynsys.models.fim_ode.own import FIMODE
from fim_dynsys.regression.observed import Observations
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.trajectories.container import Trajectories
from training.choice.contexts import KnownContext
from training.evaluate import THRESHOLD
from training.systems.fields import MAX_DEGREE

WORST = 1e3
"""Relative error of a field, beyond which it makes no difference."""
POINTS = 100
"""Points along each path of a label where fields are compared."""
STEP = 0.1
"""Longest Runge-Kutta step of a label, in the data's unit of time."""

N_LABELS = 5
"""Columns of `label`."""

# (context, what is observed of it, random numbers) to features (C, F) and labels (C, 5) of its candidates.
MakeCandidates = Callable[[KnownContext, Trajectories, np.random.Generator], tuple[np.ndarray, np.ndarray]]


def label(
    context: KnownContext, observations: Observations, dictionary: Dictionary, coefficients: np.ndarray
) -> np.ndarray:
    """Reconstruction, mean generalisation, errors of the field along both, exact terms (C, `N_LABELS`).

    Parameters
    ----------
    context : KnownContext
        What was observed of which system.
    observations : Observations
        The same in scaled units.
    dictionary : Dictionary
        Terms of all candidates.
    coefficients : array (C, m, d)
        Candidates, in scaled units.
    """
    starts = np.tile(context.paths[:, 0] / observations.scale, (len(coefficients), 1, 1))
    times = context.label_t[None] / observations.time_unit
    success = np.zeros((len(coefficients), len(context.paths)))
    for k, truth in enumerate(context.paths):  # one at a time: a field that fails one is not given up
        paths = rollout(dictionary, coefficients, starts[:, k : k + 1], times, STEP)
        for c, path in enumerate(paths[:, 0] * observations.scale):
            success[c, k] = np.isfinite(path).all() and r2_score(truth, path) > THRESHOLD
    errors = []
    for points in (context.paths[0], context.paths[1:].reshape(-1, observations.dim)):
        points = points[:: max(len(points) // POINTS, 1)]
        truth = context.field(points) * observations.time_unit / observations.scale
        scaled = points / observations.scale
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            said = np.stack([DictionaryField(dictionary, own)(scaled) for own in coefficients])
        gap = np.nan_to_num(np.abs(said - truth).mean(axis=(1, 2)), nan=WORST, posinf=WORST)
        errors.append(np.minimum(gap / (np.abs(truth).mean() + 1e-9), WORST))
    exact = _exact(context.field, dictionary, coefficients)
    return np.column_stack([success[:, 0], success[:, 1:].mean(axis=1), *errors, exact])


def _exact(truth: VectorField, dictionary: Dictionary, coefficients: np.ndarray) -> np.ndarray:
    """Whether each candidate (C, m, d) has the terms of a polynomial and no other (C,); of no other truth."""
    if not isinstance(truth, DictionaryField) or not truth.dictionary.is_polynomial:
        return np.zeros(len(coefficients))
    terms, (own, true) = union([dictionary, truth.dictionary])
    expected, found = np.zeros((2, len(terms), truth.dim), dtype=bool)
    expected[true] = truth.coefficients != 0
    exact = []
    for values in coefficients:
        found[own] = values != 0
        exact.append((found == expected).all())
    return np.array(exact)


def operator_candidates(model: FIMODE) -> MakeCandidates:
    """What makes features and labels of the operator's candidates for one context."""

    def candidates(
        context: KnownContext, observed: Trajectories, _: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        ((solves, variances),) = model.opinions([observed])
        dictionary = Dictionary.polynomial(observed.dim, MAX_DEGREE)
        found = consider(observed, dictionary, solves, variances, laws=False)
        coefficients = np.stack([c.coefficients for c in found.candidates])
        return found.features(), label(context, found.search.observations, dictionary, coefficients)

    return candidates
