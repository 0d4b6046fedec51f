"""Members of an ensemble: contexts resampled from one."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from fim_dynsys.errors import check_whole
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.models.judging import judged
from fim_dynsys.regression.criteria import Known, Noise
from fim_dynsys.regression.gaps import completed
from fim_dynsys.trajectories.container import Trajectories

_SPANS = 2.0  # of the longest record: as far as members are followed
_AWAY = 10.0  # ranges of the data: a path that goes farther has left all bounds
_ENOUGH = 8  # trajectories, of which 6,435 resamples differ; two have three, which are no distribution
# Parts of one or two records, and of more: long enough for smoothing. Shorter blocks, each with a free start,
# spread members up to twice as far as data sets do, and halves half as far.
_QUARTERS, _THIRDS = 4, 3
_REDRAWS = 8  # of drawing again: of an eighth that stays, two thirds are found

Draw = Callable[[int, int], Sequence[VectorField]]
"""Members by their number and a seed."""


def check_members(caller: str, n: object, seed: object = 0) -> None:
    """ValueError unless the number of members of an ensemble and the seed are whole numbers."""
    check_whole(f"{caller}.ensemble", 1, n=n)
    check_whole(f"{caller}.ensemble", 0, seed=seed)


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
        As many trajectories as `trajectories` has; from fewer than eight, blocks of them.
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
    n, errors = len(trajectories), None if isinstance(sigma, Noise) else sigma
    if n >= _ENOUGH:
        drawn = rng.integers(n, size=n)
        return trajectories[drawn], sigma if errors is None else [errors[k] for k in drawn]
    pairs, inputs = trajectories.arrays(), trajectories.input_arrays()
    parts = _QUARTERS if n < 3 else _THIRDS
    blocks = [
        (k, block) for k in range(n) for block in _blocks(len(pairs[k][0]), parts, rng, min_observations)
    ]
    context = Trajectories.from_arrays(
        [pairs[k][1][block] for k, block in blocks],
        [pairs[k][0][block] for k, block in blocks],
        state_names=trajectories.state_names,
        coords={name: value[[k for k, _ in blocks]] for name, value in trajectories.coords.items()},
        units=trajectories.units,
        u=[inputs[k][block] for k, block in blocks] if trajectories.input_names else None,
        input_names=trajectories.input_names or None,
    ).with_hold(trajectories.hold)
    return context, sigma if errors is None else [errors[k][block] for k, block in blocks]


def _blocks(size: int, parts: int, rng: np.random.Generator, min_observations: int) -> list[slice]:
    """Stretches of a record at random positions, about as many samples in all as it has."""
    length = min(size, max(min_observations, 5, -(-size // parts)))
    starts = rng.integers(size - length + 1, size=-(-size // length))
    return [slice(start, start + length) for start in starts]


def bounded_members(
    draw: Draw, n: int, seed: int, field: VectorField, context: Trajectories
) -> EnsembleField:
    """Members whose paths from the data's starts stay in bounds, where that of the field itself does.

    Draws from the normal approximation of a posterior may lose the terms that bound the field far out. Those
    that leave ten ranges of the data within twice the longest record are drawn again and counted.

    Parameters
    ----------
    draw : callable
        Gives so many members by a seed.
    n, seed : int
        As for `ensemble`.
    field : VectorField
        What the members are drawn about.
    context : Trajectories
        The observations.

    Returns
    -------
    EnsembleField
        Where few draws stay, these are repeated; where none does, the first draws.
    """
    drawn = list(draw(n, seed))
    complete = completed(None, context).trajectories
    if isinstance(field, DrivenField) or not _stays(field, complete):
        return EnsembleField(drawn)
    kept = [member for member in drawn if _stays(member, complete)]
    left_out, again = n - len(kept), 0
    while len(kept) < n and again < _REDRAWS:
        again += 1
        # seeds that users hardly take themselves
        for member in draw(n - len(kept), seed + 1_000_003 * again):
            stays = _stays(member, complete)
            left_out += not stays
            kept += [member] if stays else []
    repeated = itertools.islice(itertools.cycle(kept or drawn), n)
    return EnsembleField(list(repeated), left_out=left_out)


def _stays(field: VectorField, complete: Trajectories) -> bool:
    """Whether the field's paths from the first samples stay near the data for twice the longest record."""
    pairs = complete.arrays()
    x = np.concatenate([x for _, x in pairs])
    low, high = x.min(axis=0), x.max(axis=0)
    reach = _AWAY * np.maximum(high - low, 1e-300)
    t = np.linspace(0.0, _SPANS * max(float(t[-1] - t[0]) for t, _ in pairs), 200)
    with np.errstate(all="ignore"):
        found = judged(field, [x[0] for _, x in pairs], [t] * len(pairs))
    return all(
        np.isfinite(path).all() and (path >= low - reach).all() and (path <= high + reach).all()
        for path in found.paths
    )
