"""Right-hand sides read off noise-free samples, those of each state alone."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from fim_dynsys.fields.functions import COMPOSED, Kind
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.search.exact.quotients import PLAIN, Denominators
from fim_dynsys.search.exact.selection import Terms, is_found, number_in, selected, with_numbers
from fim_dynsys.search.exact.sums import sums
from fim_dynsys.search.functions.families import Bundle, Function, powers
from fim_dynsys.search.functions.regressions import Integrals
from fim_dynsys.search.origins import named
from fim_dynsys.search.state_equations import StateEquation

_SHARED = 1e4  # times the variance of no misfit: a side that others may share
_EQUAL = 1e-3  # of a number: what another differs by that is the same one
_STEEP = (-6.0, -7.0, -9.0, -10.0, -12.0, -13.0)  # powers, of forces between molecules
_SUPPLE = COMPOSED | {Kind.GAUSSIAN}
_CUBIC = 2  # states: monomials beside functions without numbers are of degree 3 in so many
_SHORT = 3  # terms: an exact polynomial of so few needs no other beside it
_TRIED, _KEPT = 6, 3  # denominators and right-hand sides of each state


def regressed(
    regressions: Integrals, composed: bool = False, with_sums: bool = True
) -> list[list[StateEquation]]:
    """Right-hand sides (d,), best first, of regressions along paths between noise-free samples.

    Of all subsets of few terms, since on a short orbit many do alike: monomials; powers, square roots,
    logarithms and absolute values, which have no numbers; quotients, see `Denominators`; and where none of
    them does, functions of sums of two states, see `sums`. What is found for one state may be a term of
    another: what leaves one enters another.

    Parameters
    ----------
    regressions : Integrals
        Of noise-free samples, in units of what is no misfit.
    composed : bool
        See `sums`.
    with_sums : bool
        Whether functions of sums of two states are sought, which takes most of the time.

    Returns
    -------
    d lists of StateEquation
        Scored by BIC.
    """
    dim = len(regressions.targets)
    plain = Terms(Dictionary.polynomial(dim, PLAIN.get(dim, 2)))
    prepared = Denominators.all(regressions, plain)
    sides = [_of_state(regressions, state, prepared, plain) for state in range(dim)]
    open_states = [
        state for state, equations in enumerate(sides) if not is_found(regressions, state, *equations)
    ]
    for state, found in sums(regressions, open_states if with_sums else [], plain, composed).items():
        believed = [side for side in found if _is_believed(regressions, state, side)]
        sides[state] = sorted([*believed, *sides[state]], key=lambda side: side.score)[:_KEPT]
    for state in open_states:
        best = [equations[0] for k, equations in enumerate(sides) if k != state and equations]
        shared = [side for side in best if side.score < len(regressions.targets[state]) * math.log(_SHARED)]
        if shared and not is_found(regressions, state, *sides[state]):
            known = plain + Terms.of_functions(shared)
            about_known = [form.about(regressions, known) for form in prepared]
            improved = _of_state(regressions, state, about_known, known)
            sides[state] = sorted([*improved, *sides[state]], key=lambda side: side.score)[:_KEPT]
    return _shared_numbers(sides)


def _shared_numbers(sides: list[list[StateEquation]]) -> list[list[StateEquation]]:
    """The sides with equal numbers in place of nearly equal ones inside the same function of a state."""
    known: dict[tuple[int, int, int, int], list[float]] = {}
    out = []
    for equations in sides:
        out.append([_with_known_numbers(side, known) for side in equations])
        for term, slot in out[-1][0].free if equations else ():
            key, number = number_in(out[-1][0], term, slot)
            known.setdefault(key, []).append(number)
    return out


def _with_known_numbers(
    side: StateEquation, known: dict[tuple[int, int, int, int], list[float]]
) -> StateEquation:
    for key, number in [number_in(side, term, slot) for term, slot in side.free]:
        close = [other for other in known.get(key, ()) if abs(other - number) < _EQUAL * abs(number)]
        side = with_numbers(side, {number: close[0]}) if close else side
    return side


def _of_state(
    regressions: Integrals, state: int, prepared: Sequence[Denominators], plain: Terms
) -> list[StateEquation]:
    """Sides of one state, best first; a polynomial where it is better, alone where it is short and exact."""
    dim = len(regressions.targets)
    alone = selected(regressions, state, plain)
    if alone is not None and len(alone.terms) <= _SHORT and is_found(regressions, state, alone):
        return [alone]
    best = sorted((form.best(state) for form in prepared), key=lambda pair: pair[0])
    read = [terms for _, terms in best if terms is not None][:_TRIED]
    given = [Terms.of_bundle(bundle, dim) for bundle in _given(regressions)]
    beside = plain + _cubes(dim) if dim == _CUBIC else plain
    sides: dict[bytes, StateEquation] = {}
    for every in [plain, *(beside + terms for terms in given), *(plain + terms for terms in read)]:
        side = selected(regressions, state, every)
        if side is not None and _is_believed(regressions, state, side):
            sides.setdefault(side.structure, side)
    return sorted(sides.values(), key=lambda side: side.score)[:_KEPT]


def _cubes(dim: int) -> Terms:
    """Monomials of degree 3."""
    cubic = Dictionary.polynomial(dim, 3)
    return Terms(cubic.subset(np.flatnonzero(cubic.exponents.sum(axis=1) == 3)))


def _is_believed(regressions: Integrals, state: int, side: StateEquation) -> bool:
    """Whether nothing is left, or it has no steep powers and none of what follows anything."""
    terms = side.terms
    steep = np.isin(terms.second[terms.kind == Kind.POWER], _STEEP).any()
    supple = np.isin(terms.kind, [int(kind) for kind in _SUPPLE]).any()
    return not (steep or supple) or is_found(regressions, state, side)


def _given(regressions: Integrals) -> Iterator[Bundle]:
    """Functions without free numbers: powers, absolute values, logarithms, square roots of all states."""
    dim = len(regressions.targets)
    yield from (starts[0] for starts in powers(dim))
    for c in range(dim):
        steep = tuple(Function(Kind.POWER, c, 1.0, p) for p in _STEEP)
        yield Bundle(f"steep powers {named(c)}", steep, degree=0)
        yield Bundle(f"logarithm {named(c)}", (Function(Kind.LOG, c),))
        if regressions.crosses_zero[c]:
            yield Bundle(f"absolute value {named(c)}", (Function(Kind.ABSOLUTE, c),))
    yield Bundle("square roots", tuple(Function(Kind.POWER, c, 1.0, 0.5) for c in range(dim)))
