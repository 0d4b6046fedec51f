"""Frequencies that equations name, and those that the data show: where searches for the former begin."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fim_dynsys.estimation.fits import SAME, Fit, with_values_tried
from fim_dynsys.estimation.programs import TIME

if TYPE_CHECKING:
    from sympy import Expr

_FEWEST = 8  # samples of a column that may show a frequency
_PER_TURN = 4  # frequencies that are looked at between those of one turn more over a record
_MOST = 2000  # frequencies that are looked at
_STRONGEST = 4  # lines of each column
_ROUNDS = 3  # each with the lines of what the one before left
_ENDS = 4  # minima from which the other numbers are taken


def with_frequencies_tried(fit: Fit, named: Mapping[str, tuple[float, float]]) -> Fit:
    """A fit of whole runs, or a better one at frequencies that the data or the residuals show.

    The objective has a minimum for every turn more or less over the record, of which searches find the
    nearest.

    Parameters
    ----------
    fit : Fit
        Of whole runs.
    named : mapping
        Frequencies and periods, see `frequencies_of`.
    """
    if not named:
        return fit
    lines = _lines(fit, 0.0)
    for _ in range(_ROUNDS):
        tried, before = np.array(lines + _lines(fit, 1.0)), fit.descent.value
        values = {name: (tried / factor) ** power for name, (factor, power) in named.items()}
        fit = with_values_tried(fit, values, _ENDS)
        if not fit.descent.value < before - SAME:
            break
        lines = []
    return fit


def frequencies_of(equations: "Sequence[Expr]", known: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Frequencies and periods in sines and cosines of the time: factors and powers, 1 or -1.

    The power of the number, times the factor, is an angular frequency: w of w*t, or P of 2*pi*t/P.
    """
    import sympy

    clock = sympy.Symbol(TIME, real=True)
    numbers = {sympy.Symbol(name, real=True): sympy.Float(value) for name, value in known.items()}
    found: dict[str, tuple[float, float]] = {}
    for wave in set().union(*(e.atoms(sympy.sin, sympy.cos) for e in equations)):
        speed = wave.args[0].xreplace(numbers).diff(clock)
        for name in speed.free_symbols:
            factors = {power: sympy.simplify(speed / name**power) for power in (1, -1)}
            found |= {str(name): (abs(float(f)), float(power)) for power, f in factors.items() if f.is_number}
    return found


def _lines(fit: Fit, share: float) -> list[float]:
    """Angular frequencies of the strongest lines in the spectra of all columns, less a share of the fit.

    References
    ----------
    N. R. Lomb, Astrophys. Space Sci. 39 (1976) 447: spectra of unevenly spaced samples.
    """
    from scipy.signal import find_peaks, lombscargle

    found = []
    for times, values in _columns(fit, share):
        if len(times) < _FEWEST or np.ptp(values) == 0.0:
            continue
        turns = np.arange(_PER_TURN, min(_PER_TURN * len(times) // 2, _MOST)) / _PER_TURN
        speeds = 2.0 * np.pi * turns / (times[-1] - times[0])
        trend = np.polyval(np.polyfit(times, values, 1), times)
        power = lombscargle(times, values - trend, speeds)
        peaks = find_peaks(np.concatenate([[0.0], power, [0.0]]))[0] - 1
        found += speeds[peaks[np.argsort(power[peaks])[::-1][:_STRONGEST]]].tolist()
    return found


def _columns(fit: Fit, share: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Times and values (n,) of each observable of each run, less a share of the fitted ones."""
    objective = fit.problem.objective
    for run, own, path in zip(fit.problem.runs, objective.experiments, fit.paths, strict=True):
        for kind in np.unique(own.kinds):
            rows = own.kinds == kind
            values, fitted = own.values[rows], path.values[own.rows[rows], objective.at[kind]]
            if objective.observables[kind].errors.of_logarithm:
                values, fitted = np.log(values), np.log(np.maximum(fitted, np.finfo(float).tiny))
            yield run.times[own.rows[rows]], values - share * fitted
