"""Knowledge imposed on a fitted field to numerical precision; standard errors of its free coefficients."""

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.estimation.known import Reader
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.posterior import FittedField
from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.regression.criteria import Noise
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.standard_errors import standard_errors
from fim_dynsys.trajectories.container import Trajectories

_FEWEST = 5  # samples of a trajectory along which a quantity can be seen to drift
_DRIFTS = ((2.0, 0.2), (3.0, 0.02))
"""A drift, in scatters from sample to sample, and in ranges that a quantity has if one state alone varies.

The latter are summed, and more than their share where sums cancel. Noise alone drifts by 1 scatter.
"""


def honoured(
    field: DictionaryField | DrivenField, knowledge: Knowledge | None, degree: int
) -> DictionaryField | DrivenField:
    """A field that satisfies what is known but for rounding, without it.

    Searches work in units of their own; coming back from them costs the last digit.

    Parameters
    ----------
    field : DictionaryField or DrivenField
        In the units of the data.
    knowledge : Knowledge or None
        What it was searched with.
    degree : int
        Of the monomials that were searched.

    Returns
    -------
    DictionaryField or DrivenField
        The given one where nothing is known.
    """
    if knowledge is None:
        return field
    inputs = field.input_names if isinstance(field, DrivenField) else ()
    given = field.extended if isinstance(field, DrivenField) else field
    assert isinstance(given, DictionaryField)
    monomials = Dictionary.polynomial(field.dim + len(inputs), degree)
    terms, (_, rows) = union([monomials, given.dictionary])
    known = knowledge.restriction(monomials, field.state_names, inputs).extended(monomials, terms)
    values = np.zeros((len(terms), field.dim))
    values[rows] = given.coefficients[:, : field.dim]
    values = known.clipped(values)[rows]
    if not inputs:
        return DictionaryField(given.dictionary, values, context=field.context, fit_info=field.fit_info)
    values = np.concatenate([values, np.zeros((len(rows), len(inputs)))], axis=1)
    assert field.context is not None
    return DrivenField.of(given.dictionary, values, field.context, field.fit_info)


def with_errors(
    field: DictionaryField | DrivenField,
    fitted: bool,
    *,
    free: Iterable[Sequence[int]] = (),
    knowledge: Knowledge | None = None,
    degree: int = 0,
    positions: Sequence[str] | None = None,
    sigma: Sequence[np.ndarray] | Noise | None = None,
    window: float | None = None,
) -> DictionaryField | DrivenField:
    """The field as `honoured` gives it, with standard errors that are found when they are first needed.

    Parameters
    ----------
    field : DictionaryField or DrivenField
        Found by a search.
    fitted : bool
        Whether it was fitted to the trajectories; without, no errors are known.
    free, knowledge, degree, positions, sigma, window
        See `standard_errors`.

    Returns
    -------
    FittedField, or DrivenField of one
    """
    constrained = honoured(field, knowledge, degree)
    errors = partial(
        standard_errors,
        free=free,
        knowledge=knowledge,
        degree=degree,
        positions=positions,
        sigma=sigma,
        window=window,
    )
    if not isinstance(constrained, DrivenField):
        return FittedField.of(constrained, errors if fitted else None)

    def of_driven(_: object) -> ArrayLike | None:
        return errors(constrained)

    assert isinstance(constrained.extended, DictionaryField)
    extended = FittedField.of(constrained.extended, of_driven if fitted else None)
    return DrivenField(
        extended, constrained.input_names, context=constrained.context, fit_info=constrained.fit_info
    )


def contradictions(given: object, trajectories: Trajectories) -> list[str]:
    """What data say against conserved quantities, beyond what noise around them would.

    A conserved quantity with noise scatters from sample to sample; one that is not drifts along a trajectory.

    Parameters
    ----------
    given : Knowledge, dict or None
        What is to hold.
    trajectories : Trajectories
        What was observed.

    Returns
    -------
    list of str
    """
    knowledge = Knowledge.of(given)
    if knowledge is None or not knowledge.conserved:
        return []
    import sympy

    names = trajectories.state_names
    complete = [x[np.isfinite(x).all(axis=1)] for _, x in trajectories.arrays()]
    found = []
    for text in knowledge.conserved:
        try:
            expression = Reader("Knowledge", names, ())(text)
        except ValueError:  # searches refuse it
            continue
        symbols = sorted(expression.free_symbols, key=str)
        places = [names.index(str(symbol)) for symbol in symbols if str(symbol) in names]
        if len(places) < len(symbols):
            continue
        value = sympy.lambdify(symbols, expression, "numpy")
        for k, x in enumerate(complete):
            if len(x) < _FEWEST:
                continue
            states, middle = x[:, places].T, x[:, places].mean(axis=0)
            with np.errstate(all="ignore"):
                along = value(*states) * np.ones(len(x))
                alone = [
                    np.ptp(value(*(s if i == j else middle[j] for j, s in enumerate(states))))
                    for i in range(len(places))
                ]
            scatter = np.std(np.diff(along)) / np.sqrt(2.0)
            times, share = np.std(along) / max(scatter, 1e-300), np.ptp(along) / max(np.sum(alone), 1e-300)
            if any(times > least and share > drift for least, drift in _DRIFTS):
                found.append(
                    f"{text} goes from {along[0]:.3g} to {along[-1]:.3g} in trajectory {k}, between "
                    f"{along.min():.3g} and {along.max():.3g}"
                )
                break
    return found
