"""Positions alone: second-order equations, whose velocities nobody observed."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fim_dynsys.regression.observed import SPLINE
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.trajectories.container import Trajectories

VELOCITY = "_dot"
"""Ends the names of velocities."""


def with_velocities(who: str, trajectories: Trajectories) -> Trajectories:
    """Positions (n, d) as states (n, 2 d): with the slopes of smoothing splines as velocities.

    Raises
    ------
    ValueError
        Where a trajectory has fewer than five complete samples, there are inputs, or a name is taken.
    """
    if trajectories.input_names:
        raise ValueError(
            f"{who}: expected no inputs with order=2, got {', '.join(trajectories.input_names)}."
        )
    names = [*trajectories.state_names, *(f"{name}{VELOCITY}" for name in trajectories.state_names)]
    if len(set(names)) < len(names):
        raise ValueError(f"{who}: expected names without {VELOCITY}, those of velocities, got {names}.")
    complete = trajectories.drop_incomplete(who)
    short = [k for k, n in enumerate(complete.n_obs) if n < 5]
    if short:
        raise ValueError(
            f"{who}: expected at least five samples in each trajectory to see how fast it moves, got fewer "
            f"in {short}; leave these out."
        )
    pairs = complete.arrays()
    size = np.sqrt(np.mean(np.concatenate([x for _, x in pairs]) ** 2, axis=0))
    size = np.where(size > 0, size, 1.0)
    found = []
    for t, x in pairs:
        span = t[-1] - t[0]
        found.append(np.concatenate([x, SPLINE((t - t[0]) / span, x / size)[1] * size / span], axis=1))
    times = [t for t, _ in pairs]
    units, per = trajectories.units, trajectories.units.get("t")
    if per is not None:
        units = units | {
            f"{name}{VELOCITY}": f"{unit} / {per}" for name, unit in units.items() if name in names
        }
    return Trajectories.from_arrays(found, times, state_names=names, coords=complete.coords, units=units)


def told_of_positions(knowledge: Knowledge | None, positions: Sequence[str] | None) -> Knowledge | None:
    """What is known, and that positions change as fast as the velocities say.

    Raises
    ------
    ValueError
        Where the equation of a position is known otherwise.
    """
    if positions is None:
        return knowledge
    given = Knowledge() if knowledge is None else knowledge
    known = {name: f"{name}{VELOCITY}" for name in positions}
    wrong = sorted(name for name in positions if given.known.get(name, known[name]) != known[name])
    if wrong:
        raise ValueError(
            f"Knowledge.known: expected equations of velocities with order=2, got one of {', '.join(wrong)}, "
            f"which change by {', '.join(known[name] for name in wrong)}."
        )
    return replace(given, known={**given.known, **known})
