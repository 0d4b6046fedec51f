"""Measured rates of change: terms and coefficients that they and the trajectories support together."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Inference, Judge, Trust
from fim_dynsys.fields.posterior import FittedField
from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.models.judging import judged
from fim_dynsys.regression.criteria import VARIANCE_FLOOR, Known
from fim_dynsys.regression.dimensionless import still
from fim_dynsys.regression.gaps import completed, errors_of_pairs
from fim_dynsys.regression.observed import largest_degree, observe
from fim_dynsys.regression.refinement import TrajectoryFit, parameter_roots
from fim_dynsys.regression.sparse import backward_elimination, normal_equations, solve_supports
from fim_dynsys.regression.windows import in_windows
from fim_dynsys.search.candidates import Candidate, score
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import compiled_maps, fit_samples
from fim_dynsys.trajectories.container import Trajectories

_FOLLOWED = 0.9  # R2 of a path whose states are closer to the true ones than smoothed samples
_RIDGE = 1e-12  # of a term's sum of squares
_FREE = 2  # values for each number that a regression of rates may have
_ROUNDS, _ALONG_ITS_PATH = 2, 2  # of proposing terms, and of fits, each along the path of the last
_CONTRADICTED = 10.0  # times the variance that a regression of the rates leaves
_PRECISE = 1e-4  # of the rates' squares, left by a regression on the samples: both have errors of 1 % at most
_CONFIRMED = 0.01  # of the variance of measured rates: a field that leaves less is that of the rates
_LEAST = 1e-300  # in the units of a search
_HELD = 1e4  # times their precision, by which numbers stay where they are
_EXPLAINED = 0.9  # of the increments' squares by a multiple of the rates: both are of the same motion
_DENSE = 0.5  # of the rates' squares by their changes from sample to sample: integrals are good to 5 %
_OTHER_UNIT = math.log(1.25)  # that such a multiple differs from 1
_ENOUGH = 10  # increments: fewer may be a multiple by chance
_MIXED_UP_TO = 4  # states: beyond, all equations are of one kind


@dataclass(frozen=True)
class _Rates:
    """Regressions of the measured rates, in the units of a search.

    Attributes
    ----------
    gram, moment, total : arrays (d, m, m), (d, m), (d,)
        Normal equations of each state's rates on all terms.
    n : int
        Number of samples with rates.
    variance : array (d,)
        Of the errors of the rates.
    support : bool array (m, d)
        Terms that the rates alone suggest.
    least : array (d,) or float
        Variance that errors of the states leave of rates without any.
    """

    gram: np.ndarray
    moment: np.ndarray
    total: np.ndarray
    n: int
    variance: np.ndarray
    support: np.ndarray
    least: np.ndarray | float = 0.0

    @classmethod
    def of(cls, columns: np.ndarray, rates: np.ndarray, least: np.ndarray | float = 0.0) -> "_Rates":
        """From terms (N, m) and rates (N, d)."""
        gram, moment, total = normal_equations(columns, rates)
        plain = cls(gram, moment, total, len(rates), total, np.zeros(moment.T.shape, dtype=bool), least)
        equations = zip(gram, moment, total, plain.floor, strict=True)
        chosen = [_subset(*own, len(rates)) for own in equations]
        variance = np.array([left_over for _, left_over in chosen])
        return replace(plain, variance=variance, support=np.column_stack([values for values, _ in chosen]))

    @classmethod
    def on(
        cls, columns: np.ndarray, rates: np.ndarray, support: np.ndarray, least: np.ndarray | float = 0.0
    ) -> "_Rates":
        """The same on given terms (m, d): the errors of the rates are what these leave."""
        gram, moment, total = normal_equations(columns, rates)
        n = len(rates)
        plain = cls(gram, moment, total, n, total, support, least)
        squares = plain.squares(plain.coefficients(support))
        free = np.maximum(n - support.sum(axis=0), 1)
        return replace(plain, variance=np.maximum(squares / free, plain.floor))

    @property
    def floor(self) -> np.ndarray:
        """Least variance (d,) that the rates may have."""
        return np.maximum(VARIANCE_FLOOR * self.total / self.n, self.least)

    def coefficients(self, support: np.ndarray) -> np.ndarray:
        """Of least squares on a support (m, d)."""
        ridge = _RIDGE * np.trace(self.gram, axis1=1, axis2=2)
        return solve_supports(self.gram, self.moment, support.T, ridge).T

    def precision(self, support: np.ndarray) -> np.ndarray:
        """What the rates tell of the coefficients of a support, row by row (q, q)."""
        row, column = np.nonzero(support)
        same = column[:, None] == column
        return np.where(same, self.gram[column[:, None], row[:, None], row] / self.variance[column], 0.0)

    def squares(self, coefficients: np.ndarray) -> np.ndarray:
        """Sum of squares (d,) that coefficients (m, d) leave of the rates."""
        quadratic = np.einsum("mk,kml,lk->k", coefficients, self.gram, coefficients)
        left = self.total - 2.0 * np.einsum("km,mk->k", self.moment, coefficients) + quadratic
        return np.maximum(left, 0.0)

    def misfit(self, coefficients: np.ndarray) -> float:
        """Minus twice the log-likelihood of the rates, up to a constant."""
        left = np.maximum(self.squares(coefficients) / self.n, np.maximum(self.floor, 1e-300))
        return float(self.n * np.sum(np.log(left)))


def check_rates(caller: str, names: Sequence[str], rates: Sequence[np.ndarray]) -> None:
    """Raise a ValueError where no sample has the rates (n, d) of all states."""
    measured = np.isfinite(np.concatenate(rates))
    if measured.all(axis=1).any():
        return
    none = [name for name, seen in zip(names, measured.any(axis=0), strict=True) if not seen]
    got = f"none of {', '.join(none)}" if none else "none of all at the same sample"
    raise ValueError(
        f"{caller}: expected rates x_dot of all states at some samples, got {got}; leave x_dot out, or "
        "estimate what is missing from the samples."
    )


def in_other_units(trajectories: Trajectories, rates: Sequence[np.ndarray]) -> str | None:
    """Which well sampled states change by a multiple of the integrals of their rates (n, d); None for none.

    Such rates have another unit of time, or another sign.
    """
    pairs = [(t, x, v) for (t, x), v in zip(trajectories.arrays(), rates, strict=True)]
    rises = [np.diff(x, axis=0) for _, x, _ in pairs]
    integrals = [0.5 * np.diff(t)[:, None] * (v[1:] + v[:-1]) for t, _, v in pairs]
    ratio, explained, span = np.ones(trajectories.dim), np.zeros(trajectories.dim), 1
    while sum(len(rise) // span for rise in rises) >= _ENOUGH:
        found, share = _multiple(_summed(rises, span), _summed(integrals, span))
        better = share > explained  # noise hides the multiple between neighbours, turns over long spans
        ratio, explained = np.where(better, found, ratio), np.where(better, share, explained)
        span *= 2
    values = np.concatenate(rates)
    turns = np.concatenate([np.diff(v, axis=0) for v in rates])
    dense = np.nansum(turns**2, axis=0) < _DENSE * np.nansum(values**2, axis=0)
    with np.errstate(all="ignore"):
        other = (ratio < 0.0) | (np.abs(np.log(np.abs(ratio))) > _OTHER_UNIT)
    other &= dense & (explained > _EXPLAINED)
    said = [
        f"{name} changes {ratio[k]:.3g} times as fast"
        for k, name in enumerate(trajectories.state_names)
        if other[k]
    ]
    return f"{', '.join(said)} as x_dot says" if said else None


def _summed(parts: Sequence[np.ndarray], span: int) -> np.ndarray:
    """Sums (n, d) over so many neighbouring rows, trajectory by trajectory."""
    whole = [part[: len(part) // span * span] for part in parts]
    return np.concatenate([part.reshape(-1, span, part.shape[1]).sum(axis=1) for part in whole])


def _multiple(rises: np.ndarray, integrals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The multiple (d,) of integrals (n, d) that rises are, and the share of their squares it explains."""
    both = np.isfinite(rises) & np.isfinite(integrals)
    rises, integrals = np.where(both, rises, 0.0), np.where(both, integrals, 0.0)
    product = (rises * integrals).sum(axis=0)
    with np.errstate(all="ignore"):
        ratio = product / (integrals**2).sum(axis=0)
        explained = ratio * product / (rises**2).sum(axis=0)
    return ratio, np.where(both.sum(axis=0) >= _ENOUGH, explained, 0.0)


def informed_by_rates(
    field: DictionaryField, trajectories: Trajectories, rates: Sequence[np.ndarray], sigma: Known | None
) -> FittedField | None:
    """The field that trajectories and measured rates support together.

    Where no path follows the trajectories, and what was found is far from the rates, the rates decide alone.
    Else the terms of each equation are those of the field found without the rates, or those that the rates
    suggest, by the smallest BIC of both kinds of data. Coefficients are fitted to both: the regression of
    the rates, weighted by the errors that they turn out to have, is prior knowledge of the trajectory fit.

    Parameters
    ----------
    field : DictionaryField
        Found from the trajectories.
    trajectories : Trajectories
        The context.
    rates : list of arrays (n, d)
        Of each trajectory; nan where none were measured.
    sigma : list of arrays (n, d), Noise or None
        Known errors of the observations.

    Returns
    -------
    FittedField or None
        None where no such fit converges.
    """
    whole = completed(None, trajectories, sigma)
    search, start = _search(field, whole.trajectories, errors_of_pairs(whole))
    # the states of the samples, not those of the field's path, which may lead astray
    at_samples = _About(field.with_fit_info(replace(field.fit_info, path_r2=None)), trajectories, rates)
    seen = search.observations
    states, measured = _measured(search, at_samples)
    regressed = _Rates.of(search.dictionary.evaluate(states / seen.scale), measured)
    left = regressed.variance
    if (left < _PRECISE * regressed.total / regressed.n).all():
        at_samples = replace(at_samples, most=left)
    best = _of_both(search, start != 0.0, replace(at_samples, field=field))
    if best is None:
        return None
    most = _CONTRADICTED * left
    if (best.rates.variance > most).any():
        other = _of_both(search, start != 0.0, at_samples)
        best = min((fit for fit in (best, other) if fit is not None), key=lambda fit: fit.score)
        if not (field.fit_info.path_r2 or 0.0) > _FOLLOWED and (best.rates.variance > most).any():
            return of_rates_alone(trajectories, rates)  # samples too far apart for any path, as of chaos
    candidate, fit, known = best.candidate, best.fit, best.rates
    errors = np.sqrt(known.variance) * seen.scale / seen.time_unit
    said = ", ".join(f"{e:.2g}" for e in errors)
    facts = replace(field.fit_info.inference, refined=True).noting(
        f"measured rates counted with errors of {said}"
    )
    answer = _field_of(candidate, search, field, trajectories, facts)
    root = np.linalg.norm(parameter_roots(fit, seen.n_values + known.n * seen.dim), axis=0)
    spread = np.zeros_like(candidate.coefficients)
    spread[candidate.support] = root
    scaled = np.abs(search.dictionary.rescaled(spread, seen.scale, seen.time_unit)[1])
    inner = np.zeros((len(scaled), len(answer.dictionary.numbers)))
    return FittedField.of(answer, np.column_stack([scaled, inner]))


@dataclass(frozen=True)
class _About:
    """A field, the context with its rates, and the largest variance (d,) that errors of the states explain.

    In the units of a search: a regression of the rates on the samples leaves no less.
    """

    field: DictionaryField
    trajectories: Trajectories
    rates: Sequence[np.ndarray]
    most: np.ndarray | float = np.inf


def _of_both(search: Search, support: np.ndarray, about: _About) -> "_Fit | None":
    """The best fit to trajectories and rates, of the terms (m, d) of a field and those of the rates."""
    states, measured = _measured(search, about)
    best: _Fit | None = None
    tried: set[bytes] = set()
    for _ in range(_ROUNDS):
        columns = search.dictionary.evaluate(states / search.observations.scale)
        known = _Rates.of(columns, measured, _by_errors_of_states(search, about, states))
        for mixed in _mixed(support, known.support):
            if mixed.tobytes() not in tried:
                tried.add(mixed.tobytes())
                found = _fitted(search, measured, states, mixed, about)
                best = found if best is None or (found is not None and found.score < best.score) else best
        if best is None:
            return None
        support, states = best.candidate.support, best.states
    return best


def _measured(search: Search, about: _About) -> tuple[np.ndarray, np.ndarray]:
    """As `_at_rates`, the rates in the units of the search."""
    states, slopes = _at_rates(about.field, about.trajectories, about.rates)
    return states, slopes * search.observations.time_unit / search.observations.scale


def of_rates_alone(trajectories: Trajectories, rates: Sequence[np.ndarray]) -> FittedField:
    """The polynomial field of rates at single states, which are no trajectories.

    Raises
    ------
    ValueError
        Where fewer rates than two were measured of all states.
    """
    pairs = zip(trajectories.arrays(), rates, strict=True)
    both = np.concatenate([np.concatenate([x, v], axis=1) for (_, x), v in pairs])
    both = both[np.isfinite(both).all(axis=1)]
    if len(both) < 2:
        raise ValueError(f"fit: expected at least 2 states with rates x_dot, got {len(both)}; give more.")
    states, slopes = np.split(both, 2, axis=1)
    unit = np.sqrt(np.mean(states**2, axis=0))
    unit = np.where(unit > 0, unit, 1.0)
    terms = _monomials([(np.arange(len(states)), states)], len(states))
    known = _Rates.of(terms.evaluate(states / unit), slopes)
    coefficients, errors = known.coefficients(known.support), np.zeros(known.support.shape)
    for j, (gram, support) in enumerate(zip(known.gram, known.support.T, strict=True)):
        inverse = np.linalg.pinv(gram[np.ix_(support, support)])
        errors[support, j] = np.sqrt(known.variance[j] * np.maximum(np.diagonal(inverse), 0.0))
    sizes = np.prod(unit**terms.exponents, axis=1)[:, None]
    noting = f"{len(states)} measured rates alone, which no path confirms"
    info = FitInfo(report={"candidates": 1}, inference=Inference(Judge.EXTENDED_BIC).noting(noting))
    field = DictionaryField(terms, coefficients / sizes, context=trajectories, fit_info=info)
    return FittedField.of(
        field, np.column_stack([errors / sizes, np.zeros((len(terms), len(terms.numbers)))])
    )


def _monomials(samples: list[tuple[np.ndarray, np.ndarray]], n: int) -> Dictionary:
    """Those that n samples allow, of states that change: others would stand for constants."""
    dim = samples[0][1].shape[1]
    terms = Dictionary.polynomial(dim, largest_degree(dim, n))
    out = still(samples)
    return terms if out.all() else terms.subset((terms.exponents[:, out] == 0).all(axis=1))


def _search(
    field: DictionaryField, complete: Trajectories, errors: Known | None
) -> tuple[Search, np.ndarray]:
    """Data and terms, those of the field among them, and its coefficients (m, d)."""
    samples = [pair for pair in complete.arrays() if len(pair[0]) >= 2]
    search = Search(observe(samples), field.dictionary).measured(errors)
    seen = search.observations
    window = field.fit_info.inference.window
    if window is not None:
        seen = in_windows(seen, window / seen.time_unit)
    terms, coefficients = field.dictionary.rescaled(
        field.coefficients, 1.0 / seen.scale, 1.0 / seen.time_unit
    )
    every, (_, rows) = union([_monomials(samples, seen.n), terms])
    start = np.zeros((len(every), field.dim))
    start[rows] = coefficients
    return Search(seen, every), start


def _at_rates(
    field: DictionaryField, trajectories: Trajectories, rates: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """States and rates (N, d) where rates were measured; states along the field's path where that follows."""
    info, pairs = field.fit_info, trajectories.arrays()
    states = [x for _, x in pairs]
    starts = info.initial_states
    if starts is not None and (info.path_r2 or 0.0) > _FOLLOWED:
        paths = judged(field, list(starts), [t for t, _ in pairs]).paths
        states = [np.where(np.isfinite(path), path, x) for path, x in zip(paths, states, strict=True)]
    both = [np.concatenate([x, v], axis=1) for x, v in zip(states, rates, strict=True)]
    stacked = np.concatenate([rows[np.isfinite(rows).all(axis=1)] for rows in both])
    return stacked[:, : field.dim], stacked[:, field.dim :]


def _by_errors_of_states(search: Search, about: _About, states: np.ndarray) -> np.ndarray:
    """Variance (d,) of rates at states (N, d) by the errors of these, in the units of the search.

    States along a fitted path err by the share of the noise that its free numbers take. The noise of few
    samples a turn is overestimated, but not beyond what the rates at the samples leave.
    """
    field = about.field
    seen, info = search.observations, field.fit_info
    spent = field.complexity + seen.dim * len(seen.samples)
    followed = info.initial_states is not None and (info.path_r2 or 0.0) > _FOLLOWED
    share = min(spent / max(seen.n_values, 1), 1.0) if followed else 1.0
    slopes = np.nan_to_num(field.jacobian(states), posinf=0.0, neginf=0.0)
    variance = np.mean(slopes**2, axis=0) @ np.nan_to_num(seen.noise_level) ** 2
    return np.minimum(share * variance * (seen.time_unit / seen.scale) ** 2, about.most)


def _subset(
    gram: np.ndarray, moment: np.ndarray, total: float, floor: float, n: int
) -> tuple[np.ndarray, float]:
    """Terms (m,) of the smallest extended BIC along backward elimination, and the variance that they leave.

    References
    ----------
    J. Chen, Z. Chen, Extended Bayesian information criteria, Biometrika 95 (2008) 759, with gamma 1.
    """
    m = len(moment)
    size = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
    scaled = gram / size[:, None] / size + _RIDGE * np.eye(m)
    order, _ = backward_elimination(scaled, moment / size)
    best: tuple[float, np.ndarray, float] | None = None
    for count in range(min(m, n // _FREE) + 1):
        support = np.zeros(m, dtype=bool)
        support[order[m - count :]] = True
        values = solve_supports(scaled, moment / size, support, _RIDGE)
        squares = max(float(total - values @ (moment / size)), n * floor, 1e-300)
        price = count * math.log(max(n, 2)) + 2.0 * math.log(math.comb(m, count))
        criterion = n * math.log(squares / n) + price
        if best is None or criterion < best[0]:
            best = criterion, support, squares / max(n - count, 1)
    assert best is not None
    return best[1], best[2]


def _mixed(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
    """Supports (m, d) with the terms of each state from either of two."""
    found: dict[bytes, np.ndarray] = {}
    d = first.shape[1]
    every = itertools.product((False, True), repeat=d) if d <= _MIXED_UP_TO else ((False,) * d, (True,) * d)
    for which in every:
        support = np.where(which, second, first)
        found.setdefault(support.tobytes(), support)
    return list(found.values())


def confirmed_by_rates(
    field: VectorField, trajectories: Trajectories, rates: Sequence[np.ndarray]
) -> FitInfo:
    """The field's `fit_info`, of limited instead of low trust where it explains the measured rates.

    Paths between samples that are far apart, as of chaos, are no test of a field, and equations that follow
    the samples alone are no rivals.
    """
    info = field.fit_info
    if info.trust is not Trust.LOW or not isinstance(field, DictionaryField) or info.to_precision is False:
        return info
    pairs = [np.concatenate([x, v], axis=1) for (_, x), v in zip(trajectories.arrays(), rates, strict=True)]
    stacked = np.concatenate(pairs)
    states, measured = np.split(stacked[np.isfinite(stacked).all(axis=1)], 2, axis=1)
    spread = measured.var(axis=0)
    with np.errstate(all="ignore"):
        left = np.mean((field(states) - measured) ** 2, axis=0)
    if not (left <= _CONFIRMED * spread).all() or len(measured) * field.dim < _FREE * field.complexity:
        return info
    if all(_show(t, x, v) for (t, x), v in zip(trajectories.arrays(), rates, strict=True)):
        return info  # where differences of the samples are as good as the rates, so are paths
    explained = 1.0 - float(np.max(left / np.maximum(spread, 1e-300)))
    facts = replace(info.inference, elsewhere=None)
    if info.problems:
        facts = facts.noting(
            f"its path does not follow samples so far apart; the rates have R2 {explained:.3g}"
        )
    return replace(info, problems=(), inference=facts)


def _show(t: np.ndarray, x: np.ndarray, rates: np.ndarray) -> bool:
    """Whether samples (n, d) are so near each other that their differences are the rates (n, d)."""
    rows = np.isfinite(np.concatenate([x, rates], axis=1)).all(axis=1)
    if rows.sum() < 3:
        return False
    apart = np.gradient(x[rows], t[rows], axis=0) - rates[rows]
    return bool((np.mean(apart**2, axis=0) <= _CONFIRMED * rates[rows].var(axis=0)).all())


@dataclass(frozen=True)
class _Fit:
    """A fit to trajectories and rates.

    Attributes
    ----------
    score : float
        BIC of both together.
    candidate : Candidate
        In the units of the search.
    fit : TrajectoryFit
        Its information counts the rates.
    rates : _Rates
        Regressed at the states of its own path.
    states : array (N, d)
        These, in the units of the data.
    """

    score: float
    candidate: Candidate
    fit: TrajectoryFit
    rates: _Rates
    states: np.ndarray


def _fitted(
    search: Search,
    measured: np.ndarray,
    states: np.ndarray,
    support: np.ndarray,
    about: _About,
) -> _Fit | None:
    """The fit of a support (m, d) to trajectories and rates, at states that follow its own path."""
    if not support.any():
        return None
    seen, field = search.observations, about.field
    found: _Fit | None = None
    for _ in range(_ALONG_ITS_PATH):
        least = _by_errors_of_states(search, about, states)
        known = _Rates.on(search.dictionary.evaluate(states / seen.scale), measured, support, least)
        begun = known.coefficients(support)[support], known.precision(support)
        alone = _trajectory_fit(search, support, *_start_of_paths(search, support))
        tries = [_trajectory_fit(search, support, *begun)]
        if alone is not None:
            tries.append(_combined(search, support, alone[1], *begun))
        better = [
            _Fit(tried[0].score + known.misfit(tried[0].coefficients), *tried, known, states)
            for tried in tries
            if tried is not None
        ]
        if not better:
            return found
        best = min(better, key=lambda fit: fit.score)
        moved = _field_of(best.candidate, search, field, about.trajectories, field.fit_info.inference)
        states, _ = _at_rates(moved, about.trajectories, about.rates)
        known = _Rates.on(search.dictionary.evaluate(states / seen.scale), measured, support, least)
        total = best.candidate.score + known.misfit(best.candidate.coefficients)
        found = replace(best, score=total, rates=known, states=states)
    return found


def _combined(
    search: Search, support: np.ndarray, fit: TrajectoryFit, values: np.ndarray, precision: np.ndarray
) -> tuple[Candidate, TrajectoryFit] | None:
    """A trajectory fit, linearised, and the regression of rates (values and precision) together.

    As the fit to both is where it is close to this; it starts from the trajectories where the rates alone
    lead astray.
    """
    total = fit.information + precision
    size = np.sqrt(np.maximum(np.diagonal(total), 1e-300))
    right = fit.information @ fit.parameters + precision @ values
    with np.errstate(all="ignore"):
        left, right = total / size[:, None] / size, right / size
    if not (np.isfinite(left).all() and np.isfinite(right).all()):  # rates in extreme units
        return None
    mean = np.linalg.lstsq(left, right, rcond=None)[0] / size
    if not np.isfinite(mean).all():
        return None
    held = _trajectory_fit(search, support, mean, _HELD * total)  # starts alone are fitted again
    return None if held is None else (held[0], replace(held[1], information=total))


def _start_of_paths(search: Search, support: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of smoothed slopes on a support, and no knowledge of them."""
    states, slopes = (np.concatenate(part) for part in zip(*search.observations.splines, strict=True))
    known = _Rates.on(search.dictionary.evaluate(states), slopes, support)
    values = known.coefficients(support)[support]
    return values, np.zeros((len(values), len(values)))


def _trajectory_fit(
    search: Search, support: np.ndarray, values: np.ndarray, precision: np.ndarray
) -> tuple[Candidate, TrajectoryFit] | None:
    """A support's coefficients fitted to the trajectories from given ones of some precision."""
    seen = search.observations
    coefficients = np.zeros(support.shape)
    values = np.where(values == 0.0, _LEAST, values)  # zero is a term less
    coefficients[support] = values
    start = Candidate(coefficients, seen.start, search.dictionary, Origin(Stage.GIVEN))
    maps = compiled_maps(start, seen.interval_curves)
    fit, facts = fit_samples(seen, start, values, maps, seen.path, prior_precision=precision)
    fitted = coefficients.copy()
    fitted[support] = fit.parameters
    candidate = score(seen, replace(start, coefficients=fitted, **facts), facts["variance"])
    return (candidate, fit) if candidate.is_finite and np.isfinite(candidate.score) else None


def _field_of(
    candidate: Candidate,
    search: Search,
    field: DictionaryField,
    trajectories: Trajectories,
    facts: Inference,
) -> DictionaryField:
    """A candidate in the units of the data, with what is known of the field that was found without rates."""
    made = candidate.field(search.observations, trajectories, dict(field.fit_info.report), facts)
    assert isinstance(made, DictionaryField)  # without inputs
    info, cut = made.fit_info, search.observations.cut is not None
    starts = field.fit_info.initial_states if cut else info.initial_states
    return made.with_fit_info(replace(info, initial_states=starts, path_r2=field.fit_info.path_r2))
