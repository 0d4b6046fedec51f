"""Which functions explain the trajectories: sparse regressions on monomials and bundles of functions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.kernels.subsets import search_subset
from fim_dynsys.regression.sparse import FEW, smallest_subset, solve_supports, subset_residuals, subsets_of
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.functions.families import Bundle
from fim_dynsys.search.functions.regressions import Integrals, Surrogate
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.restrictions import Restriction

_MOST_TERMS = 7  # of a coordinate, 14 of all where they are selected together
_DIFFERENCE = 1e-4  # of a number: forward differences err by as much, which Gauss-Newton forgives
_SMALL = 1e-2  # numbers, whose differences have the steps of this one
_LONGEST = 0.7  # of a number, by one step
_HALVINGS = 3  # of a step of Gauss-Newton, to three tenths each
_GRID = (0.65, 0.75, 0.87, 1.0, 1.15, 1.32, 1.52)  # of a number's starts
_FOLLOWED = 4  # subsets of each size whose numbers are fitted
# Of the criterion, for one function more; of a misfit, for a minimum between the numbers tried.
_MUCH_LESS, _DEEPEST = 1e-2, 1e-3


@dataclass(frozen=True)
class Selection:
    """Terms chosen for a bundle with given numbers.

    Attributes
    ----------
    bundle : Bundle
        The functions.
    active : tuple of bool arrays
        Regressors in use, for each regression: monomials by coordinate, then products of monomials and
        functions by coordinate.
    criterion : float
        Misfit and penalties, fitted numbers and the choice of the functions included.
    tolerance : float
        Factor of the noise variance that residuals were allowed.
    """

    bundle: Bundle
    active: tuple
    criterion: float
    tolerance: float


class Exploration:
    """Sparse regressions on monomials and the functions of bundles.

    Parameters
    ----------
    regressions : Integrals or Surrogate
        The trajectories as regressions.
    monomials : Dictionary
        Terms that are always allowed.
    candidate : Candidate
        Passes its starts and variance on.
    families : int
        Number of families that are compared, which the choice of one has to pay for.
    restriction : Restriction, optional
        What is known of the coefficients of the monomials. Regressions leave out what is known to be absent;
        that coefficients share numbers holds in what `model` makes of them.
    few : bool
        Whether all subsets of few terms are tried, too: of noise-free data, where the fewest terms that
        explain them are the model.
    """

    def __init__(
        self,
        regressions: Integrals | Surrogate,
        monomials: Dictionary,
        candidate: Candidate,
        families: int,
        restriction: Restriction | None = None,
        few: bool = False,
    ) -> None:
        self.regressions, self.monomials, self.candidate = regressions, monomials, candidate
        self.dim = monomials.dim
        self.price = math.log(sum(len(target) for target in regressions.targets))
        # of a choice among so many (extended BIC, Chen & Chen 2008)
        self.choice = 2.0 * math.log(max(families, 1))
        none = Dictionary(np.zeros((1, self.dim), int))
        self.restriction, self.targets = restriction, regressions.targets
        every = regressions.columns(none, monomials)
        if restriction is not None:
            free = np.logical_or.reduce(restriction.basis != 0.0, axis=1)
            free = free.reshape(restriction.offset.shape)
            known = [self._of_regression(k, restriction.offset) for k in range(len(every))]
            parts = zip(regressions.targets, every, known, strict=True)
            self.targets = [target - columns @ values for target, columns, values in parts]
            every = [columns * self._of_regression(k, free) for k, columns in enumerate(every)]
        self._fixed = [_Scaled.of(columns) for columns in every]
        pairs = list(zip(self._fixed, self.targets, strict=True))
        self._grams = [fixed.columns.T @ fixed.columns for fixed, _ in pairs]
        self._moments = [fixed.columns.T @ target for fixed, target in pairs]
        self._few = few

    def select(self, bundle: Bundle, tolerances: Sequence[float] = (1.0,)) -> list[Selection]:
        """Best terms at the bundle's numbers, one selection for each tolerance.

        Selections without any of the functions are left out.
        """
        problems = [self._equations(k, _Scaled.of(block)) for k, block in enumerate(self._blocks(bundle))]
        most = _MOST_TERMS if self.regressions.coordinates == 1 else 2 * _MOST_TERMS
        extra = len(bundle.numbers) * self.price + self.choice
        chosen = []
        for tolerance in tolerances:
            active: list[np.ndarray] = []
            criterion = extra
            for equations, target in zip(problems, self.targets, strict=True):
                penalty = np.full(len(equations) - 1, self.price)
                subset, value = search_subset(equations / tolerance, penalty, len(target), most)
                few = smallest_subset(equations, len(target) * tolerance, subset.sum()) if self._few else None
                p = len(self._moments[len(active)])
                if few is not None and few[0][p:].any() == subset[p:].any():
                    subset, value = few[0], few[1] / tolerance + few[0].sum() * self.price
                active.append(subset)
                criterion += value
            if any(subset[len(moment) :].any() for subset, moment in zip(active, self._moments, strict=True)):
                chosen.append(Selection(bundle, tuple(active), criterion, tolerance))
        return chosen

    def scan(self, starts: Sequence[Bundle], tolerance: float, most: int) -> list[Selection]:
        """The fewest terms that explain a single coordinate, a bundle's one number sought on a grid.

        All subsets of up to four terms are tried at numbers about those of the starts; those that miss least
        are followed to the number at which they do. The fewest that leave no more than the tolerance, and
        more where those leave hardly anything beside them.
        """
        (target,) = self.targets
        values = sorted({float(b.numbers[0]) * factor for b in starts for factor in _GRID})
        bundles = [starts[0].at([value]) for value in values]
        p = len(self._moments[0])
        equations = [self._equations(0, _Scaled.of(self._blocks(bundle)[0])) for bundle in bundles]
        chosen, least = [], float(len(target))
        for size in range(1, min(most, FEW) + 1):
            every = subsets_of(len(equations[0]) - 1, size)
            every = every[every[:, -1] >= p]
            variances = np.array([subset_residuals(matrix, every) for matrix in equations])
            expected = _expected_minima(variances)
            order = np.argsort(expected, axis=None)[:_FOLLOWED]
            order = order[expected.flat[order] <= least * tolerance]
            found = []
            for place, row in zip(*np.unravel_index(order, variances.shape), strict=True):
                active = np.zeros(len(equations[0]) - 1, dtype=bool)
                active[every[row]] = True
                bundle = self.fit_numbers(Selection(bundles[place], (active,), math.inf, tolerance))
                misfit = self._profiled(bundle, (active,))[0].misfit
                found.append(Selection(bundle, (active,), misfit / tolerance, tolerance))
            best = min(found, key=lambda s: s.criterion, default=None)
            if best is not None and best.criterion <= least:
                least = _MUCH_LESS * best.criterion
                price = (size + 1) * self.price + self.choice
                chosen.append(replace(best, criterion=best.criterion + price))
        return chosen

    def fit_numbers(self, selection: Selection, rounds: int = 4) -> Bundle:
        """The bundle with its numbers where the selected terms fit best.

        Gauss-Newton with the coefficients profiled out (Golub & Pereyra 1973, in Kaufman's form of 1975).
        """
        bundle, numbers = selection.bundle, selection.bundle.numbers
        if not len(numbers):
            return bundle
        fits = self._profiled(bundle, selection.active)
        misfit = sum(fit.misfit for fit in fits)
        for _ in range(rounds):
            slopes = [np.empty((len(fit.residuals), len(numbers))) for fit in fits]
            for k in range(len(numbers)):
                short = difference(numbers[k], _DIFFERENCE)
                moved = numbers.copy()
                moved[k] += short
                for slope, fit, block in zip(slopes, fits, self._blocks(bundle.at(moved)), strict=True):
                    change = (block[:, fit.live] - fit.block) @ fit.of_block
                    slope[:, k] = fit.perpendicular(change / short)
            information = sum((slope.T @ slope for slope in slopes), np.zeros(()))
            parts = zip(slopes, fits, strict=True)
            moment = sum((slope.T @ fit.residuals for slope, fit in parts), np.zeros(()))
            step = solve_supports(information, moment, np.ones(len(numbers), dtype=bool))
            reach = _LONGEST * np.maximum(np.abs(numbers), 0.1)
            step *= min(1.0, float(np.min(reach / np.maximum(np.abs(step), 1e-300))))
            for _ in range(_HALVINGS):
                trial = bundle.at(numbers + step)
                new = self._profiled(trial, selection.active)
                lower = sum(fit.misfit for fit in new)
                if lower < misfit:
                    break
                step = 0.3 * step
            else:
                break
            settled = misfit - lower < 1e-3 * misfit
            bundle, numbers, fits, misfit = trial, numbers + step, new, lower
            if settled:
                break
        return bundle

    def settle(self, selection: Selection, rounds: int = 2) -> Selection:
        """Numbers fitted and terms selected again, for as long as the criterion falls."""
        for _ in range(rounds):
            if not len(selection.bundle.numbers):
                break
            new = self.select(self.fit_numbers(selection), (selection.tolerance,))
            if not new or new[0].criterion >= selection.criterion - 1e-6:
                break
            selection = new[0]
        return selection

    def ranked(self, families: list[list[Bundle]], tolerances: Sequence[float]) -> list[list[Selection]]:
        """The best start of each family, best family first, for each tolerance: lists of Selection."""
        best: dict[tuple[float, int], Selection] = {}
        for k, starts in enumerate(families):
            for bundle in starts:
                for selection in self.select(bundle, tolerances):
                    known = best.get((selection.tolerance, k))
                    if known is None or selection.criterion < known.criterion:
                        best[selection.tolerance, k] = selection
        return [
            sorted((s for (t, _), s in best.items() if t == tolerance), key=lambda s: s.criterion)
            for tolerance in tolerances
        ]

    def settled(self, selections: list[Selection], tolerance: float) -> list[Selection]:
        """Selections settled at their tolerances and then at a finer one, without repetitions."""
        found: dict[tuple[str, bytes], Selection] = {}
        for selection in selections:
            selection = self.settle(selection)
            if selection.tolerance != tolerance:
                for finer in self.select(selection.bundle, (tolerance,)):
                    selection = self.settle(finer, 1)
            key = b"|".join(subset.tobytes() for subset in selection.active)
            found.setdefault((selection.bundle.name, key), selection)
        return list(found.values())

    def model(self, selection: Selection) -> Candidate:
        """The selection as a candidate, its coefficients those of the regressions."""
        functions = selection.bundle.dictionary(self.dim)
        multiples = selection.bundle.multiples(self.dim)
        fixed, special = [], []
        for k, block in enumerate(self._blocks(selection.bundle)):
            scaled = _Scaled.of(block)
            a = self._equations(k, scaled)
            values = solve_supports(a[:-1, :-1], a[:-1, -1], selection.active[k])
            p = len(self._moments[k])
            fixed.append((values[:p] / self._fixed[k].size).reshape(-1, len(self.monomials)))
            special.append((values[p:] / scaled.size).reshape(len(fixed[-1]), -1))
        coefficients = np.concatenate([np.concatenate(fixed), np.concatenate(special)], axis=1).T
        first, count = len(self.monomials), len(functions)
        free = [
            (first + m * count + function, slot, number)
            for m in range(len(multiples))
            for function, slot, number in selection.bundle.free
        ]
        origin = Origin(Stage.FUNCTIONS, selection.bundle.name)
        terms = self.monomials + multiples.times(functions)
        candidate = replace(self.candidate, coefficients=coefficients, dictionary=terms, origin=origin)
        if self.restriction is not None:
            known = self.restriction.extended(self.monomials, terms)
            candidate = replace(candidate, coefficients=known.clipped(coefficients), restriction=known)
        return candidate.in_use(free)

    def _blocks(self, bundle: Bundle) -> list[np.ndarray]:
        functions, multiples = bundle.dictionary(self.dim), bundle.multiples(self.dim)
        blocks = self.regressions.columns(functions, multiples)
        if self.restriction is None:
            return blocks
        allowed = self.restriction.admits(multiples.times(functions))
        return [block * self._of_regression(k, allowed) for k, block in enumerate(blocks)]

    def _of_regression(self, k: int, values: np.ndarray) -> np.ndarray:
        """Those of values (m, d), by term and equation, that belong to the columns of a regression."""
        return values[:, k] if self.regressions.coordinates == 1 else values.T.ravel()

    def _equations(self, k: int, block: "_Scaled") -> np.ndarray:
        """Normal equations of one regression, the target last."""
        fixed, target = self._fixed[k].columns, self.targets[k]
        p, q = fixed.shape[1], block.columns.shape[1]
        a = np.empty((p + q + 1, p + q + 1))
        a[:p, :p] = self._grams[k]
        a[:p, p:-1] = fixed.T @ block.columns
        a[p:-1, :p] = a[:p, p:-1].T
        a[p:-1, p:-1] = block.columns.T @ block.columns
        a[:p, -1], a[p:-1, -1] = self._moments[k], block.columns.T @ target
        a[-1, :-1] = a[:-1, -1]
        a[-1, -1] = target @ target
        return a

    def _profiled(self, bundle: Bundle, active: tuple) -> "list[_Profile]":
        fits = []
        for k, (block, subset) in enumerate(zip(self._blocks(bundle), active, strict=True)):
            p = len(self._moments[k])
            fixed = self._fixed[k].columns[:, subset[:p]]
            fits.append(_Profile.of(fixed, block, subset[p:], self.targets[k]))
        return fits


@dataclass(frozen=True)
class _Scaled:
    """Columns of unit norm, and their norms (1 for those that vanish)."""

    columns: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, columns: np.ndarray) -> "_Scaled":
        norms = np.sqrt(np.einsum("ij,ij->j", columns, columns))
        size = np.where(norms > 0, norms, 1.0)
        return cls(columns / size, size)


@dataclass(frozen=True)
class _Profile:
    """Least squares on fixed columns and the columns of a block in use."""

    block: np.ndarray
    live: np.ndarray
    of_block: np.ndarray
    residuals: np.ndarray
    misfit: float
    orthonormal: np.ndarray

    @classmethod
    def of(cls, fixed: np.ndarray, block: np.ndarray, live: np.ndarray, target: np.ndarray) -> "_Profile":
        block = block[:, live]
        scaled = _Scaled.of(np.concatenate([fixed, block], axis=1))
        q, r = np.linalg.qr(scaled.columns)
        # columns that others explain stay out: their coefficients would be rounding
        r[np.abs(np.diagonal(r)) < 1e-7] = np.eye(len(r))[np.abs(np.diagonal(r)) < 1e-7]
        projected = q.T @ target
        residuals = target - q @ projected
        coefficients = np.linalg.solve(r, projected) / scaled.size
        return cls(block, live, coefficients[fixed.shape[1] :], residuals, float(residuals @ residuals), q)

    def perpendicular(self, vector: np.ndarray) -> np.ndarray:
        return vector - self.orthonormal @ (self.orthonormal.T @ vector)


def _expected_minima(variances: np.ndarray) -> np.ndarray:
    """What each minimum along the first axis (g, k) may fall to, by a parabola; infinite beside minima."""
    expected = np.full_like(variances, np.inf)
    before, here, after = variances[:-2], variances[1:-1], variances[2:]
    bend = before - 2.0 * here + after
    falls = (before - after) ** 2 / np.where(bend > 0.0, 8.0 * bend, np.inf)
    lowest = (here <= before) & (here <= after)
    expected[1:-1][lowest] = np.maximum(here - falls, _DEEPEST * here)[lowest]
    return expected


def difference(number: float, share: float) -> float:
    """Step of a difference quotient by a number: a share of it, or of what counts as small."""
    return share * max(abs(number), _SMALL)
