"""SINDy: stock pysindy behind the common interface, and a strong version that tunes itself."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from fim_dynsys.errors import DataWarning, warn
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.equation_text import equation_text, refuse_errors
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.posterior import FittedField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.ordering import Ordered
from fim_dynsys.regression.observed import observe
from fim_dynsys.regression.smoothing import TIME_AWARE
from fim_dynsys.search.candidates import judge, propose, refit
from fim_dynsys.search.horizon import follows, gather_windowed, refine_over_windows, resolves_motion
from fim_dynsys.search.problem import Search
from fim_dynsys.search.pruning import improve, refine
from fim_dynsys.search.standard_errors import standard_errors
from fim_dynsys.trajectories.container import Trajectories

_SAID = (UserWarning, RuntimeWarning)  # what pysindy and scikit-learn say of the data
_MAX_MONOMIALS = 500  # whose normal matrices, one for each smoother and state, fill some hundred MB
_WHOLE, _WINDOWS = "the whole record", "times in which the state travels one standard deviation"


class SINDy(VectorFieldModel):
    """`pysindy.SINDy` as it comes, with the call surface of every other model.

    Coefficients equal those of `pysindy.SINDy` with the same objects. The objects given are cloned, never
    fitted in place.

    Parameters
    ----------
    optimizer : pysindy optimizer, optional
        Default ``pysindy.STLSQ()``.
    feature_library : pysindy feature library, optional
        Default ``pysindy.PolynomialLibrary()``, degree 2.
    differentiation_method : pysindy differentiation, optional
        Default ``pysindy.FiniteDifference(axis=-2)``.

    References
    ----------
    S. L. Brunton, J. L. Proctor, J. N. Kutz, Discovering governing equations from data by sparse
    identification of nonlinear dynamical systems, PNAS 113 (2016) 3932, eq. 5-8.
    """

    name = "sindy"
    version = "1"
    min_observations = 3
    uses_x_dot = True

    def __init__(
        self, optimizer: Any = None, feature_library: Any = None, differentiation_method: Any = None
    ) -> None:
        self.optimizer = optimizer
        self.feature_library = feature_library
        self.differentiation_method = differentiation_method

    def infer(self, trajectories: Trajectories, x_dot: Sequence[np.ndarray] | None = None) -> VectorField:
        """Fit `pysindy.SINDy` to all trajectories; `x_dot`, one array (n_i, d) each, saves differentiation.

        Raises
        ------
        ValueError
            A trajectory with fewer than three complete samples, unless `x_dot` is given.
        """
        x, t, x_dot = _complete(trajectories, x_dot)
        model = self._pysindy()
        if x_dot is None and min(map(len, x), default=0) < self.min_observations:
            raise ValueError(
                f"SINDy: expected at least {self.min_observations} complete samples in each trajectory, "
                f"got {min(map(len, x), default=0)}; leave the trajectory out or give x_dot."
            )
        names = list(trajectories.state_names)
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                model.fit(x, t=t, x_dot=x_dot, feature_names=names)
        except ValueError as error:  # numpy's and scipy's too: overflow in the normal equations
            raise ValueError(
                f"SINDy: expected observations that pysindy can regress, got its error {str(error)!r}; "
                "rescale states or times, or change the optimizer or library."
            ) from error
        for message in dict.fromkeys(str(w.message).strip() for w in said if issubclass(w.category, _SAID)):
            warn(f"SINDy: pysindy warns: {message}", DataWarning)
        info = FitInfo(
            initial_states=np.stack([v[0] for v in x]) if len(x) == trajectories.n_trajectories else None,
            report={"optimizer": repr(model.optimizer), "feature_library": repr(model.feature_library)},
        )
        coefficients = np.array(model.optimizer.coef_, dtype=np.float64).T
        if _is_polynomial(model.feature_library):
            powers = np.asarray(model.feature_library.powers_)
            return DictionaryField(Dictionary(powers), coefficients, context=trajectories, fit_info=info)
        return LibraryField(model, coefficients, context=trajectories, fit_info=info)

    def differentiate(self, x: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Derivatives (n, d) of samples by `differentiation_method`."""
        return np.asarray(self._pysindy().differentiation_method(x, t))

    def _pysindy(self) -> Any:
        import pysindy

        parts = {
            name: None if value is None else clone(value)
            for name, value in self.get_params(deep=False).items()
        }
        return pysindy.SINDy(**parts)

    def _symbolic_field(self) -> Any:
        field = self._fitted_field()
        return field if isinstance(field, LibraryField) else super()._symbolic_field()


class LibraryField(VectorField):
    """A field made of the columns of any fitted pysindy feature library.

    The Jacobian is the base class's fourth-order difference quotient.

    Parameters
    ----------
    model : pysindy.SINDy
        A fitted model; its library is evaluated.
    coefficients : array (m, d)
        One row per library column.
    **kwargs
        Passed to `VectorField`.
    """

    def __init__(self, model: Any, coefficients: np.ndarray, **kwargs: Any) -> None:
        super().__init__(coefficients.shape[1], **kwargs)
        self.model = model
        self.coefficients = coefficients

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        if not len(x):
            return np.zeros((0, self.dim))
        return np.asarray(self.model.feature_library.transform(x)) @ self.coefficients

    @property
    def complexity(self) -> int:
        """Number of coefficients that are not zero."""
        return int(np.count_nonzero(self.coefficients))

    def get_feature_names(self) -> list[str]:
        """Names of the library's columns."""
        return list(self.model.feature_library.get_feature_names(list(self.state_names)))

    def equations(self, precision: int = 3, errors: bool = False) -> list[str]:
        """Right-hand sides in pysindy's notation, `precision` significant digits; `errors` are not known."""
        if errors:
            refuse_errors(type(self).__name__)
        names = self.get_feature_names()
        return [equation_text(column, names, precision) for column in self.coefficients.T]


class StrongSINDy(VectorFieldModel):
    """Sparse regression that chooses smoother, degree and sparsity itself; nothing to tune, nothing trained.

    Slopes from nine time-aware smoothers are regressed on monomials of degree 1 to `degree` along ten sparse
    paths (thresholded least squares and backward elimination). Every candidate is integrated from its
    smoothed first state over the observation times and scored by its misfit to the noisy samples and the
    Bayesian information criterion. The best structures are then fitted to the trajectories themselves and
    stripped of terms that do not pay for themselves. Where none of them explains half of the variance of the
    samples from start to end though they are no mere noise, as on long chaotic records, the regressions are
    judged, and the best fitted, over windows in which the state travels one standard deviation instead.
    `field_.fit_info.report` says which candidate won, and over which horizon.
    At most 500 monomials are searched.
    Gaps of more than ten times the time in which the state travels one standard deviation (an oscillator
    turns one and a half times) are not bridged: what follows counts as another trajectory.

    Parameters
    ----------
    degree : int
        Largest total degree of the monomials.
    refined : int
        Number of structures fitted to the trajectories; 0 leaves it at the regression of slopes.

    References
    ----------
    S. L. Brunton, J. L. Proctor, J. N. Kutz, PNAS 113 (2016) 3932; N. M. Mangan, J. N. Kutz, S. L. Brunton,
    J. L. Proctor, Model selection for dynamical systems via sparse regression and information criteria, Proc.
    R. Soc. A 473 (2017) 20170009, sect. 2.
    """

    name = "sindy-strong"
    version = "4"
    min_observations = 5
    scale_equivariance = 1e-6

    def __init__(self, degree: int = 3, refined: int = 4) -> None:
        self.degree = degree
        self.refined = refined

    @np.errstate(all="ignore")  # what overflows is judged by what comes of it
    def infer(self, trajectories: Trajectories) -> DictionaryField:
        """Search on all trajectories together; those with a single complete sample say nothing."""
        order = Ordered.of(trajectories.drop_incomplete(self._who))
        search = Search.polynomial(self._samples(order.trajectories), self.degree)
        ranked = judge(search, propose(search, range(1, self.degree + 1)))
        if self.refined:
            ranked = improve(search, ranked, self.refined)
        horizon = _WHOLE
        if resolves_motion(search.observations) and not follows(search.observations, ranked[0]):
            horizon = _WINDOWS
            ranked = gather_windowed(search, self.refined, TIME_AWARE)
        best = ranked[0]
        report = {
            "chosen": best.origin,
            "judged over": horizon,
            "smoother": best.smoother,
            "refined": best.refined,
            "score": best.score,
            "candidates": len(ranked),
            "diverged": int(sum(not np.isfinite(c.score) for c in ranked)),
        }
        field = order.field(best.field(search, order.trajectories, report), trajectories)
        return FittedField.of(field, standard_errors if best.refined else None)

    def _refit_member(self, field: VectorField, context: Trajectories) -> DictionaryField:
        """Refit the chosen terms: to smoothed slopes, then to the trajectories if the fit did so."""
        assert isinstance(field, DictionaryField)
        search = Search(observe(self._samples(context)), field.dictionary)
        report = dict(field.fit_info.report)
        support = field.coefficients != 0
        candidate = refit(search, support, report["smoother"])
        if report["refined"] and support.any():
            if report.get("judged over") == _WINDOWS:
                again = refine_over_windows(search, candidate)
            else:
                again, _ = refine(search, candidate, search.observations.path)
            candidate = again if np.isfinite(again.score) else candidate
        return candidate.field(search, context, report)

    def _samples(self, trajectories: Trajectories) -> list[tuple[np.ndarray, np.ndarray]]:
        if not isinstance(self.degree, int) or self.degree < 1:
            raise ValueError(f"StrongSINDy: expected an integer degree >= 1, got {self.degree!r}.")
        if not isinstance(self.refined, int) or self.refined < 0:
            raise ValueError(f"StrongSINDy: expected an integer refined >= 0, got {self.refined!r}.")
        terms = math.comb(trajectories.dim + self.degree, self.degree)
        if terms > _MAX_MONOMIALS:
            raise ValueError(
                f"StrongSINDy: expected at most {_MAX_MONOMIALS} monomials, got {terms} of degree "
                f"{self.degree} in {trajectories.dim} states; lower the degree, or reduce the states first, "
                "for example with PCAReduction."
            )
        samples = [(t, x) for t, x in trajectories.drop_incomplete(self._who).arrays() if len(t) >= 2]
        if sum(len(t) for t, _ in samples) < self.min_observations:
            raise ValueError(
                f"StrongSINDy: expected at least {self.min_observations} complete samples in trajectories of "
                "two or more, got fewer; give more samples or longer trajectories."
            )
        return samples


def _complete(
    trajectories: Trajectories, x_dot: Sequence[np.ndarray] | None
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray] | None]:
    """Complete samples, their times and slopes as lists; trajectories left without any are dropped."""
    arrays = trajectories.arrays()
    if x_dot is None:
        arrays = [(t, x) for t, x in trajectories.drop_incomplete("SINDy").arrays() if len(t)]
        return [x for _, x in arrays], [t for t, _ in arrays], None
    rows = [
        np.isfinite(x).all(axis=1) & np.isfinite(v).all(axis=1)
        for (_, x), v in zip(arrays, x_dot, strict=True)
    ]
    kept = [(t[r], x[r], v[r]) for (t, x), v, r in zip(arrays, x_dot, rows, strict=True) if r.any()]
    t, x, v = (list(part) for part in zip(*kept, strict=True))
    return x, t, v


def _is_polynomial(library: Any) -> bool:
    import pysindy

    return type(library) is pysindy.PolynomialLibrary
