"""Parts of fits of given equations: names in the data, the fitted field, starts for hidden states."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fim_dynsys.estimation.description import Description
from fim_dynsys.estimation.known import Known
from fim_dynsys.estimation.problem import Problem
from fim_dynsys.estimation.programs import TIME
from fim_dynsys.estimation.summary import Summary
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Inference, Noise
from fim_dynsys.fields.symbolic import DrivenExpressions, SymbolicField
from fim_dynsys.models.estimated import symbol
from fim_dynsys.models.inputs import Observations, assumed, complete_errors
from fim_dynsys.models.scatter import SCATTER, written
from fim_dynsys.regions import default_names
from fim_dynsys.regression.given import Given
from fim_dynsys.regression.observed import complete_inputs, complete_samples, observe
from fim_dynsys.regression.thinning import MANY
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.ordering import check_coordinates, with_clock, with_coordinates


def names_of(
    caller: str,
    given: Any,
    x: Observations,
    observed: Sequence[str] | None,
    feature_names: Sequence[str] | None,
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None, Sequence[str] | None]:
    """Names of the states and columns, None where the data say them; names of the data's columns."""
    if given is None or isinstance(given, str) or not isinstance(given, Mapping | Sequence) or not given:
        raise ValueError(f"{caller}: expected a list of expressions or a dict by state, got {given!r}.")
    d = len(given)
    keys = tuple(map(str, given)) if isinstance(given, Mapping) else None
    of_columns = None if feature_names is None else [str(name) for name in feature_names]
    if observed is None:
        if isinstance(x, Trajectories) and of_columns is None and set(x.state_names) < set(keys or ()):
            return keys, tuple(x.state_names), None
        if of_columns is not None and keys is not None and not set(of_columns) >= set(keys):
            shown = [name for name in of_columns if name in keys]
            others = of_columns[len(shown) :]
            if shown and shown == of_columns[: len(shown)] and not set(others) & set(keys):
                return keys, tuple(shown), [*shown, *others]
        return None, None, of_columns
    if isinstance(observed, str) or not observed or len(set(observed)) < len(list(observed)):
        raise ValueError(
            f"{caller}: expected observed as a list of different states or expressions, got {observed!r}."
        )
    columns = tuple(map(str, observed))
    states = keys or tuple(f"x{i}" for i in range(d))
    inputs: list[str] = []
    if of_columns is not None:
        named = tuple(of_columns[: len(columns)]) == columns
        if keys is not None and named and not set(keys) <= set(of_columns):
            return keys, columns, of_columns
        states, inputs = tuple(of_columns[:d]), of_columns[d:]
        if keys is not None and set(states) != set(keys):
            raise ValueError(
                f"{caller}: expected feature_names of the states {', '.join(keys)}, or of the observed "
                f"{', '.join(columns)}, and inputs behind these, got {', '.join(of_columns)}."
            )
    return states, columns, [*columns, *inputs]


def ordered(caller: str, given: Any, states: Sequence[str]) -> list[str]:
    """The right-hand sides in the order of the states."""
    if isinstance(given, Mapping):
        if set(given) != set(states):
            raise ValueError(
                f"{caller}: expected expressions of the states {', '.join(states)}, got those of "
                f"{', '.join(map(str, given))}; name the columns by feature_names=[...], or by "
                "observed=[...] where not all states are among them."
            )
        return [given[name] for name in states]
    if len(given) != len(states):
        raise ValueError(
            f"{caller}: expected {len(states)} expressions, one per state ({', '.join(states)}), "
            f"got {len(given)}."
        )
    return list(given)


def with_known_coordinates(
    caller: str, trajectories: Trajectories, states: Sequence[str], known: Known, *expressions: Any
) -> tuple[Trajectories, tuple[str, ...]]:
    """Coordinates of the records that are known constants, and the records with those in rates as inputs.

    Parameters
    ----------
    caller : str
        Named in errors.
    trajectories : Trajectories
        The data; their coordinates hold one value for each trajectory.
    states : sequence of str
        Names of the states.
    known : Known
        What is known of the numbers.
    *expressions
        What may name a coordinate beside that, as text or sympy expressions, in lists and dicts.

    Returns
    -------
    Trajectories
        Those that only first states, doses and events name stay coordinates.
    tuple of str
        Names of all.

    Raises
    ------
    ValueError
        Where such a coordinate is no finite number in each trajectory, or something else is said of it too.
    """
    taken = {*states, *trajectories.input_names, *default_names(len(states) + len(trajectories.input_names))}
    running = _words([*expressions, known.fixed, known.noise]) - taken
    named = running | (_words([known.initial, known.doses, known.events]) - taken)
    names = tuple(name for name in trajectories.coords if name in named)
    check_coordinates(caller, trajectories, names)
    for name in names:
        for what in ("bounds", "fixed", "scale", "priors", "start"):
            given = getattr(known, what)
            if isinstance(given, Mapping) and name in given:
                raise ValueError(
                    f"{caller}: expected {name} as known, by the coordinate of the data alone, got {what} "
                    f"too, {given[name]!r}; leave that out, or rename the coordinate to estimate one value "
                    "for all."
                )
    return with_coordinates(caller, trajectories, [name for name in names if name in running]), names


def _words(value: Any) -> set[str]:
    """Names in expressions; of dicts, in their values."""
    if isinstance(value, str):
        return set(re.findall(r"[^\W\d]\w*", value))
    if isinstance(value, Mapping):
        return set().union(*map(_words, value.values()))
    if isinstance(value, Sequence):
        return set().union(*map(_words, value))
    return {symbol.name for symbol in getattr(value, "free_symbols", ())}


def grown(
    caller: str,
    problem: Problem,
    trajectories: Trajectories,
    columns: Sequence[str],
    errors: Sequence[np.ndarray] | Noise | None,
    starts: Mapping[str, float] | None,
) -> list[np.ndarray]:
    """Coordinates that growing weights of the dynamics lead to, where hidden states are hard to find.

    None where runs begin before their samples, have events or know their first states, where the
    equations hold the time, or where observables are measured at times of their own.
    """
    symbols = {s.name for e in (*problem.equations, *problem.seen) for s in e.free_symbols}
    plain = all(not run.events and run.begin == run.times[0] for run in problem.runs)
    complete = all(np.isfinite(x).all() for _, x in trajectories.arrays())
    many = int(np.sum(trajectories.n_obs)) > MANY
    if TIME in symbols or not plain or not complete or many or len(problem.seen) > len(columns):
        return []
    if any(len(run.times) < 2 or any(f is not None for f in run.first) for run in problem.runs):
        return []
    names = [*problem.states, *problem.inputs]
    fixed = {symbol(name): value for name, value in problem.fixed.items()}
    places = {symbol(name): symbol(f"x{k}") for k, name in enumerate(names)}
    equations, seen = (
        tuple(e.xreplace(fixed).xreplace(places) for e in part) for part in (problem.equations, problem.seen)
    )
    given = Given(problem.states, problem.inputs, equations, tuple(map(str, seen)))
    observations = observe(
        complete_samples(trajectories, caller, 2),
        inputs=complete_inputs(trajectories, caller),
    )
    if isinstance(errors, Noise):
        observations = observations.counted()
    elif errors is not None:
        observations = observations.measured(complete_errors(errors, trajectories))
    start = {k: v for k, v in dict(starts or {}).items() if k in {*given.names, *problem.states}}
    try:
        found = given.fit(caller, trajectories, observations, assumed(errors), start)
    except ValueError:  # nowhere finite in steps of one length
        return []
    begun = [path[0] for path in found.paths]
    natural = [found.parameters.get(p.name, p.start or p.size) for p in problem.parameters]
    natural += [float(v) for first in begun for v in first]
    space = problem.space
    return [space.inside(space.coordinates(np.array(natural)))]


def fitted_field(
    described: Description,
    trajectories: Trajectories,
    summary: Summary,
    report: dict[str, Any],
    errors: Any,
) -> VectorField:
    """The right-hand sides at the fitted parameters; the time is an input of its own."""
    problem = described.problem
    symbols = {s.name for e in described.equations for s in e.free_symbols}
    clock = _clock({*problem.states, *problem.inputs, *problem.names}) if TIME in symbols else None
    driven = [*problem.inputs, *([] if clock is None else [clock])]
    names = sorted(symbols - {*problem.states, *driven, TIME})
    parameters = {name: summary.parameters[name] for name in names}
    covariance = summary.covariance_of(names)
    full = tuple(described.columns) == tuple(problem.states) and described.shown is not None
    observed = full and clock is None
    context = trajectories if observed else _states(problem, trajectories, summary, driven)
    equations = described.equations
    if clock is not None:
        equations = tuple(e.xreplace({symbol(TIME): symbol(clock)}) for e in equations)
        report["clock"] = clock
    if not full:
        levels = map(float, summary.noise_level)
        report["noise by column"] = dict(zip(described.columns, levels, strict=False))
    if scales := written(problem, described.columns, summary.parameters, summary.noise_level):
        report[SCATTER] = scales
    info = FitInfo(
        initial_states=summary.initial_states,
        noise_level=summary.noise_level if full else None,
        report=report,
        inference=_facts(summary, errors),
        **summary.quality,
    )
    if driven:
        return DrivenExpressions(
            equations, parameters, covariance, input_names=driven, context=context, fit_info=info
        )
    return SymbolicField(equations, parameters, covariance, context=context, fit_info=info)


def _facts(summary: Summary, errors: Sequence[np.ndarray] | Noise | None) -> Inference:
    """The facts of the fit."""
    noise = errors if isinstance(errors, Noise) else (Noise.ESTIMATED if errors is None else Noise.GIVEN)
    unknown = summary.undetermined
    facts = Inference(noise=noise, undetermined=unknown, given=True)
    said = [f"the data do not determine {', '.join(unknown)}"] if unknown else []
    said += [f"known only roughly: {', '.join(summary.rough)}"] if summary.rough else []
    return facts.noting(*said)


def _clock(taken: set[str]) -> str:
    """Name of the time as an input of a field: a name of its own, which no other number has."""
    name = "time"
    while name in taken:
        name += "_"
    return name


def _states(problem: Problem, data: Trajectories, summary: Summary, driven: Sequence[str]) -> Trajectories:
    """Fitted states at the samples, with inputs, and the time where it is one."""
    for clock in driven[len(data.input_names) :]:
        data = with_clock(data, clock)
    known = data.units | dict.fromkeys(driven[len(problem.inputs) :], data.units.get(TIME, ""))
    units = {name: unit for name, unit in known.items() if name in {*problem.states, *driven, TIME}}
    return Trajectories.from_arrays(
        summary.states,
        [t for t, _ in data.arrays()],
        state_names=problem.states,
        coords=data.coords,
        units=units,
        u=data.input_arrays() if driven else None,
        input_names=driven or None,
    )
