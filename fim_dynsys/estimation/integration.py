"""Paths of equations from given states."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fim_dynsys.estimation.experiments import Event, Experiment, Experiments, InputCurve
from fim_dynsys.estimation.programs import program
from fim_dynsys.estimation.switches import switch_times

if TYPE_CHECKING:
    from sympy import Expr

_TOLERANCE = 1e-9  # relative error of a step: of paths of given parameters


def path_of(
    equations: "Sequence[Expr]",
    states: Sequence[str],
    inputs: Sequence[str],
    parameters: Mapping[str, float],
    x0: np.ndarray,
    t: np.ndarray,
    curve: InputCurve,
    events: Sequence[Event] = (),
) -> np.ndarray:
    """Path (m, d) from a state at the first of increasing times; NaN from where it cannot be continued.

    Parameters
    ----------
    equations : sequence of sympy.Expr
        Right-hand sides in ``t`` and the names of states, inputs and parameters.
    states, inputs : sequences of str
        Names.
    parameters : mapping
        Values.
    x0, t : arrays (d,), (m,)
        First state, and times.
    curve : InputCurve
        Inputs.
    events : sequence of Event
        Sudden changes.
    """
    import sympy

    names = tuple(parameters)
    values = np.array([parameters[name] for name in names], dtype=float)
    nothing = np.zeros(0, dtype=np.int64)
    experiment = Experiment.of(
        np.asarray(t, dtype=float),
        float(t[0]),
        [sympy.Float(float(v)) for v in x0],
        events,
        curve,
        values,
        np.full(len(names), -1, dtype=np.int64),
        (nothing, nothing, np.zeros(0), np.zeros(0)),
        switch_times(equations, parameters),
    )
    rates = program(tuple(equations), tuple(states), tuple(inputs), names)
    seen = program((), tuple(states), tuple(inputs), names)
    return Experiments(rates, seen, names, [experiment]).path(0, np.zeros(0), _TOLERANCE, False).states
