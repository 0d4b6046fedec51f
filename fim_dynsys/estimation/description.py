"""What users say of known equations, read into an estimation problem."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fim_dynsys.errors import check_number
from fim_dynsys.estimation.curves import sampled_curve
from fim_dynsys.estimation.experiments import Event, InputCurve
from fim_dynsys.estimation.objective import Errors, Observable
from fim_dynsys.estimation.parameters import Parameter, Prior, Scale
from fim_dynsys.estimation.problem import Problem, Run
from fim_dynsys.estimation.programs import TIME
from fim_dynsys.estimation.sizes import natural_sizes, positive_names, size_of
from fim_dynsys.fields.expressions import parse
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.holding import Hold

if TYPE_CHECKING:
    from sympy import Expr

_TYPICAL = 1.0 / 3.0  # of a record, in which rates change the states by their size
_STEEP = 1e-3  # of the size of what a sign is taken of
_SMALL_MEAN = 0.1  # of a state's size that counts beside its scatter
Words = Mapping[str, Any]


@dataclass(frozen=True)
class Known:
    """What is known beside the equations, in the words of `fim_dynsys.models.equations.EquationsModel`.

    Attributes
    ----------
    bounds, fixed, scale, priors, start, initial, events, noise, hold : mapping or None
        By name.
    t0 : float, list or None
        When the states are those of ``initial``.
    doses : list or None
        ``(time, state, amount)``.
    """

    bounds: Words | None = None
    fixed: Words | None = None
    scale: Any = None
    priors: Words | None = None
    start: Words | None = None
    initial: Any = None
    t0: Any = None
    doses: Any = None
    events: Any = None
    noise: Any = None
    hold: Any = None


@dataclass(frozen=True, eq=False)
class Description:
    """A problem, and how its parts are called.

    Attributes
    ----------
    problem : Problem
        What is estimated.
    equations : tuple of sympy.Expr
        Right-hand sides as they were given; those of the problem have smooth signs.
    shown : list of arrays (K, d) or None
        Measured states of each run at its samples, where all states were measured.
    columns : tuple of str
        What the columns of the data are.
    holds : dict
        What each sampled input does between samples.
    """

    problem: Problem
    equations: "tuple[Expr, ...]"
    shown: list[np.ndarray] | None
    columns: tuple[str, ...]
    holds: dict[str, str] = field(default_factory=dict)


class _Reader:
    """Texts and numbers as expressions."""

    def __init__(self, caller: str, states: Sequence[str], inputs: Sequence[str]) -> None:
        import sympy

        self.caller, self.states, self.inputs = caller, tuple(states), tuple(inputs)
        names = [*states, *inputs]
        symbols = [sympy.Symbol(name, real=True) for name in names]
        self.symbols = {f"x{k}": s for k, s in enumerate(symbols)} | dict(zip(names, symbols, strict=True))

    def __call__(self, value: Any) -> "Expr":
        """An expression of a text, a number or a sympy expression."""
        import sympy

        if isinstance(value, sympy.Expr):
            return value.xreplace(
                {s: self.symbols.get(s.name, sympy.Symbol(s.name, real=True)) for s in value.free_symbols}
            )
        if isinstance(value, str):
            return parse(value, self.symbols)
        return sympy.Float(check_number(self.caller, "a value", value))


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

    Raises
    ------
    ValueError
        Where words name nothing, or contradict each other.
    """
    import sympy

    inputs = trajectories.input_names
    read = _Reader(caller, states, inputs)
    substituted = {
        sympy.Symbol(name, real=True): read(value)
        for name, value in dict(known.fixed or {}).items()
        if not _is_number(value)
    }
    equations = tuple(read(e).xreplace(substituted) for e in expressions)
    means = [read(c).xreplace(substituted) for c in columns]
    n_runs = len(trajectories)
    initial = [
        {name: value for name, value in own.items()}
        for own in _each(caller, "initial", known.initial, n_runs)
    ]
    events = _events(caller, read, known, states, n_runs)
    observables, seen, noise_names = _observables(caller, read, columns, means, known.noise, poisson, errors)
    reserved = {*states, *inputs, TIME}
    symbols: set[str] = set()
    for e in (*equations, *seen, *(event.value for own in events for event in own)):
        symbols |= {s.name for s in e.free_symbols}
    for own in initial:
        unknown = set(own) - set(states)
        if unknown:
            raise ValueError(
                f"{caller}: expected initial states among {', '.join(states)}, got {sorted(unknown)}."
            )
        for value in own.values():
            if isinstance(value, str):
                symbols |= {s.name for s in read(value).xreplace(substituted).free_symbols}
    for c, mean in zip(columns, means, strict=True):
        if not {s.name for s in mean.free_symbols} & set(states):
            raise ValueError(
                f"{caller}: expected observed expressions of the states {', '.join(states)}, got {c!r}, "
                "which holds none."
            )
    names = tuple(sorted(symbols - reserved))
    fixed = {k: float(v) for k, v in dict(known.fixed or {}).items() if _is_number(v)}
    _check_names(caller, known, names, states, {s.name for s in substituted})
    runs, sizes, shown, holds, bounds = _runs(
        caller, read, states, columns, means, trajectories, known, initial, events, errors, curves
    )
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
    )
    smooth = _smooth_signs(equations, states, sizes, parameters, fixed, trajectories)
    problem = Problem(
        tuple(states),
        tuple(inputs),
        smooth,
        observables,
        seen,
        names,
        fixed,
        parameters,
        tuple(runs),
        sizes,
        bounds,
    )
    return Description(problem, equations, shown, tuple(columns), holds)


def _smooth_signs(
    equations: "Sequence[Expr]",
    states: Sequence[str],
    sizes: np.ndarray,
    parameters: Sequence[Parameter],
    fixed: Mapping[str, float],
    trajectories: Trajectories,
) -> "tuple[Expr, ...]":
    """Equations with hyperbolic tangents for signs of states, which rise within a thousandth of their size.

    A rate that jumps would leave sensitivities without what they gain there, and sliding without an end.
    """
    import sympy

    sized = dict(zip(states, sizes.tolist(), strict=True)) | {p.name: p.size for p in parameters}
    sized |= {name: abs(value) or 1.0 for name, value in fixed.items()}
    u = trajectories.input_arrays()
    sized |= {name: _rms(np.concatenate(u)[:, k]) for k, name in enumerate(trajectories.input_names)}
    own = {sympy.Symbol(s, real=True) for s in states}

    def smooth(argument: "Expr") -> "Expr":
        if not argument.free_symbols & own:
            return sympy.sign(argument)
        return sympy.tanh(argument / (_STEEP * size_of(argument, sized)))

    return tuple(e.replace(sympy.sign, smooth) for e in equations)


def _is_number(value: Any) -> bool:
    return not isinstance(value, str) and not hasattr(value, "free_symbols")


def _each(caller: str, what: str, given: Any, n: int) -> list[dict]:
    """What is known of each trajectory: the same of all, or a list of as many."""
    if given is None:
        return [{} for _ in range(n)]
    if isinstance(given, Mapping):
        return [dict(given) for _ in range(n)]
    is_list = isinstance(given, Sequence) and not isinstance(given, str)
    if is_list and len(given) == n and all(isinstance(own, Mapping) for own in given):
        return [dict(own) for own in given]
    raise ValueError(
        f"{caller}: expected {what} as a dict, or a list of {n}, one for each trajectory, got {given!r}."
    )


def _events(
    caller: str, read: _Reader, known: Known, states: Sequence[str], n: int
) -> list[tuple[Event, ...]]:
    """Doses and other sudden changes of each trajectory, in the order of their times."""
    found: list[list[Event]] = [[] for _ in range(n)]
    doses = known.doses
    if doses is not None:
        is_list = isinstance(doses, Sequence) and not isinstance(doses, str)
        if not is_list or not all(isinstance(own, Sequence) and not isinstance(own, str) for own in doses):
            raise ValueError(f"{caller}: expected doses as a list of (time, state, amount), got {doses!r}.")
        flat = all(len(own) == 3 and not isinstance(own[0], Sequence) for own in doses)
        lists = [doses] * n if flat else doses
        if len(lists) != n:
            raise ValueError(f"{caller}: expected doses, or a list of {n} of such lists, got {len(lists)}.")
        for own, entries in zip(found, lists, strict=True):
            for entry in entries:
                if not isinstance(entry, Sequence) or len(entry) != 3 or entry[1] not in states:
                    raise ValueError(
                        f"{caller}: expected doses as (time, state, amount), states {', '.join(states)}, "
                        f"got {entry!r}."
                    )
                time = check_number(caller, "the time of a dose", entry[0])
                own.append(Event(time, list(states).index(entry[1]), read(entry[2])))
    given = known.events
    lists = [given] * n if isinstance(given, Mapping) else ([{}] * n if given is None else given)
    if len(lists) != n or not all(isinstance(own, Mapping) for own in lists):
        raise ValueError(
            f"{caller}: expected events as a dict by time, or a list of {n} of such dicts, got {given!r}."
        )
    for own, changes in zip(found, lists, strict=True):
        for time, change in changes.items():
            at = check_number(caller, "the time of an event", float(time))
            for state, value in dict(change).items():
                if state not in states:
                    raise ValueError(
                        f"{caller}: expected events of the states {', '.join(states)}, got {state!r}."
                    )
                own.append(Event(at, list(states).index(state), read(value), sets=True))
    for own in found:
        for event in own:
            if {s.name for s in event.value.free_symbols} & {*states, *read.inputs, TIME}:
                raise ValueError(
                    f"{caller}: expected amounts of doses and events in parameters alone, got {event.value}; "
                    "doses=[(time, state, amount)] add to the state."
                )
    return [tuple(sorted(own, key=lambda e: e.time)) for own in found]


def _observables(
    caller: str,
    read: _Reader,
    columns: Sequence[str],
    means: Sequence["Expr"],
    noise: Any,
    poisson: bool,
    errors: Sequence[np.ndarray] | None,
) -> tuple[tuple[Observable, ...], "tuple[Expr, ...]", set[str]]:
    """How each column is measured; expectations and then scales of errors; names of parameters of these."""
    import sympy

    words = dict(noise) if isinstance(noise, Mapping) else dict.fromkeys(columns, noise)
    unknown = set(words) - set(columns)
    if unknown:
        raise ValueError(f"{caller}: expected noise of {', '.join(columns)}, got that of {sorted(unknown)}.")
    observables: list[Observable] = []
    scales: list[Expr] = []
    names: set[str] = set()
    for k, (column, mean) in enumerate(zip(columns, means, strict=True)):
        word = words.get(column)
        kind, size = word if isinstance(word, Sequence) and not isinstance(word, str) else (word, None)
        kind = "poisson" if kind is None and poisson else kind or "normal"
        if kind == "relative":
            size = f"error_{k}" if size is None else size
            expression = read(size) * sympy.Abs(mean)
            names |= {s.name for s in read(size).free_symbols}
            kind = "normal"
        else:
            expression = None if size is None else read(size)
            if expression is not None:
                names |= {s.name for s in expression.free_symbols} - {s.name for s in mean.free_symbols}
        if kind not in {e.value for e in Errors}:
            raise ValueError(
                f"{caller}: expected noise 'relative', {', '.join(repr(e.value) for e in Errors)}, or "
                f"one with a scale, got {word!r}."
            )
        at = -1
        if expression is not None:
            at = len(columns) + len(scales)
            scales.append(expression)
        observables.append(Observable(column, Errors(kind), k, at))
    names -= {*read.states, *read.inputs, TIME}
    return tuple(observables), (*means, *scales), names


def _check_names(
    caller: str, known: Known, names: Sequence[str], states: Sequence[str], replaced: set[str]
) -> None:
    """Raise a ValueError where something is said of a name that is in no equation."""
    for what in ("bounds", "fixed", "scale", "priors", "start"):
        given = getattr(known, what)
        if isinstance(given, Mapping):
            others = {*states} if what in ("bounds", "start", "priors") else set()
            unknown = sorted(set(map(str, given)) - set(names) - others - replaced)
            if unknown:
                kind = "starts of parameters or states" if what == "start" else what
                raise ValueError(
                    f"{caller}: expected {kind} among {', '.join([*names, *sorted(others)])}, got {unknown}."
                )


def _pair(caller: str, name: str, given: Any) -> tuple[float, float]:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise ValueError(f"{caller}: expected bounds of {name} as (low, high), None for none, got {given!r}.")
    low = -np.inf if given[0] is None else float(given[0])
    high = np.inf if given[1] is None else float(given[1])
    if not low < high:
        raise ValueError(f"{caller}: expected bounds of {name} with low < high, got {given!r}.")
    return low, high


def _runs(
    caller: str,
    read: _Reader,
    states: Sequence[str],
    columns: Sequence[str],
    means: Sequence["Expr"],
    trajectories: Trajectories,
    known: Known,
    initial: list[dict],
    events: list[tuple[Event, ...]],
    errors: Sequence[np.ndarray] | None,
    curves: Sequence[InputCurve] | None,
) -> tuple[list[Run], np.ndarray, list[np.ndarray] | None, dict[str, str], dict[str, tuple[float, float]]]:
    """Runs; sizes (d,) of states, NaN if unknown; measured states; holds; bounds of first states."""
    direct = {i: k for k, mean in enumerate(means) for i, s in enumerate(states) if str(mean) == s}
    pairs = trajectories.arrays()
    begins = _begins(caller, known.t0, [t for t, _ in pairs])
    holds = _holds(caller, known.hold, trajectories)
    bounds: dict[str, tuple[float, float]] = {
        str(name): _pair(caller, str(name), value)
        for name, value in dict(known.bounds or {}).items()
        if name in states
    }
    sizes = np.full(len(states), np.nan)
    for i, k in direct.items():
        own = np.concatenate([x[:, k] for _, x in pairs])
        own = own[np.isfinite(own)]
        if len(own):
            size = float(np.sqrt(np.var(own) + _SMALL_MEAN * np.mean(own) ** 2))
            sizes[i] = size if size > 0 else np.nan
    runs, shown = [], []
    held: dict[str, str] = {}
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
        guess, own = np.full(len(states), np.nan), np.full((len(t), len(states)), np.nan)
        for i, k in direct.items():
            seen = np.isfinite(x[:, k])
            if seen.any():
                own[:, i] = np.interp(t, t[seen], x[seen, k])
                guess[i] = x[seen, k][0]
        first: list[Any] = []
        for i, state in enumerate(states):
            value = initial[number].get(state)
            if isinstance(value, Sequence) and not isinstance(value, str):
                bounds[state] = _pair(caller, state, value)
                value = None
            start = dict(known.start or {}).get(state)
            if value is None and start is not None:
                guess[i] = float(start)
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
            )
        )
    complete = all(np.isfinite(own).all() for own in shown)
    return runs, sizes, shown if complete else None, held, bounds


def _begins(caller: str, t0: Any, times: list[np.ndarray]) -> list[float]:
    if t0 is None:
        return [float(t[0]) for t in times]
    each = list(t0) if isinstance(t0, Sequence) else [t0] * len(times)
    if len(each) != len(times):
        raise ValueError(f"{caller}: expected t0 as a number or a list of {len(times)}, got {t0!r}.")
    for begin, t in zip(each, times, strict=True):
        if check_number(caller, "t0", begin) > t[0]:
            raise ValueError(f"{caller}: expected t0 at or before the first sample {t[0]:g}, got {begin!r}.")
    return [float(begin) for begin in each]


def _holds(caller: str, hold: Any, trajectories: Trajectories) -> dict[str, Hold]:
    """What each input does between samples, as told."""
    names = trajectories.input_names
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
) -> tuple[tuple[Parameter, ...], np.ndarray]:
    """Estimated parameters, and the sizes of all states."""
    import sympy

    pairs = trajectories.arrays()
    span = max(float(t[-1] - t[0]) for t, _ in pairs) or 1.0
    values = np.concatenate([x for _, x in pairs])
    column_size = [_rms(values[:, k]) for k in range(values.shape[1])]
    for k, name in enumerate(states):  # numbers that are known of the first states
        given = [abs(float(v[name])) for v in initial if name in v and _is_plain(v[name]) and v[name]]
        if np.isnan(sizes[k]) and given:
            sizes[k] = max(given)
    sized = {name: float(s) for name, s in zip(states, sizes, strict=True) if np.isfinite(s)}
    sized |= {name: abs(value) or 1.0 for name, value in fixed.items()}
    sized |= {
        name: _rms(np.concatenate(trajectories.input_arrays())[:, k])
        for k, name in enumerate(trajectories.input_names)
    }
    sized[TIME] = span
    unknown = [name for name in (*names, *states) if name not in sized]
    equalities = []
    time = _TYPICAL * span
    for state, f in zip(states, equations, strict=True):
        if state in sized:
            equalities.append((f * time, sized[state]))
        else:
            equalities.append((f * time / sympy.Symbol(state, real=True), 1.0))
    equalities = [(sympy.expand_mul(f) if f.is_Mul else f, size) for f, size in equalities]
    equalities += [(mean, size) for mean, size in zip(means, column_size, strict=True)]
    for own in initial:
        for state, value in own.items():
            if isinstance(value, str) and state in sized:
                equalities.append((sympy.Symbol(value, real=True), sized[state]))
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
        low, high = -np.inf, np.inf
        if name in dict(known.bounds or {}):
            low, high = _pair(caller, name, dict(known.bounds or {})[name])
        start = dict(known.start or {}).get(name)
        start = None if start is None else check_number(caller, f"start of {name}", start)
        word = scales.get(name, everywhere)
        if word not in (None, *(s.value for s in Scale)):
            raise ValueError(f"{caller}: expected scale 'log' or 'linear' of {name}, got {word!r}.")
        prior = _prior(caller, name, dict(known.priors or {}).get(name))
        may = low >= 0 or (low == -np.inf and name in positive and high > 0)
        may = may or (prior is not None and prior.of_logarithm)
        may = may and (start is None or start > 0)
        scale = Scale(word) if word is not None else (Scale.LOG if may else Scale.LINEAR)
        if scale is Scale.LOG:
            low = max(low, 0.0)
        size = natural.get(name, 1.0)
        if start:
            size = abs(start)
        size = 0.1 if name in noise_names and not start else size
        if np.isfinite(low) and np.isfinite(high) and scale is Scale.LINEAR:
            size = max(abs(low), abs(high))
        found.append(Parameter(name, low, high, scale, size, prior, start))
    return tuple(found), full


def _columns_of(states: Sequence[str], means: "Sequence[Expr]") -> list[tuple[str, int]]:
    return [(s, k) for k, mean in enumerate(means) for s in states if str(mean) == s]


def _rms(values: np.ndarray) -> float:
    seen = values[np.isfinite(values)]
    size = float(np.sqrt(np.mean(seen**2))) if len(seen) else 0.0
    return size if size > 0 else 1.0


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _prior(caller: str, name: str, given: Any) -> Prior | None:
    if given is None:
        return None
    if not isinstance(given, Sequence) or len(given) != 3 or given[0] not in ("normal", "lognormal"):
        raise ValueError(
            f"{caller}: expected the prior of {name} as ('normal', mean, deviation) or ('lognormal', median, "
            f"deviation of the logarithm), got {given!r}."
        )
    middle = check_number(caller, f"the prior's middle of {name}", given[1])
    deviation = check_number(caller, f"the prior's deviation of {name}", given[2], low=1e-300)
    if given[0] == "normal":
        return Prior(middle, deviation)
    if middle <= 0:
        raise ValueError(f"{caller}: expected a positive median of {name}, got {middle!r}.")
    return Prior(float(np.log(middle)), deviation, True)
