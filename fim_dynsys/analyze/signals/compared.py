"""measures: what a record and simulations of fitted fields have in common, in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.analyze.exponents import lyapunov
from fim_dynsys.analyze.results import Effort, FieldLike, Result, Table, Variables, progress_bar, unwrap
from fim_dynsys.analyze.signals.chaos import FEWEST_APART, delay_of, patterns_entropy, zero_one
from fim_dynsys.analyze.signals.dimension import FEWEST_TURNS, correlation_dimension, decorrelation
from fim_dynsys.analyze.signals.records import Records, records_of
from fim_dynsys.analyze.signals.recurrence import Recurrence, recurrence
from fim_dynsys.errors import check_whole
from fim_dynsys.fields.base import VectorField
from fim_dynsys.metrics import attractor_distance
from fim_dynsys.simulation.solution import integrate
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.wording import counted

_ORDER = 5  # of the patterns of the permutation entropy, as its docstring says
_PIECES, _BUDGET = 16, 400_000  # of Lyapunov exponents: that of Lorenz within .02 in one second
_FEWEST, _TOP = 16, 8  # samples of a run; the highest eighth of the frequencies
_LENGTH, _ZERO_ONE = "decorrelation times", "0-1 test"
DATA = "data"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Measures(Result):
    """Measures of data and of simulations of fields, side by side; made by `measures`.

    Attributes
    ----------
    sources : tuple of str
        ``"data"`` and the names of the fields.
    names : tuple of str
        The measures.
    values : ndarray (n_measures, n_sources)
        NaN where a measure does not apply or a simulation failed.
    records : tuple of Records or None
        The samples behind each source; None for a simulation that failed.
    recurrences : tuple of Recurrence or None
        Of the longest trajectory of each, with the radius that the data gave.
    """

    drawn_by = "fim_dynsys.plot.measures:compared"

    sources: tuple[str, ...]
    names: tuple[str, ...]
    values: np.ndarray
    records: tuple[Records | None, ...]
    recurrences: tuple[Recurrence | None, ...]

    def __getitem__(self, name: str) -> dict[str, float]:
        """One measure by source."""
        row = self.values[self.names.index(name)]
        return {source: float(value) for source, value in zip(self.sources, row, strict=True)}

    def _headline(self) -> str:
        return f"{counted(len(self.names), 'measure')} of {', '.join(self.sources)}"

    def _rows(self) -> Table:
        rows = [
            [name, *("" if np.isnan(value) else value for value in row)]
            for name, row in zip(self.names, self.values, strict=True)
        ]
        return ["measure", *self.sources], rows

    def _notes(self) -> list[str]:
        notes = super()._notes()
        if short := [name for name, turns in self[_LENGTH].items() if turns < FEWEST_TURNS]:
            notes.append(
                f"Not settled, expected at least {FEWEST_TURNS} decorrelation times: {', '.join(short)}."
            )
        if sparse := [name for name in self.state_names if np.isnan(self[f"{_ZERO_ONE}, {name}"][DATA])]:
            notes.append(
                f"No {_ZERO_ONE} of {', '.join(sparse)}: "
                f"expected {FEWEST_APART} samples that vary, a delay apart."
            )
        return notes

    def _variables(self) -> Variables:
        return {
            "measure": (("measure",), np.array(self.names)),
            "source": (("source",), np.array(self.sources)),
            "value": (("measure", "source"), self.values),
        }


@on_one_thread
def measures(
    data: Trajectories | ArrayLike,
    fields: FieldLike | Mapping[str, FieldLike] | None = None,
    *,
    noise: ArrayLike | None = None,
    resample: bool | float = False,
    seed: int = 0,
    progress: bool | None = None,
) -> Measures:
    """Measures of a record, and of simulations of fitted fields as long and as densely sampled.

    A chaotic model is judged by its attractor, not by its path. Each field is simulated from the first sample
    of every trajectory; noise as large as that of the data is added, since all measures feel it.

    Parameters
    ----------
    data : Trajectories or array_like (n,) or (n, d)
        Evenly sampled; several trajectories count together.
    fields : VectorField, fitted model or mapping of names to such, optional
        What to compare with.
    noise : float or array_like (d,), optional
        Standard deviation of the noise that simulations get, 0 for none; default the power that the data have
        at high frequencies beyond the simulation.
    resample : bool or float
        Whether to interpolate irregular times and missing values, or at which interval.
    seed : int
        Of the noise.
    progress : bool, optional
        Whether to show how far the work is; by default on a terminal only.

    Returns
    -------
    Measures
        By state: ``delay`` (first minimum of the mutual information, in time), ``permutation entropy`` (order
        5, that delay apart) and ``0-1 test``. Of all states: ``determinism`` and ``laminarity`` of recurrence
        plots, ``correlation dimension``, and ``decorrelation times``, the length of the record in its own
        unit of time; for fields ``Kaplan-Yorke dimension`` and ``largest exponent``; ``distance of states``
        and ``distance of spectra`` to the data, see `metrics.attractor_distance`.

    Raises
    ------
    ValueError
        For times that are not even, or fields of another dimension.
    TypeError
        For something else than fields.

    See Also
    --------
    lyapunov : Exponents of a field.
    recurrence : One of the measures.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> from fim_dynsys import analyze
    >>> t = np.linspace(0, 60, 1200)
    >>> wave = fim_dynsys.Trajectories.from_arrays(np.sin(t) + 0.3 * np.sin(2.3 * t), t)
    >>> found = analyze.measures(wave, progress=False)
    >>> found.to_dataframe()["measure"].tolist()[:2]
    ['delay, x0', 'permutation entropy, x0']
    """
    check_whole("measures", 0, seed=seed)
    records = records_of(data, "measures", resample)
    given = fields if isinstance(fields, Mapping) else {} if fields is None else {_name(fields): fields}
    unwrapped = {name: unwrap(field, "measures") for name, field in given.items()}
    wrong = [name for name, field in unwrapped.items() if field.dim != len(records.names)]
    if wrong:
        raise ValueError(
            f"measures: expected fields of dimension {len(records.names)}, got another: {wrong}."
        )
    sources: dict[str, Records | None] = {DATA: records}
    columns: dict[str, dict[str, float]] = {}
    plots: list[Recurrence | None] = []
    efforts: list[Effort] = []
    with progress_bar(progress, 1 + len(unwrapped), "measures", "sources") as bar:
        columns[DATA] = _measured(records, records, plots)
        bar.update()
        for name, field in unwrapped.items():
            clean = _simulated(field, records)
            noisy = None if clean is None else _with_noise(clean, _noise(records, clean, noise), seed)
            sources[name] = noisy
            columns[name] = {}
            if clean is None or noisy is None:
                plots.append(None)
            else:
                columns[name] = _measured(noisy, records, plots)
                spectrum = lyapunov(field, clean.x[0][-1], n_pieces=_PIECES, budget=_BUDGET)
                efforts.append(spectrum.effort)
                columns[name]["Kaplan-Yorke dimension"] = spectrum.dimension
                columns[name]["largest exponent"] = float(spectrum.exponents[0])
                columns[name]["exponent error (95 %)"] = float(spectrum.error[0])
                for kind in ("states", "spectra"):
                    columns[name][f"distance of {kind}"] = _distance(records, noisy, kind)
            bar.update()
    names = tuple(dict.fromkeys(name for column in columns.values() for name in column))
    values = [[column.get(name, np.nan) for column in columns.values()] for name in names]
    return Measures(
        sources=tuple(columns),
        names=names,
        values=np.array(values, dtype=float),
        records=tuple(sources.values()),
        recurrences=tuple(plots),
        effort=Effort(
            sum(effort.seeds for effort in efforts),
            sum(effort.iterations for effort in efforts),
            sum(effort.points for effort in efforts),
            sum(effort.budget for effort in efforts),
            any(effort.exhausted for effort in efforts),
        ),
        state_names=records.names,
        units=records.units,
    )


def _name(field: FieldLike) -> str:
    return str(getattr(field, "name", None) or "field")


def noise_level(runs: Sequence[np.ndarray]) -> np.ndarray:
    """Standard deviation (d,) of white noise in evenly sampled states: by the power at high frequencies.

    What motion has there, where samples are sparse, counts as noise; 0 without 16 samples.
    """
    powers, total = [], 0
    for x in (x for x in runs if len(x) >= _FEWEST):
        window = np.hanning(len(x))[:, None]
        power = np.abs(np.fft.rfft((x - x.mean(axis=0)) * window, axis=0)) ** 2 / np.sum(window**2)
        powers.append(power[-len(power) // _TOP :].mean(axis=0) * len(x))
        total += len(x)
    return np.sqrt(np.sum(powers, axis=0) / total) if powers else np.zeros(1)


def _simulated(field: VectorField, records: Records) -> Records | None:
    """The field's own trajectories from the first samples; None where one cannot be followed."""
    longest = max(map(len, records.x))
    starts = np.array([x[0] for x in records.x])
    solution = integrate([field], starts, records.step * np.arange(longest))
    found = tuple(x[: len(recorded)] for x, recorded in zip(solution.x, records.x, strict=True))
    if not all(np.isfinite(x).all() for x in found):
        return None
    return Records(found, records.step, records.names, records.units)


def _noise(records: Records, clean: Records, noise: ArrayLike | None) -> np.ndarray:
    """Standard deviations (d,) as given, or by the power at high frequencies beyond the simulation's."""
    if noise is not None:
        return np.broadcast_to(np.asarray(noise, dtype=float), len(records.names))
    return np.sqrt(np.maximum(noise_level(records.x) ** 2 - noise_level(clean.x) ** 2, 0.0))


def _with_noise(clean: Records, sd: np.ndarray, seed: int) -> Records:
    rng = np.random.default_rng(seed)
    noisy = tuple(x + sd * rng.standard_normal(x.shape) for x in clean.x)
    return Records(noisy, clean.step, clean.names, clean.units)


def _measured(records: Records, reference: Records, plots: list[Recurrence | None]) -> dict[str, float]:
    """Measures by name; the recurrence plot is added to `plots`, the first of which gives the radius."""
    found: dict[str, float] = {}
    scale = decorrelation(records.x)
    for i, name in enumerate(records.names):
        series = records.state(i)
        delay = delay_of(reference.state(i))
        found[f"delay, {name}"] = delay_of(series) * abs(records.step)
        entropy = patterns_entropy(series, _ORDER, delay)
        found[f"permutation entropy, {name}"] = entropy / _LARGEST_ENTROPY
        found[f"{_ZERO_ONE}, {name}"] = zero_one(series, delay)
    longest = int(np.argmax([len(x) for x in records.x]))
    radius = plots[0].radius if plots and plots[0] is not None else None
    plot = recurrence(records.trajectories(), longest, radius=radius, scale=reference.x[longest].std(axis=0))
    plots.append(plot)
    found |= {
        "recurrence rate": plot.rate,
        "determinism": plot.determinism,
        "laminarity": plot.laminarity,
    }
    found[_LENGTH] = sum(map(len, records.x)) / scale
    if sum(map(len, records.x)) >= 50:
        found["correlation dimension"] = correlation_dimension(records.trajectories()).dimension
    return found


_LARGEST_ENTROPY = float(np.log(120.0))  # 5! patterns


def _distance(records: Records, other: Records, kind: str) -> float:
    if kind == "states":
        return attractor_distance(records.pooled, other.pooled)
    parts = [attractor_distance(a, b, kind) for a, b in zip(records.x, other.x, strict=True) if len(a) > 1]
    return float(np.mean(parts))
