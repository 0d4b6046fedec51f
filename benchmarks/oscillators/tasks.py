"""The three tasks on short, noisy oscillators, regenerated from their seeds.

Van der Pol T1 and T2 forecast the second half of a trajectory from 50 observations of the first, on a
regular and on a random grid; FitzHugh-Nagumo imputes the part of a trajectory that crosses one quadrant from
what lies before and after. Noise is additive and Gaussian. The draw with seed 121 gives the observations that
the literature shares.

References
----------
P. Hegde et al., Variational multiple shooting for Bayesian ODEs with Gaussian processes, UAI 2022, section
5.1 (the data).
"""

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.integrate import odeint

from fim_dynsys.fields.callable import CallableField
from fim_dynsys.trajectories.container import Trajectories

FIXED_SEED = 121  # noise of the shared data sets
FIRST_FRESH_SEED = 1000
N_OBSERVED = 50
VDP_SPAN, FHN_SPAN = 7.0, 5.0


@dataclass(frozen=True, eq=False)
class Oscillation:
    """One task without its noise.

    Attributes
    ----------
    name : str
    field : CallableField
        The true field, for the row that knows it.
    start : ndarray (2,)
        Clean state at time 0, from which predictions are integrated.
    variance : float
        Of the noise on every observed coordinate.
    t, x : ndarray (50,), (50, 2)
        Times and clean states, on all of which noise is drawn.
    pieces : tuple of ndarray
        The runs of samples that a model sees, each a trajectory of its own.
    target_t, target_x : ndarray (m,), (m, 2)
        Where predictions are compared, and the clean states there.
    hidden : slice or None
        The samples that the targets are, where these were drawn with noise but kept from the model.
    """

    name: str
    field: CallableField
    start: np.ndarray
    variance: float
    t: np.ndarray
    x: np.ndarray
    pieces: tuple[np.ndarray, ...]
    target_t: np.ndarray
    target_x: np.ndarray
    hidden: slice | None = None

    def observations(self, seed: int) -> np.ndarray:
        """Return the states (50, 2) with the noise of one seed."""
        noise = np.random.RandomState(seed).normal(size=(1, *self.x.shape))[0]
        return self.x + np.sqrt(self.variance) * noise

    def context(self, seed: int) -> Trajectories:
        """Return what a model sees under the noise of one seed."""
        noisy = self.observations(seed)
        return Trajectories.from_arrays([noisy[p] for p in self.pieces], [self.t[p] for p in self.pieces])

    def digest(self) -> str:
        """Return a digest of the data; a cache answers for the same data only."""
        arrays = (self.start, self.t, self.x, self.target_t, self.target_x, np.array([self.variance]))
        arrays += self.pieces
        return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()[:16]


def van_der_pol(x: np.ndarray) -> np.ndarray:
    """Return the Van der Pol field with mu = 1/2 at points (n, 2)."""
    return np.stack([x[:, 1], 0.5 * (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], axis=1)


def fitzhugh_nagumo(x: np.ndarray) -> np.ndarray:
    """Return the FitzHugh-Nagumo field with a = b = 0.2 and c = 3 at points (n, 2)."""
    v, w = x.T
    return np.stack([3 * (v - v**3 / 3 + w), (0.2 - 3 * v - 0.2 * w) / 3], axis=1)


def solution(rhs: Callable, start: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return states (n, d) at increasing times from one at time 0, by LSODA at its defaults as the source."""
    times = t if t[0] == 0 else np.concatenate([[0.0], t])
    return odeint(lambda x, _: rhs(x[None])[0], start, times)[len(times) - len(t) :]


def _regular_times() -> tuple[np.ndarray, np.ndarray]:
    """Times observed, and the later half of a grid of the same step that goes on."""
    observed = np.linspace(0.0, VDP_SPAN, N_OBSERVED)
    whole = np.linspace(0.0, VDP_SPAN * (2 * N_OBSERVED - 1) / (N_OBSERVED - 1), 2 * N_OBSERVED)
    return observed, whole[N_OBSERVED:]


def _random_times() -> tuple[np.ndarray, np.ndarray]:
    """Random times, 0 among those observed; half of the later ones are scored, as in the FIM-ODE paper."""
    state = np.random.RandomState(122)
    end = VDP_SPAN * (2 * N_OBSERVED - 1) / (N_OBSERVED - 1)
    observed = np.sort(state.uniform(0.0, VDP_SPAN, N_OBSERVED))
    observed[0] = 0.0
    later = np.sort(state.uniform(VDP_SPAN, end, 2 * N_OBSERVED))
    kept = np.random.default_rng(0).choice(2 * N_OBSERVED, N_OBSERVED, replace=False)
    return observed, later[np.sort(kept)]


def _forecast(name: str, times: Callable[[], tuple[np.ndarray, np.ndarray]]) -> Oscillation:
    observed, later = times()
    start = np.array([-1.5, 2.5])
    return Oscillation(
        name=name,
        field=CallableField(van_der_pol, 2),
        start=start,
        variance=0.05,
        t=observed,
        x=solution(van_der_pol, start, observed),
        pieces=(np.arange(N_OBSERVED),),
        target_t=later,
        target_x=solution(van_der_pol, start, later),
    )


def _imputation() -> Oscillation:
    t, start = np.linspace(0.0, FHN_SPAN, N_OBSERVED), np.array([-1.0, -1.0])
    x = solution(fitzhugh_nagumo, start, t)
    missing = np.flatnonzero((x[:, 0] > 0) & (x[:, 1] < 0))
    hidden = slice(int(missing[0]), int(missing[-1]) + 1)  # one run, 12 samples
    return Oscillation(
        name="FHN",
        field=CallableField(fitzhugh_nagumo, 2),
        start=start,
        variance=0.025,
        t=t,
        x=x,
        pieces=(np.arange(hidden.start), np.arange(hidden.stop, N_OBSERVED)),
        target_t=t[hidden],
        target_x=x[hidden],
        hidden=hidden,
    )


@functools.cache
def tasks() -> tuple[Oscillation, ...]:
    """Return the three tasks: VDP T1, VDP T2 and FHN."""
    return _forecast("VDP T1", _regular_times), _forecast("VDP T2", _random_times), _imputation()


def joined(task: Oscillation) -> Oscillation:
    """Return the task with what is seen as one trajectory, a gap in it where samples are hidden.

    So the literature gives it to methods that train on each data set, fine-tuned ones among them; zero-shot
    ones are given two.
    """
    return replace(task, pieces=(np.concatenate(task.pieces),))
