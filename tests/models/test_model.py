"""The surface that every model offers, held on a least-squares model with a known answer."""

import hashlib
import io
import itertools
import json
import os
import pickle
import signal
import warnings
import zipfile

import numpy as np
import pandas as pd
import pysindy
import pytest
import xarray as xr
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import mean_squared_error

import fim_dynsys
from fim_dynsys import CallableField, Region, SymbolicField, Trajectories, simulate
from fim_dynsys.errors import (
    DataWarning,
    DistillationWarning,
    FimDynsysWarning,
    FitWarning,
    IgnoredInputWarning,
    SimulationWarning,
)
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.inputs import as_trajectories
from fim_dynsys.models.members import bootstrap_context
from fim_dynsys.testing import check_field, check_model, check_scaling

A = np.array([[-0.1, 2.0], [-2.0, -0.1]])


class LeastSquares(VectorFieldModel):
    """Ridge regression of differences on monomials; solved exactly, so results are known."""

    name, version = "least-squares", "1"
    min_observations, max_dim, takes = 6, 3, frozenset({"x_dot"})
    scale_equivariance = 1e-6

    def __init__(self, degree=1, ridge=1e-12):
        self.degree = degree
        self.ridge = ridge

    def infer(self, trajectories, x_dot=None):
        data = trajectories.drop_incomplete(self.name)
        if x_dot is None or data is not trajectories:
            x_dot = [self.differentiate(x, t) for t, x in data.arrays()]
        dictionary = Dictionary.polynomial(data.dim, self.degree)
        columns = dictionary.evaluate(np.concatenate([x for _, x in data.arrays()]))
        normal = columns.T @ columns + self.ridge * np.eye(len(dictionary))
        coefficients = np.linalg.solve(normal, columns.T @ np.concatenate(x_dot))
        return DictionaryField(dictionary, coefficients, context=data)


class Kernel(VectorFieldModel):
    """A model whose field is no sum of terms: a kernel regression of differences."""

    name, version = "kernel", "1"
    max_dim = None

    def __init__(self, width=1.0):
        self.width = width

    def infer(self, trajectories):
        data = trajectories.drop_incomplete(self.name)
        x = np.concatenate([x for _, x in data.arrays()])
        slopes = np.concatenate([self.differentiate(x, t) for t, x in data.arrays()])
        return CallableField(KernelMean(x, slopes, self.width), data.dim, context=data)


class KernelMean:
    def __init__(self, x, y, width):
        self.x, self.y, self.width = x, y, width

    def __call__(self, points):
        square = ((points[:, None] - self.x) ** 2).sum(axis=2) / (2 * self.width**2)
        weights = np.exp(square.min(axis=1, keepdims=True) - square)
        return (weights[:, :, None] * self.y).sum(axis=1) / weights.sum(axis=1, keepdims=True)


@pytest.fixture
def fitted(damped):
    x, t = damped
    exact = [v @ A.T for v in x]
    return LeastSquares().fit(x, t, x_dot=exact, feature_names=["u", "v"])


@pytest.mark.parametrize("model", [LeastSquares, Kernel])
def test_contract(model):
    check_model(model)


class Remembering(LeastSquares):
    """Writes to itself what it saw last, in private."""

    def infer(self, trajectories, x_dot=None):
        self._last = trajectories
        return super().infer(trajectories, x_dot)


class Counting(LeastSquares):
    """Writes into an attribute, which stays the same object."""

    def __init__(self, degree=1, ridge=1e-12):
        super().__init__(degree, ridge)
        self._calls = []

    def infer(self, trajectories, x_dot=None):
        self._calls.append(len(trajectories))
        return super().infer(trajectories, x_dot)


@pytest.mark.parametrize(("model", "attribute"), [(Remembering, "_last"), (Counting, "_calls")])
def test_inference_that_changes_the_model_is_seen(model, attribute):
    with pytest.raises(AssertionError, match=f"infer: changed the model, in {attribute}"):
        check_model(model, cheap=True)


def test_the_cheap_contract_fits_less_often(monkeypatch):
    inferred = []
    infer = LeastSquares.infer
    monkeypatch.setattr(
        LeastSquares, "infer", lambda *data, **given: inferred.append(data) or infer(*data, **given)
    )
    check_model(LeastSquares, cheap=True)
    assert len(inferred) == 4


def test_exact_derivatives_give_the_exact_system(fitted):
    assert fitted.coefficients() == pytest.approx(np.column_stack([np.zeros(2), A]), abs=1e-10)
    assert fitted.get_feature_names() == ["1", "u", "v"]
    assert fitted.predict([1.0, 2.0]) == pytest.approx(A @ [1.0, 2.0], abs=1e-9)


def test_simulation_agrees_with_the_exponential(fitted, damped):
    (x, _), (t, _) = damped
    path = fitted.simulate(x[0], t, integrator_kws={"rtol": 1e-10, "atol": 1e-12})
    assert path == pytest.approx(x, abs=1e-8)
    backwards = fitted.simulate(
        x[-1], t[::-1], integrator_kws={"method": "LSODA", "rtol": 1e-10, "atol": 1e-12}
    )
    assert backwards[::-1] == pytest.approx(x, abs=1e-7)
    assert fitted.forecast(x[:2], t).x.shape == (2, len(t), 2)


def test_simulation_keeps_its_length_after_an_explosion():
    t = np.linspace(0.0, 0.8, 60)
    x = 1.0 / (1.0 - t)[:, None]  # dx/dt = x^2, infinite at t = 1
    model = LeastSquares(degree=2).fit(x, t, x_dot=x**2)
    with pytest.warns(SimulationWarning):
        path = model.simulate([1.0], np.linspace(0.0, 2.0, 21))
    assert path.shape == (21, 1)
    assert path[:9, 0] == pytest.approx(1.0 / (1.0 - np.linspace(0.0, 0.8, 9)), rel=1e-4)
    assert np.isnan(path[11:]).all()


def test_integrator_keywords(fitted):
    t = np.linspace(0.0, 1.0, 5)
    with pytest.warns(IgnoredInputWarning, match="first_step"):
        fitted.simulate([1.0, 0.0], t, integrator_kws={"first_step": 0.1, "rtol": 1e-5})
    with pytest.raises(ValueError, match=r"LSODA.*got 'magic'"):
        fitted.simulate([1.0, 0.0], t, integrator_kws={"method": "magic"})
    with pytest.raises(ValueError, match=r"solve_ivp.*got 'euler'"):
        fitted.simulate([1.0, 0.0], t, integrator="euler")


def test_differentiation_and_score_equal_pysindy(damped):
    rng = np.random.default_rng(3)
    t = np.sort(rng.uniform(0, 5, 80))
    x = np.stack([np.cos(2 * t), np.sin(3 * t)], axis=1)
    model = LeastSquares()
    expected = np.asarray(pysindy.FiniteDifference(axis=-2)(x, t))
    assert model.differentiate(x, t) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    reference = pysindy.SINDy(
        optimizer=pysindy.STLSQ(threshold=0.0, alpha=1e-12),
        feature_library=pysindy.PolynomialLibrary(degree=1),
    )
    xs, ts = damped
    reference.fit(xs, t=ts)
    model.fit(xs, ts)
    assert model.coefficients() == pytest.approx(reference.coefficients(), abs=1e-9)
    assert model.score(xs, ts) == pytest.approx(reference.score(xs, t=ts), abs=1e-12)
    assert model.score(xs, ts, metric=mean_squared_error) == pytest.approx(
        reference.score(xs, t=ts, metric=mean_squared_error), abs=1e-15
    )
    assert model.score(xs, ts, multioutput="variance_weighted") == pytest.approx(
        reference.score(xs, t=ts, multioutput="variance_weighted"), abs=1e-12
    )


def test_score_leaves_missing_observations_out(fitted, damped):
    (x, _), (t, _) = damped
    gaps = x.copy()
    gaps[10, 0] = np.nan
    assert fitted.score(gaps, t) == pytest.approx(fitted.score(x, t), abs=1e-3)


def test_print_in_plain_and_in_pysindys_style(fitted, capsys):
    fitted.print(precision=2)
    *equations, fit = capsys.readouterr().out.splitlines()
    assert equations == ["u' = -0.1 u + 2 v", "v' = -2 u - 0.1 v"]
    fitted.print(precision=2, style="pysindy")
    assert capsys.readouterr().out.splitlines()[:2] == [
        "(u)' = -0.10 u +  2.0 v",
        "(v)' = -2.0 u + -0.10 v",
    ]
    with pytest.raises(ValueError, match="expected style='plain' or 'pysindy', got 'latex'"):
        fitted.equations(style="latex")
    assert fit.startswith("(path R2 1, in short windows 1 and ") and fit.endswith(
        "noise levels left; follows the whole record (to 4.5); "
        "trust: limited (not compared with other equations))"
    )
    fitted.print(["du", "dv"], end=";")
    assert capsys.readouterr().out.startswith("du = -0.1 u")


def test_errors_that_are_not_known_are_said_and_the_equations_printed(fitted, capsys):
    fitted.print(errors=True)
    first, second, told, _ = capsys.readouterr().out.splitlines()
    assert (first, second) == ("u' = -0.1 u + 2 v", "v' = -2 u - 0.1 v")
    assert told.startswith("(no standard errors are known: ")


def test_other_fields_are_distilled_and_say_so(damped, capsys):
    x, t = damped
    model = Kernel(width=0.3).fit(x, t)
    with pytest.warns(DistillationWarning, match=r"kernel: .*residual 0\.\d+"):
        model.print()
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 4
    assert "relative residual" in printed[2]
    with pytest.warns(DistillationWarning):
        coefficients = model.coefficients()
    points = x[0][::10]
    columns = Dictionary.polynomial(2, 3).evaluate(points)
    error = np.abs(columns @ coefficients.T - model.predict(points)).max()
    assert error < 0.2 * np.abs(model.predict(points)).max()


def test_a_new_fit_is_distilled_anew(damped):
    x, t = damped
    model = Kernel(width=0.3).fit(x, t)
    with pytest.warns(DistillationWarning):
        first = model.coefficients()
        model.fit(x, [2 * s for s in t])
        second = model.coefficients()
    assert second == pytest.approx(first / 2, abs=1e-9)


@pytest.mark.parametrize("dimension", [1, 2])
def test_predict_shapes(dimension):
    t = np.linspace(0, 3, 30)
    x = np.stack([np.exp(-t), np.exp(-2 * t)], axis=1)[:, :dimension]
    model = LeastSquares().fit(x, t)
    assert model.predict(x[0]).shape == (dimension,)
    assert model.predict(list(x[0])).shape == (dimension,)
    assert model.predict(x.reshape(5, 6, dimension)).shape == (5, 6, dimension)
    assert [part.shape for part in model.predict((x, x[:2]))] == [(30, dimension), (2, dimension)]
    if dimension == 1:
        assert model.predict(x[:, 0]).shape == (30, 1)
        assert model.simulate(1.0, t).shape == (30, 1)


def test_dataarray_in_dataarray_out(damped):
    (x, _), (t, _) = damped
    labelled = xr.DataArray(x, dims=("time", "species"), coords={"time": t, "species": ["u", "v"]})
    model = LeastSquares().fit(labelled)
    assert model.feature_names == ["u", "v"]
    answer = model.predict(labelled)
    assert answer.dims == labelled.dims
    assert answer.values == pytest.approx(model.predict(x))
    again = LeastSquares().fit(labelled, 2 * t)
    assert again.feature_names == ["u", "v"]
    assert again.predict(x) == pytest.approx(model.predict(x) / 2, abs=1e-12)


def test_labelled_inputs_give_the_same_fit(damped):
    x, t = damped
    names = ["u", "v"]
    data = Trajectories.from_arrays(
        x, t, state_names=names, coords={"mu": [1.0, 2.0]}, units={"u": "m", "t": "s"}
    )
    expected = LeastSquares().fit(x, t).coefficients()
    for form in (data, data.dataset, data.to_dataframe().drop(columns="mu")):
        model = LeastSquares().fit(form)
        assert model.feature_names == names
        assert model.coefficients() == pytest.approx(expected, abs=1e-12)
    frame = pd.DataFrame(x[0], columns=names)
    assert LeastSquares().fit(frame, t[0]).feature_names == names
    renamed = as_trajectories(data, feature_names=["a", "b"])
    assert renamed.state_names == ("a", "b")
    assert renamed.units == {"a": "m", "t": "s"}
    assert list(renamed.coords["mu"]) == [1.0, 2.0]


def test_times_in_every_form(damped):
    (x, _), (t, _) = damped
    expected = LeastSquares().fit(x, t).coefficients()
    step = t[1] - t[0]
    forms = [(x, step), ([x], [t]), ([x, x], t), ((x, x), step), (x, list(t))]
    for values, times in forms:
        assert LeastSquares().fit(values, times).coefficients() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"t": None}, ["expected times t", "got None"]),
        ({"u": np.ones(5)}, ["inputs u of shape (101, m)", "got (5, 1)"]),
        ({"u": np.ones(101)}, ["least-squares", "no inputs u, got u0", "and 'sindy' take inputs"]),
        ({"feature_names": ["a"]}, ["expected 2 different state names", "got ('a',)"]),
        ({"x_dot": np.zeros((3, 2))}, ["x_dot of shapes", "(101, 2)", "(3, 2)"]),
        ({"x": np.zeros((3, 2)), "t": np.arange(3.0)}, ["at least 6 observed points", "got 3"]),
        ({"x": np.zeros((9, 4)), "t": np.arange(9.0)}, ["at most 3 states, got 4", "PCAReduction"]),
        ({"x": np.full((9, 2), np.nan), "t": np.arange(9.0)}, ["every state, got none of x0, x1"]),
    ],
)
def test_refused_fits_say_why_and_change_nothing(fitted, damped, change, words):
    (x, _), (t, _) = damped
    before = dict(vars(fitted))
    with pytest.raises(ValueError) as raised:
        fitted.fit(**{"x": x, "t": t} | change)
    assert all(word in str(raised.value) for word in words), raised.value
    assert vars(fitted) == before


def test_labelled_data_with_times_twice(damped):
    x, t = damped
    with pytest.raises(ValueError, match="expected t=None with Trajectories"):
        LeastSquares().fit(Trajectories.from_arrays(x, t), t[0])


def test_a_failing_inference_keeps_the_earlier_fit(damped):
    class Failing(LeastSquares):
        def infer(self, trajectories, x_dot=None):
            if self.degree == 2:
                raise ValueError("Failing: no")
            return super().infer(trajectories, x_dot)

    x, t = damped
    model = Failing().fit(x, t)
    field = model.field_
    with pytest.raises(ValueError, match="Failing: no"):
        model.set_params(degree=2).fit(x, t)
    assert model.field_ is field


def test_unfitted_models_say_so():
    with pytest.raises(NotFittedError, match=r"kernel: expected a fitted model.*call fit"):
        Kernel().predict([[0.0]])


def test_constant_coordinate_is_named(damped):
    (x, _), (t, _) = damped
    constant = np.column_stack([x[:, 0], np.full(len(x), 0.3)])
    with pytest.warns(DataWarning, match="constant over all observations: still"):
        LeastSquares(ridge=1e-6).fit(constant, t, feature_names=["moving", "still"])


def test_derivatives_without_use_warn_once(damped):
    x, t = damped
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Kernel().fit(x, t, x_dot=x)
    assert [w.category for w in caught if w.category is not FitWarning] == [IgnoredInputWarning]
    assert caught[0].filename == __file__


# ---------------------------------------------------------------------- ensembles


def test_ensemble_spread_is_the_standard_error():
    """Members of a linear fit spread as its coefficients do over repetitions of the noise."""
    t = np.linspace(0, 4, 60)

    def noisy(seed):
        rng = np.random.default_rng(seed)
        x = [a * np.exp(-0.5 * t) for a in np.linspace(0.5, 2.0, 30)]
        slopes = [-0.5 * v + 0.2 * rng.standard_normal(v.shape) for v in x]
        return x, slopes

    def slope(x, y):
        return float(np.concatenate(x) @ np.concatenate(y) / np.sum(np.square(x)))

    repeated = np.std([slope(*noisy(seed)) for seed in range(200)])

    class Slopes(VectorFieldModel):
        """Fits the slope against a second observed coordinate, which holds noisy derivatives."""

        name = "slopes"

        def infer(self, trajectories):
            x = np.concatenate([v for _, v in trajectories.arrays()])
            value = x[:, 0] @ x[:, 1] / (x[:, 0] @ x[:, 0])
            coefficients = np.array([[0.0, 0.0], [value, 0.0], [0.0, 0.0]])
            return DictionaryField(Dictionary.polynomial(2, 1), coefficients, context=trajectories)

    x, y = noisy(1000)
    pairs = [np.stack(pair, axis=1) for pair in zip(x, y, strict=True)]
    members = Slopes().fit(pairs, t).ensemble(200, seed=0)
    spread = np.std([member.coefficients[1, 0] for member in members])
    # both standard deviations are known to 5 %, and 30 trajectories estimate it to 13 %
    assert spread == pytest.approx(repeated, rel=0.35)


def test_blocks_are_stretches_of_the_series():
    t = np.linspace(0, 1, 41)
    data = Trajectories.from_arrays(np.stack([t, t**2], axis=1), t, coords={"mu": [3.0]}, units={"t": "s"})
    rng = np.random.default_rng(0)
    contexts = [bootstrap_context(data, rng, 4) for _ in range(50)]
    for context in contexts:
        assert sum(context.n_obs) == 44  # four blocks of eleven
        for own, x in context.arrays():
            assert np.diff(own) == pytest.approx(1 / 40)
            assert x[:, 1] == pytest.approx(own**2)
        assert set(context.coords["mu"]) == {3.0}
        assert context.units == {"t": "s"}
    starts = {round(40 * own[0]) for context in contexts for own, _ in context.arrays()}
    assert starts == set(range(31))


def test_eight_trajectories_are_resampled_whole_and_two_in_blocks(damped):
    x, t = damped  # of 101 and 81 samples
    rng = np.random.default_rng(1)
    many = Trajectories.from_arrays([*x, *x, *x, *x], [*t, *t, *t, *t])
    seen = [tuple(bootstrap_context(many, rng, 4).n_obs) for _ in range(60)]
    assert {n for own in seen for n in own} == {81, 101} and {len(own) for own in seen} == {8}
    few = Trajectories.from_arrays(x, t, coords={"mu": [1.0, 2.0]})
    contexts = [bootstrap_context(few, rng, 4) for _ in range(60)]
    assert {tuple(context.n_obs) for context in contexts} == {(26,) * 4 + (21,) * 4}
    for context in contexts:
        assert [float(mu) for mu in context.coords["mu"]] == [1.0 if n == 26 else 2.0 for n in context.n_obs]


def test_two_trajectories_spread_members_as_far_as_data_sets_do():
    """Whole, they have three resamples: 90 % of these held the true rate 4 times of 10."""
    field = SymbolicField(["v", "(1-x**2)*v-x"], state_names=["x", "v"])
    t, ends = np.linspace(0.0, 10.0, 100), np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]])
    paths = simulate(field, [[0.5, 0.5], [-2.5, 2.0]], t).x
    held = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        noisy = [x + 0.05 * rng.standard_normal(x.shape) for x in paths]
        members = fim_dynsys.load("sindy-strong").fit(noisy, t).ensemble(24, progress=False)
        low, high = np.quantile([member(ends)[:, 1] for member in members], [0.05, 0.95], axis=0)
        truth = field(ends)[:, 1]
        held += [*((low <= truth) & (truth <= high))]
    assert np.mean(held) > 0.75


def test_refit_hook_sees_the_first_fit(damped):
    class Keeping(LeastSquares):
        def _refit_member(self, field, context):
            return DictionaryField(field.dictionary, 2 * field.coefficients, context=context)

    x, t = damped
    model = Keeping().fit(x, t)
    assert model.ensemble(3)[2].coefficients == pytest.approx(2 * model.field_.coefficients)


# ---------------------------------------------------------------------- keeping


def test_closed_forms_are_restored_without_inference(fitted, tmp_path, monkeypatch):
    fitted.save(tmp_path / "model")
    monkeypatch.setattr(LeastSquares, "infer", None)
    again = fim_dynsys.load_fitted(tmp_path / "model", factory=LeastSquares)
    assert np.array_equal(again.coefficients(), fitted.coefficients())
    assert again.feature_names == ["u", "v"]
    assert again.get_params() == fitted.get_params()
    assert again.context_.equals(fitted.context_)
    check_field(again.field_)


class KernelField(CallableField):
    """A plugin's own class of fields, which can be kept."""

    def to_arrays(self):
        mean = self._fn
        return {"x": mean.x, "y": mean.y, "width": np.array(mean.width)}

    @classmethod
    def from_arrays(cls, arrays, **description):
        mean = KernelMean(arrays["x"], arrays["y"], float(arrays["width"]))
        return cls(mean, arrays["x"].shape[1], **description)


class KeptKernel(Kernel):
    field_classes = (KernelField,)

    def infer(self, trajectories):
        field = super().infer(trajectories)
        return KernelField(field._fn, field.dim, context=field.context)


def test_fields_of_a_plugin_are_kept(damped, tmp_path, monkeypatch):
    model = KeptKernel(width=0.4).fit(*damped)
    model.save(tmp_path)
    monkeypatch.setattr(KeptKernel, "infer", None)
    again = fim_dynsys.load_fitted(tmp_path, factory=KeptKernel)
    assert type(again.field_) is KernelField
    assert np.array_equal(again.predict(damped[0][0]), model.predict(damped[0][0]))
    with pytest.raises(ValueError, match=r"expected a saved field of class .*, got 'KernelField'; name the"):
        fim_dynsys.load_fitted(tmp_path, factory=Kernel)


def test_folders_of_format_1_are_read(fitted, tmp_path):
    fitted.save(tmp_path)
    _as_format_2(tmp_path)
    header = json.loads((tmp_path / "model.json").read_text())
    assert header.pop("content") == "DictionaryField"
    (tmp_path / "model.json").write_text(json.dumps(header | {"format_version": 1}))
    again = fim_dynsys.load_fitted(tmp_path, factory=LeastSquares)
    assert np.array_equal(again.coefficients(), fitted.coefficients())


def test_errors_of_two_numbers_of_earlier_formats_are_read(tmp_path):
    t = np.linspace(0, 8, 120)
    model = fim_dynsys.load("auto").fit(2.0 / (1.0 + 3.0 * np.exp(-t))[:, None], t)
    assert np.isfinite(model.field_.standard_errors).any()
    model.save(tmp_path)
    _as_format_2(tmp_path)
    with np.load(tmp_path / "field.npz") as stored:
        arrays = {name: stored[name] for name in stored.files if name != "shift"}
    name = "roots" if "roots" in arrays else "errors"
    assert not arrays[name][..., -1].any()
    np.savez(tmp_path / "field.npz", **{**arrays, name: arrays[name][..., :-1]})
    header = json.loads((tmp_path / "model.json").read_text())
    digest = hashlib.sha256((tmp_path / "field.npz").read_bytes()).hexdigest()
    _write_header(tmp_path, sha256=header["sha256"] | {"field.npz": digest})
    again = fim_dynsys.load_fitted(tmp_path)
    np.testing.assert_array_equal(again.field_.standard_errors, model.field_.standard_errors)
    assert again.equations(errors=True) == model.equations(errors=True)


def test_parameters_of_earlier_releases_without_effect_are_dropped(damped, tmp_path):
    model = fim_dynsys.load("fim-ode", refine=False).fit(*damped)
    model.save(tmp_path)
    _as_format_2(tmp_path)
    header = json.loads((tmp_path / "model.json").read_text())
    header["params"] |= {"attention": None, "precision": "float32"}
    (tmp_path / "model.json").write_text(json.dumps(header | {"format_version": 1}))
    again = fim_dynsys.load_fitted(tmp_path)
    assert again.get_params() == model.get_params()
    assert np.array_equal(again.coefficients(), model.coefficients())


def test_other_fields_are_inferred_again(damped, tmp_path):
    model = Kernel(width=0.4).fit(*damped)
    model.save(tmp_path)
    again = fim_dynsys.load_fitted(tmp_path, factory=Kernel)
    assert again.width == 0.4
    assert np.array_equal(again.predict(damped[0][0]), model.predict(damped[0][0]))


def test_support_survives_gaps(damped, tmp_path):
    (x, _), (t, _) = damped
    gaps = x.copy()
    gaps[20:40, 0] = np.nan
    with pytest.warns(DataWarning, match="dropped 20"):
        model = LeastSquares().fit(gaps, t)
    model.save(tmp_path)
    again = fim_dynsys.load_fitted(tmp_path, factory=LeastSquares)
    assert again.context_.equals(model.context_)
    assert np.array_equal(again.field_.support(x), model.field_.support(x))


def test_another_version_warns(fitted, tmp_path, monkeypatch):
    fitted.save(tmp_path)
    monkeypatch.setattr(LeastSquares, "version", "2")
    with pytest.warns(FimDynsysWarning, match=r"written by version 1 of least-squares.*version 2"):
        fim_dynsys.load_fitted(tmp_path, factory=LeastSquares)


def test_unregistered_models_need_their_factory(fitted, tmp_path):
    fitted.save(tmp_path)
    with pytest.raises(ValueError, match="registered model, got 'least-squares'"):
        fim_dynsys.load_fitted(tmp_path)


def test_parameters_that_json_cannot_hold(damped, tmp_path):
    x, t = damped
    model = LeastSquares().fit(x, t)
    model.ridge = {1e-9}  # a set
    with pytest.raises(ValueError, match=r"least-squares that JSON can hold, got ridge="):
        model.save(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def _write_header(folder, **changes):
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _file(folder, part):
    """The file of a folder that holds its context or its field."""
    (path,) = folder.glob(f"{part}-*")
    return path


def _as_format_2(folder):
    """What earlier releases wrote: fixed names."""
    header = json.loads((folder / "model.json").read_text())
    digests = {}
    for name, digest in header["sha256"].items():
        old = name.split("-")[0] + name[-3 if name.endswith(".nc") else -4 :]
        (folder / name).rename(folder / old)
        digests[old] = digest
    (folder / "model.json").write_text(json.dumps(header | {"format_version": 2, "sha256": digests}))


@pytest.mark.parametrize(
    ("damage", "error", "words"),
    [
        (lambda f: (f / "model.json").unlink(), FileNotFoundError, "without model.json"),
        (lambda f: (f / "model.json").write_text("{"), ValueError, "damaged file"),
        (lambda f: (f / "model.json").write_text("[]"), ValueError, "foreign"),
        (lambda f: _write_header(f, format_version=7), ValueError, "format_version 1 to 6.*got 7"),
        (lambda f: (f / "model.json").write_text("[" * 100_000), ValueError, "damaged file"),
        (lambda f: _write_header(f, content=None), ValueError, "well-formed content"),
        (lambda f: _write_header(f, params=[1]), ValueError, "well-formed params"),
        (lambda f: _write_header(f, sha256={"../x": "0"}), ValueError, "well-formed sha256"),
        (lambda f: _file(f, "context").write_bytes(b"no"), ValueError, "context-.*nc with sha256.*damaged"),
        (lambda f: _file(f, "field").unlink(), ValueError, "expected field-.*npz"),
    ],
)
def test_damaged_folders(fitted, tmp_path, damage, error, words):
    fitted.save(tmp_path)
    damage(tmp_path)
    with pytest.raises(error, match=words):
        fim_dynsys.load_fitted(tmp_path, factory=LeastSquares)


def _vouched(folder):
    """Make the header agree with a field.npz that was edited."""
    header = json.loads((folder / "model.json").read_text())
    header["sha256"]["field.npz"] = hashlib.sha256((folder / "field.npz").read_bytes()).hexdigest()
    (folder / "model.json").write_text(json.dumps(header))


def test_pickled_arrays_are_never_opened(fitted, tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    fitted.save(tmp_path)
    _as_format_2(tmp_path)
    np.savez(tmp_path / "field.npz", exponents=np.array([Trap()], dtype=object))
    _vouched(tmp_path)
    with pytest.raises(ValueError, match="plain arrays"):
        fim_dynsys.load_fitted(tmp_path, factory=LeastSquares)


def test_a_save_replaces_what_earlier_releases_wrote_and_nothing_else(fitted, damped, tmp_path):
    fitted.save(tmp_path)
    _as_format_2(tmp_path)
    assert np.array_equal(
        fim_dynsys.load_fitted(tmp_path, factory=LeastSquares).coefficients(), fitted.coefficients()
    )
    (tmp_path / "notes-field.npz").write_text("mine")
    fitted.save(tmp_path)
    names = {path.name.split("-")[0] for path in tmp_path.iterdir()}
    assert names == {"context", "field", "model.json", "notes"} and len(list(tmp_path.iterdir())) == 4


EDITS = {
    "no coefficients": lambda a: a.pop("coefficients"),
    "no exponents": lambda a: a.pop("exponents"),
    "no kind": lambda a: a.pop("kind"),
    "no scales": lambda a: a.pop("scales_time"),
    "NaN kinds": lambda a: a.update(kind=np.full(len(a["kind"]), np.nan)),
    "another kind": lambda a: a.update(kind=np.full(len(a["kind"]), 300)),
    "fractional exponents": lambda a: a.update(exponents=a["exponents"] + 0.5),
    "negative exponents": lambda a: a.update(exponents=a["exponents"] - 5),
    "huge exponents": lambda a: a.update(exponents=a["exponents"] * 10**9),
    "many monomials": lambda a: a.update(exponents=np.tile(a["exponents"] * 0 + 120, (20, 1))),
    "text": lambda a: a.update(coefficients=a["coefficients"].astype(str)),
    "booleans": lambda a: a.update(exponents=a["exponents"] > 0),
    "complex": lambda a: a.update(coefficients=a["coefficients"] + 0j),
    "infinite": lambda a: a.update(coefficients=a["coefficients"] * np.inf),
    "another shape": lambda a: a.update(coefficients=a["coefficients"].T[:1]),
    "a number": lambda a: a.update(exponents=np.array(3)),
    "NaN inside": lambda a: a.update(inner=a["inner"] * np.nan),
    "another coordinate": lambda a: a.update(coordinate=a["coordinate"] + 7),
    "two times": lambda a: a.update(scales_time=np.ones(2)),
    "zero length": lambda a: a.update(scales_length=np.zeros(2)),
    "NaN speed": lambda a: a.update(scales_speed=np.full(2, np.nan)),
    "a region upside down": lambda a: a.update(region_high=a["region_low"] - 1),
    "half a region": lambda a: a.pop("region_high"),
    "starts of text": lambda a: a.update(initial_states=np.array(["a", "b"])),
    "noise of another shape": lambda a: a.update(noise_level=np.ones(5)),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edited_arrays_are_refused(fitted, tmp_path, edit):
    fitted.save(tmp_path)
    _as_format_2(tmp_path)
    with np.load(tmp_path / "field.npz") as stored:
        arrays = dict(stored)
    EDITS[edit](arrays)
    np.savez(tmp_path / "field.npz", **arrays)
    _vouched(tmp_path)
    with pytest.raises(
        ValueError, match=r"expected (the arrays of a DictionaryField, got others|plain arrays)"
    ):
        fim_dynsys.load_fitted(tmp_path, factory=LeastSquares)


def test_nothing_is_allocated_for_shapes_that_the_file_does_not_hold(fitted, tmp_path):
    """A header of 128 bytes that declares 80 GB."""
    fitted.save(tmp_path)
    _as_format_2(tmp_path)
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<f8", "fortran_order": False, "shape": (10**5, 10**5)}
    )
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "field.npz", "w", method) as archive:
            archive.writestr("coefficients.npy", buffer.getvalue())
        _vouched(tmp_path)
        with pytest.raises(ValueError, match=r"plain arrays in .*(does not fit into|not stored as it is)"):
            fim_dynsys.load_fitted(tmp_path, factory=LeastSquares)


def _in_a_child(action):
    """Exit code of a forked process that runs an action; 0 where it returns True."""
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if action() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _killed_at(step, save):
    """Run `save` in a process that ends before the call number `step` that may change a folder."""
    calls = itertools.count(1)

    def ending(function):
        def call(*arguments, **options):
            if next(calls) == step:
                os._exit(9)
            return function(*arguments, **options)

        return call

    for name in ("replace", "fsync", "open", "unlink", "fstat", "mkdir"):
        setattr(os, name, ending(getattr(os, name)))
    save()
    return True


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")


@needs_fork
def test_a_save_that_is_killed_leaves_the_old_model_or_the_new_one(fitted, tmp_path):
    """The process ends before each system call that changes the folder, one after the other."""
    t = np.linspace(0.0, 6.0, 50)
    other = LeastSquares().fit(np.column_stack([np.cos(t), np.sin(t)]), t)
    fitted.save(tmp_path)
    met, code = set(), 9
    for step in itertools.count(1):
        code = _in_a_child(lambda step=step: _killed_at(step, lambda: other.save(tmp_path)))
        again = fim_dynsys.load_fitted(tmp_path, factory=LeastSquares)
        kept = again.feature_names == ["u", "v"]
        assert np.array_equal(again.coefficients(), (fitted if kept else other).coefficients())
        met.add(kept)
        if code != 9:
            break
        fitted.save(tmp_path)
    assert code == 0 and step > 10 and met == {True, False}
    assert len(list(tmp_path.iterdir())) == 3


@needs_fork
def test_a_full_disk_leaves_the_old_model(fitted, tmp_path):
    import resource

    def full():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
        with pytest.raises(OSError, match="File too large"):
            other.save(tmp_path)
        return True

    t = np.linspace(0.0, 6.0, 500)
    other = LeastSquares().fit(np.column_stack([np.cos(t), np.sin(t)]), t)
    fitted.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert _in_a_child(full) == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


# ---------------------------------------------------------------------- estimator


def test_scores_that_cannot_be_taken_say_why(fitted, damped):
    x, t = damped
    with pytest.raises(ValueError, match=r"expected a callable, 'path' or no metric, got 'foo'"):
        fitted.score(x, t, metric="foo")
    with pytest.raises(ValueError, match=r"at least 3 samples in each trajectory.*in \[0\]"):
        fitted.score(x[0][:2], t[0][:2])
    with pytest.raises(ValueError, match=r"observations of 2 states, got 1"):
        fitted.score(x[0][:, :1], t[0])
    with pytest.raises(ValueError, match=r"two complete samples"):
        fitted.score(np.full((5, 2), np.nan) + np.eye(5, 2) * 0, np.arange(5.0), x_dot=np.zeros((5, 2)))
    with pytest.raises(ValueError, match=r"score that is not finite|where it is not"):
        fitted.score(x[0] * 1e300, t[0])


def test_warnings_name_the_line_of_the_user(damped, tmp_path, monkeypatch):
    """Not one inside the package, so that it is found, and shown once for each place."""
    x, t = damped
    gaps, still = x[0].copy(), x[0].copy()
    gaps[3, 0], still[:, 1] = np.nan, 1.0
    model = Kernel(width=0.3).fit(x, t)
    grows = LeastSquares().fit(np.exp(np.arange(8.0))[:, None], np.arange(8.0))
    model.save(tmp_path)
    calls = {
        DataWarning: [lambda: LeastSquares().fit(gaps, t[0]), lambda: LeastSquares().fit(still, t[0])],
        FitWarning: [lambda: LeastSquares(ridge=1e6).fit(x[0], t[0])],
        IgnoredInputWarning: [lambda: Kernel(width=0.3).fit(x[0], t[0], x_dot=x[0])],
        SimulationWarning: [
            lambda: grows.simulate([1.0], np.linspace(0, 900.0, 5)),
            lambda: grows.forecast([1.0], np.linspace(0, 900.0, 5)),
        ],
        DistillationWarning: [model.print, model.coefficients],
    }
    for category, sources in calls.items():
        for source in sources:
            with pytest.warns(category) as caught:
                source()
            assert {w.filename for w in caught if w.category is category} == {__file__}
    with pytest.warns(SimulationWarning) as caught:  # a method that numpy decorates
        np.errstate(all="ignore")(grows.simulate)([1.0], np.linspace(0, 900.0, 5))
    assert caught[0].filename == __file__
    monkeypatch.setattr(Kernel, "version", "another")
    with pytest.warns(FimDynsysWarning, match="written by version") as caught:
        fim_dynsys.load_fitted(tmp_path, factory=Kernel)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("names", "got"),
    [("ab", "the text 'ab'"), (3, "3"), ({"a": 1}, "{'a': 1}"), ({"a"}, "{'a'}"), (np.array(1), "array")],
)
def test_names_that_are_no_list_are_refused(damped, names, got):
    with pytest.raises(ValueError, match=f"list of feature_names, got {got}"):
        LeastSquares().fit(*damped, feature_names=names)


def test_states_that_vary_by_less_than_arithmetic_resolves_are_refused(damped):
    x, t = damped
    with pytest.raises(ValueError, match=r"vary by 1e-250 at least or not at all, got .*e-300 of 'x0'"):
        LeastSquares().fit([1e-300 * v for v in x], t)


def test_derivatives_that_are_no_array_are_refused(damped):
    with pytest.raises(ValueError, match="expected x_dot as one array of real numbers, got Dataset"):
        LeastSquares().fit(*damped, x_dot=[xr.Dataset({"x": 1.0})])


@pytest.mark.parametrize(
    ("size", "pace", "what"),
    [
        (1e200, 1.0, "states of at most 1e.150"),
        (1.0, 1e200, "times from the first"),
        (1.0, 1e-200, "samples per unit of time"),
        (1e100, 1e-100, "rates of change"),
    ],
)
def test_numbers_whose_squares_overflow_are_refused(damped, size, pace, what):
    x, t = damped
    with pytest.raises(ValueError, match=f"least-squares: expected {what}.*change the units"):
        LeastSquares().fit([size * v for v in x], [pace * s for s in t])


@pytest.mark.parametrize("name", ["field_", "context_", "feature_names", "feature_names_"])
def test_what_only_a_fit_gives_says_so(name):
    with pytest.raises(NotFittedError, match=r"call fit\(x, t\) first"):
        getattr(LeastSquares(), name)
    assert not hasattr(LeastSquares(), name)


def test_clone_and_parameters():
    model = LeastSquares(degree=2)
    assert clone(model).get_params() == {"degree": 2, "ridge": 1e-12}
    assert repr(model) == "LeastSquares(degree=2)"


def test_display_escapes_names(damped):
    x, t = damped
    model = LeastSquares().fit(x, t, feature_names=["<b>", "v"])
    page = model._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<td>182</td>" in page
    assert model._repr_mimebundle_()["text/html"] == page


def test_pickling(fitted, damped):
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(damped[0][0]), fitted.predict(damped[0][0]))


# ---------------------------------------------------------------------- the contract notices


def _broken(**members):
    return type("Broken", (LeastSquares,), members)


class Impure(CallableField):
    """Adds a number that grows with each call."""

    def __init__(self, field):
        super().__init__(self._value, field.dim, context=field.context)
        self.inner, self.calls = field, 0

    def _value(self, x):
        self.calls += 1
        return self.inner(x) + self.calls


class Batched(CallableField):
    """Values depend on the other rows."""

    def __init__(self, field):
        super().__init__(lambda x: field(x) + x.mean(), field.dim, context=field.context)


@pytest.mark.parametrize(
    ("wrap", "complaint"),
    [
        (Impure, "a second call gives other values"),
        (Batched, "a row alone differs"),
        (
            lambda f: CallableField(f, f.dim, jac=lambda x: 1.1 * f.jacobian(x), context=f.context),
            "jacobian against",
        ),
        (lambda f: CallableField(lambda x: f(x) * np.nan, f.dim, context=f.context), "finite values"),
    ],
)
def test_check_field_notices(fitted, wrap, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_field(wrap(fitted.field_), pickling=False)


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        ({"fit": lambda self, *a, **k: (LeastSquares.fit(self, *a, **k), None)[1]}, "return the model"),
        (
            {"simulate": lambda self, x0, t, **k: LeastSquares.simulate(self, x0, t)[:-1]},
            "simulate: expected",
        ),
    ],
)
def test_check_model_notices(members, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_model(_broken(**members))


def test_check_scaling_notices():
    with pytest.raises(AssertionError, match="rescaled states and time: relative difference"):
        check_scaling(lambda: LeastSquares(ridge=1.0), 1e-3)


def test_region_and_scales_survive(damped, tmp_path):
    class Boxed(LeastSquares):
        def infer(self, trajectories, x_dot=None):
            field = super().infer(trajectories, x_dot)
            return DictionaryField(
                field.dictionary, field.coefficients, context=trajectories, region=Region([-9, -9], [9, 9])
            )

    model = Boxed().fit(*damped)
    model.save(tmp_path)
    again = fim_dynsys.load_fitted(tmp_path, factory=Boxed)
    assert again.field_.region == model.field_.region
    assert again.field_.scales.time == model.field_.scales.time


def test_a_step_that_does_not_fit_given_derivatives_is_an_error():
    t = np.arange(0.0, 5.0, 0.02)
    x = np.stack([np.cos(t), -np.sin(t)], axis=1)
    x_dot = np.stack([-np.sin(t), -np.cos(t)], axis=1)
    model = fim_dynsys.load("sindy-strong", refined=0)
    with pytest.raises(ValueError, match="time step"):
        model.fit(x, 1, x_dot=x_dot)
    model.fit(x, 0.02, x_dot=x_dot)
    np.testing.assert_allclose(model.predict(x), x_dot, atol=1e-3)


@pytest.mark.parametrize("name", ["sindy-strong", "fim-ode", "auto", "sindy"])
def test_a_state_that_was_never_observed_is_named(name):
    t = np.linspace(0.0, 6.0, 40)
    x = np.stack([np.cos(t), np.full(40, np.nan)], axis=1)
    with pytest.raises(ValueError, match=r"observations of every state, got none of v;"):
        fim_dynsys.load(name).fit(x, t, feature_names=["x", "v"])


def test_a_forecast_of_an_array_over_one_number_says_what_it_needs():
    t = np.linspace(0.0, 6.0, 40)
    x = np.stack([np.cos(t), -np.sin(t)], axis=1)
    model = fim_dynsys.load("sindy-strong").fit(x, t)
    with pytest.raises(ValueError, match=r"sindy-strong.forecast: expected times .* got 5.0; .*from_arrays"):
        model.forecast(x, 5.0)


def test_earlier_names_of_what_a_model_takes_still_count():
    with pytest.warns(DeprecationWarning, match='uses_sigma is called "sigma" in takes since version 0.2'):

        class Earlier(LeastSquares):
            uses_sigma, uses_x_dot = True, False

    assert Earlier.takes == {"sigma"} and LeastSquares.takes == {"x_dot"}
