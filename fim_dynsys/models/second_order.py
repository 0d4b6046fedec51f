"""Positions alone: second-order equations, whose velocities are hidden."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.regression.gaps import lone_rows, with_lone_rows
from fim_dynsys.regression.observed import SPLINE
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.trajectories.container import Trajectories

VELOCITY = "_dot"
"""Ends the names of velocities."""


def with_velocities(caller: str, trajectories: Trajectories) -> Trajectories:
    """Positions (n, d) as states (n, 2 d): with the slopes of smoothing splines as velocities.

    Raises
    ------
    ValueError
        Where a trajectory has fewer than five complete samples, or a name is taken.
    """
    names = [*trajectories.state_names, *(f"{name}{VELOCITY}" for name in trajectories.state_names)]
    if len(set(names)) < len(names):
        raise ValueError(f"{caller}: expected names without {VELOCITY}, those of velocities, got {names}.")
    alone = lone_rows(trajectories)
    observed = [np.flatnonzero(~rows) for rows in alone]
    complete = trajectories.select_samples(observed).drop_incomplete(caller)
    short = [k for k, n in enumerate(complete.n_obs) if n < 5]
    if short:
        raise ValueError(
            f"{caller}: expected at least five samples in each trajectory to see how fast it moves, got "
            f"fewer in {short}; leave these out."
        )
    pairs = complete.arrays()
    size = np.sqrt(np.mean(np.concatenate([x for _, x in pairs]) ** 2, axis=0))
    size = np.where(size > 0, size, 1.0)
    found = []
    for t, x in pairs:
        span = t[-1] - t[0]
        found.append(np.concatenate([x, SPLINE((t - t[0]) / span, x / size)[1] * size / span], axis=1))
    times, inputs = [t for t, _ in pairs], complete.input_arrays()
    if any(rows.any() for rows in alone):
        # with the rows of inputs alone; a trajectory without a complete sample is gone
        every = zip(trajectories.arrays(), trajectories.input_arrays(), alone, strict=True)
        used = [(t[own], u[own]) for (t, x), u, own in every if np.isfinite(x).all(axis=1).any()]
        records = zip(zip(times, found, inputs, strict=True), used, strict=True)
        whole = [with_lone_rows(record, *own) for record, own in records]
        times, found, inputs = (list(part) for part in zip(*whole, strict=True))
    units, per = trajectories.units, trajectories.units.get("t")
    if per is not None:
        units = units | {
            f"{name}{VELOCITY}": f"{unit} / {per}" for name, unit in units.items() if name in names
        }
    return Trajectories.from_arrays(
        found,
        times,
        state_names=names,
        coords=complete.coords,
        units=units,
        u=inputs if complete.input_names else None,
        input_names=complete.input_names or None,
    ).with_hold(complete.hold)


def completed(caller: str, field: VectorField, trajectories: Trajectories) -> Trajectories:
    """Trajectories of all states of a field: positions alone get velocities where it was fitted to such."""
    positions = field.fit_info.inference.positions
    if not positions or trajectories.dim != len(positions):
        return trajectories
    return with_velocities(caller, trajectories)


def start_of_positions(caller: str, field: VectorField, x0: np.ndarray) -> np.ndarray:
    """The state (2 d,) that the field was fitted with at positions (d,) that are the first of a record.

    Raises
    ------
    ValueError
        Where no record starts there: nothing is known of the velocities.
    """
    starts, context = field.fit_info.initial_states, field.context
    if context is not None and starts is not None:
        for (_, x), start in zip(context.arrays(), starts, strict=True):
            if np.array_equal(x[0, : len(x0)], x0):
                return np.asarray(start, dtype=float)
    raise ValueError(
        f"{caller}: expected positions and velocities ({', '.join(field.state_names)}), or the first "
        f"positions of a record that was fitted, got {x0}; forecast takes records of positions."
    )


def knowledge_with_positions(
    knowledge: Knowledge | None, positions: Sequence[str] | None
) -> Knowledge | None:
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
