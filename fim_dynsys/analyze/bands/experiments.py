"""next_measurement: at which parameter value one more measurement would tell most of a bifurcation."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.analyze.bifurcation.measured import (
    DataBifurcations,
    MeasuredBifurcation,
    solved_bifurcation,
)
from fim_dynsys.analyze.results import Effort, Result, Table, Variables, progress_bar
from fim_dynsys.analyze.tracing.equations import Equations
from fim_dynsys.errors import check_whole
from fim_dynsys.fields.family import PooledFamily
from fim_dynsys.threads import on_one_thread

_STEP = 1e-4  # of a coefficient's size: the bifurcation is solved for to 1e-9


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NextMeasurement(Result):
    """What one more measurement is expected to tell; made by `next_measurement`.

    Attributes
    ----------
    parameter : str
        Name of the parameter.
    bifurcation : MeasuredBifurcation
        Whose interval is to shrink.
    values : ndarray (n,)
        Candidate values.
    deviation : float
        Standard deviation of the bifurcation's parameter value with the data as they are.
    expected : ndarray (n,)
        The same with one more measurement at each candidate.
    measured : ndarray (K,)
        Values measured so far.
    """

    drawn_by = "fim_dynsys.plot.bands:next_measurement"

    parameter: str
    bifurcation: MeasuredBifurcation
    values: np.ndarray
    deviation: float
    expected: np.ndarray
    measured: np.ndarray

    @property
    def best(self) -> float:
        """The candidate that leaves the least."""
        return float(self.values[np.argmin(self.expected)])

    def _headline(self) -> str:
        share = self.expected.min() / self.deviation
        return (
            f"{self.bifurcation.kind} at {self.parameter} = {self.bifurcation.p:.5g}: measure next at "
            f"{self.best:.5g}, which is expected to leave {share:.0%} of its interval"
        )

    def _rows(self) -> Table:
        columns = [self.parameter, "expected deviation", "of that now"]
        rows = [[v, e, f"{e / self.deviation:.1%}"] for v, e in zip(self.values, self.expected, strict=True)]
        return columns, rows

    def _variables(self) -> Variables:
        return {
            "values": (("candidate",), self.values),
            "expected": (("candidate",), self.expected),
            "deviation": ((), np.array(self.deviation)),
            "measured": (("value",), self.measured),
        }


@on_one_thread
def next_measurement(
    diagram: DataBifurcations,
    bifurcation: int = 0,
    values: ArrayLike | None = None,
    *,
    progress: bool | None = None,
) -> NextMeasurement:
    """Expected standard deviation of a bifurcation's parameter value after one more measurement.

    The coefficients of the interpolated field follow from all measured fields by linear least squares; the
    bifurcation depends on them smoothly. To first order its variance follows from the residuals, and how one
    more field at a value would reduce it from the regression alone (a design optimal for one function of the
    coefficients). The new data are taken to be as many, as noisy and as spread as those at the neighbouring
    values. What all fields share, such as a wrong model, no further value of the parameter will tell.

    Parameters
    ----------
    diagram : DataBifurcations
        Of `bifurcations_from_data`.
    bifurcation : int
        Number of the bifurcation in ``diagram.bifurcations``.
    values : array_like (n,), optional
        Candidates within the measured range; default 41 over it.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.

    Returns
    -------
    NextMeasurement

    Raises
    ------
    TypeError
        For something else than a diagram of data.
    ValueError
        For a bifurcation that is not there or is lost under small changes, or values outside the range.

    References
    ----------
    F. Pukelsheim, Optimal Design of Experiments, Wiley 1993, chapter 2 (optimality for scalar parameters).

    See Also
    --------
    bifurcations_from_data : The diagram.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> rates = np.array([-0.5, -0.25, 0.25, 0.5])
    >>> t = np.linspace(0, 8, 60)
    >>> fields = [fim_dynsys.SymbolicField([f"{mu}*x0 - x0**3"]) for mu in rates for _ in (0, 1)]
    >>> x = [fim_dynsys.simulate(f, [s], t).x[0] for f, s in zip(fields, [1.2, -0.9] * 4)]
    >>> data = fim_dynsys.Trajectories.from_arrays(x, [t] * 8, coords={"mu": np.repeat(rates, 2)})
    >>> model = fim_dynsys.load("sindy-strong")
    >>> found = analyze.bifurcations_from_data(model, data, n_draws=5, progress=False)
    >>> following = analyze.next_measurement(found, progress=False)
    >>> following.parameter, len(following.values)
    ('mu', 41)
    """
    check_whole("next_measurement", 0, bifurcation=bifurcation)
    if not isinstance(diagram, DataBifurcations):
        raise TypeError(
            f"next_measurement: expected what bifurcations_from_data returns, got {type(diagram).__name__}."
        )
    if not 0 <= bifurcation < len(diagram.bifurcations):
        raise ValueError(
            f"next_measurement: expected a bifurcation below {len(diagram.bifurcations)}, got {bifurcation}."
        )
    low, high = diagram.values[[0, -1]]
    candidates = np.linspace(low, high, 41) if values is None else np.atleast_1d(np.asarray(values, float))
    if not ((candidates >= low) & (candidates <= high)).all():
        raise ValueError(f"next_measurement: expected values from {low:g} to {high:g}, got others.")
    event = diagram.bifurcations[bifurcation]
    gradient, points = _gradient(diagram.family, event, (low, high), progress)
    family = diagram.family
    return NextMeasurement(
        parameter=diagram.parameter,
        bifurcation=event,
        values=candidates,
        deviation=float(np.sqrt(family.variance(gradient))),
        expected=np.array([np.sqrt(family.variance(gradient, at)) for at in candidates]),
        measured=diagram.values,
        effort=Effort(gradient.size, 0, points, points, False),
        state_names=diagram.state_names,
        units=diagram.units,
    )


def _gradient(
    family: PooledFamily, event: MeasuredBifurcation, ends: tuple[float, float], progress: bool | None
) -> tuple[np.ndarray, int]:
    """Derivative of the bifurcation's parameter value by the coefficients, as they are, by differences."""
    values, points = family.curve.values, 0
    size = np.maximum(np.abs(values), 1e-3 * np.abs(values).max())
    gradient = np.zeros(values.shape)
    with progress_bar(progress, values.size, "sensitivities", "coefficients") as bar:
        for place in np.ndindex(values.shape):
            found = []
            for sign in (1.0, -1.0):
                changed = values.copy()
                changed[place] += sign * _STEP * size[place]
                equations = Equations(family.varied(changed), ends, family.region)
                u = solved_bifurcation(equations, event, equations.scaled(event.x, event.p))
                points += equations.points
                if u is None:
                    raise ValueError(
                        f"next_measurement: expected a bifurcation that small changes of the field move, got "
                        f"{event.kind} at {event.p:g}, which they destroy."
                    )
                found.append(equations.unscaled(u[:-1], u[-1])[1])
            gradient[place] = (found[0] - found[1]) / (2.0 * _STEP * size[place])
            bar.update()
    return gradient, points
