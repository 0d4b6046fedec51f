"""Estimation problems in the PEtab format, version 1."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fim_dynsys.errors import FitWarning, warn
from fim_dynsys.estimation.experiments import InputCurve
from fim_dynsys.estimation.fits import Fit, fit_problem
from fim_dynsys.estimation.identifiability import Identifiability, identifiability
from fim_dynsys.estimation.objective import Errors, Observable
from fim_dynsys.estimation.parameters import Parameter, Prior, Scale
from fim_dynsys.estimation.problem import Problem, Run
from fim_dynsys.estimation.profiles import LEVELS, Profile, profile
from fim_dynsys.estimation.sbml import SBMLModel, from_sbml
from fim_dynsys.estimation.sizes import natural_sizes
from fim_dynsys.fields.expressions import parse

if TYPE_CHECKING:
    from sympy import Expr

_LN10 = float(np.log(10.0))
_INSTALL = "run `pip install '.[petab]'` in a clone of the repository"


@dataclass(frozen=True, eq=False)
class PetabEquations:
    """An estimation problem that was read from PEtab files.

    Attributes
    ----------
    problem : Problem
        What is estimated, from which runs.
    nominal : dict
        Values that the files name.
    """

    problem: Problem
    nominal: Mapping[str, float]

    def fit(self, n_starts: int = 50, seed: int = 0) -> "PetabFit":
        """The best of many searches.

        Parameters
        ----------
        n_starts : int
            Searches at most.
        seed : int
            Of their starts.

        Raises
        ------
        ValueError
            Where the equations can be integrated for no start.

        Warns
        -----
        FitWarning
            The best search did not converge, or no other search ended in its minimum.
        """
        found = fit_problem(self.problem, None, n_starts, seed)
        if found is None:
            raise ValueError(
                "equations_from_petab: expected equations that are finite for some start, got none."
            )
        for doubt in found.doubts:
            warn(f"equations_from_petab.fit: {doubt}.", FitWarning)
        return PetabFit(self.problem, found)

    def objective(self, parameters: Mapping[str, float]) -> float:
        """Minus the log-likelihood, and the log-prior, at values of the estimated parameters.

        Parameters
        ----------
        parameters : mapping
            Values by name, in their own units.
        """
        space = self.problem.space
        theta = space.coordinates(np.array([float(parameters[name]) for name in space.names]))
        return float(self.problem.objective.values(theta[None], 1e-10)[0])


@dataclass(frozen=True, eq=False)
class PetabFit:
    """A fit of a problem in PEtab.

    Attributes
    ----------
    problem : Problem
        What was fitted.
    fit_ : Fit
        All searches.
    """

    problem: Problem
    fit_: Fit

    @cached_property
    def parameters_(self) -> dict[str, float]:
        """Estimated numbers by name, scales of errors among them."""
        found = dict(zip(self.fit_.space.names, map(float, self.fit_.natural), strict=True))
        scales = self.fit_.descent.evaluation.scales
        own = {o.group: float(s) for o, s in zip(self.problem.observables, scales, strict=True) if o.group}
        return found | own

    @property
    def objective(self) -> float:
        """Minus the log-likelihood, and the log-prior."""
        return self.fit_.descent.value

    def profile(self, name: str, levels: tuple[float, ...] = LEVELS) -> Profile:
        """The likelihood profile of a parameter; see `fim_dynsys.estimation.profiles.profile`."""
        return profile(self.fit_, name, levels)

    def identifiability(self) -> Identifiability:
        """What the measurements determine."""
        return identifiability(self.fit_)


def equations_from_petab(path: str | os.PathLike) -> PetabEquations:
    """Read an estimation problem in the PEtab format.

    Conditions, observables with their parameters and transformations, noise formulas and distributions,
    bounds, scales and priors are read. What is not supported is refused by name: pre-equilibration, steady
    states, and models in other languages than SBML.

    Parameters
    ----------
    path : path
        The YAML file.

    Returns
    -------
    PetabEquations

    Raises
    ------
    ImportError
        Where python-libsbml or PyYAML is not installed.
    ValueError
        For files that are no such problem, or hold what is not supported.

    References
    ----------
    L. Schmiester et al., PEtab: interoperable specification of parameter estimation problems in systems
    biology, PLoS Comput. Biol. 17 (2021) e1008646.
    """
    try:
        import yaml
    except ImportError as error:
        raise ImportError(
            f"equations_from_petab: expected PyYAML, which is not installed; {_INSTALL}"
        ) from error
    path = Path(path)
    with path.open(encoding="utf-8") as file:
        said = yaml.safe_load(file)
    if (
        not isinstance(said, Mapping)
        or str(said.get("format_version")) != "1"
        or len(said.get("problems", ())) != 1
    ):
        raise ValueError(f"equations_from_petab: expected one problem of format 1, got {path.name!r}.")
    own = said["problems"][0]
    if len(own.get("sbml_files", ())) != 1:
        raise ValueError(f"equations_from_petab: expected one SBML file in {path.name!r}.")

    def table(files: Any) -> pd.DataFrame:
        files = files if isinstance(files, list) else [files]
        return pd.concat([pd.read_csv(path.parent / name, sep="\t") for name in files], ignore_index=True)

    return _Reading(
        from_sbml(path.parent / own["sbml_files"][0]),
        table(said["parameter_file"]).set_index("parameterId"),
        table(own["condition_files"]).set_index("conditionId"),
        table(own["observable_files"]).set_index("observableId"),
        table(own["measurement_files"]),
    ).problem()


def _given(row: Mapping, name: str, default: Any = None) -> Any:
    """An entry of a table; the default where it is empty or not there."""
    value = row.get(name, default)
    return (
        default if value is None or (isinstance(value, float) and np.isnan(value)) or value == "" else value
    )


class _Reading:
    """The tables of one problem, as they are read."""

    def __init__(
        self,
        model: SBMLModel,
        parameters: pd.DataFrame,
        conditions: pd.DataFrame,
        observables: pd.DataFrame,
        measurements: pd.DataFrame,
    ) -> None:
        self.model, self.parameters, self.conditions = model, parameters, conditions
        self.observables, self.measurements = observables, measurements
        before = measurements.get("preequilibrationConditionId")
        if before is not None and before.notna().any():
            raise ValueError("equations_from_petab: pre-equilibration is not supported.")
        if not np.isfinite(measurements["time"].to_numpy(float)).all():
            raise ValueError("equations_from_petab: measurements at steady state are not supported.")

    def formula(self, text: Any) -> "Expr":
        """A formula of the tables."""
        import sympy

        found = parse(str(text))
        known = {sympy.Symbol(n, real=True): e for n, e in self.model.assigned.items()}
        return found.xreplace(known)

    def problem(self) -> PetabEquations:
        """What is estimated."""

        model = self.model
        kinds, observables, seen = self._observed()
        runs = [
            self._run(str(c), own, kinds) for c, own in self.measurements.groupby("simulationConditionId")
        ]
        symbols: set[str] = set()
        first = [e for run in runs for e in run.first if e is not None]
        for e in (*model.equations, *seen, *first):
            symbols |= {s.name for s in e.free_symbols}
        overridden = {name for run in runs for name in run.overrides}
        names = tuple(sorted(symbols - {*model.states, "t"}))
        estimated, fixed = [], {}
        for name in names:
            if name in overridden:
                if name in model.parameters:
                    fixed[name] = float(model.parameters[name])
                continue
            if name in self.parameters.index and int(self.parameters.loc[name, "estimate"]):
                continue
            nominal = self.parameters["nominalValue"].get(name) if name in self.parameters.index else None
            value = model.parameters.get(name) if nominal is None else nominal
            if value is None:
                raise ValueError(f"equations_from_petab: expected a value of {name!r}, got none.")
            fixed[name] = float(value)
        used = {v for run in runs for v in run.overrides.values() if isinstance(v, str)} | set(names)
        for name, row in self.parameters.iterrows():
            if int(row["estimate"]) and name in used:
                estimated.append(self._parameter(str(name), row.to_dict()))
            elif not int(row["estimate"]) and name in used:
                fixed[str(name)] = float(row["nominalValue"])
        missing = [
            n for n in names if n not in fixed and n not in overridden and n not in self.parameters.index
        ]
        if missing:
            raise ValueError(f"equations_from_petab: expected values of {', '.join(missing)}, got none.")
        estimated, observables, seen = self._analytic(estimated, observables, seen)
        estimated = self._sized(estimated, fixed, runs, seen)
        names = tuple(n for n in names if n not in self.scales)
        problem = Problem(
            model.states,
            (),
            model.equations,
            tuple(observables),
            tuple(seen),
            names,
            fixed,
            tuple(estimated),
            tuple(runs),
            np.ones(len(model.states)),
        )
        nominal = self.parameters.get("nominalValue", pd.Series(dtype=float))
        return PetabEquations(problem, {str(k): float(v) for k, v in nominal.items() if pd.notna(v)})

    def _analytic(
        self, estimated: list[Parameter], observables: list[Observable], seen: "list[Expr]"
    ) -> "tuple[list[Parameter], list[Observable], list[Expr]]":
        """The same, where scales of errors that are parameters of their own are at their best throughout."""
        count = len(observables)
        by_name = {p.name: p for p in estimated}
        others = {s.name for e in (*self.model.equations, *seen[:count]) for s in e.free_symbols}
        others |= {s.name for e in seen[count:] if not e.is_Symbol for s in e.free_symbols}
        others |= {v for _, row in self.conditions.iterrows() for v in row if isinstance(v, str)}
        taken = {}
        for k, scale in enumerate(seen[count:]):
            own = by_name.get(scale.name) if scale.is_Symbol else None
            if own is not None and own.name not in others and own.prior is None:
                taken[k] = own
        self.scales = {p.name for p in taken.values()}
        means: list[Expr] = list(seen[:count])
        kept: list[Expr] = []
        found = []
        for k, observable in enumerate(observables):
            if k in taken:
                p = taken[k]
                found.append(replace(observable, scale_at=-1, group=p.name, least=p.low, most=p.high))
            else:
                found.append(replace(observable, scale_at=count + len(kept)))
                kept.append(seen[count + k])
        return [p for p in estimated if p.name not in self.scales], found, [*means, *kept]

    def _sized(
        self,
        estimated: list[Parameter],
        fixed: Mapping[str, float],
        runs: "Sequence[Run]",
        seen: "Sequence[Expr]",
    ) -> list[Parameter]:
        """The same parameters with the sizes that balance the terms of the equations."""
        import sympy

        span = float(self.measurements["time"].max()) or 1.0
        known = {name: abs(v) or 1.0 for name, v in fixed.items()} | {"t": span}
        for name, e in zip(self.model.states, runs[0].first, strict=True):
            if e is not None and e.is_number and float(e) != 0.0:
                known[name] = abs(float(e))
        values = self.measurements.groupby("observableId")["measurement"].apply(
            lambda v: np.sqrt(np.mean(v**2))
        )
        equalities = []
        for name, f in zip(self.model.states, self.model.equations, strict=True):
            equalities.append((sympy.expand_mul(f * span / 3.0) / sympy.Symbol(name, real=True), 1.0))
        for observable, mean in zip(self.observables.index, seen, strict=False):
            if values.get(observable, 0.0) > 0:
                equalities.append((mean, float(values[observable])))
        names = [p.name for p in estimated]
        names += [n for n in self.model.states if n not in known]
        used = {s.name for e in (*self.model.equations, *seen) for s in e.free_symbols}
        names += sorted(used - {*names, *known})
        sizes = natural_sizes([(sympy.expand_mul(f), s) for f, s in equalities], known, names)
        found = []
        for p in estimated:
            size = sizes[p.name] if p.scale is Scale.LOG else p.size
            found.append(
                replace(
                    p, size=float(np.clip(size, max(p.low, 1e-300), p.high)) if p.scale is Scale.LOG else size
                )
            )
        return found

    def _parameter(self, name: str, row: Mapping) -> Parameter:
        """An estimated parameter."""
        word = str(_given(row, "parameterScale", "lin"))
        scale = Scale.LINEAR if word == "lin" else Scale.LOG
        low = float(_given(row, "lowerBound", 0.0 if scale is Scale.LOG else -np.inf))
        high = float(_given(row, "upperBound", np.inf))
        ends = np.isfinite(low) and np.isfinite(high)
        middle = np.sqrt(low * high) if ends and low > 0 else 1.0
        size = float(middle) if scale is Scale.LOG else float(max(abs(low), abs(high)) if ends else 1.0)
        return Parameter(name, low, high, scale, size, self._prior(name, row, word))

    def _prior(self, name: str, row: Mapping, scale: str) -> Prior | None:
        word = str(_given(row, "objectivePriorType", "parameterScaleUniform"))
        if word in ("uniform", "parameterScaleUniform"):
            return None
        mean, deviation = (float(v) for v in str(row["objectivePriorParameters"]).split(";"))
        logs = scale in ("log", "log10")
        unit = _LN10 if scale == "log10" else 1.0
        if word == "normal" or (word == "parameterScaleNormal" and not logs):
            return Prior(mean, deviation)
        if word == "logNormal":
            return Prior(mean, deviation, True)
        if word == "parameterScaleNormal":
            return Prior(mean * unit, deviation * unit, True)
        raise ValueError(f"equations_from_petab: the prior {word!r} of {name!r} is not supported.")

    def _observed(self) -> tuple[list[int], list[Observable], "list[Expr]"]:
        """The kind of each measurement; observables with what their placeholders stand for."""
        import sympy

        place: dict[tuple, int] = {}
        kinds, means, scales, notes = [], [], [], []
        for _, row in self.measurements.iterrows():
            key = (
                str(row["observableId"]),
                str(_given(row, "observableParameters", "")),
                str(_given(row, "noiseParameters", "")),
            )
            if key not in place:
                place[key] = len(place)
                name, of_mean, of_noise = key
                own = self.observables.loc[name].to_dict()
                known = {}
                for kind, texts in (("observable", of_mean), ("noise", of_noise)):
                    for k, text in enumerate(texts.split(";") if texts else ()):
                        symbol = sympy.Symbol(f"{kind}Parameter{k + 1}_{name}", real=True)
                        known[symbol] = parse(text)
                means.append(self.formula(own["observableFormula"]).xreplace(known))
                scales.append(self.formula(own["noiseFormula"]).xreplace(known))
                notes.append((name, own))
            kinds.append(place[key])
        count = len(means)
        observables = []
        for k, (name, own) in enumerate(notes):
            transformation = str(_given(own, "observableTransformation", "lin"))
            laplace = str(_given(own, "noiseDistribution", "normal")) == "laplace"
            if transformation == "lin":
                errors = Errors.LAPLACE if laplace else Errors.NORMAL
            else:
                errors = Errors.LOG_LAPLACE if laplace else Errors.LOG_NORMAL
            unit = _LN10 if transformation == "log10" else 1.0
            observables.append(Observable(name, errors, k, count + k, unit))
        return kinds, observables, [*means, *scales]

    def _run(self, condition: str, own: pd.DataFrame, kinds: Sequence[int]) -> Run:
        """One condition, and what was measured under it."""
        model = self.model
        times = np.unique(own["time"].to_numpy(float))
        overrides: dict[str, float | str] = {}
        first = dict(model.initial)
        for name, value in self.conditions.loc[condition].items():
            if name == "conditionName" or (isinstance(value, float) and np.isnan(value)):
                continue
            if name in model.states:
                first[str(name)] = self.formula(value)
                continue
            try:
                overrides[str(name)] = float(value)
            except ValueError:
                overrides[str(name)] = str(value)
        return Run(
            times,
            0.0,
            tuple(first[name] for name in model.states),
            (),
            InputCurve.none(),
            np.searchsorted(times, own["time"].to_numpy(float)),
            np.array([kinds[k] for k in own.index], dtype=np.int64),
            own["measurement"].to_numpy(float),
            np.full(len(own), np.nan),
            overrides,
        )
