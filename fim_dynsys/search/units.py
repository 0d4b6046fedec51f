"""What units say of equations before any data: rates of change among the states, logarithms of quantities."""

import itertools
import keyword
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.fields.units import Units
from fim_dynsys.regression.observed import Observations
from fim_dynsys.search.candidates import Candidate, judge
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import refine
from fim_dynsys.trajectories.container import Trajectories

REFITTED = 3
"""Candidates found without what units suggest that are fitted again with it."""

ODDS = 20.0
"""Before the data, to one: a state is the rate of change that its unit says, where it looks like that."""

_UNEXPLAINED = 0.5  # of a state's variance, by the integral of what may be its rate
_MOST = 4  # states that may be rates of one


def rates_by_units(trajectories: Trajectories) -> Knowledge | None:
    """Equations ``x' = v`` that units suggest and the samples do not contradict at first sight.

    A coefficient that is a pure number takes no scale from nature: beside a position in m and a velocity in
    cm/s, x' is .01 v. Proposed are sums of such states with pure coefficients 1 and -1, as in balances of
    flows, whose integral leaves less than half of the state's variance; of several the nearest.

    Parameters
    ----------
    trajectories : Trajectories
        Complete samples, with units of states and of time.

    Returns
    -------
    Knowledge or None
        None where there is no such equation.
    """
    names = trajectories.state_names
    units = Units.of(trajectories.units, names)
    known = {}
    for state, name in enumerate(names):
        rates = {i: factor for i, factor in units.rates(state).items() if _is_readable(names[i])}
        if 0 < len(rates) <= _MOST:
            signs = _signs(trajectories, state, rates)
            numbers = [(names[i], sign * rates[i]) for i, sign in zip(rates, signs, strict=True) if sign]
            parts = [name if number == 1.0 else f"{number!r}*{name}" for name, number in numbers]
            if parts:
                known[name] = " + ".join(parts)
    return Knowledge(known=known) if known else None


def _is_readable(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _signs(trajectories: Trajectories, state: int, rates: dict[int, float]) -> tuple[int, ...]:
    """Of the sum of rates whose integral comes nearest to a state; all 0 where none comes near."""
    changes, integrals = [], []
    for t, x in trajectories.arrays():
        flow = x[:, list(rates)] * list(rates.values())
        steps = 0.5 * (flow[1:] + flow[:-1]) * np.diff(t)[:, None]
        integral = np.concatenate([np.zeros((1, len(rates))), np.cumsum(steps, axis=0)])
        changes.append(x[:, state] - x[:, state].mean())
        integrals.append(integral - integral.mean(axis=0))
    change, integral = np.concatenate(changes), np.concatenate(integrals)
    tried = list(itertools.product((0, 1, -1), repeat=len(rates)))
    variances = [float(np.mean((change - integral @ signs) ** 2)) for signs in tried]
    best = min(range(len(tried)), key=variances.__getitem__)
    return tried[best if variances[best] < _UNEXPLAINED * variances[0] else 0]


def fitted_with_constraints(search: Search, found: Sequence[Candidate]) -> list[Candidate]:
    """Candidates that were found without knowledge, fitted again with it.

    Parameters
    ----------
    search : Search
        With a restriction.
    found : sequence of Candidate
        Of the same observations.
    """
    out = []
    for item in found:
        terms, rows, known, coefficients = search.restricted(item.dictionary, item.coefficients)
        polynomial = len(terms) == len(search.dictionary)
        whole = search.dictionary if polynomial else terms
        constrained = replace(
            item, coefficients=known.clipped(coefficients), dictionary=whole, restriction=known
        )
        free = [(int(rows[term]), slot, number) for term, slot, number in item.labelled]
        start = constrained if polynomial else constrained.in_use(free)
        fitted, _ = refine(search.observations, start, search.observations.path)
        if np.isfinite(fitted.parameters).all() and np.isfinite(fitted.score):
            out.append(fitted)
    return judge(search.observations, out)


def is_accepted(suggested: Knowledge, constrained: float, free: float) -> bool:
    """Whether equations that units suggest are believed, by BIC with and without: `ODDS` to one for each."""
    return constrained <= free + 2.0 * len(suggested.known) * math.log(ODDS)


def by_units(suggested: Knowledge, constrained: float, free: float) -> dict[str, str]:
    """For the report of a field: equations that units suggest, and what became of them."""
    taken = is_accepted(suggested, constrained, free)
    odds = f"prior odds {ODDS:.0f} : 1 for each"
    equations = _written(suggested)
    said = (
        f"{equations} {'' if taken else 'not '}taken: BIC {constrained:.1f} with, {free:.1f} without; {odds}"
    )
    return {"units": said}


def suggestion_note(suggested: Knowledge) -> str:
    """What a reader should know of equations that units suggested and that were taken."""
    return f"by units {_written(suggested)}"


def _written(suggested: Knowledge) -> str:
    return "; ".join(f"{name}' = {text}" for name, text in suggested.known.items())


def homogeneous(
    observations: Observations, found: list[Candidate], trajectories: Trajectories
) -> list[Candidate]:
    """Candidates whose logarithms of dimensional states have a number of their own.

    ``x log x`` of a length is ``x log(x/K)``, two terms: K is no pure number. Candidates with the first alone
    get the second too and are fitted again; where knowledge restricts coefficients, they are left out.

    Parameters
    ----------
    observations : Observations
        Data.
    found : list of Candidate
        Judged by integration, best first.
    trajectories : Trajectories
        The same data with their units.

    Returns
    -------
    list of Candidate
        The very same list where nothing is against units.
    """
    units = Units.of(trajectories.units, trajectories.state_names)
    dimensional = [i for i in range(trajectories.dim) if units.has_dimension(i)]
    lacking = [_lacking(item, dimensional) for item in found]
    if not any(lacking):
        return found
    kept = [item for item, terms in zip(found, lacking, strict=True) if not terms]
    structures = {item.structure for item in kept}
    for item, terms in zip(found, lacking, strict=True):
        if not terms or item.restriction is not None:
            continue
        whole = _with_monomials(item, terms)
        if whole.structure not in structures:
            structures.add(whole.structure)
            fitted, _ = refine(observations, whole, observations.path)
            if np.isfinite(fitted.parameters).all() and np.isfinite(fitted.score):
                kept.append(fitted)
    return judge(observations, kept)


def _lacking(item: Candidate, dimensional: Sequence[int]) -> list[tuple[tuple[int, ...], int]]:
    """Exponents and equation of monomials that logarithms ask for."""
    d, coefficients = item.dictionary, item.coefficients
    fitted = set(item.free[:, 0].tolist())
    has = {
        (tuple(d.exponents[row].tolist()), state)
        for row in np.flatnonzero(d.kind == Kind.MONOMIAL)
        for state in np.flatnonzero(coefficients[row])
    }
    asked = [
        (tuple(d.exponents[row].tolist()), state)
        for row in np.flatnonzero(d.kind == Kind.LOG).tolist()
        if d.coordinate[row] in dimensional and row not in fitted
        for state in np.flatnonzero(coefficients[row]).tolist()
    ]
    return [term for term in asked if term not in has]


def _with_monomials(item: Candidate, monomials: list[tuple[tuple[int, ...], int]]) -> Candidate:
    """The candidate with more monomials, which start at a trifle."""
    more = Dictionary(np.array(sorted({exponents for exponents, _ in monomials})))
    terms, (rows, added) = union([item.dictionary, more])
    coefficients = np.zeros((len(terms), item.coefficients.shape[1]))
    coefficients[rows] = item.coefficients
    places = {tuple(row): place for row, place in zip(more.exponents.tolist(), added.tolist(), strict=True)}
    for exponents, state in monomials:
        coefficients[places[exponents], state] = 1e-6
    free = [(int(rows[term]), slot, number) for term, slot, number in item.labelled]
    return replace(item, coefficients=coefficients, dictionary=terms).in_use(free)
