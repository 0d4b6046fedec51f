"""What users say of known equations, read into an estimation problem."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fim_dynsys.errors import check_number
from fim_dynsys.estimation.curves import sampled_curve
from fim_dynsys.estimation.dimensions import disagreements
from fim_dynsys.estimation.experiments import Event, InputCurve
from fim_dynsys.estimation.happenings import each, read_begins, read_events
from fim_dynsys.estimation.known import (
    Known,
    Reader,
    check_first_states,
    check_names,
    common_bounds,
    fixed_numbers,
    is_number,
    is_pair,
    pair,
    read_prior,
    tie,
)
from fim_dynsys.estimation.noise import check_values, read_observables, without_zeros
from fim_dynsys.estimation.parameters import Parameter, Scale
from fim_dynsys.estimation.problem import Problem, Run
from fim_dynsys.estimation.programs import TIME
from fim_dynsys.estimation.sizes import natural_sizes, positive_names
from fim_dynsys.estimation.switches import Switching, switch_times
from fim_dynsys.fields.expressions import names_in
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.holding import Hold

if TYPE_CHECKING:
    from sympy import Expr, Symbol

_TYPICAL = 1.0 / 3.0  # of a record, in which rates change the states by their size
_SMALL_MEAN = 0.1  # of a state's size that counts beside its scatter


@dataclass(frozen=True, eq=False)
class Description:
    """A problem, and how its parts are called.

    Attributes
    ----------
    problem : Problem
        What is estimated.
    equations : tuple of sympy.Expr
        Right-hand sides as they were given; those of the problem have smooth switches.
    shown : list of arrays (K, d) or None
        Measured states of each run at its samples, where all states were measured.
    columns : tuple of str
        What the columns of the data are.
    holds : dict
        What each sampled input does between samples.
    notes : tuple of str
        What a reader is to be warned of.
    """

    problem: Problem
    equations: "tuple[Expr, ...]"
    shown: list[np.ndarray] | None
    columns: tuple[str, ...]
    holds: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def describe(
    caller: str,
    expressions: Sequence[Any],
    states: Sequence[str],
    columns: Sequence[str],
    trajectories: Trajectories,
    known: Known,
    errors: Sequence[np.ndarray] | None = None,
    poisson: bool = False,
    curves: Sequence[InputCurve] | None = None,
    constant: Sequence[str] = (),
) -> Description:
    """The problem that equations, data and knowledge make.

    Parameters
    ----------
    caller : str
        Named in errors.
    expressions : sequence of str or sympy.Expr
        Right-hand sides.
    states, columns : sequences of str
        Names of the states; what the columns of the data are, states or expressions.
    trajectories : Trajectories
        The data.
    known : Known
        What is known of the numbers.
    errors : list of arrays (n, m), optional
        Standard deviations of the samples.
    poisson : bool
        Whether the samples are counts.
    curves : list of InputCurve, optional
        Inputs of each trajectory; default as sampled.
    constant : sequence of str
        Inputs and coordinates of one known value in each trajectory, which first states, doses and events may
        name.

    Raises
    ------
    ValueError
        Where words name nothing, or contradict each other.
    """
    inputs = trajectories.input_names
    read = Reader(caller, states, inputs)
    tie(read, known.fixed)
    equations = tuple(read(e) for e in expressions)
    means = [read(c) for c in columns]
    values = _constants(trajectories, constant)
    initial = [
        {state: _first_at(read, first, numbers) for state, first in own.items()}
        for own, numbers in zip(
            each(caller, "initial", known.initial, len(trajectories)), values, strict=True
        )
    ]
    times = [t for t, _ in trajectories.arrays()]
    begins, notes = read_begins(caller, known.t0, times, known.doses, known.events, known.initial)
    events, late = read_events(read, known.doses, known.events, times, begins, values)
    observables, seen, noise_names = read_observables(
        read, columns, means, known.noise, poisson, errors is not None
    )
    trajectories, zeros = without_zeros(observables, trajectories)
    notes += late + zeros + check_values(caller, observables, [x for _, x in trajectories.arrays()])
    reserved = {*states, *inputs, TIME}
    symbols: set[str] = set()
    changes = [part for own in events for event in own for part in (event.share, event.value)]
    for e in (*equations, *seen, *changes):
        symbols |= {s.name for s in e.free_symbols}
    for own in initial:
        unknown = set(own) - set(states)
        if unknown:
            raise ValueError(
                f"{caller}: expected initial states among {', '.join(states)}, got {sorted(unknown)}."
            )
        for state, value in own.items():
            if value is None or is_pair(value):
                continue
            held = {s.name for s in read(value).free_symbols}
            if held & reserved:
                raise ValueError(
                    f"{caller}: expected the first {state} as a number, a pair of bounds, or an expression "
                    f"in parameters, got {value!r}."
                )
            symbols |= held
    for c, mean in zip(columns, means, strict=True):
        if not {s.name for s in mean.free_symbols} & set(states):
            raise ValueError(
                f"{caller}: expected observed expressions of the states {', '.join(states)}, got {c!r}, "
                "which holds none."
            )
    names = tuple(sorted(symbols - reserved))
    fixed = fixed_numbers(caller, known.fixed)
    check_names(read, known, names)
    check_first_states(caller, known, states, initial)
    notes += _unused(read, equations, seen, names)
    notes += _without_effect(read, [*expressions, *columns], names)
    notes += disagreements(equations, states, trajectories.units)
    runs, sizes, shown, holds, held_back = _runs(
        read, columns, means, trajectories, known, initial, begins, events, errors, curves, constant
    )
    notes += held_back
    parameters, sizes = _parameters(
        caller,
        equations,
        seen[: len(columns)],
        states,
        trajectories,
        known,
        names,
        fixed,
        noise_names,
        sizes,
        initial,
        runs,
    )
    sized = dict(zip(states, sizes.tolist(), strict=True)) | {p.name: p.size for p in parameters}
    sized |= {name: abs(value) or 1.0 for name, value in fixed.items()} | _input_sizes(trajectories)
    sized[TIME] = _span(runs)
    smooth = Switching(inputs, fixed, sized).smoothed(equations)
    problem = Problem(
        tuple(states),
        tuple(inputs),
        smooth,
        observables,
        seen,
        names,
        fixed,
        parameters,
        tuple(_with_switches(runs, smooth, fixed, values)),
        sizes,
        frozenset(noise_names),
    )
    if problem.is_saturated():
        notes.append(
            f"as many numbers are estimated ({len(problem.space)}) as were measured ({problem.objective.n}): "
            "nothing tells the errors, which are NaN; pass sigma, or measure more"
        )
    return Description(problem, equations, shown, tuple(columns), holds, tuple(notes))


def _with_switches(
    runs: Sequence[Run],
    equations: "Sequence[Expr]",
    fixed: Mapping[str, float],
    constants: "Sequence[Mapping[Symbol, Expr]]",
) -> list[Run]:
    """Runs with the times at which the equations switch, by the constants of each."""
    times: dict[tuple[tuple[str, float], ...], tuple[float, ...]] = {}
    found = []
    for run, numbers in zip(runs, constants, strict=True):
        own = tuple((symbol.name, float(value)) for symbol, value in numbers.items())
        if own not in times:
            times[own] = switch_times(equations, {**fixed, **dict(own)})
        found.append(replace(run, switches=times[own]))
    return found


def _constants(trajectories: Trajectories, names: Sequence[str]) -> "list[dict[Symbol, Expr]]":
    """Values of coordinates and constant inputs in each trajectory."""
    import sympy

    found = []
    for number, rows in enumerate(trajectories.input_arrays()):
        own = {name: values[number] for name, values in trajectories.coords.items()}
        own |= dict(zip(trajectories.input_names, rows[0], strict=True))
        found.append({sympy.Symbol(name, real=True): sympy.Float(float(own[name])) for name in names})
    return found


def _first_at(read: Reader, first: Any, numbers: "Mapping[Symbol, Expr]") -> Any:
    """What is known of a first state, with numbers for the constants of the trajectory."""
    if not numbers or first is None or is_pair(first) or is_number(first):
        return first
    value = read(first).xreplace(numbers)
    return float(value) if value.is_number else value


def _unused(
    read: Reader, equations: "Sequence[Expr]", seen: "Sequence[Expr]", names: Sequence[str]
) -> list[str]:
    """Inputs that nothing depends on, and states that the equations have under another name."""
    rates = {s.name for e in equations for s in e.free_symbols}
    used = rates | {s.name for e in seen for s in e.free_symbols}
    found = [
        f"nothing depends on the input {name}; the names in the equations are "
        f"{', '.join(sorted(rates)) or 'none'}"
        for name in read.inputs
        if name not in used
    ]
    for state in read.states:
        like = [name for name in names if name.lower() == state.lower()]
        if like and state not in rates:
            found.append(
                f"no equation holds the state {state}, and {like[0]} is taken to be a parameter; write the "
                "state as it is called"
            )
    return found


def _without_effect(read: Reader, texts: Sequence[Any], names: Sequence[str]) -> list[str]:
    """Names that are written and cancel, as in ``0*q``."""
    written = set().union(*(names_in(text) for text in texts if isinstance(text, str)))
    known = {*names, *read.named, *read.by_place, *(s.name for s in read.tied), TIME, "pi"}
    lost = sorted(written - known)
    return [f"{', '.join(lost)}: no effect, as equations cancel it; it is not estimated"] if lost else []


def _runs(
    read: Reader,
    columns: Sequence[str],
    means: Sequence["Expr"],
    trajectories: Trajectories,
    known: Known,
    initial: list[dict],
    begins: list[float],
    events: list[tuple[Event, ...]],
    errors: Sequence[np.ndarray] | None,
    curves: Sequence[InputCurve] | None,
    constant: Sequence[str],
) -> tuple[list[Run], np.ndarray, list[np.ndarray] | None, dict[str, str], list[str]]:
    """Runs; sizes (d,) of states, NaN if unknown; measured states; holds; what is to be warned of."""
    caller, states = read.caller, read.states
    direct = {i: k for k, mean in enumerate(means) for i, s in enumerate(states) if str(mean) == s}
    pairs = trajectories.arrays()
    holds = _holds(caller, known.hold, trajectories)
    sizes = np.full(len(states), np.nan)
    for i, k in direct.items():
        own = np.concatenate([x[:, k] for _, x in pairs])
        own = own[np.isfinite(own)]
        if len(own):
            size = float(np.sqrt(np.var(own) + _SMALL_MEAN * np.mean(own) ** 2))
            sizes[i] = size if size > 0 else np.nan
    runs, shown = [], []
    held: dict[str, str] = {}
    extended = False
    for number, (t, x) in enumerate(pairs):
        rows, kinds = np.nonzero(np.isfinite(x))
        known_errors = np.full(len(rows), np.nan) if errors is None else errors[number][rows, kinds]
        kept = ~(np.isinf(known_errors))
        rows, kinds, known_errors = rows[kept], kinds[kept], known_errors[kept]
        if curves is not None:
            curve = curves[number]
        else:
            curve, taken = sampled_curve(t, trajectories.input_arrays()[number], list(holds.values()))
            for name, kind in zip(holds, taken, strict=True):
                held.setdefault(name, kind.value)
            if begins[number] < t[0] and holds:
                curve = curve.held_since(begins[number])
                extended |= bool(set(holds) - set(constant))
        guess, own = np.full(len(states), np.nan), np.full((len(t), len(states)), np.nan)
        for i, k in direct.items():
            seen = np.isfinite(x[:, k])
            if seen.any():
                own[:, i] = np.interp(t, t[seen], x[seen, k])
                guess[i] = x[seen, k][0]
        first: list[Any] = []
        measured = guess.copy()
        bounds, priors = {}, {}
        for i, state in enumerate(states):
            value = initial[number].get(state)
            within = pair(caller, state, dict(known.bounds or {}).get(state, (None, None)))
            if is_pair(value):
                within, value = common_bounds(caller, state, within, pair(caller, state, value)), None
            prior = read_prior(caller, state, dict(known.priors or {}).get(state))
            start = dict(known.start or {}).get(state)
            if value is None:
                bounds[state], priors[state] = within, prior
                if start is not None:
                    guess[i] = _start_within(caller, state, start, *within)
            first.append(None if value is None else read(value))
        shown.append(own)
        runs.append(
            Run(
                t,
                begins[number],
                tuple(first),
                events[number],
                curve,
                rows,
                kinds,
                x[rows, kinds],
                known_errors,
                guess=guess,
                measured=measured,
                first_bounds=bounds,
                first_priors={state: prior for state, prior in priors.items() if prior is not None},
            )
        )
    complete = all(np.isfinite(own).all() for own in shown)
    notes = ["inputs before their first sample are taken to be as they are there"] if extended else []
    return runs, sizes, shown if complete else None, held, notes


def _start_within(caller: str, name: str, start: Any, low: float, high: float) -> float:
    """A start, which is within its bounds.

    Raises
    ------
    ValueError
        Where it is not.
    """
    value = check_number(caller, f"the start of {name}", start)
    if not low <= value <= high:
        raise ValueError(
            f"{caller}: expected a start of {name} within its bounds ({low:g}, {high:g}), got {start!r}."
        )
    return value


def _holds(caller: str, hold: Any, trajectories: Trajectories) -> dict[str, Hold]:
    """What each input does between samples, as it is given."""
    names = trajectories.input_names
    if isinstance(hold, str):
        Hold.of(caller, hold)
    words = dict(hold) if isinstance(hold, Mapping) else dict.fromkeys(names, hold)
    unknown = set(words) - set(names)
    if unknown:
        raise ValueError(f"{caller}: expected hold of the inputs {', '.join(names)}, got {sorted(unknown)}.")
    return {name: Hold.of(caller, words.get(name) or trajectories.hold) for name in names}


def _parameters(
    caller: str,
    equations: "Sequence[Expr]",
    means: "Sequence[Expr]",
    states: Sequence[str],
    trajectories: Trajectories,
    known: Known,
    names: Sequence[str],
    fixed: Mapping[str, float],
    noise_names: set[str],
    sizes: np.ndarray,
    initial: list[dict],
    runs: Sequence[Run],
) -> tuple[tuple[Parameter, ...], np.ndarray]:
    """Estimated parameters, and the sizes of all states."""
    import sympy

    pairs = trajectories.arrays()
    span = _span(runs)
    values = np.concatenate([x for _, x in pairs])
    column_size = [_rms(values[:, k]) for k in range(values.shape[1])]
    for k, name in enumerate(states):  # numbers that are known of the first states
        said = [v.get(name) for v in initial]
        given = [abs(float(v)) for v in said if v and is_number(v) and not is_pair(v)]
        if np.isnan(sizes[k]) and given:
            sizes[k] = max(given)
    sized = {name: float(s) for name, s in zip(states, sizes, strict=True) if np.isfinite(s)}
    sized |= {name: abs(value) or 1.0 for name, value in fixed.items()}
    sized |= _input_sizes(trajectories)
    sized[TIME] = span
    unknown = [name for name in (*names, *states) if name not in sized]
    equalities = []
    lasting = [span / max(1.0 / _TYPICAL, _moves(pairs, k)) for k in range(len(means))]
    of = dict(_columns_of(states, means))
    for state, f in zip(states, equations, strict=True):
        time = lasting[of[state]] if state in of else float(np.exp(np.mean(np.log(lasting))))
        if state in sized:
            equalities.append((f * time, sized[state]))
        else:
            equalities.append((f * time / sympy.Symbol(state, real=True), 1.0))
    equalities = [(sympy.expand_mul(f) if f.is_Mul else f, size) for f, size in equalities]
    equalities += [(mean, size) for mean, size in zip(means, column_size, strict=True)]
    for run in runs:
        for state, value in zip(states, run.first, strict=True):
            if value is not None and value.free_symbols and state in sized:
                equalities.append((value, sized[state]))
    natural = natural_sizes(equalities, sized, unknown)
    full = np.array([sized.get(s, natural.get(s, 1.0)) for s in states])
    nonnegative = [s for s, k in _columns_of(states, means) if np.nanmin(values[:, k], initial=0.0) >= 0]
    nonnegative += [s for s in states if s not in sized]
    positive = positive_names(equations, nonnegative) | noise_names
    scales = known.scale if isinstance(known.scale, Mapping) else {}
    everywhere = known.scale if isinstance(known.scale, str) else None
    found = []
    for name in names:
        if name in fixed:
            continue
        low, high = pair(caller, name, dict(known.bounds or {}).get(name, (None, None)))
        start = dict(known.start or {}).get(name)
        start = None if start is None else _start_within(caller, name, start, low, high)
        word = scales.get(name, everywhere)
        if word not in (None, *(s.value for s in Scale)):
            raise ValueError(f"{caller}: expected scale 'log' or 'linear' of {name}, got {word!r}.")
        prior = read_prior(caller, name, dict(known.priors or {}).get(name))
        may = low >= 0 or (low == -np.inf and name in positive and high > 0)
        may = may or (prior is not None and prior.of_logarithm)
        may = may and (start is None or start > 0)
        scale = Scale(word) if word is not None else (Scale.LOG if may else Scale.LINEAR)
        beyond = [v for v in (None if low == -np.inf else low, start) if v is not None and v < 0]
        if scale is Scale.LOG and word is not None and (beyond or high <= 0 or start == 0.0):
            raise ValueError(
                f"{caller}: expected positive bounds and starts of {name}, whose scale is 'log', got bounds "
                f"({low:g}, {high:g})" + (f" and the start {start:g}." if start is not None else ".")
            )
        if scale is Scale.LOG:
            low = max(low, 0.0)
        size = 0.1 if name in noise_names else natural.get(name, 1.0)
        other = Parameter(name, low, high, scale, size, prior)
        if start:
            size = abs(start)
        if np.isfinite(low) and np.isfinite(high) and scale is Scale.LINEAR:
            size = max(abs(low), abs(high))
        otherwise = None if start is None else other
        found.append(Parameter(name, low, high, scale, size, prior, start, otherwise))
    return tuple(found), full


def _span(runs: Sequence[Run]) -> float:
    """The longest time from the first states to the last sample; 1 where there is none."""
    return max(float(run.times[-1] - run.begin) for run in runs) or 1.0


def _moves(pairs: Sequence[tuple[np.ndarray, np.ndarray]], column: int) -> float:
    """How many of its sizes a column moves up and down within a record, without what noise adds to it.

    Squared differences of samples that are one and two apart: noise adds the same to both, what moves evenly
    adds four times as much to the second.
    """
    found = []
    for _, x in pairs:
        own = x[np.isfinite(x[:, column]), column]
        if len(own) > 2:
            near, far = (float(np.mean((own[k:] - own[:-k]) ** 2)) for k in (1, 2))
            found.append(len(own) * np.sqrt(max(far - near, 0.0) / 3.0) / _rms(own))
    return float(np.median(found)) if found else 0.0


def _input_sizes(trajectories: Trajectories) -> dict[str, float]:
    u = trajectories.input_arrays()
    return {name: _rms(np.concatenate(u)[:, k]) for k, name in enumerate(trajectories.input_names)}


def _columns_of(states: Sequence[str], means: "Sequence[Expr]") -> list[tuple[str, int]]:
    return [(s, k) for k, mean in enumerate(means) for s in states if str(mean) == s]


def _rms(values: np.ndarray) -> float:
    seen = values[np.isfinite(values)]
    size = float(np.sqrt(np.mean(seen**2))) if len(seen) else 0.0
    return size if size > 0 else 1.0
