"""Evidence of models as results: tables, weights, ensembles."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import xarray as xr

from fim_dynsys.comparison.posteriors import Posterior
from fim_dynsys.comparison.priors import Prior
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.symbolic import DrivenExpressions, SymbolicField
from fim_dynsys.trajectories.container import Trajectories

# Methods as tables show them.
_METHODS = {"nested": "nested sampling", "laplace": "Laplace's method", "linear": "linear regression"}


@dataclass(frozen=True, repr=False)
class ModelEvidence:
    """Evidence and posterior of one model.

    Attributes
    ----------
    name : str
        Of the model.
    expressions : tuple of str
        Right-hand sides in x0, x1, ... and the parameters.
    parameters : tuple of str
        Names; initial states follow in the draws as ``start[k, i]``.
    posterior : Posterior
        Log evidence, its error and draws.
    priors : dict of str to Prior
        Of the parameters.
    start_priors : tuple of Prior
        Of the initial states, in the order of the draws.
    narrow, wide : float
        Log evidence with priors of half and of twice the spread.
    context : Trajectories
        The observations, or the best fit's states at their times where some were hidden.
    data : Trajectories
        The observations.
    """

    name: str
    expressions: tuple[str, ...]
    parameters: tuple[str, ...]
    posterior: Posterior
    priors: dict[str, Prior]
    start_priors: tuple[Prior, ...]
    narrow: float
    wide: float
    context: Trajectories
    data: Trajectories

    @property
    def log_evidence(self) -> float:
        """Natural logarithm of the evidence."""
        return self.posterior.log_evidence

    @property
    def error(self) -> float:
        """Standard error of the log evidence; nan where the method does not know it."""
        return self.posterior.error

    @property
    def mean(self) -> dict[str, float]:
        """Posterior means of the parameters by name."""
        return dict(zip(self.parameters, map(float, self.posterior.draws.mean(axis=0)), strict=False))

    def fields(self, n: int, seed: int | Sequence[int] = 0) -> list[SymbolicField | DrivenExpressions]:
        """Fields with parameters drawn from the posterior.

        Parameters
        ----------
        n : int
            Number of fields.
        seed : int
            Of the choice among the draws.

        Returns
        -------
        list of SymbolicField, or of DrivenExpressions where there are inputs
        """
        chosen = np.random.default_rng(seed).integers(len(self.posterior.draws), size=n)
        inputs = self.context.input_names
        kind = partial(DrivenExpressions, input_names=inputs) if inputs else SymbolicField
        return [
            kind(
                self.expressions,
                dict(zip(self.parameters, draw, strict=False)),
                context=self.context,
                fit_info=FitInfo(report={"drawn from": self.name}),
            )
            for draw in self.posterior.draws[chosen]
        ]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.4g}" for name, value in self.mean.items())
        return f"ModelEvidence({self.name!r}, log evidence {self.log_evidence:.2f}, {values})"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>{self.to_dataframe().to_html(float_format='{:.4g}'.format)}"

    def to_dataframe(self) -> pd.DataFrame:
        """Mean, standard deviation and the middle 90 % of each parameter, indexed by its name."""
        draws = self.posterior.draws[:, : len(self.parameters)]
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        columns = {
            "mean": draws.mean(axis=0),
            "standard_deviation": draws.std(axis=0),
            "low": low,
            "high": high,
        }
        return pd.DataFrame(columns, index=pd.Index(self.parameters, name="parameter"))

    def to_xarray(self) -> xr.DataTree:
        """The posterior as a DataTree in ArviZ's layout.

        Returns
        -------
        xarray.DataTree
            Groups ``posterior`` (equally weighted; dims chain, draw), ``sample_stats`` (``logl``: log
            likelihood of the draws), ``weighted`` (all points with ``logl`` and ``logwt``, the logarithms of
            weights that sum to 1; dim sample) and ``observed_data``. Attributes: ``logz``, ``logzerr`` (nan
            where unknown), ``ncall``, ``information`` (nats).
        """
        found, names = self.posterior, self.context.state_names
        coords = {"chain": [0], "draw": np.arange(len(found.draws))}
        stats = {"logl": (("chain", "draw"), found.log_likelihood[found.chosen][None])}
        weighted = {"logl": ("sample", found.log_likelihood), "logwt": ("sample", found.log_weights)}
        attrs = {
            "model": self.name,
            "equations": "; ".join(self.expressions),
            "logz": self.log_evidence,
            "logzerr": self.error,
            "ncall": found.calls,
            "information": found.information,
        }
        groups = {
            "/": xr.Dataset(attrs=attrs),
            "posterior": xr.Dataset(
                self._variables(found.draws[None], ("chain", "draw")), {**coords, "state": list(names)}, attrs
            ),
            "sample_stats": xr.Dataset(stats, coords),
            "weighted": xr.Dataset(
                self._variables(found.points, ("sample",)) | weighted, {"state": list(names)}
            ),
            "observed_data": self.data.dataset[["x"]],
        }
        return xr.DataTree.from_dict(groups)

    def _variables(
        self, points: np.ndarray, dims: tuple[str, ...]
    ) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Parameters by name and initial states of points (..., q + P d)."""
        q, d = len(self.parameters), self.context.dim
        starts = points[..., q:].reshape(*points.shape[:-1], -1, d)
        named = {name: (dims, points[..., k]) for k, name in enumerate(self.parameters)}
        return named | {"initial_state": ((*dims, "piece", "state"), starts)}


@dataclass(frozen=True, repr=False)
class ModelComparison:
    """Models ranked by evidence.

    Attributes
    ----------
    models : tuple of ModelEvidence
        Best first.
    method : str
        How the evidence was found.

    Raises
    ------
    KeyError
        By ``comparison[name]``, if no model has that name.
    """

    models: tuple[ModelEvidence, ...]
    method: str

    def __getitem__(self, name: str) -> ModelEvidence:
        for model in self.models:
            if model.name == name:
                return model
        raise KeyError(f"ModelComparison: expected one of {[m.name for m in self.models]}, got {name!r}.")

    @property
    def probability(self) -> np.ndarray:
        """Posterior probabilities of the models, with equal prior probabilities (m,)."""
        return _softmax(np.array([model.log_evidence for model in self.models]))

    @property
    def probability_error(self) -> np.ndarray:
        """Standard errors (m,) of the probabilities that those of the evidences leave; nan where unknown."""
        values = np.array([model.log_evidence for model in self.models])
        errors = np.array([model.error for model in self.models])
        draws = values + errors * np.random.default_rng(0).standard_normal((2000, len(values)))
        return _softmax(draws).std(axis=0)

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        head = ("model", "parameters", "log evidence", "error", "narrow", "wide", "probability", "error")
        pairs = zip(self.models, self.probability, self.probability_error, strict=True)
        return head, [
            (
                m.name,
                str(len(m.parameters)),
                f"{m.log_evidence:.2f}",
                f"{m.error:.2f}",
                f"{m.narrow:.2f}",
                f"{m.wide:.2f}",
                f"{p:.3g}",
                f"{e:.2g}",
            )
            for m, p, e in pairs
        ]

    def __repr__(self) -> str:
        head, rows = self._rows()
        widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in [head, *rows]
        ]
        return "\n".join([f"Evidence by {_METHODS.get(self.method, self.method)}", *lines])

    def _repr_html_(self) -> str:
        head, rows = self._rows()
        cells = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in [head, *rows]]
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"

    def to_dataframe(self) -> pd.DataFrame:
        """Evidences and probabilities, a row for each model, best first."""
        return self.to_xarray().to_dataframe().loc[[m.name for m in self.models]]

    def to_xarray(self) -> xr.Dataset:
        """Evidences and probabilities as a Dataset over ``model``."""
        columns = {
            "log_evidence": [m.log_evidence for m in self.models],
            "log_evidence_error": [m.error for m in self.models],
            "log_evidence_narrow": [m.narrow for m in self.models],
            "log_evidence_wide": [m.wide for m in self.models],
            "probability": self.probability,
            "probability_error": self.probability_error,
        }
        data = {name: ("model", np.array(values, dtype=float)) for name, values in columns.items()}
        return xr.Dataset(data, {"model": [m.name for m in self.models]}, {"method": self.method})

    def ensemble(self, n: int = 20, seed: int = 0) -> EnsembleField:
        """Fields drawn from the posterior over models and parameters.

        Parameters
        ----------
        n : int
            Number of fields.
        seed : int
            Of the draws.

        Returns
        -------
        EnsembleField
        """
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(n, self.probability)
        fields = []
        for k, (model, count) in enumerate(zip(self.models, counts, strict=True)):
            fields += model.fields(int(count), seed=[seed, k]) if count else []
        return EnsembleField(fields)


def _softmax(values: np.ndarray) -> np.ndarray:
    shifted = np.exp(values - values.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)
