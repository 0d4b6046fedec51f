"""Functions of sums and squares of states, and sums of two functions, sought on grids of their numbers."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fim_dynsys.fields.functions import Kind
from fim_dynsys.search.exact.selection import Terms, columns_of, is_found, selected, side_of, tuned
from fim_dynsys.search.functions.families import INNER, SECOND, SHIFT, Bundle, Function, hill
from fim_dynsys.search.functions.regressions import Integrals
from fim_dynsys.search.origins import named
from fim_dynsys.search.state_equations import StateEquation

_STATES = 3  # at most
_DIRECTIONS, _OFF = 8, 0.37  # in half a turn; none along an axis, none with equal factors
_SIZES = (0.35, 0.7, 1.4, 2.8, 5.6)  # of what is inside, in units of the states
_OF_PAIRS = ((1, 1), (2, 2), (3, 3), (4, 4), (1, 2), (2, 1))  # orders of Hill's functions
_OTHER = 1.1  # times these, of a second function: different numbers
_PLACES = (0.2, 0.5, 0.8)  # of thresholds and peaks, among what the samples take
_KINKS = (0.1, 0.3, 0.5, 0.7, 0.9)  # likewise, of kinks
_SPREADS = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0)  # of states, in those by which reciprocals are divided
_RATES = (-4.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 4.0)  # inside exponentials, in units of the state and time
_TUNED, _APART, _STEPS = 2, 0.5, 10  # starts of each kind, as far from each other; steps of each
_TUNED_SHIFTED, _APART_SHIFTED, _STEPS_SHIFTED = 8, 0.2, 30  # likewise, where the middle may be anywhere
_SELECTED = 12  # starts with fitted numbers, for each state, whose terms are selected
_RIDGE = 1e-12  # of unit columns


@dataclass(frozen=True)
class _Family:
    """Bundles that differ by their numbers, and how many of them are fitted, how far from each other."""

    starts: list[Bundle]
    most: int = _TUNED
    distance: float = _APART

    def columns(self, regressions: Integrals, dim: int) -> list[np.ndarray]:
        """Integrals (n, starts, m) of each start's functions times its monomials, for each state."""
        multiples, functions = self.starts[0].multiples(dim), len(self.starts[0].functions)
        every = self.starts[0].dictionary(dim)
        for start in self.starts[1:]:
            every += start.dictionary(dim)
        by_state = regressions.columns(every, multiples)
        shape = len(multiples), len(self.starts), functions
        return [
            np.moveaxis(columns.reshape(len(columns), *shape), 2, 1).reshape(
                len(columns), len(self.starts), -1
            )
            for columns in by_state
        ]

    def apart(self, unexplained: np.ndarray) -> list[tuple[float, Bundle]]:
        """The best few that are no neighbours, by what each leaves (starts,), with that."""
        kept: list[tuple[float, Bundle]] = []
        for place in np.argsort(unexplained)[: np.count_nonzero(np.isfinite(unexplained))].tolist():
            start = self.starts[place]
            far = [np.linalg.norm(start.numbers - other.numbers) for _, other in kept]
            if all(distance > self.distance * np.linalg.norm(start.numbers) for distance in far):
                kept.append((float(unexplained[place]), start))
            if len(kept) == self.most:
                break
        return kept


def sums(
    regressions: Integrals, states: Sequence[int], plain: Terms, composed: bool = False
) -> dict[int, list[StateEquation]]:
    """Right-hand sides with waves, exponentials and sigmoids of sums of two states.

    And with Hill's functions of two states, with two exponentials of one, and with Gaussians of one; sigmoids
    and Gaussians have their middle anywhere. Starts on a grid are judged together with all plain terms and
    the function times 1 and each state; the numbers of the best are fitted in the same way (variable
    projection), until one leaves nothing; then terms are selected.

    Parameters
    ----------
    regressions : Integrals
        Of noise-free samples, in units of what is no misfit.
    states : sequence of int
        Whose right-hand sides are sought.
    plain : Terms
        That may stand beside the functions.
    composed : bool
        Whether functions of squares and of reciprocals are tried where none of these does: Arrhenius' law,
        waves and logarithms of a square.

    Returns
    -------
    dict of lists of StateEquation
        By state, best first; nothing beyond three states.
    """
    dim = len(regressions.targets)
    found: dict[int, list[StateEquation]] = {state: [] for state in states}
    if not states or dim > _STATES:
        return found
    beside = columns_of(regressions, plain.terms)
    kinds = [(_kinks(regressions.states), _STEPS_SHIFTED), (_families(dim), _STEPS)]
    kinds += [(_with_shifts(regressions.states), _STEPS_SHIFTED)]
    kinds += [(_composed(dim), _STEPS_SHIFTED)] if composed else []
    for families, rounds in kinds:
        left_open = [state for state in states if not is_found(regressions, state, *found[state])]
        if not left_open:
            break
        starts: dict[int, list[tuple[float, Bundle]]] = {state: [] for state in left_open}
        for family in families:
            columns = family.columns(regressions, dim)
            for state in left_open:
                unexplained = _unexplained(columns[state], beside[state], regressions.targets[state])
                starts[state] += family.apart(unexplained)
        for state in left_open:
            tried = [bundle for _, bundle in sorted(starts[state], key=lambda pair: pair[0])]
            found[state] += _of_starts(regressions, state, plain, tried, rounds)
    return {state: sorted(equations, key=lambda side: side.score) for state, equations in found.items()}


def _of_starts(
    regressions: Integrals, state: int, plain: Terms, starts: Sequence[Bundle], rounds: int
) -> list[StateEquation]:
    """Sides with the functions of starts, in their order until one leaves nothing; else of the best."""
    wide, found = [], []
    for start in starts:
        whole = plain + Terms.of_bundle(start, len(regressions.targets))
        side = tuned(regressions, state, side_of(regressions, state, whole), rounds)
        if not is_found(regressions, state, side):
            wide.append(side)
            continue
        few = selected(regressions, state, Terms(side.terms, side.free))
        found += [] if few is None else [few]
        if few is not None and is_found(regressions, state, few):
            return found
    for side in sorted(wide, key=lambda side: side.score)[:_SELECTED]:
        few = selected(regressions, state, Terms(side.terms, side.free))
        found += [] if few is None else [few]
    return found


def _unexplained(columns: np.ndarray, beside: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Squares (starts,) left by columns (n, starts, m) beside others (n, p); inf where there are poles."""
    usable = np.isfinite(columns).all(axis=(0, 2)) & (np.abs(columns).max(axis=0) > 0.0).all(axis=1)
    basis = np.linalg.qr(beside)[0]
    rest = target - basis @ (basis.T @ target)
    directions = np.moveaxis(np.where(usable[None, :, None], columns, 0.0), 1, 0)
    directions = directions / np.maximum(
        np.linalg.norm(directions, axis=1, keepdims=True), np.finfo(float).tiny
    )
    directions = directions - basis @ (basis.T @ directions)
    matrix = np.swapaxes(directions, 1, 2) @ directions + _RIDGE * np.eye(directions.shape[2])
    moment = np.einsum("snm,n->sm", directions, rest)
    gained = np.einsum("sm,sm->s", moment, np.linalg.solve(matrix, moment[..., None])[..., 0])
    return np.where(usable, np.maximum(rest @ rest - gained, 0.0), np.inf)


def _families(dim: int) -> Iterator[_Family]:
    for c, e in itertools.combinations(range(dim), 2):
        waves = [
            Bundle(
                one.name,
                (*one.functions, one.functions[0]._replace(kind=Kind.COS)),
                (*one.free, (1, INNER, 0), (1, SECOND, 1)),
            )
            for one in _of_sums(Kind.SIN, c, e)
        ]
        yield _Family(waves)
        yield _Family(_of_sums(Kind.EXP, c, e, turns=2))
        yield _Family(_of_sums(Kind.TANH, c, e))
        numbers = list(itertools.product(_SIZES, _SIZES))
        yield _Family([hill(c, p, k) + hill(e, q, _OTHER * r) for p, q in _OF_PAIRS for k, r in numbers])
    for c in range(dim):
        rates = itertools.combinations(_RATES, 2)
        both = [(Function(Kind.EXP, c, p), Function(Kind.EXP, c, q)) for p, q in rates]
        yield _Family(
            [Bundle(f"exponentials {named(c)}", two, ((0, INNER, 0), (1, INNER, 1)), 0) for two in both]
        )
        yield _Family(_gaussians(c))


def _kinks(states: np.ndarray) -> Iterator[_Family]:
    """Absolute values with their kinks anywhere among states (N, d), of one state, twice and of sums of two.

    The factor of the first state is 1, since one of all that is inside is a factor outside. Those of sums of
    two may be flows that carry a state.
    """
    for c in range(states.shape[1]):
        places = np.quantile(states[:, c], _KINKS).tolist()
        one = [Function(Kind.ABSOLUTE, c, 1.0, -place) for place in places]
        yield _Family([Bundle(f"kink {named(c)}", (kink,), ((0, SECOND, 0),), 0) for kink in one])
        free = (0, SECOND, 0), (1, SECOND, 1)
        both = itertools.combinations(one, 2)
        yield _Family([Bundle(f"two kinks {named(c)}", two, free, 0) for two in both])
    for c, e in itertools.combinations(range(states.shape[1]), 2):
        angles = (np.arange(_DIRECTIONS) + _OFF) * (np.pi / _DIRECTIONS)
        inside = [Function(Kind.ABSOLUTE, c, 1.0, math.tan(angle), e) for angle in angles.tolist()]
        name = f"kink {named(c)}, {named(e)}"
        yield _Family([Bundle(name, (one,), ((0, SECOND, 0),)) for one in inside])


def _with_shifts(states: np.ndarray) -> Iterator[_Family]:
    """Sigmoids of sums and Gaussians with their middle at quantiles of what states (N, d) take."""
    dim = states.shape[1]
    pairs = itertools.combinations(range(dim), 2)
    for kind in itertools.chain((_of_sums(Kind.TANH, c, e) for c, e in pairs), map(_gaussians, range(dim))):
        starts = [start for bundle in kind for start in _shifted(bundle, states)]
        yield _Family(starts, _TUNED_SHIFTED, _APART_SHIFTED)


def _composed(dim: int) -> Iterator[_Family]:
    for c in range(dim):
        for sign in (1.0, -1.0):
            inside = [sign * k for k in _SPREADS]
            rates = [Function(Kind.ARRHENIUS, c, k) for k in inside]
            yield _Family([Bundle(f"arrhenius {named(c)}", (one,), ((0, INNER, 0),)) for one in rates])
        waves = [(Function(Kind.SIN_SQUARE, c, k), Function(Kind.COS_SQUARE, c, k)) for k in _SIZES]
        free = (0, INNER, 0), (1, INNER, 0)
        yield _Family([Bundle(f"waves of the square of {named(c)}", both, free) for both in waves])
        logs = [Function(Kind.LOG_SQUARE, c, k) for k in _SIZES]
        yield _Family(
            [Bundle(f"logarithm of the square of {named(c)}", (one,), ((0, INNER, 0),)) for one in logs]
        )


def _of_sums(kind: Kind, c: int, e: int, turns: int = 1) -> list[Bundle]:
    """A function of sums of two states in all directions of so many half turns, of all sizes."""
    angles = (np.arange(turns * _DIRECTIONS) + _OFF) * (np.pi / _DIRECTIONS)
    inside = [(k * math.cos(a), k * math.sin(a)) for k in _SIZES for a in angles.tolist()]
    name, free = f"{kind.name.lower()} {named(c)}, {named(e)}", ((0, INNER, 0), (0, SECOND, 1))
    return [Bundle(name, (Function(kind, c, p, q, e),), free) for p, q in inside]


def _gaussians(c: int) -> list[Bundle]:
    functions = [Function(Kind.GAUSSIAN, c, k) for k in _SIZES]
    return [Bundle(f"gaussian {named(c)}", (one,), ((0, INNER, 0),), 2) for one in functions]


def _shifted(bundle: Bundle, states: np.ndarray) -> list[Bundle]:
    """A bundle of one function whose argument is 0 at quantiles of what it takes at states (N, d)."""
    (one,) = bundle.functions
    alone = one.partner < 0
    inside = one.inner * states[:, one.coordinate] + (0.0 if alone else one.second * states[:, one.partner])
    slot, number = SECOND if alone else SHIFT, len(bundle.numbers)
    return [
        replace(bundle, functions=(one.with_number(slot, -place),), free=(*bundle.free, (0, slot, number)))
        for place in np.quantile(inside, _PLACES).tolist()
    ]
