"""What happens to the states in each run, and when: first states, doses, events."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fim_dynsys.errors import check_number
from fim_dynsys.estimation.experiments import Event
from fim_dynsys.estimation.known import Reader, is_pair
from fim_dynsys.estimation.programs import TIME

if TYPE_CHECKING:
    from sympy import Expr, Symbol

_SAME_TIME = 1e-9  # of a record's length, or of a time: 3 * 0.1 is 0.3


def each(caller: str, what: str, given: Any, n: int) -> list[dict]:
    """What is known of each trajectory: the same of all, or a list of as many.

    Raises
    ------
    ValueError
        For anything else.
    """
    if given is None:
        return [{} for _ in range(n)]
    if isinstance(given, Mapping):
        return [dict(given) for _ in range(n)]
    if is_pair(given) and len(given) == n and all(isinstance(own, Mapping) for own in given):
        return [dict(own) for own in given]
    raise ValueError(
        f"{caller}: expected {what} as a dict, or a list of {n}, one for each trajectory, got {given!r}."
    )


def dose_lists(caller: str, doses: Any, n: int) -> list[list[tuple[float, str, Any]]]:
    """Doses (time, state, amount) of each of n trajectories.

    Raises
    ------
    ValueError
        For anything but such a list, or a list of n of them.
    """
    if doses is None:
        return [[] for _ in range(n)]
    if not is_pair(doses) or not all(is_pair(own) for own in doses):
        raise ValueError(f"{caller}: expected doses as a list of (time, state, amount), got {doses!r}.")
    flat = all(len(own) == 3 and not is_pair(own[0]) for own in doses)
    lists = [doses] * n if flat else doses
    if len(lists) != n:
        raise ValueError(f"{caller}: expected doses, or a list of {n} of such lists, got {len(lists)}.")
    for own in lists:
        for entry in own:
            if not is_pair(entry) or len(entry) != 3:
                raise ValueError(f"{caller}: expected doses as (time, state, amount), got {entry!r}.")
    for own in lists:
        for time, _, _ in own:
            if isinstance(time, str) and not re.fullmatch(r"[\d.eE+-]+", time):
                raise ValueError(
                    f"{caller}: expected the time of a dose as a number, got {time!r}; to estimate a time, "
                    "write a short infusion into the equation: '(D/0.1 if T < t and t < T + 0.1 else 0)'."
                )
    return [
        [(check_number(caller, "the time of a dose", time), state, amount) for time, state, amount in own]
        for own in lists
    ]


def event_lists(caller: str, events: Any, n: int) -> list[list[tuple[float, str, Any]]]:
    """Events (time, state, value) of each of n trajectories.

    Raises
    ------
    ValueError
        For anything but a dict by time, or a list of n of them.
    """
    lists = [events] * n if isinstance(events, Mapping) else ([{}] * n if events is None else events)
    if not is_pair(lists) or len(lists) != n or not all(isinstance(own, Mapping) for own in lists):
        raise ValueError(
            f"{caller}: expected events as a dict by time, or a list of {n} of such dicts, got {events!r}."
        )
    found: list[list[tuple[float, str, Any]]] = []
    for own in lists:
        found.append([])
        for time, change in own.items():
            at = check_number(caller, "the time of an event", _number(time))
            if not isinstance(change, Mapping):
                raise ValueError(
                    f"{caller}: expected the event at {at:g} as {{state: value}}, got {change!r}."
                )
            found[-1] += [(at, state, value) for state, value in change.items()]
    return found


def _change(value: "Expr", state: str, is_dose: bool) -> "tuple[Expr, Expr]":
    """The share of a state that remains, and what is added to it."""
    import sympy

    if is_dose:
        return sympy.Integer(1), value
    own = sympy.Symbol(state, real=True)
    share = value.expand().coeff(own, 1)
    return share, (value - share * own).expand()


def read_events(
    read: Reader,
    doses: Any,
    events: Any,
    times: Sequence[np.ndarray],
    begins: Sequence[float],
    constants: "Sequence[Mapping[Symbol, Expr]]",
) -> tuple[list[tuple[Event, ...]], list[str]]:
    """Doses and events of each run in their order, and what a reader is to be warned of.

    At one time, states are set before doses are added.

    Parameters
    ----------
    read : Reader
        Of the amounts.
    doses, events
        As users give them.
    times : list of arrays (K,)
        Of the samples.
    begins : sequence of float
        When the states are the first ones.
    constants : sequence of mapping
        Values of the inputs that are constant in each run.

    Raises
    ------
    ValueError
        For states that there are not, amounts in other than parameters, and times before a run begins.
    """
    caller, n, states = read.caller, len(times), list(read.states)
    found: list[tuple[Event, ...]] = []
    without: dict[float, bool] = {}
    meeting: set[float] = set()
    both = zip(dose_lists(caller, doses, n), event_lists(caller, events, n), strict=True)
    for (given, changes), t, begin, numbers in zip(both, times, begins, constants, strict=True):
        own: list[Event] = []
        for kind, entries in (("an event", changes), ("a dose", given)):
            for time, state, value in entries:
                if state not in states:
                    shown = "doses as (time, state, amount)" if kind == "a dose" else "events"
                    raise ValueError(
                        f"{caller}: expected {shown} of the states {', '.join(states)}, got {state!r}."
                    )
                at = _at_sample(time, t)
                if at < begin:
                    raise ValueError(
                        f"{caller}: expected doses and events from t0 = {begin:g} on, when the states are "
                        f"the first ones, got {kind} at {time:g}; give an earlier t0, or leave it out."
                    )
                share, amount = _change(read(value).xreplace(numbers), state, kind == "a dose")
                if {s.name for s in (share + amount).free_symbols} & {*states, *read.inputs, TIME}:
                    raise ValueError(
                        f"{caller}: expected amounts of doses in parameters alone, and values of events in "
                        f"these and a share of the state itself, such as {state}/2 + 5, got {value!r} for "
                        f"{state}; doses=[(time, state, amount)] add to the state."
                    )
                event = Event(at, states.index(state), share, amount)
                if at in t and at < t[-1]:
                    meeting.add(time)
                without[time] = without.get(time, True) and at >= t[-1]
                own.append(event)
        found.append(tuple(sorted(own, key=lambda e: e.time)))  # events stand before doses
    late = [f"{time:g}" for time, unseen in sorted(without.items()) if unseen]
    notes = [f"doses and events at {', '.join(late)} have no effect: no sample follows them"] if late else []
    if meeting:
        shown = ", ".join(f"{time:g}" for time in sorted(meeting))
        notes.append(
            f"samples at the times of doses and events, {shown}, count as taken before these; give slightly "
            "later times to those taken after"
        )
    return found, notes


def read_begins(
    caller: str, t0: Any, times: Sequence[np.ndarray], doses: Any, events: Any, initial: Any
) -> tuple[list[float], list[str]]:
    """When each run begins, and what a reader is to be warned of.

    That is the time given for the first states, else the first sample, or a dose or an event before it.

    Raises
    ------
    ValueError
        Where a run would begin after its first sample.
    """
    n = len(times)
    if t0 is None:
        changes = [
            [time for time, _, _ in (*one, *other)]
            for one, other in zip(dose_lists(caller, doses, n), event_lists(caller, events, n), strict=True)
        ]
        found = [
            float(min([t[0], *(_at_sample(time, t) for time in own)]))
            for t, own in zip(times, changes, strict=True)
        ]
        early = [
            f"{begin:g}"
            for begin, t, own in zip(found, times, each(caller, "initial", initial, n), strict=True)
            if begin < t[0] and own
        ]
        if early:
            return found, [
                f"states of initial are taken to be those before the first dose or event, at "
                f"{', '.join(dict.fromkeys(early))}; t0 says when they are"
            ]
        return found, []
    given = list(t0) if isinstance(t0, Sequence | np.ndarray) and np.ndim(t0) else [t0] * n
    if len(given) != n:
        raise ValueError(f"{caller}: expected t0 as a number or a list of {n}, got {t0!r}.")
    begins = [_at_sample(check_number(caller, "t0", begin), t) for begin, t in zip(given, times, strict=True)]
    for begin, t in zip(begins, times, strict=True):
        if begin > t[0]:
            raise ValueError(f"{caller}: expected t0 at or before the first sample {t[0]:g}, got {begin!r}.")
    return begins, []


def _number(key: Any) -> Any:
    """A time as a number where it is the text of one, as files have it."""
    try:
        return float(key) if isinstance(key, str) else key
    except ValueError:
        return key


def _at_sample(time: float, t: np.ndarray) -> float:
    """A time, that of a sample where both are the same up to rounding."""
    k = int(np.argmin(np.abs(t - time)))
    near = abs(t[k] - time) <= _SAME_TIME * max(abs(time), float(t[-1] - t[0]))
    return float(t[k]) if near else float(time)
