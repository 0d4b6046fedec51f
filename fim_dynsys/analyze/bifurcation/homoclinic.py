"""What cycles of ever longer period tend to: homoclinic orbits, loops of several saddles, and SNICs."""

import numpy as np

from fim_dynsys.analyze.tracing.branches import Branch, LimitKind, LongPeriod
from fim_dynsys.analyze.tracing.equations import ROOT, Equations

_LONG = 2.0  # times the shortest period of a branch: passages of an equilibrium then take most of the time
_SLOW = 0.05  # of the largest speed: what is passed more slowly may be an equilibrium
_NEAR = 0.1  # of the orbit's size, within which the equilibrium of a passage lies
_LEAST, _MOST = 4, 8  # points from which a law is read: the longest periods tell most
_CLEAR = 30.0  # times the noise of the parameter that its changes must be
_STRAIGHT = 0.99  # correlation of log |dp / dT| with T
_LAW = 0.25  # relative deviation of an exponent from that of a law


def long_period(equations: Equations, branch: Branch, end: int) -> LongPeriod | None:
    """What the cycles of a branch tend to at its first (0) or last (-1) point.

    Parameters
    ----------
    equations : Equations
        The family and its units.
    branch : Branch
        Of cycles.
    end : {0, -1}
        Which.

    Returns
    -------
    LongPeriod or None
        None where the period does not grow, or follows neither scaling.

    References
    ----------
    S. H. Strogatz, Nonlinear Dynamics and Chaos, Westview 1994, section 8.4 (the two scalings).
    """
    assert branch.period is not None and branch.orbits is not None
    ascending = slice(None, None, -1) if end == 0 else slice(None)
    p, period = branch.p[ascending], branch.period[ascending]
    falls = np.flatnonzero(np.diff(period) <= 0)
    p, period = (values[falls[-1] + 1 if len(falls) else 0 :] for values in (p, period))
    long = period > _LONG * branch.period.min()
    p, period = p[long], period[long]
    # As far as the parameter still changes by more than the equations are solved to.
    slope = np.diff(p) / np.diff(period)
    noisy = np.flatnonzero((np.abs(slope[1:]) >= np.abs(slope[:-1])) | (slope[1:] * slope[:-1] <= 0))
    n = int(noisy[0]) + 1 if len(noisy) else len(slope)
    noise, last_slope = float(np.abs(np.diff(p))[n:].max(initial=0.0)), slope[-1] if len(slope) else 0.0
    n = int(np.count_nonzero(np.abs(np.diff(p))[:n] > _CLEAR * noise))
    if n < _LEAST:
        return None
    slope, middle = slope[max(0, n - _MOST) : n], np.sqrt(period[1:] * period[:-1])[max(0, n - _MOST) : n]
    logs = np.log(np.abs(slope))
    error = max(abs(float(last_slope * period[-1])) / 2.0, noise)
    orbit, last = branch.orbits[end], float(p[-1])
    power = -float(np.polyfit(np.log(middle), logs, 1)[0]) - 1.0
    if abs(power - 2.0) < 2.0 * _LAW:
        at = float(np.polyfit(period[-_LEAST:] ** -2.0, p[-_LEAST:], 1)[1])
        slowest = orbit[np.argmin(_speed(equations, orbit, last))]
        return LongPeriod(LimitKind.SNIC, at, error, slowest[None], power, 2.0)
    passed = _passed(equations, orbit, last)
    places = _distinct([x for x, _ in passed], equations.length)
    exponent = -1.0 / float(np.polyfit(middle, logs, 1)[0])
    if np.corrcoef(middle, logs)[0, 1] > -_STRAIGHT or not places:
        return None
    if noise == 0.0:  # else the parameter stands still to its digits
        last += float(exponent * slope[-1] * np.exp((middle[-1] - period[-1]) / exponent))
    if len(places) > 1:
        return LongPeriod(LimitKind.HETEROCLINIC, last, error, np.array(places), exponent, np.nan)
    expected = float(sum(time for _, time in passed))
    if abs(exponent - expected) > _LAW * expected:
        return None
    return LongPeriod(LimitKind.HOMOCLINIC, last, error, np.array(places), exponent, expected)


def _speed(equations: Equations, orbit: np.ndarray, p: float) -> np.ndarray:
    return np.linalg.norm(equations.family(orbit, p) / equations.length, axis=1)


def _passed(equations: Equations, orbit: np.ndarray, p: float) -> list[tuple[np.ndarray, float]]:
    """The saddles that a cycle passes, in order, each with 1 / |lambda| of its eigenvalue nearest zero."""
    speed = _speed(equations, orbit, p)
    slow = speed < _SLOW * speed.max()
    if slow.all() or not slow.any():
        return []
    first = int(np.argmin(slow))
    order = np.roll(np.arange(len(orbit)), -first)
    runs = np.split(order, np.flatnonzero(np.diff(slow[order].astype(int))) + 1)
    size = np.ptp(orbit / equations.length, axis=0).max()
    found = []
    for run in runs:
        if not slow[run[0]]:
            continue
        nearest = orbit[run[np.argmin(speed[run])]]
        u, residual = equations.find_root(nearest, p)
        x, _ = equations.unscaled(u[:-1], u[-1])
        if not (residual < ROOT and np.abs((x - nearest) / equations.length).max() < _NEAR * size):
            continue
        rates = np.linalg.eigvals(equations.differentiable.jacobian(x, p)).real
        if rates.min() < 0 < rates.max():
            found.append((x, 1.0 / float(np.abs(rates).min())))
    return found


def _distinct(places: list[np.ndarray], length: np.ndarray) -> list[np.ndarray]:
    kept: list[np.ndarray] = []
    for x in places:
        if not any(np.abs((x - other) / length).max() < 1e-6 for other in kept):
            kept.append(x)
    return kept
