"""Noise, dropping and truncation: Trajectories in, spoilt Trajectories out."""

import numpy as np

from fim_dynsys.trajectories.container import Trajectories

_KINDS = ("multiplicative", "additive")


def add_noise(
    trajectories: Trajectories,
    sigma: float | np.ndarray,
    rng: int | np.random.Generator,
    kind: str = "multiplicative",
) -> Trajectories:
    """Gaussian noise, independent for each sample and coordinate.

    Parameters
    ----------
    trajectories : Trajectories
        Left as they are.
    sigma : float or array_like, shape (d,)
        Noise level, one for all coordinates or one each: relative for multiplicative noise,
        ``(1 + sigma eps) x``; in the units of the state for additive noise, ``x + sigma eps``.
    rng : int or numpy.random.Generator
        Seed, or a generator, which moves on.
    kind : {"multiplicative", "additive"}
        How the noise enters.

    Returns
    -------
    Trajectories
        With missing observations still missing.

    Raises
    ------
    ValueError
        If ``sigma`` is negative, not finite or of another shape, or the kind is unknown.

    See Also
    --------
    add_outliers : Gross errors in single samples.
    drop : Fewer samples.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> t = np.linspace(0, 5, 50)
    >>> data = fim_dynsys.Trajectories.from_arrays(3.0 * np.exp(-0.5 * t), t)
    >>> noisy = fim_dynsys.add_noise(data, 0.05, rng=0)
    >>> round(float(np.std(noisy.x / data.x)), 2)
    0.05
    """
    sigma = _levels(sigma, trajectories.dim, "add_noise", "sigma")
    if kind not in _KINDS:
        raise ValueError(f"add_noise: expected kind to be one of {_KINDS}, got {kind!r}")
    rng = np.random.default_rng(rng)
    # Drawn trajectory by trajectory, so that padding uses up no random numbers.
    noisy = []
    for _, x in trajectories.arrays():
        noise = sigma * rng.standard_normal(x.shape)
        noisy.append((1 + noise) * x if kind == "multiplicative" else x + noise)
    return trajectories.with_x(noisy)


def add_outliers(
    trajectories: Trajectories, share: float, size: float | np.ndarray, rng: int | np.random.Generator
) -> Trajectories:
    """Errors of one size and either sign in a share of the values, in proportion to each.

    Parameters
    ----------
    trajectories : Trajectories
        Left as they are.
    share : float
        Probability of a value to be spoilt, in [0, 1].
    size : float or array_like, shape (d,)
        Relative error: spoilt values are ``(1 + size) x`` or ``(1 - size) x``.
    rng : int or numpy.random.Generator
        Seed, or a generator, which moves on.

    Raises
    ------
    ValueError
        If ``share`` lies outside [0, 1], or ``size`` is negative, not finite or of another shape.

    See Also
    --------
    add_noise : Errors in every sample.
    without_outliers : Marks them as missing.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> t = np.linspace(0, 5, 50)
    >>> data = fim_dynsys.Trajectories.from_arrays(3.0 * np.exp(-0.5 * t), t)
    >>> spoilt = fim_dynsys.add_outliers(data, 0.1, 2.0, rng=0)
    >>> int(np.sum(spoilt.x != data.x))
    4
    """
    if not 0 <= share <= 1:
        raise ValueError(f"add_outliers: expected a share in [0, 1], got {share!r}")
    size = _levels(size, trajectories.dim, "add_outliers", "size")
    rng = np.random.default_rng(rng)
    spoilt = []
    for _, x in trajectories.arrays():
        sign = rng.choice([-1.0, 1.0], size=x.shape) * (rng.random(x.shape) < share)
        spoilt.append((1 + size * sign) * x)
    return trajectories.with_x(spoilt)


def drop(trajectories: Trajectories, rho: float, rng: int | np.random.Generator) -> Trajectories:
    """Drop samples at random: exactly ``floor((1 - rho) n)`` of the ``n`` of each trajectory stay.

    Parameters
    ----------
    trajectories : Trajectories
        Left as they are.
    rho : float
        Fraction dropped, in [0, 1).
    rng : int or numpy.random.Generator
        Seed, or a generator, which moves on.

    Raises
    ------
    ValueError
        If ``rho`` lies outside [0, 1) or a trajectory would keep no sample.

    See Also
    --------
    truncate : Only the first samples.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> t = np.linspace(0, 5, 50)
    >>> data = fim_dynsys.Trajectories.from_arrays(3.0 * np.exp(-0.5 * t), t)
    >>> fim_dynsys.drop(data, 0.5, rng=0).n_obs
    array([25])
    """
    if not 0 <= rho < 1:
        raise ValueError(f"drop: expected a fraction rho in [0, 1), got {rho!r}")
    rng = np.random.default_rng(rng)
    kept = []
    for k, n in enumerate(trajectories.n_obs):
        n_kept = _n_kept(int(n), rho)
        if n_kept == 0:
            raise ValueError(
                f"drop: expected samples to remain, got none of {n} in trajectory {k} at rho = {rho:g}; "
                "lower rho or leave that trajectory out"
            )
        kept.append(np.sort(rng.choice(n, size=n_kept, replace=False)))
    return trajectories.select_samples(kept)


def truncate(trajectories: Trajectories, t_max: float) -> Trajectories:
    """Only the samples up to and including time ``t_max``.

    Raises
    ------
    ValueError
        If a trajectory has no sample by then.

    See Also
    --------
    drop : Samples at random.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> t = np.linspace(0, 5, 50)
    >>> data = fim_dynsys.Trajectories.from_arrays(3.0 * np.exp(-0.5 * t), t)
    >>> fim_dynsys.truncate(data, 2.5).n_obs
    array([25])
    """
    kept = []
    for k, (t, _) in enumerate(trajectories.arrays()):
        rows = np.flatnonzero(t <= t_max)
        if rows.size == 0:
            raise ValueError(
                f"truncate: expected samples up to t_max = {t_max:g}, got times from {t.min():g} on in "
                f"trajectory {k}; raise t_max or leave that trajectory out"
            )
        kept.append(rows)
    return trajectories.select_samples(kept)


def _n_kept(n: int, rho: float) -> int:
    # 1 - rho is a rounded number: (1 - 0.9) * 10 falls short of 1 by 2e-16, hence the 1e-9.
    return int(np.floor((1 - rho) * n + 1e-9))


def _levels(given: float | np.ndarray, dim: int, caller: str, name: str) -> np.ndarray:
    levels = np.asarray(given)
    if levels.dtype.kind not in "iuf" or levels.shape not in ((), (dim,)):
        raise ValueError(f"{caller}: expected {name} to be a number or {dim} of them, got {given!r}")
    if not (np.isfinite(levels).all() and (levels >= 0).all()):
        raise ValueError(f"{caller}: expected finite {name} >= 0, got {given!r}")
    return levels.astype(np.float64)
