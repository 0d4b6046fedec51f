"""Evidence and posterior of parameters: nested sampling, Laplace's approximation, a closed form for lines."""

import hashlib
import os
import pickle
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_CHECKPOINT_SECONDS = 60
_REPORT_EVERY = 50  # iterations between updates of the progress bar
_STEP = 0.1  # of a posterior width: second differences err by a thousandth of what is not quadratic
_NEWTON_STEPS, _WIDTH_STEPS = 50, 12
_LONGEST = 3.0  # widths in one step
_CONVERGED = 1e-8  # gain of log posterior


@dataclass(frozen=True)
class Posterior:
    """Evidence of one model and draws of its parameters.

    Attributes
    ----------
    log_evidence, error : float
        Natural logarithm, and its standard error.
    draws : array (n, q)
        Equally weighted.
    log_likelihood : array (n,)
        Of the draws.
    calls : int
        Likelihoods evaluated.
    """

    log_evidence: float
    error: float
    draws: np.ndarray
    log_likelihood: np.ndarray
    calls: int

    def log_evidence_under(self, prior, other):
        """Log evidence under another prior, by reweighting the draws."""
        ratio = other.log_density(self.draws) - prior.log_density(self.draws)
        top = ratio.max()
        if not np.isfinite(top):
            return -np.inf
        return self.log_evidence + top + float(np.log(np.mean(np.exp(ratio - top))))


def sample_nested(likelihood, prior, live_points=250, seed=0, resume=False, progress=None, name=""):
    """Evidence and posterior by nested sampling.

    Parameters
    ----------
    likelihood : callable
        ``theta (q,) -> float``, finite; a module-level object where the run shall be resumable.
    prior : JointPrior
        Maps the unit cube to parameters.
    live_points : int
        The error falls as its root.
    seed : int
        Of the sampler.
    resume : bool
        Whether to keep checkpoints and to go on from one that an interrupted run of the same question left.
        They are pickles, in a folder of the system's temporary directory that only its owner may enter.
    progress : bool, optional
        Whether a progress bar is shown; default on a terminal.
    name : str
        For the progress bar.

    Returns
    -------
    Posterior

    References
    ----------
    J. Skilling, Nested sampling for general Bayesian computation, Bayesian Analysis 1 (2006) 833; J. Speagle,
    dynesty, MNRAS 493 (2020) 3132.
    """
    from dynesty import NestedSampler

    rng = np.random.default_rng(seed)
    checkpoint = _Checkpoint.of(likelihood, prior, live_points, seed) if resume else None
    sampler = None if checkpoint is None else checkpoint.restored()
    resumed = sampler is not None
    if not resumed:
        sampler = NestedSampler(likelihood, prior, len(prior.priors), nlive=live_points, rstate=rng)
    with _Bar(name, progress) as bar:
        sampler.run_nested(
            print_progress=True,
            print_func=bar,
            checkpoint_file=None if checkpoint is None else str(checkpoint.path),
            checkpoint_every=_CHECKPOINT_SECONDS,
            resume=resumed,
        )
    results = sampler.results
    if checkpoint is not None:
        checkpoint.remove()
    weights = np.exp(results["logwt"] - results["logz"][-1])
    weights /= weights.sum()
    # systematic resampling; as many draws as the weights are worth
    size = max(int(1.0 / np.sum(weights**2)), 1)
    positions = (np.arange(size) + rng.random()) / size
    chosen = rng.permutation(np.minimum(np.searchsorted(np.cumsum(weights), positions), len(weights) - 1))
    return Posterior(
        float(results["logz"][-1]),
        float(results["logzerr"][-1]),
        np.array(results["samples"])[chosen],
        np.array(results["logl"])[chosen],
        int(np.sum(results["ncall"])),
    )


class _Bar:
    """dynesty's reports as one progress bar."""

    def __init__(self, name, progress):
        from tqdm import tqdm

        self._bar = tqdm(desc=name or None, unit="it", disable=None if progress is None else not progress)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._bar.close()

    def __call__(self, results, niter, ncall, **kwargs):
        if niter % _REPORT_EVERY == 0:
            self._bar.update(niter - self._bar.n)
            self._bar.set_postfix(calls=ncall, logz=f"{results.logz:.1f}", left=f"{results.delta_logz:.2g}")


@dataclass(frozen=True)
class _Checkpoint:
    """A checkpoint in a folder that we made, of a name that the question decides."""

    path: Path

    @classmethod
    def of(cls, *question):
        digest = hashlib.sha256(pickle.dumps(question)).hexdigest()[:24]
        user = os.getuid() if hasattr(os, "getuid") else "user"
        folder = Path(tempfile.gettempdir()) / f"fim-dynsys-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.stat()
        own = not hasattr(os, "getuid") or about.st_uid == os.getuid()
        if folder.is_symlink() or not own or stat.S_IMODE(about.st_mode) & 0o077:
            raise ValueError(
                f"sample_nested: expected {folder} to be a folder that only its owner may enter, got "
                "another; remove it or run without resume."
            )
        return cls(folder / f"{digest}.checkpoint")

    def restored(self):
        from dynesty import NestedSampler

        return NestedSampler.restore(str(self.path)) if self.path.is_file() else None

    def remove(self):
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Peak:
    """The highest point of a posterior and its curvature there.

    Attributes
    ----------
    mode : array (q,)
        Where it is.
    axes : array (q, q)
        Columns are independent directions of one standard deviation of the normal approximation.
    log_height : float
        Log of likelihood times prior.
    calls : int
        Likelihoods evaluated.
    """

    mode: np.ndarray
    axes: np.ndarray
    log_height: float
    calls: int

    @classmethod
    def near(cls, likelihood, prior, start):
        """Climb from a start by Newton's method with differences.

        Parameters
        ----------
        likelihood : callable
            ``theta (q,) -> float``.
        prior : JointPrior
            Of the parameters.
        start : array (q,)
            Where likelihood and prior are finite.

        Returns
        -------
        Peak

        Raises
        ------
        ValueError
            If the posterior has no peak near the start.
        """
        calls = 0

        def log_posterior(theta):
            nonlocal calls
            calls += 1
            density = prior.log_density(theta)
            return float(likelihood(theta) + density) if np.isfinite(density) else -np.inf

        theta = np.array(start, dtype=float)
        width = _widths(log_posterior, theta)
        for _ in range(_NEWTON_STEPS):
            value, gradient, hessian = _derivatives(log_posterior, theta, _STEP * width)
            if not (np.isfinite(gradient).all() and np.isfinite(hessian).all()):
                break
            curvature, vectors = np.linalg.eigh(-hessian)
            # uphill whatever the signs of the curvatures
            step = vectors @ (vectors.T @ gradient / np.maximum(np.abs(curvature), 1e-12))
            step *= min(1.0, _LONGEST / max(np.abs(step).max(), 1e-300))
            while log_posterior(theta + width * step) < value and np.abs(step).max() > 1e-6:
                step *= 0.5
            theta = theta + width * step
            if abs(gradient @ step) < _CONVERGED:
                break
        value, _, hessian = _derivatives(log_posterior, theta, _STEP * width)
        if not np.isfinite(hessian).all() or not (np.linalg.eigvalsh(-hessian) > 0).all():
            raise ValueError(
                "Peak.near: expected a peak of the posterior, got none: some direction has no curvature, or "
                "the prior ends there; sample it instead (method='nested') or give other priors."
            )
        curvature, vectors = np.linalg.eigh(-hessian)
        return cls(theta, width[:, None] * vectors / np.sqrt(curvature), float(value), calls)


def laplace(likelihood, prior, start, n_draws=1000, seed=0):
    """Evidence by a normal approximation about the posterior's mode: exact where the model is linear.

    Parameters
    ----------
    likelihood : callable
        ``theta (q,) -> float``.
    prior : JointPrior
        Of the parameters.
    start : array (q,)
        Where the search for the mode starts.
    n_draws : int
        Draws of the approximation.
    seed : int
        Of the draws.

    Returns
    -------
    Posterior
        With an error of 0: that of the approximation is not known.

    References
    ----------
    L. Tierney, J. B. Kadane, Accurate approximations for posterior moments and marginal densities, JASA 81
    (1986) 82.
    """
    peak = Peak.near(likelihood, prior, start)
    q = len(peak.mode)
    log_volume = 0.5 * q * np.log(2.0 * np.pi) + np.linalg.slogdet(peak.axes)[1]
    draws = peak.mode + np.random.default_rng(seed).standard_normal((n_draws, q)) @ peak.axes.T
    values = np.array([likelihood(draw) for draw in draws])
    return Posterior(peak.log_height + float(log_volume), 0.0, draws, values, peak.calls + n_draws)


def quadrature(likelihood, prior, peak, nodes=9):
    """Evidence by Gauss-Hermite quadrature about a peak: as good as the posterior is near to one smooth hill.

    Parameters
    ----------
    likelihood : callable
        ``theta (q,) -> float``.
    prior : JointPrior
        Of the parameters.
    peak : Peak
        Of the posterior.
    nodes : int
        For each of the q directions; ``nodes**q`` likelihoods are evaluated.

    Returns
    -------
    float
        Log evidence.

    References
    ----------
    J. C. Naylor, A. F. M. Smith, Applications of a method for the efficient computation of posterior
    distributions, Applied Statistics 31 (1982) 214.
    """
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    q = len(peak.mode)
    grid = np.stack([g.ravel() for g in np.meshgrid(*[x] * q, indexing="ij")], axis=1)
    log_w = sum(g.ravel() for g in np.meshgrid(*[np.log(w)] * q, indexing="ij"))
    points = peak.mode + grid @ peak.axes.T
    values = np.array([likelihood(point) for point in points]) + prior.log_density(points)
    terms = values + 0.5 * np.sum(grid**2, axis=1) + log_w
    top = terms.max()
    return float(top + np.log(np.sum(np.exp(terms - top))) + np.linalg.slogdet(peak.axes)[1])


def _widths(log_posterior, theta):
    """For each parameter, the distance over which the log posterior changes by about one half."""
    value, width = log_posterior(theta), 1e-3 * np.maximum(np.abs(theta), 1e-3)
    for k in range(len(theta)):
        for _ in range(_WIDTH_STEPS):
            move = np.where(np.arange(len(theta)) == k, width[k], 0.0)
            bend = abs(log_posterior(theta + move) - 2.0 * value + log_posterior(theta - move))
            factor = np.clip(1.0 / np.sqrt(bend), 0.1, 10.0) if np.isfinite(bend) and bend > 0 else 0.1
            width[k] *= factor
            if 0.7 < factor < 1.4:
                break
    return width


def _derivatives(fn, theta, step):
    """Value, gradient and Hessian by central differences, in units of ``step / _STEP``."""
    q, value = len(theta), fn(theta)
    moves = np.diag(step)
    ahead, behind = (np.array([fn(theta + sign * move) for move in moves]) for sign in (1, -1))
    gradient = (ahead - behind) / (2.0 * _STEP)
    hessian = np.diag(ahead - 2.0 * value + behind) / _STEP**2
    for i in range(q):
        for j in range(i):
            both, neither = fn(theta + moves[i] + moves[j]), fn(theta - moves[i] - moves[j])
            mixed = both + neither - ahead[i] - behind[i] - ahead[j] - behind[j] + 2.0 * value
            hessian[i, j] = hessian[j, i] = 0.5 * mixed / _STEP**2
    return value, gradient, hessian


def log_evidence_of_line(design, target, noise, prior_precision):
    """Closed form: evidence of coefficients of a linear regression under a normal prior about 0.

    Parameters
    ----------
    design : array (n, q)
        Regressors.
    target : array (n,)
        What is explained.
    noise : float or array (n,)
        Standard deviation of the target's errors.
    prior_precision : array (q,) or (q, q)
        Of the coefficients.

    Returns
    -------
    float

    References
    ----------
    C. M. Bishop, Pattern Recognition and Machine Learning (2006), eq. 3.86.
    """
    noise = np.broadcast_to(np.asarray(noise, dtype=float), target.shape)
    precision = np.asarray(prior_precision, dtype=float)
    precision = np.diag(precision) if precision.ndim == 1 else precision
    a, y = design / noise[:, None], target / noise
    total = precision + a.T @ a
    mean = np.linalg.solve(total, a.T @ y)
    misfit = np.sum((y - a @ mean) ** 2) + mean @ precision @ mean
    determinants = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(total)[1]
    return float(0.5 * (determinants - misfit) - np.sum(np.log(noise)) - 0.5 * len(y) * np.log(2.0 * np.pi))
