"""What genetic programming proposes for each state of a search, in terms that the core knows."""

from collections.abc import Callable, Sequence

import numpy as np
import sympy
from scipy.interpolate import make_interp_spline

from fim_dynsys.regression.observed import Observations
from fim_dynsys.search.candidates import Candidate, judge
from fim_dynsys.search.origins import Stage
from fim_dynsys.search.proposers import Proposals
from fim_dynsys.search.pruning import refine
from fim_dynsys.search.state_equations import StateEquation, combined, state_equations_of, together
from fim_dynsys_operon.engine import GeneticEffort, front
from fim_dynsys_operon.sums import matched
from fim_dynsys_operon.translation import translated

_MOST_SAMPLES = 500  # that genetic programming sees, evenly spaced among all
_DEGREE = 5  # higher ones were no better at the ends of short records


def interpolated(observations: Observations) -> list[tuple[np.ndarray, np.ndarray]]:
    """States and slopes of the quintic splines through samples without noise.

    Genetic programming tells a short truth from a short approximation by the digits of the slopes, and these
    have two or three more than those of the cubic splines that smooth.

    Parameters
    ----------
    observations : Observations
        Data.

    Returns
    -------
    list of (states (n, d), slopes (n, d))
        For each piece.
    """
    return [
        (z, make_interp_spline(t, z, k=min(_DEGREE, len(t) - 1)).derivative()(t))
        for t, z in observations.samples
    ]


def propose(
    states: np.ndarray, slopes: np.ndarray, effort: GeneticEffort, seed: int, done: Callable[[], object]
) -> Proposals:
    """Ask Operon for the slopes of each state.

    Parameters
    ----------
    states, slopes : arrays (n, d)
        Samples, in the units of a search.
    effort : GeneticEffort
        Amount of work.
    seed : int
        Equal seeds give equal proposals.
    done : callable
        Called after each of ``d`` times as many searches as there are vocabularies.

    Returns
    -------
    Proposals
        Of each state, in terms of the dictionary; the note counts the expressions on all fronts, those
        that no dictionary says included.
    """
    symbols = _symbols(states.shape[1])
    rows = np.unique(np.linspace(0, len(states) - 1, _MOST_SAMPLES).astype(int))
    positive = np.array((states > 0.0).all(axis=0))
    sides, found = [], 0
    for rates in slopes.T:
        by_structure: dict[bytes, StateEquation] = {}
        for vocabulary in effort.vocabularies:
            expressions = front(
                states[rows],
                rates[rows],
                symbols,
                vocabulary,
                max_length=effort.max_length,
                population_size=effort.population_size,
                generations=effort.generations,
                seed=seed,
                max_seconds=None,
            )
            found += len(expressions)
            for expression in expressions:
                terms = translated(expression, symbols, positive)
                side = StateEquation.regressed(terms or (), states, rates)
                if side is not None:
                    known = by_structure.setdefault(side.structure, side)
                    by_structure[side.structure] = min(side, known, key=lambda s: s.score)
            done()
        sides.append(sorted(by_structure.values(), key=lambda s: s.score))
    said = sum(map(len, sides))
    return Proposals(sides, f"{found} right-hand sides found by Operon, {said} of them of known terms")


def fitted_proposals(
    observations: Observations, proposals: Proposals, best: Candidate, kept: int, name: str
) -> list[Candidate]:
    """Proposals fitted to noisy trajectories.

    Each is first thinned: its terms are those of which the integral along the smoothed states explains the
    state best.

    Parameters
    ----------
    observations : Observations
        Data.
    proposals : Proposals
        From `propose`.
    best : Candidate
        The best so far.
    kept : int
        So many of each state are fitted.
    name : str
        Of the proposer, in the candidates' origins.

    Returns
    -------
    list of Candidate
        Judged by integration, best first.
    """
    thinned = [
        _distinct([_thinned(side, state, observations) for side in of_state])[:kept]
        for state, of_state in enumerate(proposals.sides)
    ]
    candidates: list[Candidate] = []

    def fit(sides: Sequence[StateEquation]) -> float:
        item = together(sides, observations.start, Stage.PROPOSED, name)
        if not item.support.any():
            return np.inf
        new, _ = refine(observations, item, observations.path)
        if not (np.isfinite(new.parameters).all() and np.isfinite(new.score)):
            return np.inf
        candidates.append(new)
        return new.score

    combined(thinned, state_equations_of(best), best.score, fit)
    return judge(observations, candidates)


def _thinned(side: StateEquation, state: int, observations: Observations) -> StateEquation | None:
    symbols = _symbols(observations.dim)
    terms = side.terms.sympy(symbols)
    with np.errstate(all="ignore"):
        found = matched(terms, symbols, state, observations)
    if found is None:
        return None
    kept = [terms.index(term) for term in found.terms]
    return side.subset(kept, found.coefficients, found.score)


def _distinct(sides: Sequence[StateEquation | None]) -> list[StateEquation]:
    """Best first, the best of each structure."""
    best: dict[bytes, StateEquation] = {}
    for side in sorted((s for s in sides if s is not None and len(s.terms)), key=lambda s: s.score):
        best.setdefault(side.structure, side)
    return list(best.values())


def _symbols(dim: int) -> tuple[sympy.Symbol, ...]:
    return tuple(sympy.Symbol(f"x{i}", real=True) for i in range(dim))
