"""Right-hand sides read off noise-free samples, those of each state alone."""

import math
from collections.abc import Iterator, Sequence
from operator import attrgetter

import numpy as np

from fim_dynsys.fields.functions import COMPOSED, Kind
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.search.exact.quotients import PLAIN, Denominators
from fim_dynsys.search.exact.selection import (
    Terms,
    at_the_knee,
    is_found,
    number_in,
    of_each_size,
    selected,
    with_numbers,
)
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
_SHORT, _AS_GOOD = 3, 4  # terms: polynomials of so few, exact or as good as any other, need none beside them
# Denominators of each state, those that are short for what they leave, and right-hand sides that are kept.
_TRIED, _TRIED_OF_FEW_TERMS, _KEPT = 6, 2, 3


def regressed(
    regressions: Integrals, composed: bool = False, with_sums: bool = True, simulated: bool = False
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
    simulated : bool
        Whether samples err by no more than their integration. Then a short polynomial that no other form
        improves on leaves nothing but this error, and is the only one of its state.

    Returns
    -------
    d lists of StateEquation
        Scored by BIC.
    """
    dim = len(regressions.targets)
    plain = Terms(Dictionary.polynomial(dim, PLAIN.get(dim, 2)))
    prepared = Denominators.all(regressions, plain)
    sides = [_of_state(regressions, state, prepared, plain, simulated) for state in range(dim)]
    open_states = [
        state
        for state, equations in enumerate(sides)
        if not (_is_settled(equations) or is_found(regressions, state, *equations))
    ]
    for state, found in sums(regressions, open_states if with_sums else [], plain, composed).items():
        believed = [side for side in found if _is_believed(regressions, state, side)]
        sides[state] = sorted([*believed, *sides[state]], key=attrgetter("score"))[:_KEPT]
    for state in open_states:
        best = [equations[0] for k, equations in enumerate(sides) if k != state and equations]
        shared = [side for side in best if side.score < len(regressions.targets[state]) * math.log(_SHARED)]
        if shared and not is_found(regressions, state, *sides[state]):
            known = plain + Terms.of_functions(shared)
            about_known = [form.about(regressions, known) for form in prepared]
            improved = _of_state(regressions, state, about_known, known, simulated)
            if not _is_settled(improved):
                improved = sorted([*improved, *sides[state]], key=attrgetter("score"))[:_KEPT]
            sides[state] = improved
    return _shared_numbers(sides)


def _is_settled(equations: Sequence[StateEquation]) -> bool:
    """Whether a polynomial is the only side of its state, see `_of_state`."""
    return len(equations) == 1 and not equations[0].terms.kind.any()


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
    regressions: Integrals, state: int, prepared: Sequence[Denominators], plain: Terms, simulated: bool
) -> list[StateEquation]:
    """Sides of one state, best first; a short polynomial alone where it is exact, or as good as any.

    A polynomial is as good as any where no other side lowers what it leaves by enough for the terms that it
    has more: what is left is the error of the samples' integration.
    """
    dim, n = len(regressions.targets), len(regressions.targets[state])
    alone = selected(regressions, state, plain)
    if alone is not None and len(alone.terms) <= _SHORT and is_found(regressions, state, alone):
        return [alone]
    read = [denominator for form in prepared for denominator in form.read(state)]
    best = sorted(read, key=attrgetter("criterion"))[:_TRIED]
    short = sorted(read, key=attrgetter("knee"))[:_TRIED_OF_FEW_TERMS]
    tried = [*best, *(one for one in short if one not in best)]
    given = [Terms.of_bundle(bundle, dim) for bundle in _given(regressions)]
    beside = plain + _cubes(dim) if dim == _CUBIC else plain
    sides: dict[bytes, StateEquation] = {}
    wider = [*(beside + terms for terms in given), *(plain + one.terms for one in tried)]
    for side in [alone, *(selected(regressions, state, every) for every in wider)]:
        if side is not None and _is_believed(regressions, state, side):
            sides.setdefault(side.structure, side)

    def knee(side: StateEquation) -> float:
        return at_the_knee(side.score, n, side.parameters)

    if simulated and alone is not None and not plain.free:
        shortest = min(of_each_size(regressions, state, beside), key=knee)
        as_good = all(knee(shortest) <= knee(side) for side in sides.values())
        if as_good and len(shortest.terms) <= _AS_GOOD and not is_found(regressions, state, shortest):
            return [shortest]
    return sorted(sides.values(), key=attrgetter("score"))[:_KEPT]


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
