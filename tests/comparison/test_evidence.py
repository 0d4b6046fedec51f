"""Evidence: priors, noise integrated out, nested sampling against closed forms, models of models."""

import re
import warnings

import numpy as np
import pytest
import xarray as xr
from scipy.integrate import quad
from scipy.stats import multivariate_normal

import fim_dynsys
from benchmarks.evidence import __main__ as benchmark
from fim_dynsys import SymbolicField, Trajectories, evidence
from fim_dynsys.comparison import models, nested
from fim_dynsys.comparison.closed_forms import IntegralRegression, log_evidence_of_line
from fim_dynsys.comparison.likelihoods import NoiseLevel, TrajectoryLikelihood
from fim_dynsys.comparison.models import quadrature_check
from fim_dynsys.comparison.nested import sample_nested
from fim_dynsys.comparison.posteriors import Posterior
from fim_dynsys.comparison.priors import JointPrior, Prior, PriorKind
from fim_dynsys.comparison.quadrature import Peak, laplace, quadrature
from fim_dynsys.errors import SamplingWarning
from fim_dynsys.fields.expressions import parse
from fim_dynsys.regression.observed import observe
from fim_dynsys.simulation.solution import simulate

RNG = np.random.default_rng(8)
PRIORS = [
    Prior(PriorKind.NORMAL, 1.0, 2.0),
    Prior(PriorKind.UNIFORM, -1.0, 3.0),
    Prior(PriorKind.LOG_UNIFORM, 0.1, 20.0),
    Prior(PriorKind.LOG_UNIFORM, -20.0, -0.1),
]


class Line:
    """Normal log-likelihood of a straight line; at module level, so that it pickles."""

    def __init__(self, design, target, noise, interrupt_after=None):
        self.design, self.target, self.noise = design, target, noise
        self.left = interrupt_after

    def __call__(self, theta):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
        residuals = (self.target - self.design @ theta) / self.noise
        return float(-0.5 * residuals @ residuals - len(residuals) * np.log(self.noise * np.sqrt(2 * np.pi)))

    def __getstate__(self):
        return {**vars(self), "left": None}  # a resumed run is not interrupted again


X = np.column_stack([np.ones(25), np.linspace(-1, 1, 25)])
Y = X @ [0.4, -1.1] + 0.2 * RNG.normal(size=25)
LINE, LINE_PRIOR = Line(X, Y, 0.2), JointPrior((Prior(PriorKind.NORMAL, 0.0, 2.0),) * 2)
EXACT = log_evidence_of_line(X, Y, 0.2, np.full(2, 0.25))


# ---------------------------------------------------------------------- priors and noise


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: f"{p.kind.value} {p.first}")
def test_quantiles_and_densities_agree(prior):
    low, middle, high = (prior.quantile(u) for u in (1e-9, 0.3, 1 - 1e-9))
    shares = [
        quad(lambda v: np.exp(prior.log_density(v)), *ends)[0] for ends in ((low, middle), (middle, high))
    ]
    np.testing.assert_allclose(shares, [0.3, 0.7], atol=1e-6)
    if prior.kind is not PriorKind.NORMAL:
        assert prior.log_density(high + 1.0) == -np.inf


def test_wider_priors_have_the_same_centre():
    for prior in PRIORS:
        wide = prior.widened(2.0)
        assert wide.quantile(0.5) == pytest.approx(prior.quantile(0.5))
        spread = wide.quantile(0.9) - wide.quantile(0.1)
        assert spread > 1.5 * abs(prior.quantile(0.9) - prior.quantile(0.1))


IMPROPER = [("normal", 0, 0), ("uniform", 2, 1), ("loguniform", -1, 1), ("beta", 1, 2), 3, ("normal", 1)]


@pytest.mark.parametrize("given", IMPROPER)
def test_improper_priors_are_refused(given):
    with pytest.raises(ValueError, match="Prior: expected"):
        Prior.of(given)


@pytest.mark.parametrize("squares", [1e-3, 2.0, 40.0, 1e4])
def test_noise_is_integrated_over_its_range(squares):
    n, low, high = 30, 0.05, 2.0

    grid = np.linspace(np.log(low), np.log(high), 1_000_001)
    exponents = -n * grid - 0.5 * squares * np.exp(-2 * grid)
    peak = exponents.max()
    value = np.trapezoid(np.exp(exponents - peak), grid)
    expected = peak + np.log(value) - np.log(np.log(high / low)) - 0.5 * n * np.log(2 * np.pi)
    level = NoiseLevel(np.array([low]), np.array([high]))
    assert level.log_likelihood(np.array([squares]), n) == pytest.approx(expected, abs=1e-4)


# ---------------------------------------------------------------------- evidence of a line, three ways


def test_closed_form_is_the_marginal_density_of_the_data():
    covariance = X @ (4.0 * np.eye(2)) @ X.T + 0.04 * np.eye(25)
    _, determinant = np.linalg.slogdet(2 * np.pi * covariance)
    assert pytest.approx(-0.5 * (Y @ np.linalg.solve(covariance, Y) + determinant)) == EXACT


def test_laplace_and_quadrature_are_exact_on_a_line():
    peak = Peak.near(LINE, LINE_PRIOR, [0.0, 0.0])
    found = laplace(LINE, peak)
    assert found.log_evidence == pytest.approx(EXACT, abs=1e-6)
    assert quadrature(LINE, LINE_PRIOR, peak, nodes=5) == pytest.approx(EXACT, abs=1e-6)
    covariance = np.linalg.inv(X.T @ X / 0.04 + 0.25 * np.eye(2))
    np.testing.assert_allclose(peak.axes @ peak.axes.T, covariance, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(np.cov(found.draws.T), covariance, atol=0.15 * covariance.max())


def test_nested_sampling_agrees_with_the_closed_form():
    found = sample_nested(LINE, LINE_PRIOR, live_points=150, seed=1, progress=False)
    assert 0.0 < found.error < 0.5
    assert abs(found.log_evidence - EXACT) < 4 * found.error
    covariance = np.linalg.inv(X.T @ X / 0.04 + 0.25 * np.eye(2))
    mean = covariance @ X.T @ Y / 0.04
    assert (np.abs(found.draws.mean(axis=0) - mean) < 5 * np.sqrt(np.diagonal(covariance) / 100)).all()
    wide = JointPrior((Prior(PriorKind.NORMAL, 0.0, 3.0),) * 2)
    exact = log_evidence_of_line(X, Y, 0.2, np.full(2, 1 / 9))
    shift = found.log_evidence_under(LINE_PRIOR, wide) - found.log_evidence
    assert shift == pytest.approx(exact - EXACT, abs=0.1)


def test_an_interrupted_run_goes_on(monkeypatch, tmp_path):
    monkeypatch.setattr(nested.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(nested, "_CHECKPOINT_SECONDS", 0)
    options = {"live_points": 30, "seed": 3, "progress": False, "resume": True}
    with pytest.raises(KeyboardInterrupt):
        sample_nested(Line(X, Y, 0.2, interrupt_after=200), LINE_PRIOR, **options)
    (kept,) = tmp_path.glob("*/*.checkpoint")
    assert kept.parent.stat().st_mode & 0o077 == 0
    rest = Line(X, Y, 0.2)
    calls = []
    original = Line.__call__
    monkeypatch.setattr(Line, "__call__", lambda self, theta: (calls.append(1), original(self, theta))[1])
    found = sample_nested(rest, LINE_PRIOR, **options)
    assert abs(found.log_evidence - EXACT) < 4 * found.error
    assert found.calls - len(calls) > 100  # those before the interruption count
    assert not kept.exists()


def test_a_folder_of_others_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setattr(nested.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = tmp_path / f"fim-dynsys-{nested.os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ValueError, match="only its owner may enter"):
        sample_nested(LINE, LINE_PRIOR, live_points=20, progress=False, resume=True)


def test_a_posterior_without_a_peak_is_refused():
    flat = JointPrior((Prior(PriorKind.UNIFORM, -1.0, 1.0),))
    with pytest.raises(ValueError, match=r"Peak\.near: expected a peak"):
        Peak.near(lambda theta: 0.0, flat, [0.2])


# ---------------------------------------------------------------------- evidence of equations


def growth(model, n=40, sigma=0.05, seed=0):
    fields = {
        "logistic": SymbolicField(["r*x0*(1 - x0/K)"], {"r": 1.0, "K": 2.0}),
        "gompertz": SymbolicField(["-r*x0*log(x0/K)"], {"r": 0.7, "K": 2.0}),
    }
    t = np.linspace(0.0, 8.0, n)
    x = simulate(fields[model], [0.1], t).x[0]
    return Trajectories.from_arrays(x * (1 + sigma * np.random.default_rng(seed).normal(size=x.shape)), t)


MODELS = {"logistic": ["r*x0*(1 - x0/K)"], "gompertz": ["-r*x0*log(x0/K)"]}
GROWTH_PRIORS = {"r": ("loguniform", 0.1, 10.0), "K": ("loguniform", 0.2, 20.0)}


def test_a_field_whose_solution_is_a_line_has_the_closed_form():
    t = np.linspace(0.0, 2.0, 30)
    y = 0.5 + 1.3 * t + 0.1 * RNG.normal(size=30)
    found = evidence(
        {"drift": ["c"]}, Trajectories.from_arrays(y, t), {"c": ("normal", 0.0, 2.0)}, 0.1, "laplace"
    )
    model = found["drift"]
    (start,) = model.start_priors
    design, centre = np.column_stack([t, np.ones(30)]), np.array([0.0, start.first])
    precision = 1.0 / np.array([2.0, start.second]) ** 2
    exact = log_evidence_of_line(design, y - design @ centre, 0.1, precision)
    assert model.log_evidence == pytest.approx(exact, abs=1e-4)
    assert model.mean["c"] == pytest.approx(1.3, abs=0.2)


@pytest.mark.parametrize("method", ["laplace", "linear"])
def test_a_known_noise_level_is_that_of_all_samples(method):
    """The data may suggest errors that grow with the state: then evidences were up to some nats off."""
    t = np.linspace(0.0, 4.0, 15)
    design = np.column_stack([t, np.ones(15)])
    covariance = 0.09 * np.eye(15) + design @ np.diag([4.0, 9.0]) @ design.T
    priors = {"a": ("normal", 0.0, 2.0), "x(0)": ("normal", 0.5, 3.0)}
    suggested = 0
    for seed in range(10):
        y = 1.0 + 0.7 * t + 0.3 * np.random.default_rng(seed).standard_normal(15)
        data = Trajectories.from_arrays(y, t, state_names=["x"])
        suggested += np.ptp(observe(data.arrays()).weights[0]) > 0.1
        found = evidence({"line": ["a"]}, data, priors, noise=0.3, method=method)["line"]
        exact = multivariate_normal(design @ [0.0, 0.5], covariance).logpdf(y)
        assert found.log_evidence == pytest.approx(exact, abs=1e-6), seed
    assert suggested > 1


def test_t_is_the_time():
    """x' = -a t x: its evidence by a sum over a grid of the exact solution."""
    t = np.linspace(0.0, 3.0, 31)
    y = 2.0 * np.exp(-0.15 * t**2) + 0.05 * np.random.default_rng(0).standard_normal(31)
    data = Trajectories.from_arrays(y, t, state_names=["x"])
    priors = {"a": ("normal", 0.0, 1.0), "x(0)": ("normal", 2.0, 1.0)}
    models = ({"later": ["-a*t*x"], "even": {"x": "-a*x"}}, [[parse("-a*t*x")]])
    found = [evidence(given, data, priors, noise=0.05, method="laplace").models[0] for given in models]
    a, x0 = np.meshgrid(np.linspace(0.2, 0.4, 201), np.linspace(1.8, 2.2, 201), indexing="ij")
    off = y - x0[..., None] * np.exp(-0.5 * a[..., None] * t**2)
    density = -0.5 * np.sum(off**2, axis=-1) / 0.05**2 - 31 * np.log(0.05 * np.sqrt(2.0 * np.pi))
    density += -0.5 * a**2 - 0.5 * (x0 - 2.0) ** 2 - np.log(2.0 * np.pi)
    exact = np.log(np.sum(np.exp(density - density.max())) * 0.001 * 0.002) + density.max()
    for model in found:
        assert model.log_evidence == pytest.approx(exact, abs=0.02)  # of Laplace's approximation
        assert model.parameters == ("a",)
    assert found[0].name == "later"
    (field,) = found[0].fields(1)
    assert field.input_names == ("time",)
    # a state, or the parameter of a field, may be called so
    named = SymbolicField(["-t*x0"], {"t": 0.3})
    assert evidence([named], data, noise=0.05, method="laplace").models[0].parameters == ("t",)
    state = evidence({"own": {"t": "-a*t"}}, data, noise=0.05, method="laplace", observed=["t"])
    assert state.models[0].parameters == ("a",)


def test_a_failure_names_model_and_parameters():
    priors = {"a": ("uniform", 0.0, 1.0), "b": ("uniform", 0.0, 1.0)}
    with pytest.raises(ValueError, match=r"evidence of flat: expected a peak .* a = .*, b = .*x0\(0\) ="):
        evidence({"flat": ["a*b*x0"]}, growth("logistic"), priors, noise=0.05, method="laplace")


@pytest.mark.parametrize("noise", [0.1, None])
def test_the_closed_form_of_a_drift_needs_no_path(noise):
    t = np.linspace(0.0, 2.0, 30)
    x = np.column_stack([0.5 + 1.3 * t, 2.0 - 0.4 * t]) + 0.1 * RNG.normal(size=(30, 2))
    data, priors = Trajectories.from_arrays(x, t), {"c": ("normal", 0.0, 2.0), "e": ("normal", 0.0, 1.0)}
    linear, laplaced = (
        evidence({"drift": ["c", "e - 0.1"]}, data, priors, noise, method)["drift"]
        for method in ("linear", "laplace")
    )
    _, exact = quadrature_check(["c", "e - 0.1"], data, priors, noise, nodes=7)
    # where the noise is integrated over, the tails are those of Student's t, which seven nodes cut off
    assert linear.log_evidence == pytest.approx(exact, abs=0.01 if noise is None else 1e-4)
    for name in ("c", "e"):
        assert linear.mean[name] == pytest.approx(laplaced.mean[name], abs=0.01)
    assert linear.posterior.information == pytest.approx(laplaced.posterior.information, abs=0.5)
    assert linear.wide < linear.log_evidence  # the slopes are small for these priors


def test_an_unknown_noise_level_is_integrated_over_in_closed_form_too():
    level = NoiseLevel(np.array([0.02]), np.array([2.0]))
    regression = IntegralRegression(X, Y, np.ones(25), np.zeros(25, dtype=int))
    found = regression.posterior(np.zeros(2), np.full(2, 2.0), level)
    grid = np.linspace(np.log(0.02), np.log(2.0), 4001)
    along = np.array([log_evidence_of_line(X, Y, np.exp(g), np.full(2, 0.25)) for g in grid])
    mean = np.trapezoid(np.exp(along - along.max()), grid) / (grid[-1] - grid[0])
    assert found.log_evidence == pytest.approx(along.max() + np.log(mean), abs=1e-6)


@pytest.mark.parametrize("truth", ["logistic", "gompertz"])
def test_the_linear_screen_prefers_the_truth(truth):
    forms = {"logistic": ["a*x0 - b*x0**2"], "gompertz": ["a*x0 - b*x0*log(x0)"]}
    found = evidence(forms, growth(truth), method="linear")
    assert found.models[0].name == truth
    # logistic: a = r, b = r / K; Gompertz: a = r log K, b = r; smoothing leaves a few per cent
    expected = {"logistic": (1.0, 0.5), "gompertz": (0.7 * np.log(2.0), 0.7)}[truth]
    mean = found.models[0].mean
    np.testing.assert_allclose([mean["a"], mean["b"]], expected, rtol=0.1)


def test_failing_solves_have_finite_floors_below_all_others():
    observations = observe(growth("logistic").arrays())
    level = NoiseLevel(np.array([0.01]), np.array([1.0]))
    likelihood = TrajectoryLikelihood(["r*x0**3"], ["r"], observations, level)
    good = likelihood(np.array([1e-3, 0.1]))
    bad = [likelihood(np.array([r, 5.0])) for r in (1.0, 2.0, 50.0)]
    assert np.isfinite([good, *bad]).all()
    assert max(bad) < -1e9 < good
    assert len(set(bad)) == 3
    missing = TrajectoryLikelihood(["-r*x0**0.5"], ["r"], observations, level)
    assert -2e10 - 10 < missing(np.array([5.0, 0.1])) < -1e9  # the state becomes negative: not a number


def test_likelihood_is_that_of_the_exact_solution():
    data = growth("logistic")
    observations = observe(data.arrays())
    ((t, x),) = data.arrays()
    residuals = x[:, 0] - 1.7 * np.exp(-0.4 * t)
    guessed = observations.weights[0][: len(t), 0]
    assert np.ptp(guessed) > 0.1  # the data suggest errors that grow with the state
    # the weights are those of the guess where the level is not known
    for high, weights in ((0.1, np.ones(len(t))), (0.1 * (1.0 + 1e-9), guessed)):
        level = NoiseLevel(np.array([0.1]), np.array([high]))
        likelihood = TrajectoryLikelihood(["-k*x0"], ["k"], observations, level)
        expected = np.sum(0.5 * np.log(weights / (2 * np.pi * 0.01)) - 0.5 * weights * residuals**2 / 0.01)
        assert likelihood(np.array([0.4, 1.7])) == pytest.approx(expected, rel=1e-6)


@pytest.fixture(scope="module")
def compared():
    return evidence(MODELS, growth("gompertz"), GROWTH_PRIORS, live_points=60, seed=2, progress=False)


def test_the_true_model_is_preferred(compared):
    assert compared.models[0].name == "gompertz"
    assert compared.probability[0] > 0.99
    assert compared.probability_error[0] < 0.01
    screen = evidence(MODELS, growth("gompertz"), GROWTH_PRIORS, method="laplace")
    for name in MODELS:
        difference = compared[name].log_evidence - screen[name].log_evidence
        assert abs(difference) < 4 * compared[name].error + 0.3  # of Laplace's approximation
    assert np.isnan(screen["gompertz"].error)
    assert np.isnan(screen.probability_error).all()
    mean, spread = compared["gompertz"].mean, compared["gompertz"].posterior.draws.std(axis=0)
    assert abs(mean["K"] - 2.0) < 4 * spread[0]
    assert abs(mean["r"] - 0.7) < 4 * spread[1]


def test_priors_show_in_the_table(compared):
    model = compared["gompertz"]
    # log-uniform priors of twice the width halve the density of each of the two parameters
    assert model.wide == pytest.approx(model.log_evidence - 2 * np.log(2.0), abs=1e-9)
    assert model.narrow == pytest.approx(model.log_evidence + 2 * np.log(2.0), abs=0.1)
    lines = repr(compared).splitlines()
    assert lines[0] == "Evidence by nested sampling"
    assert lines[2].startswith("gompertz")
    assert "<table>" in compared._repr_html_()


def test_posterior_is_a_tree_that_arviz_reads(compared, tmp_path):
    tree = compared["logistic"].to_xarray()
    assert set(tree.children) == {"posterior", "sample_stats", "weighted", "observed_data"}
    draws = len(compared["logistic"].posterior.draws)
    assert dict(tree["posterior"].sizes) == {"chain": 1, "draw": draws, "piece": 1, "state": 1}
    assert tree["sample_stats"]["logl"].dims == ("chain", "draw")
    weights = np.exp(tree["weighted"]["logwt"])
    assert float(weights.sum()) == pytest.approx(1.0)
    # equally weighted draws are the weighted points: means within a few standard errors
    error = float(tree["posterior"]["K"].std()) / np.sqrt(draws)
    assert abs(float((weights * tree["weighted"]["K"]).sum() - tree["posterior"]["K"].mean())) < 4 * error
    assert tree.attrs["logz"] == compared["logistic"].log_evidence
    tree.to_netcdf(tmp_path / "posterior.nc", engine="h5netcdf")
    again = xr.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf")
    np.testing.assert_array_equal(again["posterior"]["K"], tree["posterior"]["K"])
    table = compared.to_xarray()
    assert table["probability"].sel(model="gompertz") == compared.probability[0]


@pytest.mark.filterwarnings("ignore")  # ArviZ announces its next version at import
def test_arviz_opens_the_posterior_itself(compared, tmp_path):
    import arviz

    model = compared["logistic"]
    model.to_xarray().to_netcdf(tmp_path / "posterior.nc", engine="h5netcdf")
    read = arviz.from_netcdf(tmp_path / "posterior.nc")
    assert set(read.groups()) == {"posterior", "sample_stats", "weighted", "observed_data"}
    summary = arviz.summary(read)
    assert list(summary.index) == ["K", "r", "initial_state[0, x0]"]
    np.testing.assert_allclose(summary["mean"], model.posterior.draws.mean(axis=0), atol=6e-4)  # 3 digits
    interval = arviz.hdi(read, hdi_prob=0.9, var_names=["K"])["K"].values
    inside = (model.posterior.draws[:, 0] >= interval[0]) & (model.posterior.draws[:, 0] <= interval[1])
    assert inside.mean() == pytest.approx(0.9, abs=0.01)


def test_a_missed_peak_is_warned_of(compared, monkeypatch):
    def elsewhere(likelihood, prior, *_):
        points = prior(np.full(len(prior.priors), 0.9)) + np.zeros((5, 1))
        return Posterior.of_draws(0.0, points, np.array([likelihood(point) for point in points]), 5)

    monkeypatch.setattr(models, "sample_nested", elsewhere)
    with pytest.warns(SamplingWarning, match="evidence of logistic: .* nats above all") as caught:
        evidence({"logistic": MODELS["logistic"]}, growth("logistic"), GROWTH_PRIORS)
    assert [warning.filename for warning in caught] == [__file__]
    found = compared["gompertz"]
    monkeypatch.setattr(models, "sample_nested", lambda *_: found.posterior)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SamplingWarning)
        evidence({"gompertz": MODELS["gompertz"]}, growth("gompertz"), GROWTH_PRIORS)


def test_draws_come_from_models_by_their_probability(compared):
    ensemble = compared.ensemble(30, seed=1)
    assert len(ensemble) == 30
    assert {field.fit_info.report["drawn from"] for field in ensemble} == {"gompertz"}
    values = np.array([field(np.array([1.0]))[0] for field in ensemble])
    assert np.mean(values) == pytest.approx(0.7 * np.log(2.0), abs=4 * values.std())
    again = compared.ensemble(30, seed=1)
    np.testing.assert_array_equal(values, [field(np.array([1.0]))[0] for field in again])


def test_fitted_models_and_fields_are_compared_by_their_terms():
    data = growth("logistic", n=60, sigma=0.02)
    fitted = fim_dynsys.load("sindy-strong", degree=2).fit(data)
    found = evidence(
        {"sparse": fitted, "decay": SymbolicField(["-k*x0"], {"k": 0.1})}, data, method="laplace"
    )
    assert found.models[0].name == "sparse"
    assert len(found["sparse"].parameters) == fitted.complexity
    assert found["decay"].parameters == ("k",)


@pytest.mark.parametrize(
    ("models", "options", "words"),
    [
        ({"a": ["x0"]}, {"method": "magic"}, "method among .*, got 'magic'"),
        ({"a": ["k*x0"]}, {"priors": {"q": ("normal", 0, 1)}}, r"parameters among \['k'\], got \['q'\]"),
        ({"a": ["x0", "x1"]}, {}, "expected 1 right-hand sides, one per state, got 2 in model a"),
        ([], {}, "at least one model"),
        ([["x0"], ["2*x0"]], {"noise": -1.0}, "positive noise level"),
        (
            {"a": ["r*x0*(1 - x0/K)"]},
            {"method": "linear"},
            "jointly linear in their parameters .* got a with",
        ),
        ({"a": ["k*x0"]}, {"method": "linear", "priors": {"k": ("uniform", 0, 1)}}, "got uniform for k"),
        ({"a": 3}, {}, "expected expressions, a SymbolicField"),
    ],
)
def test_misuse_is_named(models, options, words):
    with pytest.raises(ValueError, match=words):
        evidence(models, growth("logistic"), **options)


# ---------------------------------------------------------------------- the benchmark


def test_nested_sampling_agrees_with_quadrature(compared):
    _, exact = quadrature_check(MODELS["gompertz"], growth("gompertz"), GROWTH_PRIORS, nodes=7)
    assert abs(compared["gompertz"].log_evidence - exact) < 4 * compared["gompertz"].error


def test_benchmark_resumes_and_counts(tmp_path, monkeypatch):
    calls = []

    def evaluate(task, live_points):
        calls.append(task)
        values = {"error": "0.5", "reference": "0.5", "reference_kind": "quadrature", "points": "60"}
        columns = ("pair", "truth", "seed", "live_points", "digest")
        row = dict(zip(columns, task.key(live_points), strict=True))
        return [
            {**dict.fromkeys(benchmark.COLUMNS, ""), **values, **row, "model": name, "log_evidence": value}
            for name, value in zip(benchmark.pairs()[task.pair]["models"], ("3.0", "1.0"), strict=True)
        ]

    monkeypatch.setattr(benchmark, "evaluate", evaluate)
    arguments = ["--only", "sir-sirs", "--seeds", "0", "--out", str(tmp_path)]
    assert benchmark.main([*arguments, "--limit", "1"]) == 0
    assert benchmark.main(arguments) == 0
    assert [task.truth for task in calls] == ["sir", "sirs"]
    first, second = benchmark.read(tmp_path / "summary.csv")
    assert (first["truth"], first["preferred"], first["clearly"], first["log_odds"]) == ("sir", "1", "0", "2")
    assert (second["preferred"], second["log_odds"]) == ("0", "-2")
    assert float(first["error"]) == pytest.approx(np.hypot(0.5, 0.5), rel=1e-5)
    text = (tmp_path / "report.txt").read_text()
    assert "preferred in 1 of 2, by more than three errors in 0" in text
    # (3 - 0.5) / 0.5 and (1 - 0.5) / 0.5
    assert re.search(r"all +0 % within 1 +4 +3\.61 +5\.00", text)
    assert benchmark.main([*arguments, "--live", "7"]) == 0
    assert len(calls) == 4


def test_benchmark_has_a_closed_form(monkeypatch):
    (row,) = benchmark.evaluate(benchmark.Task(benchmark.LINE, "gravity", 0), live_points=40)
    assert row["reference"] == pytest.approx(row["laplace"], abs=1e-3)
    assert abs(row["log_evidence"] - row["reference"]) < 4 * row["error"]


def test_every_pair_can_be_observed_and_read():
    for name, pair in benchmark.pairs().items():
        for truth, model in pair["models"].items():
            data = benchmark.observe(pair, truth, 0)
            assert np.isfinite(data.x).all()
            assert data.dim == len(model["equations"])
            assert set(model["truth"]) <= set(pair["priors"]), name


def test_coordinates_that_expressions_name_are_known_in_each_trajectory():
    x = [np.ones((5, 1)), np.ones((4, 1))]
    data = Trajectories.from_arrays(x, 0.1, state_names=["N"], coords={"D": [0.1, 0.3], "other": [1, 2]})
    seen, inputs = models._with_time([("model", ["r*N - D*N"])], data, None)
    assert inputs == ("D",) and list(seen.coords) == ["other"]
    assert [set(u[:, 0]) for u in seen.input_arrays()] == [{0.1}, {0.3}]
    with pytest.raises(ValueError, match="evidence: expected a finite number for each trajectory"):
        models._with_time([("model", ["r*N - D*N"])], data.with_coords(D=["a", "b"]), None)
