"""Limit cycles of planar systems whose cycles are all known, with periods by an independent route."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.parts import Figure, Part
from fim_dynsys import CallableField
from fim_dynsys.analyze import CycleKind, limit_cycles

SECONDS = 20.0  # CPU seconds that a call may take
_SAME = 1e-5  # relative difference of equal periods; the reference is good to 1e-8 where it is no closed form

Rates = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Planar:
    """A system, where its cycles are sought, and what is known of them.

    Attributes
    ----------
    rates : callable
        Of both states.
    box : tuple
        Pairs of bounds.
    starts : tuple
        ``(x, y, direction)``: a state from which each cycle is reached, 1 forwards or -1 backwards in time.
    periods : tuple of float
        Closed forms, in place of `starts`.
    logarithms : bool
        Whether the reference follows logarithms of both states.
    transient : float
        Time in which the reference comes onto a cycle.
    """

    rates: Rates
    box: tuple[tuple[float, float], tuple[float, float]]
    starts: tuple[tuple[float, float, int], ...] = ()
    periods: tuple[float, ...] = ()
    logarithms: bool = False
    transient: float = 300.0


def _radial(radii: Sequence[float], speed: float = 1.0, unit: float = 1.0, sign: float = 1.0) -> Rates:
    """Circles of given radii: dr/dt = +- r prod(1 - r / radius), angle at a constant speed."""

    def rates(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r = np.hypot(x, y) / unit
        g = sign * np.prod([1 - r / radius for radius in radii], axis=0)
        return x * g - speed * y, y * g + speed * x

    return rates


def _van_der_pol(mu: float) -> Rates:
    return lambda x, y: (y, mu * (1 - x**2) * y - x)


def _predator_prey(r: float, k: float, a: float, h: float, e: float, m: float) -> Rates:
    """Rosenzweig and MacArthur: one cycle (K. S. Cheng, SIAM J. Math. Anal. 12 (1981) 541)."""
    return lambda x, y: (r * x * (1 - x / k) - a * x * y / (h + x), e * a * x * y / (h + x) - m * y)


def _oregonator(eps: float, f: float, q: float) -> Rates:
    return lambda u, v: ((u * (1 - u) - f * v * (u - q) / (u + q)) / eps, u - v)


def _lienard(mu: float) -> Rates:
    """Two cycles from mu = 2.5 on (G. S. Rychkov, Differ. Uravn. 11 (1975) 390)."""
    return lambda x, y: (y - (x**5 - mu * x**3 + x), -x)


def _fitzhugh_nagumo(eps: float, current: float) -> Rates:
    return lambda v, w: (v - v**3 / 3 - w + current, eps * (v + 0.7 - 0.8 * w))


def _morris_lecar(current: float) -> Rates:
    """The parameters of a Hopf bifurcation of Rinzel and Ermentrout (1998)."""

    def rates(v: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        m = 0.5 * (1 + np.tanh((v + 1.2) / 18))
        steady, rate = 0.5 * (1 + np.tanh((v - 2) / 30)), np.cosh((v - 2) / 60) * 0.04
        inward = current - 4.4 * m * (v - 120) - 8 * w * (v + 84) - 2 * (v + 60)
        return inward / 20, rate * (steady - w)

    return rates


def _systems() -> dict[str, Planar]:
    turn, wide = 2 * np.pi, ((-1.5, 1.5), (-1.5, 1.5))
    out = {
        "circle": Planar(_radial([1]), wide, periods=(turn,)),
        "fast circle": Planar(_radial([1], 20.0), wide, periods=(turn / 20,)),
        "slow circle": Planar(_radial([1], 0.1), wide, periods=(turn * 10,)),
        "repelling circle": Planar(_radial([1], sign=-1.0), wide, periods=(turn,)),
        "circle of 1e-20": Planar(_radial([1], unit=1e-20), ((-2e-20, 2e-20),) * 2, periods=(turn,)),
        "circle of 1e20": Planar(_radial([1], unit=1e20), ((-2e20, 2e20),) * 2, periods=(turn,)),
        "small circle": Planar(_radial([0.03]), wide, periods=(turn,)),
        "two circles": Planar(_radial([1, 2]), ((-3, 3),) * 2, periods=(turn,) * 2),
        "two circles apart by 10 %": Planar(_radial([1, 1.1]), wide, periods=(turn,) * 2),
        "two circles apart by 1 %": Planar(_radial([1, 1.01]), wide, periods=(turn,) * 2),
        "two circles apart by 0.2 %": Planar(_radial([1, 1.002]), wide, periods=(turn,) * 2),
        "three circles": Planar(_radial([1, 2, 3]), ((-4, 4),) * 2, periods=(turn,) * 3),
        "four circles": Planar(_radial([1, 2, 3, 4]), ((-5, 5),) * 2, periods=(turn,) * 4),
        "circle and small one": Planar(_radial([0.1, 1]), wide, periods=(turn,) * 2),
    }
    for mu in (0.05, 0.3, 1.0, 3.0, 8.0, 20.0, 60.0):
        starts = ((2.0, 0.0, 1),)
        box = ((-3.0, 3.0), (-2 - 1.6 * mu, 2 + 1.6 * mu))
        out[f"van der Pol {mu:g}"] = Planar(_van_der_pol(mu), box, starts, transient=max(200.0, 20 * mu))
    for mu in (0.5, 5.0):
        rates = lambda x, y, mu=mu: (y, mu * (y - y**3 / 3) - x)  # noqa: E731
        out[f"Rayleigh {mu:g}"] = Planar(rates, ((-8.0, 8.0), (-3.0, 3.0)), ((1.0, 0.0, 1),))
    for mu in (2.6, 3.0, 4.0):
        out[f"Lienard {mu:g}"] = Planar(
            _lienard(mu), ((-2.5, 2.5), (-4.0, 4.0)), ((2.0, 0.0, 1), (0.3, 0.0, -1))
        )
    for eps, current in ((0.08, 0.5), (0.08, 1.0), (0.01, 0.7), (0.5, 0.8)):
        out[f"FitzHugh-Nagumo {eps:g} {current:g}"] = Planar(
            _fitzhugh_nagumo(eps, current), ((-2.5, 2.5), (-1.0, 2.5)), ((1.0, 0.5, 1),), transient=600.0
        )
    for a, b in ((1.0, 2.5), (1.0, 3.0), (1.0, 6.0), (0.5, 2.0)):
        rates = lambda x, y, a=a, b=b: (a + x**2 * y - (b + 1) * x, b * x - x**2 * y)  # noqa: E731
        out[f"Brusselator {a:g} {b:g}"] = Planar(
            rates, ((0.0, 2.5 * b), (0.0, 4.0 * b)), ((a + 0.5, b, 1),), transient=300.0
        )
    for a, b in ((0.08, 0.6), (0.06, 0.5), (0.03, 0.5)):
        rates = lambda x, y, a=a, b=b: (-x + a * y + x**2 * y, b - a * y - x**2 * y)  # noqa: E731
        out[f"Selkov {a:g} {b:g}"] = Planar(rates, ((0.0, 4.0), (0.0, 6.0)), ((b + 0.1, 1.0, 1),))
    for a, b in ((0.1, 0.5), (0.05, 0.6)):
        rates = lambda x, y, a=a, b=b: (a - x + x**2 * y, b - x**2 * y)  # noqa: E731
        out[f"Schnakenberg {a:g} {b:g}"] = Planar(rates, ((0.0, 4.0), (0.0, 6.0)), ((0.8, 1.0, 1),))
    for a, b in ((10.0, 2.0), (10.0, 3.0), (12.0, 1.0)):
        rates = lambda x, y, a=a, b=b: (  # noqa: E731
            a - x - 4 * x * y / (1 + x**2),
            b * x * (1 - y / (1 + x**2)),
        )
        out[f"chlorine dioxide {a:g} {b:g}"] = Planar(rates, ((0.0, 8.0), (0.0, 15.0)), ((1.0, 3.0, 1),))
    for eps, f, q in ((0.05, 1.0, 0.002), (0.02, 0.8, 0.002), (0.01, 1.0, 0.002)):
        out[f"Oregonator {eps:g} {f:g}"] = Planar(
            _oregonator(eps, f, q), ((0.001, 1.0), (0.001, 0.5)), ((0.3, 0.1, 1),), transient=60.0
        )
    for k in (4.0, 5.0, 6.0, 8.0, 10.0):
        out[f"predator-prey K={k:g}"] = Planar(
            _predator_prey(1.0, k, 1.0, 1.0, 1.0, 0.2),
            ((0.0, 1.1 * k), (0.0, 1.1 * k)),
            ((1.0, 1.0, 1),),
            logarithms=True,
            transient=1500.0,
        )
    out["predator-prey near a loop"] = Planar(
        _predator_prey(0.8, 15.0, 2.5, 1.0, 0.5, 0.4), ((0.0, 18.0),) * 2, ((1.0, 1.0, 1),), (), True, 2000.0
    )
    for box in (((0.0, 11.0), (0.0, 8.0)), ((-0.9, 10.3), (-0.4, 7.8)), ((-1.0, 12.0),) * 2):
        out[f"predator-prey in {box[0]}"] = Planar(
            _predator_prey(1.0, 10.0, 0.8, 1.5, 0.625, 0.3), box, ((1.0, 1.0, 1),), (), True, 800.0
        )
    for s, h in ((0.1, 0.05), (0.2, 0.1)):
        rates = lambda x, y, s=s, h=h: (x * (1 - x) - x * y / (x + h), s * y * (1 - y / (x + 0.01)))  # noqa: E731
        out[f"Leslie-Gower {s:g} {h:g}"] = Planar(
            rates, ((0.0, 1.2), (0.0, 1.2)), ((0.3, 0.2, 1),), (), True, 2000.0
        )
    for current in (100.0, 150.0):
        out[f"Morris-Lecar {current:g}"] = Planar(
            _morris_lecar(current), ((-70.0, 50.0), (0.0, 0.7)), ((20.0, 0.3, 1),), transient=3000.0
        )
    out["no cycle: damped"] = Planar(lambda x, y: (y, -x - 0.1 * y), ((-2.0, 2.0),) * 2)
    out["no cycle: two wells"] = Planar(lambda x, y: (y, x - x**3 - 0.2 * y), ((-2.0, 2.0),) * 2)
    out["no cycle: competition"] = Planar(
        lambda x, y: (x * (1 - x - 1.5 * y), y * (1 - y - 1.5 * x)), ((-0.1, 2.0),) * 2
    )
    return out


SYSTEMS = _systems()


def reference(system: Planar) -> list[float]:
    """Periods by scipy: LSODA onto each cycle, and once round by event location, by rising period."""
    if not system.starts:
        return sorted(system.periods)
    return sorted(_period(system, np.array(start[:2]), start[2]) for start in system.starts)


def _period(system: Planar, x: np.ndarray, direction: int) -> float:
    def rates(t: float, z: np.ndarray) -> np.ndarray:
        state = np.exp(z) if system.logarithms else z
        f = np.array(system.rates(*state))
        return direction * (f / state if system.logarithms else f)

    options: dict[str, Any] = {"method": "LSODA", "rtol": 1e-10, "atol": 1e-11}
    z = np.log(x) if system.logarithms else x
    z = solve_ivp(rates, (0.0, system.transient), z, **options).y[:, -1]
    normal = rates(0.0, z)

    def crossing(t: float, z: np.ndarray) -> float:
        # At the very start, where rounding decides the sign, it counts as above the section.
        return float((z - origin) @ normal) if t > 1e-6 * system.transient else 1.0

    crossing.direction = 1.0
    origin = z
    turns = solve_ivp(rates, (0.0, system.transient), z, events=crossing, **options)
    size = np.ptp(turns.y, axis=1)
    close = [
        t
        for t, y in zip(turns.t_events[0], turns.y_events[0], strict=True)
        if (np.abs(y - origin) < 1e-4 * size).all()
    ]
    return float(close[0])


def tasks() -> dict[str, tuple]:
    """One for each system."""
    return {name: (name,) for name in SYSTEMS}


def measure(name: str) -> dict[str, Any]:
    """Cycles by the default call against the known ones."""
    system = SYSTEMS[name]
    known = reference(system)
    field = CallableField(lambda s: np.stack(system.rates(*s.T), axis=1), 2)
    began = time.process_time()
    found = limit_cycles(field, system.box)
    seconds = time.process_time() - began
    limits = np.isin(found.kind, (CycleKind.STABLE, CycleKind.UNSTABLE))
    left = sorted(found.period[limits].tolist())
    errors = []
    for period in known:
        near = min(left, key=lambda value: abs(value / period - 1), default=np.nan)
        if abs(near / period - 1) < _SAME:
            left.remove(near)
            errors.append(abs(near / period - 1))
    return {
        "expected": len(known),
        "missed": len(known) - len(errors),
        "false": len(left) + int((~limits).sum()),
        "period_error": max(errors, default=np.nan),
        "seconds": seconds,
        "points": found.effort.points,
    }


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Cycles missed and false, the largest error of a period, and the slowest call."""
    missed = [row["task"] for row in rows if row["missed"]]
    false = [row["task"] for row in rows if row["false"]]
    slow = [row["task"] for row in rows if row["seconds"] > SECONDS]
    error = float(np.nanmax([row["period_error"] for row in rows]))
    n = len(rows)
    return [
        Figure("planar systems with a cycle missed", len(missed), "", "== 0", n, " ".join(missed)),
        Figure("planar systems with a false cycle", len(false), "", "== 0", n, " ".join(false)),
        Figure("planar systems: period, largest relative error", error, "", "<= 1e-05", n),
        Figure(f"planar systems above {SECONDS:g} CPU-s", len(slow), "", "== 0", n, " ".join(slow)),
    ]


PART = Part("planar_cycles", "1", tasks, measure, figures)
