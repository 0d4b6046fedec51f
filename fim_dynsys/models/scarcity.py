"""Fits that few samples decide, or values at different times, as notes for readers."""

from dataclasses import replace

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Judge, Noise
from fim_dynsys.regression.gaps import has_gaps, lone_inputs
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.wording import counted

FEW = 12  # samples: an estimate of the noise from these is off by a fifth
_SPARE = 2.0  # values for each fitted number: with fewer, other equations may fit as well
_CLOSE = 2.5e-5  # share of the variance that a path leaves: errors of .5 % of the spread decide little
_EXACT = 4e-6  # the same for each free value, of equations that were fitted to numerical precision: .2 %
_BEGINNING = "few samples decide"
_UNSEARCHED = f"{Judge.OPERATOR.value}: fewer than"  # so many samples, as fim-ode notes
_INPUTS_ALONE = "inputs alone, which fits follow"
_NOT_OBSERVED = "not observed, fits count the others"


def noting_few_samples(field: VectorField, info: FitInfo, context: Trajectories, known: bool) -> FitInfo:
    """The facts of a fit with a note where few samples decide.

    Parameters
    ----------
    field : VectorField
        Inferred.
    info : FitInfo
        Of it.
    context : Trajectories
        What it was inferred from.
    known : bool
        Whether errors of the observations were given.
    """
    inference = info.inference
    if inference.judge == Judge.OPERATOR or any(said.startswith(_BEGINNING) for said in inference.notes):
        return info  # which says so itself
    seen = [np.isfinite(x) for _, x in context.arrays()]
    values, fewest = int(sum(s.sum() for s in seen)), int(sum(s.sum(axis=0) for s in seen).min())
    terms = field.complexity if isinstance(field, DictionaryField) else 0
    if isinstance(field, DrivenField):
        terms = int(np.count_nonzero(field.coefficients))
    starts = sum(len(times) > 1 for times in seen) * field.dim
    known = known or inference.noise in (Noise.GIVEN, Noise.POISSON)
    # A fit "to numerical precision" of so few samples may follow their noise: what it leaves decides.
    free = max(values - terms - starts, 1) / values
    little = _EXACT * free if inference.judge is Judge.EXACT else _CLOSE
    exact = info.path_r2 is not None and 1.0 - info.path_r2 < little
    if terms and values < _SPARE * (terms + starts):
        said = f"{values} values for {counted(terms, 'coefficient')} and {counted(starts, 'initial state')}"
    elif fewest <= FEW and not (known or exact):
        said = f"{fewest} of each state, and their noise is not known (sigma= gives it)"
    else:
        return info
    return replace(info, inference=replace(inference, scarce=True)).noting(f"{_BEGINNING}: {said}")


def scarcity(info: FitInfo) -> str | None:
    """The note that few samples decide; None where there is none."""
    said = (note for note in info.inference.notes if note.startswith((_BEGINNING, _UNSEARCHED)))
    return next(said, None)


def noting_gaps(info: FitInfo, context: Trajectories) -> FitInfo:
    """The facts of a fit with notes where states were observed at different times, or inputs at more."""
    alone = lone_inputs(context)
    if alone and not any(said.endswith(_INPUTS_ALONE) for said in info.inference.notes):
        info = info.noting(f"{counted(alone, 'row is', 'rows are')} of {_INPUTS_ALONE}")
    if not has_gaps(context) or any(said.endswith(_NOT_OBSERVED) for said in info.inference.notes):
        return info
    seen = np.concatenate([np.isfinite(x) for _, x in context.arrays()])
    seen = seen[seen.any(axis=1)] if alone else seen
    return info.noting(f"{int((~seen).sum())} of {seen.size} values were {_NOT_OBSERVED}")
