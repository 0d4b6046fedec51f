"""Stock pysindy and our `sindy` side by side in every setting: python -m tests.pysindy_release.equality.

Each optimizer, library and differentiation is fitted to the same records by both; the table, one row for each
setting, is written to ``equality.csv`` beside this file.
"""

import csv
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pysindy as ps
from scipy.integrate import solve_ivp
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge

import fim_dynsys

TABLE = Path(__file__).parent / "equality.csv"
COLUMNS = ("kind", "setting", "stock", "coefficients", "prediction", "score")

_FUNCTIONS = [lambda x: x, lambda x: x**2, lambda x, y: x * y]
_NAMES = [lambda x: x, lambda x: f"{x}^2", lambda x, y: f"{x} {y}"]


def _constraint() -> dict[str, Any]:
    """Equal and opposite coefficients of x0 and x1 in the first equation, among ten terms."""
    left = np.zeros((1, 30))
    left[0, [1, 2]] = 1.0
    return {"constraint_lhs": left, "constraint_rhs": np.zeros(1), "constraint_order": "target"}


def _trapping() -> Any:
    return ps.TrappingSR3(_n_tgts=3, _include_bias=True, reg_weight_lam=0.1, max_iter=10)


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "STLSQ()": ps.STLSQ,
    "STLSQ(threshold=0.5)": lambda: ps.STLSQ(threshold=0.5),
    "STLSQ(alpha=1)": lambda: ps.STLSQ(alpha=1.0),
    "STLSQ(normalize_columns)": lambda: ps.STLSQ(normalize_columns=True),
    "STLSQ(unbias=False)": lambda: ps.STLSQ(unbias=False),
    "SR3()": ps.SR3,
    "SR3(l1)": lambda: ps.SR3(regularizer="l1", reg_weight_lam=0.05),
    "SR3(l2)": lambda: ps.SR3(regularizer="l2", reg_weight_lam=0.05),
    "SR3(trimming)": lambda: ps.SR3(trimming_fraction=0.1),
    "SR3(weighted)": lambda: ps.SR3(regularizer="weighted_l1", reg_weight_lam=np.full((3, 10), 0.05)),
    "SR3(unbias, normalize_columns)": lambda: ps.SR3(unbias=True, normalize_columns=True),
    "ConstrainedSR3(equality)": lambda: ps.ConstrainedSR3(**_constraint(), equality_constraints=True),
    "ConstrainedSR3(inequality)": lambda: ps.ConstrainedSR3(
        **_constraint(), inequality_constraints=True, regularizer="l1"
    ),
    "StableLinearSR3()": lambda: ps.StableLinearSR3(reg_weight_lam=0.1),
    "TrappingSR3()": _trapping,
    "SR3(normalize_columns)": lambda: ps.SR3(normalize_columns=True),
    "FROLS()": ps.FROLS,
    "FROLS(kappa)": lambda: ps.FROLS(kappa=1e-3),
    "SSR()": ps.SSR,
    "SSR(model_residual)": lambda: ps.SSR(criteria="model_residual"),
    "EnsembleOptimizer(bagging)": lambda: ps.EnsembleOptimizer(ps.STLSQ(), bagging=True),
    "EnsembleOptimizer(library)": lambda: ps.EnsembleOptimizer(ps.STLSQ(), library_ensemble=True),
    "EnsembleOptimizer(both)": lambda: ps.EnsembleOptimizer(ps.STLSQ(), bagging=True, library_ensemble=True),
    "EnsembleOptimizer(SR3, mean)": lambda: ps.EnsembleOptimizer(
        ps.SR3(), bagging=True, ensemble_aggregator=lambda found: np.mean(found, axis=0)
    ),
    "WrappedOptimizer(LinearRegression)": lambda: ps.WrappedOptimizer(LinearRegression(fit_intercept=False)),
    "WrappedOptimizer(Lasso)": lambda: ps.WrappedOptimizer(Lasso(alpha=0.1, fit_intercept=False)),
    "WrappedOptimizer(Ridge)": lambda: ps.WrappedOptimizer(Ridge(alpha=0.1, fit_intercept=False)),
    "WrappedOptimizer(ElasticNet)": lambda: ps.WrappedOptimizer(ElasticNet(alpha=0.1, fit_intercept=False)),
}

LIBRARIES: dict[str, Callable[[], Any]] = {
    "PolynomialLibrary()": ps.PolynomialLibrary,
    "PolynomialLibrary(degree=1)": lambda: ps.PolynomialLibrary(degree=1),
    "PolynomialLibrary(degree=3)": lambda: ps.PolynomialLibrary(degree=3),
    "PolynomialLibrary(include_bias=False)": lambda: ps.PolynomialLibrary(include_bias=False),
    "PolynomialLibrary(include_interaction=False)": lambda: ps.PolynomialLibrary(include_interaction=False),
    "PolynomialLibrary(interaction_only)": lambda: ps.PolynomialLibrary(interaction_only=True),
    "FourierLibrary()": ps.FourierLibrary,
    "FourierLibrary(n_frequencies=3)": lambda: ps.FourierLibrary(n_frequencies=3),
    "FourierLibrary(include_cos=False)": lambda: ps.FourierLibrary(include_cos=False),
    "FourierLibrary(include_sin=False)": lambda: ps.FourierLibrary(include_sin=False),
    "CustomLibrary()": lambda: ps.CustomLibrary(_FUNCTIONS),
    "CustomLibrary(names)": lambda: ps.CustomLibrary(_FUNCTIONS, _NAMES),
    "CustomLibrary(include_bias)": lambda: ps.CustomLibrary(_FUNCTIONS, include_bias=True),
    "CustomLibrary(interaction_only=False)": lambda: ps.CustomLibrary(_FUNCTIONS, interaction_only=False),
    "IdentityLibrary()": lambda: ps.feature_library.IdentityLibrary(),
    "ConcatLibrary()": lambda: ps.PolynomialLibrary() + ps.FourierLibrary(),
    "TensoredLibrary()": lambda: ps.PolynomialLibrary(degree=1) * ps.FourierLibrary(),
    "GeneralizedLibrary()": lambda: ps.GeneralizedLibrary([ps.PolynomialLibrary(), ps.FourierLibrary()]),
    "GeneralizedLibrary(inputs)": lambda: ps.GeneralizedLibrary(
        [ps.PolynomialLibrary(), ps.FourierLibrary()], inputs_per_library=[[0, 1], [2]]
    ),
    "GeneralizedLibrary(tensor)": lambda: ps.GeneralizedLibrary(
        [ps.PolynomialLibrary(degree=1), ps.FourierLibrary()], tensor_array=[[1, 1]]
    ),
    "ParameterizedLibrary()": lambda: ps.ParameterizedLibrary(num_features=2, num_parameters=1),
    "PDELibrary(function_library)": lambda: ps.PDELibrary(function_library=ps.PolynomialLibrary(degree=2)),
    "PDELibrary(include_bias)": lambda: ps.PDELibrary(
        function_library=ps.PolynomialLibrary(degree=2, include_bias=False), include_bias=True
    ),
    "WeakPDELibrary()": lambda: ps.WeakPDELibrary(
        function_library=ps.PolynomialLibrary(degree=2, include_bias=False),
        spatiotemporal_grid=RECORD[0],
        K=50,
    ),
}

DIFFERENTIATIONS: dict[str, Callable[[], Any]] = {
    "FiniteDifference()": ps.FiniteDifference,
    "FiniteDifference(order=1)": lambda: ps.FiniteDifference(order=1),
    "FiniteDifference(order=4)": lambda: ps.FiniteDifference(order=4),
    "FiniteDifference(is_uniform)": lambda: ps.FiniteDifference(is_uniform=True),
    "FiniteDifference(drop_endpoints)": lambda: ps.FiniteDifference(drop_endpoints=True),
    "FiniteDifference(periodic)": lambda: ps.FiniteDifference(periodic=True, is_uniform=True),
    "SmoothedFiniteDifference()": ps.SmoothedFiniteDifference,
    "SmoothedFiniteDifference(window 15)": lambda: ps.SmoothedFiniteDifference(
        smoother_kws={"window_length": 15}
    ),
    "SmoothedFiniteDifference(save_smooth=False)": lambda: ps.SmoothedFiniteDifference(save_smooth=False),
    "SpectralDerivative()": ps.SpectralDerivative,
    "SINDyDerivative(finite_difference)": lambda: ps.SINDyDerivative(kind="finite_difference", k=1),
    "SINDyDerivative(savitzky_golay)": lambda: ps.SINDyDerivative(
        kind="savitzky_golay", left=0.5, right=0.5, order=3
    ),
    "SINDyDerivative(spectral)": lambda: ps.SINDyDerivative(kind="spectral"),
    "SINDyDerivative(spline)": lambda: ps.SINDyDerivative(kind="spline", s=1e-2),
    "SINDyDerivative(trend_filtered)": lambda: ps.SINDyDerivative(kind="trend_filtered", order=0, alpha=1e-2),
}


def _record() -> tuple[np.ndarray, np.ndarray]:
    t = np.arange(0.0, 4.0, 0.01)
    x = solve_ivp(
        lambda _, x: [10.0 * (x[1] - x[0]), x[0] * (28.0 - x[2]) - x[1], x[0] * x[1] - 8.0 / 3.0 * x[2]],
        (0.0, 4.0),
        [-8.0, 8.0, 27.0],
        t_eval=t,
        rtol=1e-10,
        atol=1e-10,
    ).y.T
    return t, x + 1e-3 * np.random.default_rng(0).normal(size=x.shape)


RECORD = _record()


def _fitted(made: Callable[..., Any], part: dict[str, Callable[[], Any]]) -> tuple[Any, dict[str, Any]]:
    """A model that was fitted, and what it answers."""
    t, x = RECORD
    np.random.seed(0)  # noqa: NPY002  # pysindy's ensembles and weak forms draw from numpy's global generator
    model = made(**{name: build() for name, build in part.items()})
    columns = x[:, :2] if isinstance(model.feature_library, ps.ParameterizedLibrary) else x
    u = x[:, 2:] if isinstance(model.feature_library, ps.ParameterizedLibrary) else None
    model.fit(columns, t=t, u=u)
    about = {} if u is None else {"u": u}
    answers = {"coefficients": np.asarray(model.coefficients())}
    if not isinstance(model.feature_library, ps.WeakPDELibrary):
        answers["prediction"] = np.asarray(model.predict(columns, **about))
        answers["score"] = np.asarray(model.score(columns, t=t, **about))
    return model, answers


def compared(kind: str, setting: str, part: dict[str, Callable[[], Any]]) -> dict[str, str]:
    """One row of the table: whether stock runs, and the largest differences where it does."""
    row = dict.fromkeys(COLUMNS, "") | {"kind": kind, "setting": setting}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _, stock = _fitted(ps.SINDy, part)
        except Exception as error:  # whatever stock cannot do is not compared
            return row | {"stock": f"{type(error).__name__}: {error}"[:100].replace("\n", " ")}
        row["stock"] = "runs"
        try:
            _, ours = _fitted(lambda **parts: fim_dynsys.load("sindy", **parts), part)
        except Exception as error:  # it is what the table is to show
            return row | {"coefficients": f"{type(error).__name__}: {error}"[:200].replace("\n", " ")}
    for name in ("coefficients", "prediction", "score"):
        if name in stock:
            same = stock[name].shape == ours[name].shape
            row[name] = f"{np.abs(stock[name] - ours[name]).max():g}" if same else "shapes differ"
    return row


def table() -> list[dict[str, str]]:
    """All settings; each kind with pysindy's defaults for the others."""
    kinds = {
        "optimizer": OPTIMIZERS,
        "feature_library": LIBRARIES,
        "differentiation_method": DIFFERENTIATIONS,
    }
    return [
        compared(kind, setting, {kind: build})
        for kind, settings in kinds.items()
        for setting, build in settings.items()
    ]


def unequal(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Settings that stock runs and that differ in a number."""
    numbers = ("coefficients", "prediction", "score")
    return [r for r in rows if r["stock"] == "runs" and any(r[name] not in ("", "0") for name in numbers)]


def main() -> int:
    """Write the table; exit status 0 where nothing differs."""
    rows = table()
    with TABLE.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for kind in ("optimizer", "feature_library", "differentiation_method"):
        own = [row for row in rows if row["kind"] == kind]
        runs = [row for row in own if row["stock"] == "runs"]
        print(f"{kind}: stock runs {len(runs)} of {len(own)}, equal {len(runs) - len(unequal(runs))}")
    for row in unequal(rows):
        print(row)
    return int(bool(unequal(rows)))


if __name__ == "__main__":
    sys.exit(main())
