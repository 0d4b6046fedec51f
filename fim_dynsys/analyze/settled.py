"""Jacobians by differences that steps of other sizes confirm."""

from dataclasses import dataclass

import numpy as np

from fim_dynsys.analyze.results import has_exact_jacobian
from fim_dynsys.fields.base import DIFFERENCE, VectorField

SHRINKING = 0.25
"""From one step of a ladder to the next: truncation errors, of fourth order, fall to 1/256."""
RUNGS = 12
"""Steps at most: to 2e-7 of the usual one, where rounding has eaten all digits of smooth fields."""
# Of the largest slope of a rate, in lengths: differences that agree to this are those of a smooth field with
# usual steps (1e-9) or with some rounding noise, and shorter steps would gain nothing that a kind depends on.
_AGREED = 1e-6


@dataclass(frozen=True, eq=False)
class Settled:
    """Jacobians, and how far those with other steps differ.

    Attributes
    ----------
    jac : ndarray (n, d, d)
        Jacobians, each entry with the step whose neighbours differ least.
    longer, shorter : ndarray (n, d, d)
        With steps four times as long, and a fourth.
    settled : ndarray (n,) of bool
        Whether these agree.
    refined : ndarray (n,) of bool
        Whether some entry needed a shorter step than usual.
    """

    jac: np.ndarray
    longer: np.ndarray
    shorter: np.ndarray
    settled: np.ndarray
    refined: np.ndarray

    @classmethod
    def of(cls, field: VectorField, x: np.ndarray, length: np.ndarray) -> "Settled":
        """Those of a field at rows (n, d), with lengths (d,) as units of the states.

        An exact Jacobian needs no confirmation. Steps are relative to the field's own lengths; one a fourth
        and one four times as long are compared with the usual one, and where these differ, shorter ones: a
        usual step may reach beyond a pole, a threshold or a bend.
        """
        if has_exact_jacobian(field) or not len(x):
            jac = field.jacobian(x)
            return cls(jac, jac, jac, np.ones(len(x), dtype=bool), np.zeros(len(x), dtype=bool))
        ladder = [with_step(field, x, power) for power in (-1, 0, 1)]
        best, apart, chosen = ladder, _apart(ladder), np.zeros(ladder[0].shape, dtype=int)
        settled = _agree(best, length)
        for power in range(2, RUNGS):
            rows = np.flatnonzero(~settled)
            if not len(rows):
                break
            finer = np.full_like(ladder[2], np.nan)
            finer[rows] = with_step(field, x[rows], power)
            ladder = [ladder[1], ladder[2], finer]
            now = _apart(ladder)
            closer = now < apart
            best = [np.where(closer, new, old) for new, old in zip(ladder, best, strict=True)]
            apart, chosen = np.where(closer, now, apart), np.where(closer, power, chosen)
            settled[rows] = _agree([part[rows] for part in best], length)
        return cls(best[1], best[0], best[2], settled, np.any(chosen > 0, axis=(1, 2)))


def settled_jacobian(field: VectorField, x: np.ndarray, length: np.ndarray) -> np.ndarray:
    """The Jacobian (d, d) of a field at a state (d,), see `Settled`."""
    return Settled.of(field, x[None], length).jac[0]


def _agree(ladder: list[np.ndarray], length: np.ndarray) -> np.ndarray:
    """Whether Jacobians (n, d, d) with three steps are the same, (n,)."""
    largest = np.abs(ladder[1] * length).max(axis=2, keepdims=True)
    return (_apart(ladder) * length <= _AGREED * largest).all(axis=(1, 2))  # never where one is not finite


def with_step(field: VectorField, x: np.ndarray, power: int) -> np.ndarray:
    """Jacobian at rows (n, d) with the usual step by 4 to a power."""
    with np.errstate(all="ignore"):  # a step may leave the field's domain; the next one is shorter
        return field._differenced(x, DIFFERENCE * SHRINKING**power)


def _apart(ladder: list[np.ndarray]) -> np.ndarray:
    """Largest difference of entries from the middle one, (n, d, d); infinite where one is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.maximum(np.abs(ladder[0] - ladder[1]), np.abs(ladder[1] - ladder[2]))
    return np.where(np.isfinite(apart), apart, np.inf)
