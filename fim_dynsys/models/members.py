"""Members of an ensemble: contexts resampled from one."""

import numpy as np

from fim_dynsys.errors import check_whole
from fim_dynsys.regression.criteria import Known, Noise
from fim_dynsys.trajectories.container import Trajectories


def check_members(who: str, n: object, seed: object = 0) -> None:
    """ValueError unless the number of members of an ensemble and the seed are whole numbers."""
    check_whole(f"{who}.ensemble", 1, n=n)
    check_whole(f"{who}.ensemble", 0, seed=seed)


def bootstrap_context(
    trajectories: Trajectories, rng: np.random.Generator, min_observations: int
) -> Trajectories:
    """One bootstrap resample of a context; see `VectorFieldModel.ensemble`.

    Parameters
    ----------
    trajectories : Trajectories
        The context.
    rng : Generator
        Source of randomness.
    min_observations : int
        A block is never shorter than this.

    Returns
    -------
    Trajectories
        As many trajectories, or as many observations in all, as `trajectories` has.
    """
    return bootstrap_weighed(trajectories, None, rng, min_observations)[0]


def bootstrap_weighed(
    trajectories: Trajectories,
    sigma: Known | None,
    rng: np.random.Generator,
    min_observations: int,
) -> tuple[Trajectories, Known | None]:
    """One bootstrap resample of a context, and the errors (n, d) of its samples, drawn together.

    Parameters
    ----------
    trajectories : Trajectories
        The context.
    sigma : list of arrays (n, d), Noise or None
        Its errors.
    rng, min_observations
        As for `bootstrap_context`.
    """
    n, errors = trajectories.n_trajectories, None if isinstance(sigma, Noise) else sigma
    if n > 1:
        drawn = rng.integers(n, size=n)
        return trajectories[drawn], sigma if errors is None else [errors[k] for k in drawn]
    ((t, x),) = trajectories.arrays()
    (inputs,) = trajectories.input_arrays()
    # a quarter of the series: long enough for smoothing, and four independent positions
    length = min(len(t), max(min_observations, 5, -(-len(t) // 4)))
    starts = rng.integers(len(t) - length + 1, size=-(-len(t) // length))
    blocks = [slice(start, start + length) for start in starts]
    context = Trajectories.from_arrays(
        [x[block] for block in blocks],
        [t[block] for block in blocks],
        state_names=trajectories.state_names,
        coords={name: np.repeat(value, len(blocks)) for name, value in trajectories.coords.items()},
        units=trajectories.units,
        u=[inputs[block] for block in blocks] if trajectories.input_names else None,
        input_names=trajectories.input_names or None,
    ).with_hold(trajectories.hold)
    return context, sigma if errors is None else [errors[0][block] for block in blocks]
